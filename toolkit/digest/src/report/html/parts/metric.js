// Metrics of classes, as the document has them.

// A metric is [index, count, sum, min, max, mean, p50, p95, p99, p999, stddev, share].
const M = { count: 1, sum: 2, min: 3, max: 4, mean: 5, p50: 6, p95: 7, p99: 8, p999: 9, stddev: 10, share: 11 };
const metricIndex = Object.fromEntries(D.metric_names.map((m, i) => [m.name, i]));

function metric(of, name, what) {
  const found = (of.metrics || []).find((m) => m[0] === metricIndex[name]);
  return found ? found[M[what]] : null;
}

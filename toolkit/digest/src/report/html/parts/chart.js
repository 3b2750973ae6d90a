// Charts of classes: what they have over time, and how long they took.

// A series is {start, width, points: [step, count, time, ...]}: steps of `width` seconds from the point before.
function spread(series) {
  const dense = [];
  if (!series || !series.points) return dense;
  let at = 0;
  for (let i = 0; i < series.points.length; i += 3) {
    at += series.points[i];
    dense[at] = [series.points[i + 1], series.points[i + 2]];
  }
  for (let i = 0; i < dense.length; i += 1) dense[i] = dense[i] || [0, 0];
  return dense;
}

// The time that the report covers, in seconds: the same for all charts, so that those of classes can be compared.
let range = null;
function covered() {
  if (range) return range;
  const { series, first, last } = D.overall, { start, width } = series, dense = spread(series);
  const next = start + width, end = start + dense.length * width;
  const known = first !== null && last !== null;
  // The first statement to end had begun before; where clocks have seconds, the last one counts.
  const from = Math.min(known ? first / 1e6 : start, next - Math.min(dense[0][1], width));
  const to = known ? last / 1e6 + (last % 1e6 ? 0 : 1) : end;
  range = [Math.max(start, from), Math.min(end, Math.max(to, start + 1))];
  return range;
}

// [from, to, count, time] of each interval of a series over that time. What the report covers little of is put to its neighbour.
function onRange(series) {
  const [begin, end] = covered(), { width } = series;
  const dense = spread(series), steps = [];
  const lead = Math.floor(begin / width);
  for (let i = lead; i * width < end; i += 1) {
    const [n, t] = dense[i - Math.round(series.start / width)] || [0, 0];
    steps.push([Math.max(begin, i * width), Math.min(end, (i + 1) * width), n, t]);
  }
  const little = (at) => steps.length > 2 && steps[at][1] - steps[at][0] < width / 3;
  const unite = (a, b) => steps.splice(a, 2, [steps[a][0], steps[b][1], steps[a][2] + steps[b][2], steps[a][3] + steps[b][3]]);
  if (steps.length && little(steps.length - 1)) unite(steps.length - 2, steps.length - 1);
  if (steps.length && little(0)) unite(0, 1);
  return steps;
}

// Rare statements are easier to read by the minute, hour or day.
function rates(most) {
  const units = [["s", "second", 1], ["min", "minute", 60], ["h", "hour", 3600], ["d", "day", 86400]];
  const [short, per, seconds] = units.find(([, , s]) => most * s >= 1) || units[3];
  return { seconds, per, unit: (v) => `${count(v)}/${short}` };
}

function perTime(rate) {
  const { seconds, per } = rates(rate);
  return `${count(rate * seconds)} per ${per}`;
}

// `pick` gives what a step has of it per second; `wide`: the chart is the only one in its row.
function timeChart(series, pick, unit, what, second, wide) {
  const all = onRange(series);
  return stepChart(all.map((step) => [step[0], step[1], pick(step)]), covered(), unit, what, {
    second, wide, end: `; one step is ${duration(series.width)}`, words: (i) => ` (${plural(all[i][2], "statement")}, ${duration(all[i][3])})` });
}

function charts(of, timed) {
  // Two steps are no course of things.
  if (!of.series || !(of.series.points || []).length || onRange(D.overall.series).length < 3) return null;
  const load = ([from, to, , t]) => t / (to - from);
  const { seconds, per, unit } = rates(Math.max(...onRange(of.series).map(([from, to, n]) => n / (to - from))));
  const rate = ([from, to, n]) => n / (to - from) * seconds;
  return el("div", { class: timed ? "two" : null },
    timed && timeChart(of.series, load, count, "Load: statements running at the same time"),
    timeChart(of.series, rate, unit, `Statements per ${per}`, true, !timed));
}

function spark(series) {
  if (!series || !(series.points || []).length) return null;
  const steps = onRange(series), [from, to] = covered();
  if (steps.length < 3) return null;
  const what = steps.some((v) => v[3] > 0) ? 3 : 2;
  const points = Math.max(2, Math.min(48, steps.length)), wide = (to - from) / points, sums = new Array(points).fill(0);
  for (const step of steps) {
    for (let i = Math.floor((step[0] - from) / wide); i < points && from + i * wide < step[1]; i += 1) {
      const within = Math.min(step[1], from + (i + 1) * wide) - Math.max(step[0], from + i * wide);
      sums[i] += Math.max(0, within) * step[what] / (step[1] - step[0]);
    }
  }
  const most = Math.max(...sums) || 1;
  const d = sums.map((v, i) => `${i ? "L" : "M"}${(i / (points - 1) * 96).toFixed(1)} ${(21 - v / most * 19).toFixed(1)}`).join("");
  return svg("svg", { class: "spark", viewBox: "0 0 96 22", "aria-hidden": "true" },
    svg("path", { class: "fill", d: d + "V22H0Z" }), svg("path", { class: "line", d }));
}

// Bins are five per decade: [bin, count, ...]; bin 0 begins at 1 s, bin -5 at 100 ms.
function histogram(of) {
  const bins = of.times || [];
  if (!bins.length) return null;
  // Whole decades, at least three of them.
  let first = Math.floor(bins[0] / 5) * 5, last = Math.ceil((bins[bins.length - 2] + 1) / 5) * 5;
  if (last - first < 15) first -= 5;
  if (last - first < 15) last += 5;
  const W = narrow() ? 420 : 1200, H = 200, left = 56, right = 10, top = 16, bottom = 26, n = last - first;
  let total = 0, most = 0;
  for (let i = 1; i < bins.length; i += 2) { total += bins[i]; most = Math.max(most, bins[i]); }
  const ticks = niceTicks(most, 4).filter((t) => most > 4 || Number.isInteger(t));
  const high = ticks[ticks.length - 1];
  const x = (bin) => left + (bin - first) / n * (W - left - right);
  const y = (v) => top + (1 - v / high) * (H - top - bottom);
  const box = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Distribution of durations, logarithmic" });
  for (const tick of ticks) {
    box.append(svg("line", { class: "grid", x1: left, x2: W - right, y1: y(tick), y2: y(tick) }));
    box.append(svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, count(tick)));
  }
  const hint = el("p", { class: "hint" });
  const rest = () => { hint.textContent = `${plural(total, "statement")} with a time`; };
  for (let i = 0; i < bins.length; i += 2) {
    const low = Math.pow(10, bins[i] / 5), n = bins[i + 1];
    const words = `${bins[i] === -30 ? "0" : duration(low)} to ${duration(low * Math.pow(10, 0.2))}: ${plural(n, "statement")} (${percent(n / total)})`;
    const wide = x(bins[i] + 1) - x(bins[i]), gap = Math.min(3, wide * 0.15);
    box.append(svg("rect", { class: "col", x: x(bins[i]) + gap / 2, width: Math.max(wide - gap, 1), y: Math.min(y(n), H - bottom - 1.5),
      height: Math.max(H - bottom - y(n), 1.5), rx: 1.5, pointerenter: () => { hint.textContent = words; }, pointerleave: rest },
      svg("title", {}, words)));
  }
  for (let bin = first; bin <= last; bin += narrow() && n > 30 ? 10 : 5) {
    box.append(svg("line", { class: "axis", x1: x(bin), x2: x(bin), y1: H - bottom, y2: H - bottom + 4 }));
    const anchor = bin === last ? "end" : "middle";
    box.append(svg("text", { x: x(bin), y: H - bottom + 17, "text-anchor": anchor }, duration(Math.pow(10, bin / 5))));
  }
  const marks = [["p50", "p50"], ["p95", "p95"]];
  for (const [what, label] of marks) {
    const value = metric(of, "Query_time", what);
    if (!(value > 0)) continue;
    const at = x(Math.log10(value) * 5);
    if (at < left || at > W - right) continue;
    box.append(svg("line", { class: "mark", x1: at, x2: at, y1: top, y2: H - bottom }));
    const right_side = what === "p95" && at < W - 60;
    box.append(svg("text", { x: at + (right_side ? 4 : -4), y: top - 3, "text-anchor": right_side ? "start" : "end" }, label));
  }
  box.append(svg("line", { class: "axis", x1: left, x2: W - right, y1: H - bottom, y2: H - bottom }));
  rest();
  return el("div", {}, el("h3", {}, "How long statements took"), box, hint);
}

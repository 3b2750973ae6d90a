// A document of sections: what locks, indexes, doctor and replay show.

const times = (v) => (v === null ? "" : count(v) + "\u00d7");
const SHOW = { text: String, code: String, count, seconds: duration, bytes, times, secondsbar: duration, bytesbar: bytes };
const isNumber = (column) => !["text", "code"].includes(column.shown);
const missing = (value) => value === null || value === undefined || value === "";

function bar(value, most) {
  return el("span", { class: "bar" }, el("i", { style: `width:${(most > 0 ? value / most * 100 : 0).toFixed(1)}%` }));
}

// Columns without any value are left out.
for (const s of D.sections.filter((one) => one.kind === "table")) {
  const kept = s.columns.map((_, i) => i).filter((i) => s.rows.some((r) => !missing(r[i])));
  s.columns = kept.map((i) => s.columns[i]);
  s.rows = s.rows.map((r) => kept.map((i) => r[i]));
}

// Sorted by its columns' heads: numbers the largest first, another click turns it round.
function tableOf(section) {
  const { columns, rows } = section;
  const most = columns.map((c, i) => Math.max(0, ...rows.map((r) => (typeof r[i] === "number" ? r[i] : 0))));
  const cell = (value, i) => {
    const column = columns[i];
    if (missing(value)) return el("td", { class: isNumber(column) ? "n" : null }, "");
    const barred = column.shown.endsWith("bar");
    return el("td", { class: isNumber(column) ? "n" : column.shown === "code" ? "name print" : "name" }, barred && bar(value, most[i]), SHOW[column.shown](value));
  };
  const body = el("tbody", {});
  const draw = (list) => body.replaceChildren(...list.map((r) => el("tr", {}, r.map(cell))));
  const heads = columns.map((column, i) => {
    const th = el("th", { scope: "col", class: isNumber(column) ? "n" : null }, el("button", { type: "button", click: () => {
      const turned = th.getAttribute("aria-sort") === (isNumber(column) ? "descending" : "ascending");
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      const up = isNumber(column) === turned;
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (r) => (missing(r[i]) ? (isNumber(column) ? -Infinity : "") : r[i]);
      const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
      draw(rows.slice().sort((a, b) => (up ? order(a, b) : order(b, a))));
    } }, column.title));
    return th;
  });
  draw(rows);
  return el("div", { class: "wide" }, el("table", { class: "sorted" }, el("thead", {}, el("tr", {}, heads)), body));
}

// A forest; deep chains stay on the page.
function treeOf(section) {
  const most = Math.max(0, ...section.nodes.map((n) => n.seconds || 0));
  return el("ol", { class: "tree" }, section.nodes.map((n) => el("li", { class: n.depth ? null : "root", style: `margin-left:${Math.min(n.depth, 20) * 26}px`,
    "aria-level": String(n.depth + 1) },
    el("div", {}, el("b", {}, n.name), n.badges.map((badge) => el("span", { class: "badge warn" }, badge)), " ", el("span", { class: "soft" }, n.facts)),
    n.seconds !== null && el("div", {}, bar(n.seconds, most), `waits ${duration(n.seconds)}`, n.text && ` ${n.text}`),
    n.seconds === null && n.text && el("div", { class: "soft" }, n.text),
    n.code && el("div", { class: "print" }, n.code))));
}

// All charts of a section have the same time below them. A value holds until the next one.
function chartsOf(section) {
  const charts = section.charts.filter((c) => c.points.length > 1);
  // Logs of several servers, one after the other.
  charts.forEach((c) => c.points.sort((a, b) => a[0] - b[0]));
  if (!charts.length) return el("p", { class: "soft" }, "One moment is no course of things.");
  const first = Math.min(...charts.map((c) => c.points[0][0])), last = Math.max(...charts.map((c) => c.points[c.points.length - 1][0]));
  return el("div", { class: "two" }, charts.map((c, i) => {
    const steps = c.points.map(([at, value], j) => [at, j + 1 < c.points.length ? c.points[j + 1][0] : last, value]);
    return stepChart(steps, [first, Math.max(last, first + 1)], SHOW[c.shown], c.title, { second: i % 2 === 1 });
  }));
}

function cardsOf(section) {
  let group = null;
  return section.cards.map((card) => {
    const head = card.group !== group && card.group !== "" ? el("h3", { class: "group" }, card.group) : null;
    group = card.group;
    return [head, el("section", { class: "finding" + (card.bad ? " bad" : "") },
      el("p", {}, el("b", {}, card.name), el("span", { class: "badge" + (card.bad ? " warn" : "") }, card.badge)),
      el("dl", {}, card.facts.map((f) => [el("dt", {}, f.label), el("dd", { class: f.code === undefined ? null : "print" }, f.code === undefined ? f.text : f.code)])))];
  });
}

// A row for each: a dot on a logarithmic axis, hollow when chance explains it.
function ratiosOf(section) {
  const W = narrow() ? 420 : 1200, left = narrow() ? 150 : 520, right = 70, row = 24, top = 30, rows = section.rows;
  const H = top + rows.length * row + 8;
  const far = Math.max(2, ...rows.map((r) => Math.max(r.ratio, 1 / r.ratio)).filter(Number.isFinite));
  const most = Math.min(far * 1.1, 1000);
  const x = (ratio) => left + (Math.log(Math.min(Math.max(ratio, 1 / most), most)) / Math.log(most) + 1) / 2 * (W - left - right);
  const box = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Ratios of ${plural(rows.length, "class", "classes")}` });
  for (const tick of [0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1000].filter((t) => t <= most && t >= 1 / most)) {
    box.append(svg("line", { class: tick === 1 ? "axis" : "grid", x1: x(tick), x2: x(tick), y1: top - 6, y2: H - 4 }));
    box.append(svg("text", { x: x(tick), y: top - 12, "text-anchor": "middle" }, times(tick)));
  }
  box.append(svg("text", { x: left, y: 9, "text-anchor": "start" }, "\u2190 " + section.below), svg("text", { x: W - right, y: 9, "text-anchor": "end" }, section.above + " \u2192"));
  rows.forEach((r, i) => {
    const y = top + i * row + row / 2, long = narrow() ? 22 : 84;
    box.append(svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, r.name.length > long ? r.name.slice(0, long - 1) + "\u2026" : r.name));
    box.append(svg("line", { class: "grid", x1: x(1), x2: x(r.ratio), y1: y, y2: y }));
    box.append(svg("circle", { class: `dot ${r.sure ? (r.bad ? "up" : "down") : "unsure"}`, cx: x(r.ratio), cy: y, r: 5 }, svg("title", {}, `${r.name}: ${times(r.ratio)}, ${r.word}; ${r.more}`)));
    box.append(svg("text", { x: W - right + 8, y: y + 4, "text-anchor": "start" }, r.word));
  });
  return el("div", {}, box);
}

const BODIES = { table: tableOf, tree: treeOf, charts: chartsOf, cards: cardsOf, ratios: ratiosOf };

function documentPage() {
  const lines = [...D.notes, D.cut].filter(Boolean);
  return [
    lines.length > 0 && el("section", { class: "note", "aria-label": "Notes" }, el("strong", {}, "Read this first"), el("ul", {}, lines.map((line) => el("li", {}, line)))),
    D.tiles.length > 0 && el("div", { class: "tiles" }, D.tiles.map((t) => tile(SHOW[t.shown](t.value), t.label, t.more))),
    D.sections.map((s) => el("section", { class: "card long", "data-kind": s.kind }, el("h2", {}, s.title), s.text && el("p", { class: "soft" }, s.text), BODIES[s.kind](s)))];
}

document.getElementById("top").replaceWith(headOf(D.title, D.lines));
document.getElementById("made").textContent = visible(D.generator);
add(document.getElementById("main"), documentPage());

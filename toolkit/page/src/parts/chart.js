// Charts as SVG. Widths are in user units; the picture scales with its card, so a narrow screen gets a narrower picture.
const zone = D.zone === undefined ? " UTC" : D.zone;
const narrow = () => window.innerWidth < 700;

// Ticks at 1, 2 or 5 times a power of ten, from zero to at least `most`.
function niceTicks(most, wanted) {
  if (!(most > 0)) return [0, 1];
  const rough = most / wanted;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = 0; i * step < most + step * 0.999; i += 1) ticks.push(i * step);
  return ticks;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600,
  2592000, 7776000, 31536000];

function timeTicks(from, to, wanted) {
  const step = STEPS.find((s) => (to - from) / s <= wanted) || Math.ceil((to - from) / wanted / 31536000) * 31536000;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  const label = (at, before) => {
    const d = new Date(at * 1000);
    const day = d.toISOString().slice(0, 10);
    if (step >= 86400) return day;
    const newDay = before === undefined || new Date(before * 1000).toISOString().slice(0, 10) !== day;
    const hour = step < 60 ? clock(d) : clock(d).slice(0, 5);
    return newDay && ticks.length > 1 && before !== undefined ? day.slice(5) + " " + hour : hour;
  };
  return ticks.map((at, i) => [at, label(at, ticks[i - 1])]);
}

// Steps [from, to, value] over the time `range`: a value holds over its whole step. `more`: second colour, alone in its row (`wide`),
// what is said of a step (`words`), and of all of them (`end`).
function stepChart(steps, [from, to], unit, what, more = {}) {
  const W = narrow() ? 380 : more.wide ? 1200 : 580, H = 170, left = 54, right = 8, top = 10, bottom = 26;
  const ys = steps.map((step) => step[2]);
  const ticks = niceTicks(Math.max(...ys), 4);
  const most = ticks[ticks.length - 1];
  const x = (t) => left + (t - from) / (to - from) * (W - left - right);
  const y = (v) => top + (1 - v / most) * (H - top - bottom);
  const peak = ys.indexOf(Math.max(...ys));
  const box = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img",
    "aria-label": `${what} over time, highest ${unit(ys[peak])} at ${time(steps[peak][0] * 1e6)}${zone}` });
  for (const tick of ticks) {
    box.append(svg("line", { class: "grid", x1: left, x2: W - right, y1: y(tick), y2: y(tick) }));
    box.append(svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, unit(tick)));
  }
  for (const [at, label] of timeTicks(from, to, narrow() ? 4 : 7)) {
    box.append(svg("line", { class: "axis", x1: x(at), x2: x(at), y1: H - bottom, y2: H - bottom + 4 }));
    const late = x(at) > W - 40;
    box.append(svg("text", { x: late ? W - right : Math.max(x(at), left + 14), y: H - bottom + 17, "text-anchor": late ? "end" : "middle" }, label));
  }
  // Steps: an interval's value holds over the whole interval.
  let outline = "";
  ys.forEach((v, i) => {
    outline += `${i ? "L" : "M"}${x(steps[i][0]).toFixed(1)} ${y(v).toFixed(1)}H${x(steps[i][1]).toFixed(1)}`;
  });
  const b = more.second ? " b" : "";
  box.append(svg("path", { class: "fill" + b, d: `${outline}V${H - bottom}H${left}Z` }));
  box.append(svg("path", { class: "line" + b, d: outline }));
  box.append(svg("line", { class: "axis", x1: left, x2: W - right, y1: H - bottom, y2: H - bottom }));
  const cross = svg("line", { class: "cross", y1: top, y2: H - bottom, visibility: "hidden" });
  box.append(cross);
  const hint = el("p", { class: "hint" });
  const rest = () => {
    cross.setAttribute("visibility", "hidden");
    hint.textContent = `Highest: ${unit(ys[peak])} at ${time(steps[peak][0] * 1e6)}${zone}${more.end || ""}`;
  };
  box.addEventListener("pointermove", (event) => {
    const area = box.getBoundingClientRect();
    const at = from + ((event.clientX - area.left) / area.width * W - left) / (W - left - right) * (to - from);
    const i = steps.findIndex((step) => at >= step[0] && at < step[1]);
    if (i < 0) return rest();
    const middle = x((steps[i][0] + steps[i][1]) / 2);
    cross.setAttribute("x1", middle); cross.setAttribute("x2", middle); cross.setAttribute("visibility", "visible");
    hint.textContent = `${time(steps[i][0] * 1e6)}${zone}: ${unit(ys[i])}${more.words ? more.words(i) : ""}`;
  });
  box.addEventListener("pointerleave", rest);
  rest();
  return el("div", {}, el("h3", {}, what), box, hint);
}

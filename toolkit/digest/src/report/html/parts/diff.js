// What changed between two reports.

const VERDICTS = { new: "new", slower: "slower", mixed: "mixed", more: "more", faster: "faster", less: "less", gone: "gone",
  same: "no change shown", unsure: "too few data" };
// Those that chance does not explain, in the order in which they are shown.
const SURE = ["new", "slower", "mixed", "more", "faster", "less", "gone"];

function arrow(before, after, show) {
  if (before === null || before === undefined) return show(after);
  if (after === null || after === undefined) return show(before);
  const ratio = before > 0 ? after / before : null;
  const words = ratio === null ? "" : Math.abs(ratio - 1) < 0.005 ? "equal" : ratio >= 3 ? `${count(ratio)} times` : `${ratio >= 1 ? "+" : "\u2212"}${percent(Math.abs(ratio - 1))}`;
  const changed = ratio !== null && Math.abs(ratio - 1) >= 0.05;
  const [was, is] = [show(before), show(after)];
  return [was, was.length + is.length > 12 ? el("br") : " ", `\u2192 ${is}`, el("span", { class: changed ? (ratio > 1 ? "up" : "down") : "soft" }, words)];
}

function changes() {
  const d = D.diff, value = (side, name) => (side ? side[name] : null);
  const sides = [["Before", d.before], ["After", d.after]];
  const byRank = new Map(D.classes.map((c) => [c.id || c.key, c]));
  const row = (c) => {
    const known = byRank.get(c.id || c.key);
    const shown = (what) => (c.tests || []).some((t) => t.what === what && t.significant);
    const cell = (name, show, what) => el("td", { class: "n" }, shown(what) ? el("b", {}, arrow(value(c.before, name), value(c.after, name), show))
      : arrow(value(c.before, name), value(c.after, name), show));
    return el("tr", {}, el("td", {}, el("span", { class: "badge" + (c.verdict === "slower" || c.verdict === "new" ? " warn" : "") }, VERDICTS[c.verdict] || c.verdict)),
      el("td", { class: "name" }, known ? el("a", { href: "#q" + known.rank }, c.item) : c.item, el("div", { class: "print" }, c.key.slice(0, 160))),
      cell("load", count, "load"), cell("per_second", (v) => count(v) + "/s", "calls"), cell("mean", duration, "mean"),
      cell("typical", duration, "typical"), cell("p95", duration, "p95"),
      cell("rows_examined", count, "rows_examined"));
  };
  const table = (list) => el("div", { class: "wide" }, el("table", { class: "changes" },
    el("thead", {}, el("tr", {}, ["", "Class", "Load", "Calls", "Mean", "Typical", "95 %", "Rows per call"].map((t, i) => el("th", { scope: "col", class: i > 1 ? "n" : null }, t)))),
    el("tbody", {}, list.map(row))));
  const sure = SURE.flatMap((verdict) => d.changes.filter((c) => c.verdict === verdict));
  const rest = d.changes.filter((c) => !SURE.includes(c.verdict));
  const more = (all, list) => all > list.length && el("p", { class: "soft" }, `${plural(all - list.length, "more class", "more classes")}; --json has all`);
  return el("section", { class: "card long", id: "changes" }, el("h2", {}, "Changes"),
    el("div", { class: "three" }, sides.map(([name, s]) => el("div", {}, el("h3", {}, name), el("p", { class: "name", style: "margin:0" }, s.inputs.join(", ") || "?"),
      el("p", { class: "soft", style: "margin:0 0 10px" }, [s.first && `${time(s.first)} to ${time(s.last)} UTC`, plural(s.events, "statement"), s.time && duration(s.time),
        s.load && `load ${count(s.load)}`].filter(Boolean).join(", "))))),
    (d.notes || []).map((n) => el("p", { class: "soft" }, n)),
    sure.length ? [table(sure), more(d.found, sure)] : el("p", {}, "No class appeared, went away, or changed in a way that chance does not explain."),
    rest.length > 0 && el("details", {}, el("summary", {}, `${plural(d.quiet, "class", "classes")} without a change that the data show`), table(rest), more(d.quiet, rest)));
}

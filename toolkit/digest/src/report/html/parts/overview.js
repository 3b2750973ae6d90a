// The first page: what was analysed, tiles, charts, the profile, patterns.

function sourceLine() {
  const names = D.inputs.map((i) => i.name);
  const shown = names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "");
  const size = D.inputs.reduce((sum, i) => sum + i.bytes, 0);
  const kinds = [...new Set(D.inputs.map((i) => i.format))].join(", ");
  return `${shown} (${kinds}, ${bytes(size)})`;
}

function head() {
  const o = D.overall, s = D.selection;
  const chosen = [
    s.filter && `only ${s.filter}`, s.since && `since ${time(s.since)}`, s.until && `until ${time(s.until)}`,
    s.group_by !== "fingerprint" && `grouped by ${s.group_by}`, s.redacted && "literals masked",
  ].filter(Boolean);
  return headOf(D.diff ? "What changed" : "Query digest", sourceLine(),
    o.first === null || o.first === undefined ? "The input has no times." :
      `${time(o.first)} to ${time(o.last)} UTC${o.seconds ? ` (${duration(o.seconds)})` : ""}`,
    chosen.length > 0 && "Chosen: " + chosen.join("; "));
}

function tiles() {
  const o = D.overall, whole = (name, what) => metric(o, name, what);
  const errors = o.errors || 0, unmeasured = o.unmeasured || 0;
  const timed = whole("Query_time", "count") > 0;
  return el("div", { class: "tiles" },
    tile(count(o.events), o.events === 1 ? "statement" : "statements",
      o.statements > o.events ? `stand for ${count(o.statements)}` : o.per_second ? perTime(o.per_second) : null),
    tile(count(o.classes), o.classes === 1 ? "class" : "classes", D.classes.length < o.classes ? `${count(D.classes.length)} shown` : null),
    timed && tile(duration(whole("Query_time", "sum")), "time in statements",
      o.concurrency >= 0.0005 ? `${count(o.concurrency)} running at the same time` : null),
    timed && tile(duration(whole("Query_time", "p95")), "95 % are faster", `median ${duration(whole("Query_time", "p50"))}`),
    timed && tile(duration(whole("Query_time", "max")), "slowest statement"),
    whole("Rows_examined", "sum") !== null && tile(count(whole("Rows_examined", "sum")), "rows examined",
      whole("Rows_sent", "sum") !== null ? `${count(whole("Rows_sent", "sum"))} sent` : null),
    whole("Lock_time", "sum") > 0 && tile(duration(whole("Lock_time", "sum")), "waiting for locks"),
    errors > 0 && tile(count(errors), errors === 1 ? "error" : "errors", percent(errors / o.events)),
    timed && unmeasured > 0 && tile(count(unmeasured), "without a time", percent(unmeasured / o.events)));
}

function warnings() {
  const lines = [...(D.notes || [])];
  const l = D.loss;
  if (D.cut) lines.push(D.cut);
  if (D.overall.left_out) lines.push(`${plural(D.overall.left_out, "statement")} left out by the choice above.`);
  for (const p of l.problems || []) lines.push(`${p.input}: ${p.what}`);
  for (const s of l.skips || []) lines.push(`Not read: ${s.why}, ${plural(s.count, "time")}, ${bytes(s.bytes)}.`);
  const capture = l.capture || [];
  if (capture.length > 1 || D.overall.unmeasured) for (const line of capture) lines.push("Capture: " + line);
  if (!lines.length) return null;
  return el("section", { class: "note", "aria-label": "Notes" }, el("strong", {}, "Read this first"),
    el("ul", {}, lines.map((line) => el("li", {}, line))),
    (l.places || []).length > 0 && el("details", {}, el("summary", {}, "Where"),
      el("ul", {}, l.places.map((p) => el("li", {}, `${p.input}, byte ${exact(p.offset)}: ${p.why}, ${bytes(p.bytes)}`)))));
}

// The profile's columns: title, what to sort by, cell. `first`: largest first at the first click.
function columns() {
  const has = (name) => metricIndex[name] !== undefined;
  const timed = has("Query_time"), s = D.selection;
  const number = (title, of, show, hint) => ({ title, of, show: (c) => show(of(c)), kind: "n", hint });
  const m = (name, what) => (c) => metric(c, name, what);
  return [
    number("#", (c) => c.rank, count, "Rank"),
    { title: "Class", of: (c) => (c.item || c.key).toLowerCase(), kind: "q", text: true, show: (c) => [
      el("div", {}, el("a", { href: "#q" + c.rank }, c.item || c.key || "(empty)"),
        c.reason && el("span", { class: "badge warn" }, c.reason), c.user_class && el("span", { class: "badge" }, c.user_class)),
      c.key !== c.item && el("div", { class: "print", title: c.key.slice(0, 600) }, c.key.slice(0, 300))] },
    s.order_title && number(s.order_title, (c) => c.rank_value, s.order_unit === "seconds" ? duration : s.order_unit === "bytes" ? bytes : count, `What ranks: ${s.order}`),
    { title: "Trend", of: (c) => c.first || 0, kind: "t", show: (c) => spark(c.series), hint: "Over the whole period; sorts by when it was first seen" },
    timed && { title: "Share of time", of: (c) => c.share_of_time || 0, kind: "s", show: (c) => [
      el("span", { class: "bar" }, el("i", { style: `width:${((c.share_of_time || 0) * 100).toFixed(1)}%` })), percent(c.share_of_time || 0)] },
    timed && number("Time", m("Query_time", "sum"), duration, "All statements of the class together"),
    number("Calls", (c) => c.statements || c.events, count),
    timed && number("Mean", m("Query_time", "mean"), duration),
    timed && number("95 %", m("Query_time", "p95"), duration, "95 % of the statements took at most this"),
    timed && number("Max", m("Query_time", "max"), duration),
    has("Rows_examined") && number("Rows read", m("Rows_examined", "sum"), count, "Rows examined, all statements together"),
    has("Rows_examined") && number("per row", (c) => c.rows_examined_per_row, count, "Rows examined for each row sent or changed"),
    D.classes.some((c) => metric(c, "Lock_time", "sum") > 0) && number("Locks", m("Lock_time", "sum"), duration, "Waiting for locks"),
    D.classes.some((c) => c.errors) && number("Errors", (c) => c.errors || 0, (n) => (n ? count(n) : "")),
  ].filter(Boolean);
}

// What the search looks at: everything a reader may know of a class.
const haystacks = new Map();
function haystack(c) {
  if (!haystacks.has(c)) {
    const names = (list) => (list || []).map((s) => s[0]);
    const s = c.sample || {};
    haystacks.set(c, [c.id, c.item, c.key, c.kind, c.reason, c.user_class, ...(c.tables || []), ...names(c.users), ...names(c.hosts),
      ...names(c.dbs), s.sql, s.user, s.host, s.db].filter(Boolean).join("\n").toLowerCase());
  }
  return haystacks.get(c);
}

const state = { column: 0, down: false, search: "" };

function profile() {
  const cols = columns();
  const body = el("tbody");
  const found = el("span", { id: "found", role: "status" });
  const rowOf = new Map(D.classes.map((c) => [c, null]));
  const row = (c) => {
    if (!rowOf.get(c)) {
      rowOf.set(c, el("tr", { "data-rank": c.rank, click: (e) => { if (!e.target.closest("a") && !String(getSelection())) location.hash = "q" + c.rank; } },
        cols.map((col) => el("td", { class: col.kind === "n" ? "n" : col.kind }, col.show(c)))));
    }
    return rowOf.get(c);
  };
  const heads = cols.map((col, i) => el("th", { scope: "col", class: col.kind },
    el("button", { type: "button", title: col.hint, click: () => {
      if (state.column === i) state.down = !state.down;
      else { state.column = i; state.down = i !== 0 && !col.text; }
      fill();
    } }, col.title)));
  function fill() {
    const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = D.classes.filter((c) => words.every((w) => haystack(c).includes(w)));
    const { of } = cols[state.column];
    const sign = state.down ? -1 : 1;
    // What is not known comes last, whatever the direction; equals stay in the order of rank.
    shown.sort((a, b) => {
      const x = of(a), y = of(b), missing = (v) => v === null || v === undefined;
      if (missing(x) || missing(y)) return missing(x) - missing(y) || a.rank - b.rank;
      return (x < y ? -sign : x > y ? sign : 0) || a.rank - b.rank;
    });
    body.replaceChildren(...shown.map(row));
    heads.forEach((th, i) => {
      if (i === state.column) th.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    const share = shown.reduce((sum, c) => sum + (c.share_of_time || 0), 0);
    found.textContent = words.length
      ? `${shown.length} of ${plural(D.classes.length, "class", "classes")}` + (metricIndex.Query_time !== undefined ? `, ${percent(share)} of the time` : "")
      : "";
  }
  const search = el("input", { type: "search", id: "search", placeholder: "Search: text, table, user, host ...  ( / )",
    "aria-label": "Search classes by text, table, user or host", value: state.search,
    input: () => { state.search = search.value; fill(); } });
  fill();
  const rest = D.rest;
  return el("section", { class: "card long" },
    el("div", { class: "bar-top" }, el("h2", {}, `Classes by ${D.selection.order}`), found, search),
    el("div", { class: "wide" }, el("table", { id: "profile" }, el("thead", {}, el("tr", {}, heads)), body)),
    rest && el("p", { class: "soft" }, `Not shown: ${plural(rest.classes, "class", "classes")} with ${plural(rest.events, "statement")}` +
      (rest.time ? `, ${duration(rest.time)} (${percent(rest.share_of_time)} of the time).` : ".")));
}

function shares(title, list, total, timed) {
  if (!(list || []).length) return null;
  const whole = list.reduce((sum, s) => sum + s[2], 0);
  const all = timed ? (total.time || whole) : total.events;
  return el("div", {}, el("h3", {}, title), el("table", {}, el("tbody", {}, list.map((s) => {
    const part = all > 0 ? Math.min((timed ? s[2] : s[1]) / all, 1) : 0;
    return el("tr", {}, el("td", { class: "name" }, s[0] || "(unknown)"),
      el("td", { class: "n" }, el("span", { class: "bar" }, el("i", { style: `width:${(part * 100).toFixed(1)}%` })), percent(part)),
      el("td", { class: "n" }, count(s[1])), timed && el("td", { class: "n" }, duration(s[2])));
  }))));
}

function breakdowns(of, title) {
  const sum = metric(of, "Query_time", "sum"), timed = sum > 0;
  const total = { events: of.statements || of.events, time: sum };
  const byTable = of === D.overall ? of.tables : null;
  const parts = [["Users", of.users], ["Hosts", of.hosts], ["Databases", of.dbs], ["Tables (a statement counts for each of its tables)", byTable]]
    .map(([name, list]) => shares(name, list, total, timed)).filter(Boolean);
  if (!parts.length) return null;
  return el("section", { class: "card" }, el("h2", {}, title), el("div", { class: "three" }, parts));
}

function patterns() {
  const p = D.patterns;
  if (!p || (!p.transactions && !(p.repeated || []).length)) return null;
  const link = (r) => {
    const c = D.classes.find((x) => x.id && x.id === r.id);
    return c ? el("a", { href: "#q" + c.rank }, r.item) : r.item;
  };
  return el("section", { class: "card" }, el("h2", {}, "Patterns of connections"),
    p.transactions > 0 && el("p", {}, `${plural(p.transactions, "transaction")} with ${count(p.statements_per_transaction)} statements on average.`),
    (p.repeated || []).length > 0 && el("div", { class: "wide" }, el("table", {},
      el("caption", {}, "The same class, or a few in turn, again and again on one connection: a loop in the application (N+1). One statement for all would do."),
      el("thead", {}, el("tr", {}, ["Repeated", "After", "Runs", "Statements", "Longest", "Time"].map((t, i) => el("th", { scope: "col", class: i > 1 ? "n" : null }, t)))),
      el("tbody", {}, p.repeated.map((r) => el("tr", {}, el("td", { class: "name" }, link(r)), el("td", { class: "name" }, r.after || ""),
        el("td", { class: "n" }, count(r.runs)), el("td", { class: "n" }, count(r.statements)), el("td", { class: "n" }, count(r.longest)),
        el("td", { class: "n" }, duration(r.time))))))));
}

function overview() {
  const timed = metric(D.overall, "Query_time", "sum") > 0;
  const chart = charts(D.overall, timed), hist = timed && histogram(D.overall);
  return [warnings(), tiles(), D.diff && changes(), chart && el("section", { class: "card" }, chart), profile(), patterns(),
    hist && el("section", { class: "card" }, hist), statistics(D.overall, "All statements"), breakdowns(D.overall, "Who and where"), inputs()];
}

function inputs() {
  if (!D.inputs.length) return null;
  return el("section", { class: "card" }, el("h2", {}, "What was read"), el("div", { class: "wide" }, el("table", {}, el("tbody", {},
    D.inputs.map((i) => el("tr", {}, el("td", { class: "name" }, i.name), el("td", {}, i.format), el("td", { class: "n" }, bytes(i.bytes))))))),
    (D.loss.capture || []).slice(0, 1).map((line) => el("p", { class: "soft" }, line)));
}

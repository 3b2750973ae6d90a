// A class's page.

function statistics(of, title) {
  const all = of.metrics || [], list = all.filter((m) => m[M.sum] > 0);
  const zero = all.filter((m) => !(m[M.sum] > 0)).map((m) => D.metric_names[m[0]].label);
  if (!all.length) return null;
  const whole = of === D.overall;
  const heads = ["", !whole && "Share", "Total", "Min", "Mean", "Median", "95 %", "99 %", "99.9 %", "Max", "Std. dev.", "Statements"].filter((h) => h !== false);
  const error = Math.max(0, ...list.map((m) => D.metric_names[m[0]].quantile_error || 0));
  return el("section", { class: "card" }, el("h2", {}, title), el("div", { class: "wide" }, el("table", {},
    error > 0 && el("caption", {}, `Median and percentiles are within ${percent(error)}.`),
    el("thead", {}, el("tr", {}, heads.map((h, i) => el("th", { scope: "col", class: i ? "n" : null }, h)))),
    el("tbody", {}, list.map((m) => {
      const name = D.metric_names[m[0]], show = unitOf[name.unit] || count;
      const cell = (what) => el("td", { class: "n" }, m[M[what]] === null ? "–" : show(m[M[what]]));
      return el("tr", {}, el("th", { scope: "row", title: name.name }, name.label),
        !whole && el("td", { class: "n" }, percent(m[M.share])), ["sum", "min", "mean", "p50", "p95", "p99", "p999", "max", "stddev"].map(cell),
        el("td", { class: "n" }, count(m[M.count])));
    })))), zero.length > 0 && el("p", { class: "soft", style: "margin: 10px 0 0" }, `Always zero: ${zero.join(", ")}.`), flagList(of));
}

function flagList(of) {
  const list = (of.flags || []).filter((f) => f[2] > 0);
  if (!list.length) return null;
  return el("p", { class: "facts", style: "margin: 12px 0 0" }, list.map((f) =>
    el("span", {}, el("b", {}, D.flag_names[f[0]]), " ", percent(f[2] / Math.max(f[1], 1)), " of ", count(f[1]))));
}

function facts(c) {
  const list = [];
  const fact = (label, value) => list.push(el("span", {}, el("b", {}, value), " ", label));
  fact(c.events === 1 ? "call" : "calls", exact(c.events));
  if (c.statements > c.events) fact("statements they stand for", exact(c.statements));
  if (c.sampled) {
    const [n, error, seconds, off] = c.sampled;
    fact("calls of all connections, estimated", `${count(n)} \u00b1 ${count(2 * error)}`);
    fact("in them", `${duration(seconds)} \u00b1 ${duration(2 * off)}`);
  }
  if (c.per_second) fact(`per ${rates(c.per_second).per}`, count(c.per_second * rates(c.per_second).seconds));
  if (c.concurrency) fact("at the same time", count(c.concurrency));
  if (c.share_of_time) fact("of the time", percent(c.share_of_time));
  fact("of the calls", percent(c.share_of_events || 0));
  if (c.rows_examined_per_row) fact("rows read per row sent or changed", count(c.rows_examined_per_row));
  if (c.variance_to_mean) fact("variance to mean", count(c.variance_to_mean));
  if (c.errors) fact(`errors${c.error ? ` (such as ${c.error})` : ""}`, count(c.errors));
  if (c.unmeasured && metric(c, "Query_time", "count")) fact("without a time", count(c.unmeasured));
  if (c.prepares || c.executes) fact("prepared / executed", `${count(c.prepares || 0)} / ${count(c.executes || 0)}`);
  if (c.first !== undefined && c.first !== null) fact("first and last seen (UTC)", `${time(c.first)} to ${time(c.last)}`);
  return el("p", { class: "facts" }, list);
}

function plan(c) {
  const s = c.sample, p = s && s.plan;
  if (!p) return null;
  const kinds = c.plans || [];
  return el("section", { class: "card" }, el("h2", {}, "Plan as the server logged it"),
    el("div", { class: "wide" }, el("table", {},
      el("thead", {}, el("tr", {}, p.columns.map((t) => el("th", { scope: "col" }, t)))),
      el("tbody", {}, p.rows.map((r) => el("tr", {}, p.columns.map((_, i) => el("td", {}, r[i] ?? ""))))))),
    kinds.length > 1 && el("p", { class: "soft" }, `${kinds.length} different plans were logged: ` +
      kinds.map((k) => `${k[0].slice(0, 8)} ${plural(k[1], "time")}${k[2] ? " (this one)" : ""}`).join(", ") + "."));
}

function sample(c) {
  const s = c.sample;
  if (!s) return null;
  const list = [];
  const fact = (label, value) => value && list.push(el("span", {}, label, " ", el("b", {}, value)));
  fact("took", s.time !== undefined && s.time !== null ? duration(s.time) : null);
  fact("began", time(s.start));
  fact("user", [s.user, s.host].filter(Boolean).join("@"));
  fact("database", s.db);
  fact("connection", s.thread_id === undefined ? null : String(s.thread_id));
  fact("in routine", s.routine);
  fact("at", `${s.file} byte ${exact(s.offset)}`);
  const copy = el("button", { class: "tool skip", type: "button", click: () => {
    if (navigator.clipboard) navigator.clipboard.writeText(s.sql).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Select and copy"; });
    else getSelection().selectAllChildren(box);
  } }, "Copy");
  const box = highlighted(s.sql);
  return el("section", { class: "card" }, el("div", { class: "bar-top" }, el("h2", {}, "Slowest statement"), copy), el("p", { class: "facts" }, list),
    s.error && el("p", { class: "note" }, `It failed with error ${s.error} ${s.error_text || ""}`),
    box, s.cut && el("p", { class: "soft" }, `Shortened; the statement has ${bytes(s.length)}.`),
    (s.warnings || []).length > 0 && el("ul", {}, s.warnings.map((w) => el("li", {}, w))));
}

function tableList(c) {
  const list = c.tables || [];
  if (!list.length) return null;
  const quote = (name) => "`" + name.replaceAll("`", "``") + "`";
  return el("section", { class: "card" }, el("h2", {}, "Tables"), el("p", {}, list.join(", ")),
    el("details", { class: "skip" }, el("summary", {}, "Statements to look at them"),
      highlighted(list.map((t) => {
        const [db, table] = t.includes(".") ? [t.slice(0, t.indexOf(".")), t.slice(t.indexOf(".") + 1)] : ["", t];
        return `SHOW CREATE TABLE ${db ? quote(db) + "." : ""}${quote(table)}\\G`;
      }).join("\n"))));
}

function repeatedIn(c) {
  const found = ((D.patterns || {}).repeated || []).filter((r) => r.id && (r.id === c.id || (r.ids || []).includes(c.id)));
  return found.map((r) => el("section", { class: "note" }, el("strong", {}, "A loop in the application (N+1): "),
    (r.ids || []).length > 0 && `in turn ${r.item}: `, `${plural(r.statements, "statement")} in ${plural(r.runs, "run")} on one connection each, the longest ${count(r.longest)}, together ${duration(r.time)}` +
    (r.after ? `, after ${r.after}.` : ".")));
}

function classPage(c, bare) {
  const timed = metric(c, "Query_time", "sum") > 0;
  const at = D.classes.indexOf(c), before = D.classes[at - 1], after = D.classes[at + 1];
  const fingerprint = D.selection.group_by === "fingerprint";
  const chart = charts(c, timed), hist = timed && histogram(c);
  return [
    !bare && el("nav", { class: "crumbs", "aria-label": "Pages" }, el("a", { class: "tool", href: "#", id: "back" }, "\u2190 All classes"),
      before && el("a", { class: "tool", href: "#q" + before.rank }, "Previous"), after && el("a", { class: "tool", href: "#q" + after.rank }, "Next")),
    el("section", { class: "card" },
      el("h2", { id: bare ? null : "title", tabindex: "-1", style: "font-size:20px" }, `${c.rank}. ${c.item || c.key || "(empty)"}`,
        c.reason && el("span", { class: "badge warn" }, c.reason), c.user_class && el("span", { class: "badge" }, c.user_class)),
      facts(c), fingerprint ? highlighted(c.key) : null,
      c.key_cut && el("p", { class: "soft" }, "Shortened."),
      c.id && el("p", { class: "soft", style: "margin:8px 0 0" }, "Class ", el("code", {}, c.id))),
    repeatedIn(c),
    chart && el("section", { class: "card" }, chart),
    statistics(c, "Statistics"),
    hist && el("section", { class: "card" }, hist),
    sample(c), plan(c), breakdowns(c, "Who and where"), tableList(c)];
}

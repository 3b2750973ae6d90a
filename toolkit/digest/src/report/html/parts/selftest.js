// With #selftest the page tries itself and writes what happened into the root element, for the tests.

function selftest() {
  const said = [];
  const check = (name, holds) => said.push(`${name}: ${holds ? "ok" : "FAILED"}`);
  const ranks = () => [...document.querySelectorAll("#profile tbody tr")].map((r) => Number(r.dataset.rank));
  const head = (title) => [...document.querySelectorAll("#profile th button")].find((b) => b.textContent === title);
  const classes = D.classes, by = (of) => [...classes].sort((a, b) => of(b) - of(a) || a.rank - b.rank).map((c) => c.rank);
  try {
    check("rows", ranks().length === classes.length);
    check("no markup from text", [...document.querySelectorAll("script")].length === 2 && !document.querySelector("#main img, #main iframe, #main script"));
    if (D.diff) {
      check("every change is shown", document.querySelectorAll("#changes tbody tr").length === D.diff.changes.length);
      check("every verdict has words", D.diff.changes.every((c) => VERDICTS[c.verdict]));
    }
    head("Calls").click();
    check("sort down", String(ranks()) === String(by((c) => c.statements || c.events)));
    head("Calls").click();
    check("sort up", String(ranks()) === String(classes.slice().sort((a, b) => (a.statements || a.events) - (b.statements || b.events) || a.rank - b.rank).map((c) => c.rank)));
    head("#").click();
    check("sort by rank", String(ranks()) === String(classes.map((c) => c.rank)));
    const search = document.getElementById("search");
    const type = (text) => { search.value = text; search.dispatchEvent(new Event("input")); };
    const last = classes[classes.length - 1];
    if (last) {
      type(last.id || last.key);
      check("search finds", ranks().includes(last.rank) && (!last.id || ranks().length === 1));
    }
    type("no class has this text \u2603");
    check("search filters", ranks().length === 0);
    type("");
    check("search ends", ranks().length === classes.length);
    for (const c of classes.slice(0, 50)) {
      main.replaceChildren();
      add(main, classPage(c));
      if (!document.getElementById("title").textContent.startsWith(`${c.rank}. `)) check(`page ${c.rank}`, false);
    }
    if (classes.length) { location.hash = "q" + classes[0].rank; show(true); }
    check("page opens", !classes.length || Boolean(document.getElementById("back")));
    check("page has its statement", !classes.length || !classes[0].sample || !classes[0].sample.sql || document.querySelectorAll("#main pre").length > 0);
  } catch (error) {
    said.push("FAILED " + error + " " + error.stack);
  }
  if (failures.length) said.push("FAILED script error " + failures.join("; "));
  document.documentElement.dataset.selftest = said.join(" | ");
}
if (location.hash === "#selftest") selftest();

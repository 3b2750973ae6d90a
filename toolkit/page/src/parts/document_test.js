// With #selftest the page tries itself and writes what happened into the root element, for the tests.

function selftest() {
  const said = [];
  const check = (name, holds) => said.push(`${name}: ${holds ? "ok" : "FAILED"}`);
  try {
    const drawn = [...document.querySelectorAll("#main > .card")];
    check("sections", drawn.length === D.sections.length && drawn.every((d, i) => d.dataset.kind === D.sections[i].kind));
    check("no markup from text", [...document.querySelectorAll("script")].length === 2 && !document.querySelector("#main img, #main iframe, #main script"));
    D.sections.forEach((s, i) => {
      const all = (what) => drawn[i].querySelectorAll(what);
      if (s.kind === "table") {
        check("rows", all("tbody tr").length === s.rows.length);
        const at = s.columns.findIndex(isNumber);
        if (at >= 0 && s.rows.length > 1) {
          const shown = () => [...all("tbody tr")].map((r) => r.children[at].textContent);
          const wanted = s.rows.map((r) => r[at]).sort((a, b) => (missing(b) ? -Infinity : b) - (missing(a) ? -Infinity : a) || 0)
            .map((v) => (missing(v) ? "" : SHOW[s.columns[at].shown](v)));
          all("th button")[at].click();
          check("sort down", String(shown()) === String(wanted));
          all("th button")[at].click();
          check("sort up", String(shown().reverse()) === String(wanted));
        }
      }
      if (s.kind === "tree") check("nodes", all("li").length === s.nodes.length);
      if (s.kind === "cards") check("findings", all(".finding").length === s.cards.length);
      if (s.kind === "ratios") check("dots", all("circle").length === s.rows.length);
      if (s.kind === "charts") check("charts", all("svg").length === s.charts.filter((c) => c.points.length > 1).length);
    });
    check("no broken number", !/NaN|undefined|Infinity/.test([...document.querySelectorAll("#main svg, #main td, #main .tile")].map((n) => n.outerHTML).join(" ")));
  } catch (error) {
    said.push("FAILED " + error + " " + error.stack);
  }
  if (failures.length) said.push("FAILED script error " + failures.join("; "));
  document.documentElement.dataset.selftest = said.join(" | ");
}
if (location.hash === "#selftest") selftest();

// Which page is shown is in the address: #q3 is the third class, anything else the overview.

const main = document.getElementById("main");
const opened = { from: 0 };

function chosen() {
  const m = /^#q(\d+)$/.exec(location.hash);
  return m ? D.classes.find((c) => c.rank === Number(m[1])) : undefined;
}

function show(moved) {
  const c = chosen();
  if (c && !document.getElementById("back")) opened.from = scrollY;
  main.replaceChildren();
  add(main, c ? classPage(c) : overview());
  document.title = c ? visible(`${c.rank}. ${c.item || c.key}`.slice(0, 80)) : D.diff ? "What changed" : "Query digest";
  if (!moved) return;
  if (c) { scrollTo(0, 0); document.getElementById("title").focus({ preventScroll: true }); }
  else scrollTo(0, opened.from);
}

addEventListener("hashchange", () => show(true));
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.closest && e.target.closest("input");
  const search = document.getElementById("search");
  if (e.key === "/" && search && !typing) { search.focus(); e.preventDefault(); }
  else if (e.key === "Escape" && !search) location.hash = "";
  else if (e.key === "Escape" && typing) { search.value = ""; search.dispatchEvent(new Event("input")); search.blur(); }
});

// On paper the first classes follow the profile.
addEventListener("beforeprint", () => {
  if (chosen()) return;
  add(main, D.classes.slice(0, 20).map((c) => el("div", { class: "page printed" }, classPage(c, true))));
});
addEventListener("afterprint", () => document.querySelectorAll(".printed").forEach((n) => n.remove()));

document.getElementById("top").replaceWith(head());
document.getElementById("made").textContent = visible(D.generator) + (D.generated ? `, made ${time(D.generated)} UTC` : "");
show(false);

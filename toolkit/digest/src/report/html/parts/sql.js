// Highlighting: words, strings, numbers, comments. It only has to look right; it decides nothing.
const WORDS = new Set(("select from where and or not in is null like between exists join left right inner outer cross on using group by order " +
  "having limit offset union all distinct insert into values value update set delete replace ignore low_priority high_priority delayed create " +
  "alter drop table index view database schema trigger procedure function begin commit rollback start transaction savepoint release call " +
  "prepare execute deallocate show explain analyze describe use lock unlock tables case when then else end as asc desc with recursive for " +
  "share mode nowait skip locked force straight_join duplicate key returning load data infile interval if optimize check truncate rename " +
  "grant revoke flush kill do handler window over partition rows range natural true false default").split(" "));
const TOKEN = /(\/\*[\s\S]*?(?:\*\/|$)|--[ \t][^\n]*|#[^\n]*)|('(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|"(?:[^"\\]|\\[\s\S]|"")*(?:"|$))|(`(?:[^`]|``)*(?:`|$))|(\b\d[\w.]*\b)|([A-Za-z_$][\w$]*)/g;

function highlighted(sql) {
  const box = el("pre", { tabindex: "0", dir: "ltr" });
  let done = 0;
  for (const m of sql.matchAll(TOKEN)) {
    const kind = m[1] ? "c" : m[2] ? "s" : m[4] ? "d" : m[5] && WORDS.has(m[5].toLowerCase()) ? "w" : null;
    if (!kind) continue;
    add(box, [sql.slice(done, m.index), el("span", { class: kind }, m[0])]);
    done = m.index + m[0].length;
  }
  return add(box, [sql.slice(done)]);
}

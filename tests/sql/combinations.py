"""Tables and reads that combine features: faults live where two of them meet.

Partitions and subpartitions, generated columns (virtual, stored, indexed), system versioning and collations in one
table; reads from the index alone, by several ranges (MRR), joins in batches of keys (BKA), conditions within the index
(ICP), filters of row ids and merges of indexes, each chosen through optimizer_switch and join_cache_level, which vary
for the episode and for the statement.

A virtual column is `{virtual}` in the text and a stored one in InnoDB (pair.py), whose indexes on virtual columns are no
reference: they give wrong answers by MRR and BKA in partitions, lose entries in ALTER and keep old ones in ON DUPLICATE
KEY UPDATE.

LEFT JOIN is read without batches of keys: with them the server itself ends with signal 11, also with tables of InnoDB
and no other engine loaded. The innermost function with a name is JOIN_TAB_SCAN_MRR::next(). Seen with mrr=on,
mrr_cost_based=off and join_cache_level 6 and 8. The same statements do not always end it.

Where mrr is on, loosescan is off: LooseScan by a rowid-ordered scan gives rows of IN (SELECT ...) twice in InnoDB.

Where mrr is on and tables are partitioned, join_cache_hashed is off. The server joins wrongly when it hashes by one key
and reads a partitioned table by ranges of another in the order of its rows (EXPLAIN: "hash_range", "#hash#PRIMARY:k1",
"Rowid-ordered scan"): it ends with error 1032 or leaves rows out, in InnoDB and in the engine under test alike; which of
them has that plan depends on their statistics. One list of tables in five has no partitions and keeps both.

A versioned and partitioned table is closed (FLUSH TABLES) before an UPDATE. After a read whose condition leaves no
partition to look into (p < -1), the server's next UPDATE in the same open table finds no row, in both engines unless it
merges indexes.

Error 1037 is no difference: from which join_buffer_size on a join in batches of keys begins depends on how many rows the
engine's statistics expect for a key. With the server's own statistics (ANALYZE ... PERSISTENT) both begin at the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Iterator

from statements import Statement

SWITCHES = {
    "mrr": "on,mrr_cost_based=off", "mrr_sort_keys": "on", "join_cache_bka": "on", "join_cache_hashed": "off",
    "join_cache_incremental": "on", "optimize_join_buffer_size": "off", "index_condition_pushdown": "off",
    "rowid_filter": "off", "index_merge_sort_intersection": "on", "index_merge_intersection": "off",
    "index_merge_sort_union": "off", "index_merge_union": "off", "outer_join_with_cache": "off",
    "semijoin_with_cache": "off", "semijoin": "off", "materialization": "off", "firstmatch": "off",
    "loosescan": "off", "extended_keys": "off", "split_materialized": "off", "derived_merge": "off",
    "condition_pushdown_for_subquery": "off", "mrr_cost_based": "on",
}
COLLATIONS = ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci", "utf8mb4_nopad_bin",
              "utf8mb4_unicode_nopad_ci"]
TEXTS = ["a", "A", "b", "ab", "abc", "B ", "zz", "\xe4", "", "aB", "ss", "\xdf"]
ROWS = 60
# The lowest join_cache_level that reads in batches of keys.
BATCHES_FROM = 5
# A moment later for each change of a versioned table.
NOW = 1767225600


@dataclass
class Combined:
    name: str
    versioned: bool
    partitioned: str
    # Columns of integers, and all others.
    numbers: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    keys: dict[str, list[str]] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)


def switches(r: random.Random, partitioned: bool) -> str:
    chosen = r.sample(sorted(SWITCHES), r.choice([2, 4, 6, 9]))
    # These are what most of the others need to have an effect.
    if r.random() < 0.6:
        chosen.append("mrr")
    if "mrr" in chosen:
        chosen = [c for c in chosen if c != "mrr_cost_based"] + ["loosescan"]
        if partitioned:
            chosen.append("join_cache_hashed")
    return ",".join(f"{name}={SWITCHES[name]}" for name in dict.fromkeys(chosen))


class Combinations:
    def __init__(self, r: random.Random, number: int):
        self.r, self.number = r, number
        self.tables: list[Combined] = []
        self.moment = 0
        self.partitioned = r.random() < 0.8

    def statements(self, reads: int) -> Iterator[Statement]:
        r = self.r
        yield Statement(f"SET optimizer_switch = '{switches(r, self.partitioned)}', "
                        f"join_cache_level = {r.randint(0, 8)}, join_buffer_size = {r.choice([512, 4096, 262144])}, "
                        f"mrr_buffer_size = {r.choice([8192, 262144])}")
        for i in range(r.choice([2, 2, 3])):
            yield self._create(f"m{self.number}_{i}")
            for _ in range(3):
                yield self._insert(self.tables[-1], ROWS // 3)
        for _ in range(reads):
            if r.random() < 0.08:
                table = r.choice(self.tables)
                if table.versioned:
                    self.moment += 1
                    yield Statement(f"SET timestamp = {NOW + self.moment}.5")
                change = self._change(table)
                if table.versioned and table.partitioned and change.sql.startswith("UPDATE"):
                    yield Statement(f"FLUSH TABLES {table.name}", affected=False)
                yield change
            else:
                yield self._read()
        for table in self.tables:
            yield Statement(f"CHECK TABLE {table.name} EXTENDED", affected=False, verdict=True)
            yield Statement(f"DROP TABLE {table.name}", affected=False)
        yield Statement("SET timestamp = 1767225600.654321, optimizer_switch = DEFAULT, join_cache_level = DEFAULT, "
                        "join_buffer_size = DEFAULT, mrr_buffer_size = DEFAULT")

    # ---------------------------------------------------------------- tables

    def _create(self, name: str) -> Statement:
        r = self.r
        partitioned, clause, partitions = self._partitions()
        table = Combined(name, r.random() < 0.25, partitioned, ["id", "p", "a", "c"], ["b", "d"],
                         partitions=partitions)
        lines = ["id INT NOT NULL", "p TINYINT NOT NULL", "a INT", "c SMALLINT",
                 f"b VARCHAR(20) COLLATE {r.choice(COLLATIONS)}", "d DATE"]
        for column, type_, texts, expressions in (
                ("y", "INT", False, ["id * 2", "a + 1", "id + c", "a MOD 7", "p * 100 + COALESCE(a, 0)"]),
                ("z", f"VARCHAR(8) COLLATE {r.choice(COLLATIONS)}", True, ["LEFT(b, 2)", "CONCAT(b, p)"]),
                ("w", "INT", False, ["YEAR(d)", "c * 3", "MONTH(d) + p"])):
            if r.random() < 0.7:
                stored = r.choice(["{virtual}", "{virtual}", "STORED"])
                lines.append(f"{column} {type_} GENERATED ALWAYS AS ({r.choice(expressions)}) {stored}")
                (table.texts if texts else table.numbers).append(column)
        lines.append(f"PRIMARY KEY ({r.choice(['id, p', 'id, p', 'p, id'])})")
        for i in range(r.choice([2, 3, 4])):
            columns = r.sample(table.numbers[1:] + table.texts, r.choice([1, 1, 2, 3]))
            table.keys[f"k{i}"] = columns
            lines.append(f"KEY k{i} ({', '.join(columns)})")
        self.tables.append(table)
        versioned = " WITH SYSTEM VERSIONING" if table.versioned else ""
        return Statement(f"CREATE TABLE {name} ({', '.join(lines)}) CHARACTER SET utf8mb4{versioned}{clause}",
                         affected=False)

    def _partitions(self) -> tuple[str, str, list[str]]:
        r = self.r
        kinds = ["", "hash", "key", "range", "range", "list", "range hash", "range key", "list hash"]
        kind = r.choice(kinds) if self.partitioned else ""
        values = {
            "range": "PARTITION x0 VALUES LESS THAN (10), PARTITION x1 VALUES LESS THAN (25), "
                     "PARTITION x2 VALUES LESS THAN MAXVALUE",
            "list": "PARTITION x0 VALUES IN (0, 1), PARTITION x1 VALUES IN (2, 4), PARTITION x2 VALUES IN (3, 5)",
        }
        first = kind.split(" ")[0]
        if not kind:
            return kind, "", []
        if kind in ("hash", "key"):
            return kind, f" PARTITION BY {kind.upper()} (id) PARTITIONS {r.choice([2, 3, 5])}", []
        column = "id" if first == "range" else "p"
        other = "p" if first == "range" else "id"
        below = f" SUBPARTITION BY {kind.split(' ')[1].upper()} ({other}) SUBPARTITIONS 2" if " " in kind else ""
        return kind, f" PARTITION BY {first.upper()} ({column}){below} ({values[first]})", ["x0", "x1", "x2"]

    # ---------------------------------------------------------------- changes

    def _insert(self, table: Combined, count: int) -> Statement:
        r = self.r
        lines = [f"({r.randint(0, 45)}, {r.randint(0, 5)}, {self._number()}, {self._number()}, {self._text()}, "
                 f"{self._date()})" for _ in range(count)]
        return Statement(f"INSERT IGNORE INTO {table.name} (id, p, a, c, b, d) VALUES {', '.join(lines)}")

    def _number(self) -> str:
        return self.r.choice(["NULL", *(str(self.r.randint(-2, 30)) for _ in range(7))])

    def _text(self) -> str:
        return self.r.choice(["NULL", *(f"'{self.r.choice(TEXTS)}'" for _ in range(7))])

    def _date(self) -> str:
        return self.r.choice(["NULL", f"'20{self.r.randint(10, 25)}-0{self.r.randint(1, 9)}-11'"])

    def _change(self, table: Combined) -> Statement:
        r = self.r
        roll = r.random()
        if roll < 0.3:
            return self._insert(table, r.choice([1, 4]))
        where = self._where(table)
        if roll < 0.6:
            return Statement(f"UPDATE {table.name} SET a = {self._number()}, c = {self._number()} WHERE {where}")
        if roll < 0.8:
            return Statement(f"UPDATE {table.name} SET b = {self._text()}, d = {self._date()} WHERE {where}")
        return Statement(f"DELETE FROM {table.name} WHERE {where} AND id > {r.randint(20, 40)}")

    # ---------------------------------------------------------------- conditions

    def _term(self, column: str, table: Combined, prefix: str = "") -> str:
        r, name = self.r, prefix + column
        if column in table.numbers:
            scale = {"id": 45, "p": 5, "y": 60, "w": 40}.get(column, 30)

            def one() -> int:
                return r.randint(-1, scale) + (2010 if column == "w" and r.random() < 0.5 else 0)

            low = one()
            return r.choice([f"{name} = {low}", f"{name} < {low}", f"{name} >= {low}",
                             f"{name} BETWEEN {low} AND {low + r.randint(0, 20)}",
                             f"{name} IN ({', '.join(str(one()) for _ in range(r.choice([2, 5])))})",
                             f"{name} IS NULL", f"{name} <> {low}"])
        if column == "d":
            return r.choice([f"{name} < '2018-05-05'", f"{name} >= '2015-01-01'", f"{name} IS NULL",
                             f"{name} BETWEEN '2012-01-01' AND '2020-09-11'"])
        text = f"'{r.choice(TEXTS)}'"
        return r.choice([f"{name} = {text}", f"{name} < {text}", f"{name} >= {text}", f"{name} IS NULL",
                         f"{name} IN ({text}, '{r.choice(TEXTS)}')"])

    def _where(self, table: Combined, prefix: str = "") -> str:
        r = self.r
        keys = r.sample(sorted(table.keys), min(2, len(table.keys)))
        leads = [table.keys[k][0] for k in keys]
        others = table.numbers + table.texts
        terms = [self._term(c, table, prefix) for c in leads]
        roll = r.random()
        if roll < 0.25:
            return " OR ".join(terms)
        if roll < 0.5:
            return " AND ".join(terms)
        if roll < 0.75:
            # Other parts of the same key: conditions within the index.
            rest = [self._term(c, table, prefix) for c in table.keys[keys[0]][1:]]
            return " AND ".join([terms[0], *rest])
        return f"{terms[0]} AND {self._term(r.choice(others), table, prefix)}"

    def _source(self, table: Combined, alias: str = "", key: str = "") -> str:
        r = self.r
        text = table.name
        if table.partitions and r.random() < 0.15:
            text += f" PARTITION ({', '.join(r.sample(table.partitions, r.choice([1, 2])))})"
        if table.versioned and r.random() < 0.5:
            text += r.choice([" FOR SYSTEM_TIME ALL", f" FOR SYSTEM_TIME AS OF FROM_UNIXTIME({NOW + r.randint(0, 9)})"])
        return text + (f" {alias}" if alias else "") + (f" FORCE INDEX ({key})" if key else "")

    # ---------------------------------------------------------------- reads

    def _read(self) -> Statement:
        r, table = self.r, self.r.choice(self.tables)
        statement = r.choice([self._alone, self._alone, self._range, self._range, self._merge, self._join, self._join,
                              self._join, self._nested, self._sorted])(table)
        statement.may_lack_memory = True
        if r.random() < 0.5:
            buffer = f", join_buffer_size = {r.choice([256, 2048, 131072])}" if r.random() < 0.3 else ""
            most = BATCHES_FROM - 1 if "LEFT JOIN" in statement.sql else 8
            statement.sql = (f"SET STATEMENT optimizer_switch = '{switches(r, self.partitioned)}', join_cache_level = "
                             f"{r.randint(0, most)}{buffer} FOR {statement.sql}")
        elif "LEFT JOIN" in statement.sql:
            statement.sql = f"SET STATEMENT join_cache_level = {r.randint(0, BATCHES_FROM - 1)} FOR {statement.sql}"
        return statement

    def _alone(self, table: Combined) -> Statement:
        """Columns of one key: the row is not needed."""
        r = self.r
        key, columns = r.choice(sorted(table.keys.items()))
        where = ""
        if r.random() < 0.6:
            terms = [self._term(c, table) for c in columns[:r.randint(1, len(columns))]]
            where = " WHERE " + " AND ".join(terms)
        numbers = [c for c in columns if c in table.numbers] + ["id", "p"]
        pick = r.choice(numbers)
        shown = r.choice([", ".join([*columns, "id", "p"]), f"SUM({pick}), COUNT(*)", f"MIN({pick}), MAX({pick})",
                          f"COUNT(DISTINCT {pick})", "COUNT(*)"])
        group = ""
        if r.random() < 0.15:
            shown, group = f"{pick}, COUNT(*)", f" GROUP BY {pick}"
        return Statement(f"SELECT {shown} FROM {self._source(table, key=key)}{where}{group}")

    def _range(self, table: Combined) -> Statement:
        r = self.r
        key, columns = r.choice(sorted(table.keys.items()))
        terms = [self._term(c, table) for c in columns[:r.randint(1, len(columns))]]
        if r.random() < 0.4:
            terms.append(self._term(r.choice(table.numbers + table.texts), table))
        shown = r.choice(["*", "id, p, a", "COUNT(c), SUM(a)", "COUNT(*)", "COUNT(b), SUM(LENGTH(b))"])
        return Statement(f"SELECT {shown} FROM {self._source(table, key=key)} WHERE {' AND '.join(terms)}")

    def _merge(self, table: Combined) -> Statement:
        shown = self.r.choice(["*", "id, p", "COUNT(*), SUM(id)"])
        return Statement(f"SELECT {shown} FROM {self._source(table)} WHERE {self._where(table)}")

    def _join(self, table: Combined) -> Statement:
        r = self.r
        names = ["s", "t", "u"][:r.choice([2, 2, 2, 3])]
        chosen = [table] + [r.choice(self.tables) for _ in names[1:]]
        text = self._source(table, "s")
        word = r.choice(["STRAIGHT_JOIN", "JOIN", "LEFT JOIN"])
        for i in range(1, len(names)):
            inner = chosen[i]
            key, columns = r.choice(sorted(inner.keys.items()))
            numbers = [c for c in columns[:1] if c in inner.numbers]
            if numbers:
                on = f"{names[i]}.{numbers[0]} = {names[i - 1]}.{r.choice(chosen[i - 1].numbers)}"
            else:
                key, on = "", f"{names[i]}.id = {names[i - 1]}.{r.choice(chosen[i - 1].numbers)}"
            if r.random() < 0.3:
                on += f" AND {self._term(r.choice(columns), inner, names[i] + '.')}"
            text += f" {word} {self._source(inner, names[i], key if r.random() < 0.7 else '')} ON {on}"
        last = names[-1]
        shown = r.choice([f"COUNT(*), SUM(s.id), SUM({last}.id)", f"COUNT({last}.b), SUM({last}.a)",
                          f"s.id, s.p, {last}.id, {last}.p", f"COUNT(*), SUM({last}.{r.choice(chosen[-1].numbers)})"])
        return Statement(f"SELECT {shown} FROM {text} WHERE {self._term(r.choice(['id', 'a', 'c']), table, 's.')} "
                         f"AND s.id < {r.randint(5, 30)}")

    def _nested(self, table: Combined) -> Statement:
        r = self.r
        other = r.choice(self.tables)
        a, b = r.choice(table.numbers), r.choice(other.numbers)
        word = r.choice(["IN", "IN", "NOT IN"])
        return Statement(f"SELECT id, p, {a} FROM {self._source(table)} WHERE {a} {word} (SELECT {b} FROM "
                         f"{self._source(other)} WHERE {self._where(other)})")

    def _sorted(self, table: Combined) -> Statement:
        r = self.r
        key, columns = r.choice(sorted(table.keys.items()))
        lead = f"{columns[0]}, " if columns[0] in table.numbers else ""
        down = r.choice(["", " DESC"])
        order = ", ".join(f"{c}{down}" for c in [*lead.rstrip(", ").split(","), "id", "p"] if c)
        shown = r.choice([", ".join(dict.fromkeys(["id", "p", columns[0]])), "id, p, b, d"])
        # Versions of a row are equal in all of these.
        source = table.name + r.choice(["", f" FORCE INDEX ({key})"])
        where = f" WHERE {self._term(columns[0], table)}" if r.random() < 0.6 else ""
        return Statement(f"SELECT {shown} FROM {source}{where} ORDER BY {order} LIMIT {r.randint(1, 15)}", ordered=True)

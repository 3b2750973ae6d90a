"""Random statements whose result does not depend on an engine's free choices.

An engine may return rows in any order, change them in any order and pick any of equal values. So:
LIMIT comes with a total order; statements that change unique columns do it in a total order; values
that are only equal, not the same, are shown through an expression that does not tell them apart.

The generator never looks at results: one seed gives one list of statements.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from columns import PATTERNS, Column, quote, random_column
from tables import Index, Table, random_index


@dataclass
class Statement:
    sql: str
    # Rows come in a fixed order.
    ordered: bool = False
    # The number of warnings does not depend on the plan.
    warnings: bool = False
    # The number of affected rows means something.
    affected: bool = True
    # Which of several errors comes first is free.
    any_error: bool = False
    # CHECK or ANALYZE: only the verdict in the last row is compared.
    verdict: bool = False
    # Error 1037 of one engine is none: how large a buffer has to be depends on its statistics.
    may_lack_memory: bool = False


class Generator:
    def __init__(self, r: random.Random, tables: list[Table]):
        self.r = r
        self.tables = tables

    # ---------------------------------------------------------------- conditions

    def condition(self, table: Table, prefix: str = "") -> str:
        r = self.r
        terms = [self.term(r.choice(self._interesting(table)), prefix)
                 for _ in range(r.choice([1, 1, 1, 2, 2, 3]))]
        return r.choice([" AND ", " AND ", " OR "]).join(terms)

    def _interesting(self, table: Table) -> list[Column]:
        indexed = [p.column for i in table.indexes for p in i.parts[:2]]
        return indexed * 2 + table.columns

    def term(self, column: Column, prefix: str = "") -> str:
        r, name = self.r, prefix + column.name
        value = column.constant(r, fits=True)
        roll = r.random()
        if roll < 0.30:
            return f"{name} = {value}"
        if roll < 0.45:
            return f"{name} {r.choice(['<', '<=', '>', '>='])} {value}"
        if roll < 0.57:
            return f"{name} BETWEEN {value} AND {column.constant(r, fits=True)}"
        if roll < 0.68:
            several = ", ".join(column.constant(r, fits=True) for _ in range(r.randint(1, 6)))
            return f"{name} {'NOT ' if r.random() < 0.15 else ''}IN ({several})"
        if roll < 0.76:
            return f"{name} IS {'NOT ' if r.random() < 0.4 else ''}NULL"
        if roll < 0.80:
            return f"{name} <=> {r.choice([value, 'NULL'])}"
        if roll < 0.90 and column.like_is_sound():
            return f"{name} LIKE {quote(r.choice(PATTERNS))}"
        if roll < 0.95:
            return f"{name} <> {value}"
        return f"NOT ({name} >= {value})"

    def key_condition(self, index: Index) -> str:
        """Equality on some leading parts, perhaps a range on the next: what an index is for."""
        r = self.r
        count = r.randint(1, len(index.parts))
        terms = [f"{p.column.name} = {p.column.constant(r, fits=True)}" for p in index.parts[:count - 1]]
        last = index.parts[count - 1].column
        value = last.constant(r, fits=True)
        terms.append(r.choice([f"{last.name} = {value}", f"{last.name} >= {value}",
                               f"{last.name} < {value}", f"{last.name} IS NULL",
                               f"{last.name} BETWEEN {value} AND {last.constant(r, fits=True)}"]))
        return " AND ".join(terms)

    # ---------------------------------------------------------------- reads

    def select(self) -> Statement:
        r, table = self.r, self.r.choice(self.tables)
        pick = r.choice([self._select_rows, self._select_rows, self._select_limit, self._select_index,
                         self._select_index, self._select_index, self._select_groups,
                         self._select_extremes, self._select_join, self._select_nested,
                         self._select_locked])
        return pick(table)

    def _hint(self, table: Table) -> str:
        if not table.indexes or self.r.random() < 0.5:
            return ""
        word = self.r.choice(["FORCE", "FORCE", "IGNORE", "USE"])
        return f" {word} INDEX ({self.r.choice(table.indexes).name})"

    def _select_rows(self, table: Table) -> Statement:
        return Statement(f"SELECT * FROM {table.name}{self._hint(table)} WHERE {self.condition(table)}")

    def _select_locked(self, table: Table) -> Statement:
        mode = self.r.choice(["FOR UPDATE", "LOCK IN SHARE MODE"])
        return Statement(f"SELECT * FROM {table.name}{self._hint(table)} "
                         f"WHERE {self.condition(table)} {mode}")

    def _select_limit(self, table: Table) -> Statement:
        r = self.r
        where = f" WHERE {self.condition(table)}" if r.random() < 0.6 else ""
        lead = r.choice(table.columns).ordered() + r.choice(["", " DESC"]) + ", "
        order = (lead if r.random() < 0.5 else "") + table.total_order(r)
        offset = r.choice(["", "", f" OFFSET {r.randint(0, 9)}"])
        return Statement(f"SELECT * FROM {table.name}{self._hint(table)}{where} "
                         f"ORDER BY {order} LIMIT {r.randint(1, 20)}{offset}", ordered=True)

    def _select_index(self, table: Table) -> Statement:
        """Reads one index, often without the row: forwards, backwards, with and without bounds."""
        if not table.indexes:
            return self._select_rows(table)
        r, index = self.r, self.r.choice(table.indexes)
        hint = f" FORCE INDEX ({index.name})"
        where = f" WHERE {self.key_condition(index)}" if r.random() < 0.7 else ""
        columns = [p.column for p in index.parts]
        if not index.covers_whole_columns() or r.random() < 0.2:
            return Statement(f"SELECT * FROM {table.name}{hint}{where}")
        shown = ", ".join(c.ordered() for c in columns)
        backwards = r.random() < 0.4
        order = ", ".join(p.column.name + (" DESC" if p.descending != backwards else "")
                          for p in index.parts)
        limit = f" LIMIT {r.randint(1, 12)}" if r.random() < 0.5 else ""
        return Statement(f"SELECT {shown} FROM {table.name}{hint}{where} ORDER BY {order}{limit}",
                         ordered=True)

    def _select_groups(self, table: Table) -> Statement:
        r = self.r
        columns = r.sample(table.columns, min(r.choice([1, 1, 2]), len(table.columns)))
        keys = ", ".join(c.name for c in columns)
        shown = ", ".join(c.ordered() if c.exact else f"MIN({c.ordered()})" for c in columns)
        where = f" WHERE {self.condition(table)}" if r.random() < 0.4 else ""
        other = r.choice(table.columns)
        having = r.choice(["", "", " HAVING COUNT(*) > 1"])
        return Statement(f"SELECT {shown}, COUNT(*), COUNT(DISTINCT {other.name}) "
                         f"FROM {table.name}{self._hint(table)}{where} GROUP BY {keys}{having}")

    def _select_extremes(self, table: Table) -> Statement:
        r, column = self.r, self.r.choice(table.columns)
        where = f" WHERE {self.condition(table)}" if r.random() < 0.5 else ""
        name = column.name
        if column.kind in ("float", "double"):
            shown = f"MIN({name})+0.0e0, MAX({name})+0.0e0"
        elif column.exact:
            shown = f"MIN({name}), MAX({name}), COUNT({name})"
        else:
            # Which of equal values is the smallest is free; how many rows equal it is not.
            return Statement(f"SELECT COUNT(*) FROM {table.name} WHERE {name} = "
                             f"(SELECT {r.choice(['MIN', 'MAX'])}({name}) FROM {table.name}{where})")
        return Statement(f"SELECT {shown} FROM {table.name}{self._hint(table)}{where}")

    def _pair(self, table: Table) -> tuple[Table, Column, Column]:
        """Another table and two columns that compare without conversion, or the same column."""
        r, other = self.r, self.r.choice(self.tables)
        pairs = [(a, b) for a in table.columns for b in other.columns
                 if a.kind == b.kind and a.collation == b.collation and a.type == b.type]
        if not pairs:
            column = r.choice(table.columns)
            return table, column, column
        a, b = r.choice(pairs)
        return other, a, b

    def _select_join(self, table: Table) -> Statement:
        r = self.r
        other, a, b = self._pair(table)
        kind = r.choice(["JOIN", "LEFT JOIN", "STRAIGHT_JOIN"])
        where = f" WHERE {self.condition(table, 'x.')}"
        if r.random() < 0.5:
            shown = f"COUNT(*), COUNT(y.{b.name})"
        else:
            # One product of all rows is enough; a full one of wide rows would take the time of many.
            shown = (f"MD5(CONCAT_WS(',', x.{r.choice(table.columns).name})), "
                     f"MD5(y.{r.choice(other.columns).name})")
        return Statement(f"SELECT {shown} FROM {table.name} x {kind} {other.name} y "
                         f"ON x.{a.name} = y.{b.name}{where}")

    def _select_nested(self, table: Table) -> Statement:
        other, a, b = self._pair(table)
        if any(p.prefix and p.column.name == b.name for i in other.indexes for p in i.parts):
            # The server looks such a value up in the index and forgets to compare the rest of it, with
            # every engine (plan index_subquery).
            return self._select_rows(table)
        word = self.r.choice(["IN", "IN", "NOT IN"])
        return Statement(f"SELECT * FROM {table.name} WHERE {a.name} {word} (SELECT {b.name} FROM "
                         f"{other.name} WHERE {self.condition(other)})")

    # ---------------------------------------------------------------- changes

    def insert(self) -> Statement:
        r, table = self.r, self.r.choice(self.tables)
        # All numbers given, or none: which ones a statement takes that mixes them is the engine's choice.
        columns = [c for c in table.plain() if not (c.auto and r.random() < 0.8)]
        if r.random() < 0.1:
            columns = [c for c in columns if r.random() < 0.7] or columns
        word = r.choice(["INSERT", "INSERT", "INSERT IGNORE", "INSERT IGNORE", "REPLACE", "ODKU"])
        ambiguous = not table.insertion_is_unambiguous()
        tail = ""
        if word == "ODKU":
            word = "INSERT" if r.random() < 0.7 else "INSERT IGNORE"
            if not ambiguous:
                tail = f" ON DUPLICATE KEY UPDATE {self._assignments(table, True)}"
        names = ", ".join(c.name for c in columns)
        if r.random() < 0.08 and not tail:
            return self._insert_select(table, word)
        count = r.choice([1, 1, 2, 3, 5, 12])
        lines = ", ".join("(" + ", ".join(self._stored(c) for c in columns) + ")"
                          for _ in range(count))
        return Statement(f"{word} INTO {table.name} ({names}) VALUES {lines}{tail}", warnings=True)

    def _stored(self, column: Column) -> str:
        if self.r.random() < 0.02 and not column.auto:
            return "DEFAULT"
        while column.auto:
            value = column.constant(self.r)
            if int(value):
                return value
        return column.value(self.r)

    def _insert_select(self, table: Table, word: str) -> Statement:
        r = self.r
        source = r.choice(self.tables)
        # Whether a given number that turns out to be a duplicate moves the counter is the engine's choice.
        columns = [c for c in table.plain() if not c.auto] or table.plain()
        shown = []
        for column in columns:
            same = [c for c in source.columns if c.type == column.type
                    and c.collation == column.collation and not column.auto]
            shown.append(r.choice(same).name if same and r.random() < 0.7 else self._stored(column))
        return Statement(f"{word} INTO {table.name} ({', '.join(c.name for c in columns)}) "
                         f"SELECT {', '.join(shown)} FROM {source.name} WHERE {self.condition(source)} "
                         f"ORDER BY {source.total_order(r)} LIMIT {r.randint(1, 9)}")

    def _assignments(self, table: Table, unique_too: bool) -> str:
        r, unique = self.r, table.unique_columns()
        columns = [c for c in table.plain() if unique_too or c.name not in unique]
        if not columns:
            columns = table.plain()
        chosen = r.sample(columns, min(r.choice([1, 1, 2, 3]), len(columns)))
        return ", ".join(f"{c.name} = {self._new_value(c)}" for c in chosen)

    def _new_value(self, column: Column) -> str:
        r = self.r
        if column.kind == "int" and r.random() < 0.3:
            return f"{column.name} + {r.randint(1, 3)}"
        if column.is_text() and column.collation and r.random() < 0.2:
            return f"CONCAT({column.name}, 'q')"
        return column.value(r)

    def update(self) -> Statement:
        r, table = self.r, self.r.choice(self.tables)
        ignore = r.choice(["", "", " IGNORE"])
        where = f" WHERE {self.condition(table)}"
        if r.random() < 0.5:
            order = f" ORDER BY {table.total_order(r)}"
            limit = f" LIMIT {r.randint(1, 8)}" if r.random() < 0.6 else ""
            return Statement(f"UPDATE{ignore} {table.name} SET {self._assignments(table, True)}"
                             f"{where}{order}{limit}")
        unique = table.unique_columns()
        free = [c for c in table.plain() if c.name not in unique]
        if not free:
            return self.delete()
        # Without an order another row may fail first, with another error.
        return Statement(f"UPDATE{ignore} {table.name} SET {self._assignments(table, False)}{where}",
                         any_error=True)

    def delete(self) -> Statement:
        r, table = self.r, self.r.choice(self.tables)
        where = f" WHERE {self.condition(table)}"
        if r.random() < 0.7:
            where += f" ORDER BY {table.total_order(r)} LIMIT {r.randint(1, 6)}"
        return Statement(f"DELETE FROM {table.name}{where}")

    def several_tables(self) -> Statement:
        r, table = self.r, self.r.choice(self.tables)
        other, a, b = self._pair(table)
        on = f"x.{a.name} = y.{b.name} AND {self.condition(table, 'x.')}"
        if r.random() < 0.6:
            what = r.choice(["x", "y", "x, y"])
            return Statement(f"DELETE {what} FROM {table.name} x JOIN {other.name} y ON {on}")
        unique = table.unique_columns()
        free = [c for c in table.plain() if c.name not in unique and c is not a]
        if not free or other is table:
            return Statement(f"SELECT COUNT(*) FROM {table.name} x JOIN {other.name} y ON {on}")
        column = r.choice(free)
        return Statement(f"UPDATE {table.name} x JOIN {other.name} y ON {on} "
                         f"SET x.{column.name} = {column.constant(r, True)}", any_error=True)

    # ---------------------------------------------------------------- definitions

    def truncate(self) -> Statement:
        return Statement(f"TRUNCATE TABLE {self.r.choice(self.tables).name}", affected=False)

    def alter(self) -> Statement:
        """One change of a table. The model follows it at once: should both engines refuse, later
        statements on the table fail on both alike."""
        r, table = self.r, self.r.choice(self.tables)
        pick = r.choice([self._add_index, self._add_index, self._drop_index, self._add_column,
                         self._drop_column, self._rebuild])
        return Statement(f"ALTER TABLE {table.name} {pick(table)}", affected=False)

    def _rebuild(self, table: Table) -> str:
        return self.r.choice(["FORCE", f"ENGINE={{engine}}", "COMMENT='x'"])

    def _add_index(self, table: Table) -> str:
        if len(table.indexes) > 7:
            return self._rebuild(table)
        index = random_index(self.r, table)
        # Rows that are already there may well violate it, and the model could not know.
        index.unique = False
        table.indexes.append(index)
        return f"ADD {index.definition()}"

    def _drop_index(self, table: Table) -> str:
        candidates = [i for i in table.indexes if i.name != "PRIMARY"]
        if not candidates:
            return self._rebuild(table)
        index = self.r.choice(candidates)
        table.indexes.remove(index)
        return f"DROP KEY {index.name}"

    def _add_column(self, table: Table) -> str:
        if len(table.columns) > 10:
            return self._rebuild(table)
        column = random_column(self.r, table.fresh_name("n"))
        place = self.r.randint(0, len(table.columns))
        where = f" AFTER {table.columns[place - 1].name}" if place else " FIRST"
        table.columns.insert(place, column)
        return f"ADD COLUMN {column.definition()}{where}"

    def _drop_column(self, table: Table) -> str:
        used = {p.column.name for i in table.indexes for p in i.parts}
        used |= {c.name for g in table.columns if g.generated for c in table.columns
                 if c.name in g.generated}
        candidates = [c for c in table.columns if c.name not in used]
        if not candidates or len(table.columns) < 3:
            return self._rebuild(table)
        column = self.r.choice(candidates)
        table.columns.remove(column)
        return f"DROP COLUMN {column.name}"

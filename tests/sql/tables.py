"""Random tables: columns, keys, and the text that creates them.

A table knows what the statement generator has to: which order is total, which columns an index
begins with, and which columns no unique index contains (so that the order in which rows are changed
does not matter).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from columns import Column, integer_column, key_column, random_column


@dataclass
class Part:
    column: Column
    prefix: int = 0
    descending: bool = False

    def definition(self) -> str:
        text = self.column.name + (f"({self.prefix})" if self.prefix else "")
        return text + (" DESC" if self.descending else "")


@dataclass
class Index:
    name: str
    parts: list[Part]
    unique: bool = False

    def definition(self) -> str:
        parts = ",".join(p.definition() for p in self.parts)
        if self.name == "PRIMARY":
            return f"PRIMARY KEY ({parts})"
        return f"{'UNIQUE ' if self.unique else ''}KEY {self.name} ({parts})"

    def covers_whole_columns(self) -> bool:
        return not any(p.prefix for p in self.parts)


@dataclass
class Table:
    name: str
    columns: list[Column]
    indexes: list[Index] = field(default_factory=list)
    next_name: int = 0

    def create(self, r: random.Random) -> str:
        lines = [c.definition() for c in self.columns] + [i.definition() for i in self.indexes]
        options = r.choice(["", "", " DEFAULT CHARACTER SET latin1", " AUTO_INCREMENT=7"])
        return f"CREATE TABLE {self.name} ({', '.join(lines)}){options}"

    def primary(self) -> Index | None:
        return next((i for i in self.indexes if i.name == "PRIMARY"), None)

    def plain(self) -> list[Column]:
        """Columns that a statement may set."""
        return [c for c in self.columns if not c.generated]

    def total_order(self, r: random.Random | None = None, prefix: str = "") -> str:
        """ORDER BY terms that put any two different rows in one order. Equal keys cannot be."""
        primary = self.primary()
        columns = [p.column for p in primary.parts] if primary else self.columns
        exact = all(c.exact for c in columns) and primary is not None
        terms = [prefix + c.name if exact else self._prefixed(c, prefix) for c in columns]
        if r and r.random() < 0.5:
            terms = [t + " DESC" for t in terms]
        return ", ".join(terms)

    @staticmethod
    def _prefixed(column: Column, prefix: str) -> str:
        return column.total().replace(column.name, prefix + column.name)

    def unique_columns(self) -> set[str]:
        names = {p.column.name for i in self.indexes if i.unique for p in i.parts}
        for column in self.columns:
            # A generated column in a unique index makes the columns it is computed from matter.
            if column.generated and column.name in names:
                names |= {c.name for c in self.columns if c.name in column.generated}
        return names

    def insertion_is_unambiguous(self) -> bool:
        """Whether at most one unique index can be violated: else which one is reported first, and
        so which row ON DUPLICATE KEY UPDATE changes, is the engine's choice."""
        return sum(1 for i in self.indexes if i.unique) <= 1

    def fresh_name(self, prefix: str) -> str:
        self.next_name += 1
        return f"{prefix}{self.next_name}"


def random_part(r: random.Random, column: Column, primary: bool = False) -> Part:
    descending = r.random() < 0.25
    if column.is_long():
        return Part(column, r.choice([1, 5, 20]), descending)
    if column.may_be_cut() and column.size > 3 and not primary and r.random() < 0.3:
        return Part(column, r.choice([1, 2, 3]), descending)
    return Part(column, 0, descending)


def random_index(r: random.Random, table: Table, columns: list[Column] | None = None) -> Index:
    candidates = columns or table.columns
    count = min(r.choice([1, 1, 1, 2, 2, 3]), len(candidates))
    chosen = r.sample(candidates, count)
    parts = [random_part(r, c) for c in chosen]
    return Index(table.fresh_name("k"), parts, unique=r.random() < 0.25)


def _primary(r: random.Random, table: Table) -> None:
    roll = r.random()
    if roll < 0.15:
        return
    if roll < 0.45:
        column = integer_column(r, "id")
        column.auto = True
        table.columns.insert(0, column)
        table.indexes.append(Index("PRIMARY", [Part(column, 0, False)], True))
        return
    count = r.choice([1, 1, 2, 2, 3])
    columns = [key_column(r, f"p{i}") for i in range(count)]
    table.columns[:0] = columns
    table.indexes.append(Index("PRIMARY", [random_part(r, c, True) for c in columns], True))


def _generated(r: random.Random, table: Table) -> None:
    """A stored generated column over a column that exists already. Not a virtual one: InnoDB's indexes on those lose
    entries (ALTER ... ADD KEY) and keep old ones (ON DUPLICATE KEY UPDATE), so it is no reference."""
    column = r.choice(table.plain())
    if column.auto:
        return
    if column.kind == "int":
        made = Column("g", "int", "BIGINT", True, True, size=8,
                      generated=f"CAST({column.name} AS DECIMAL(20,0)) MOD 7")
    elif column.is_text() and column.collation:
        made = Column("g", "varchar", "VARCHAR(8)", True, False, "utf8mb4_general_ci", size=8,
                      generated=f"LEFT({column.name}, 2)")
    elif column.kind in ("date", "datetime"):
        made = Column("g", "int", "INT", True, True, size=4, generated=f"YEAR({column.name})")
    else:
        return
    table.columns.append(made)


def random_table(r: random.Random, name: str) -> Table:
    table = Table(name, [random_column(r, f"c{i}") for i in range(r.randint(1, 7))])
    table.next_name = 10
    _primary(r, table)
    if r.random() < 0.3:
        _generated(r, table)
    for _ in range(r.choice([0, 1, 2, 2, 3, 4])):
        table.indexes.append(random_index(r, table))
    return table

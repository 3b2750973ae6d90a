"""Differential test: the same random statements on InnoDB and on the engine under test.

    differential.py [--seconds N] [--statements N] [--seed SEED] [--episode N] [--canary]

An episode makes random tables, fills them, and changes and reads them in phases; after each phase
all tables are compared in whole, through every index, and checked, and now and then the server is
restarted. Episodes follow one another until the wanted number of statements is reached; a run that
reaches the time limit before has failed.

`--seed S --episode N` runs that one episode: the same statements as when it failed.
`--canary` leaves one statement out on the tested side; the run has to notice it.

Status: 0 no difference, 1 differences (printed, shrunk), 2 the test could not run, 3 too few statements.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import time
from collections import Counter

import pymysql

from combinations import Combinations
from pair import Outcome, Pair, difference
from server import Server, ServerFailed, engine
from shrink import RESTART, shrink
from statements import Generator, Statement
from tables import Table, random_table

MODES = [
    "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO",
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_AUTO_VALUE_ON_ZERO",
    "NO_ENGINE_SUBSTITUTION",
    "NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES",
    "STRICT_TRANS_TABLES,NO_ZERO_DATE,TIME_ROUND_FRACTIONAL",
]
PHASE_STATEMENTS = 330
COMBINED_READS = 70
FAILURES_MAX = 5
SHRINK_SECONDS = 40


class Failure(Exception):
    def __init__(self, what: str, a: Outcome, b: Outcome, warnings: list[str]):
        super().__init__(what)
        self.what, self.a, self.b, self.warnings = what, a, b, warnings


class Episode:
    """One set of tables and its statements. `history` is what a replay needs."""

    def __init__(self, pair: Pair, seed: str, number: int, audit: Counter[str], canary: bool):
        self.pair = pair
        self.r = random.Random(f"{seed}:{number}")
        self.audit = audit
        self.tables: list[Table] = []
        self.history: list[Statement] = []
        self.mode = self.r.choice(MODES)
        self.in_transaction = False
        self.savepoints = 0
        self.canary = canary

    def run(self, deadline: float) -> None:
        self.pair.mode = self.mode
        self.pair.fresh()
        self._create()
        generator = Generator(self.r, self.tables)
        for _ in range(10 * len(self.tables)):
            self._do("insert", generator.insert())
        for phase in range(self.r.choice([2, 3, 4])):
            for _ in range(PHASE_STATEMENTS):
                if time.monotonic() > deadline:
                    break
                self._step(generator)
            self._end_transaction()
            if self.r.random() < 0.5:
                # The rows of an episode fit in the write buffer; runs and their merges are to answer, too.
                self._optimize()
            self._compare()
            for statement in Combinations(self.r, phase).statements(COMBINED_READS):
                self._do("combined", statement)
            if phase == 1 and self.r.random() < 0.15:
                self.history.append(Statement(RESTART))
                self.audit["restart"] += 1
                self.pair.restart()
                self._compare()
                self._align_counters()

    def _optimize(self) -> None:
        for table in self.tables:
            # InnoDB makes the table anew, and a strict mode may refuse the values that it has.
            self._do("optimize", Statement(f"SET STATEMENT sql_mode = '' FOR OPTIMIZE TABLE {table.name}",
                                           affected=False, verdict=True))

    def _align_counters(self) -> None:
        """A restart makes InnoDB forget AUTO_INCREMENT values of statements that were undone; an engine
        that keeps them is as right. ALTER sets the counter from the rows, whose values a strict mode may refuse."""
        for table in self.tables:
            if any(c.auto for c in table.columns):
                self._do("alter", Statement(
                    f"SET STATEMENT sql_mode = '' FOR ALTER TABLE {table.name} AUTO_INCREMENT = 1", affected=False))

    def _create(self) -> None:
        wanted = self.r.choice([1, 2, 2, 3])
        for attempt in range(20):
            table = random_table(self.r, f"t{attempt}")
            a, _ = self._do("create", Statement(table.create(self.r), affected=False))
            if a.error:
                # Both refuse it, for example a key that is too long.
                self.history.pop()
            else:
                self.tables.append(table)
            if len(self.tables) == wanted:
                break

    def _do(self, kind: str, statement: Statement) -> tuple[Outcome, Outcome]:
        self.history.append(statement)
        if self.canary and kind == "delete" and len(self.history) > 200:
            self.canary = False
            a, b = self.pair.run(Statement("DO 0"))
            self.pair.connections[0].query(f"DELETE FROM {self.tables[0].name} LIMIT 1")
        else:
            a, b = self.pair.run(statement)
        self.audit[kind] += 1
        if a.error:
            self.audit[f"error {a.error}"] += 1
        if a.lost() or b.lost():
            raise Failure("the server ended", a, b, [])
        what = difference(statement, a, b)
        if what:
            raise Failure(what, a, b, self.pair.warnings() if what == "warnings" else [])
        return a, b

    def _step(self, generator: Generator) -> None:
        roll = self.r.random()
        if roll < 0.52:
            self._do("select", generator.select())
        elif roll < 0.70:
            self._do("insert", generator.insert())
        elif roll < 0.81:
            self._do("update", generator.update())
        elif roll < 0.875:
            self._do("delete", generator.delete())
        elif roll < 0.90:
            self._do("several tables", generator.several_tables())
        elif roll < 0.984:
            self._transaction()
        elif roll < 0.986:
            self._define("truncate", generator, generator.truncate)
        elif roll < 0.997:
            self._define("alter", generator, generator.alter)
        elif roll < 0.998 and not self.in_transaction:
            self._optimize()
        else:
            self._do("analyze", Statement(f"ANALYZE TABLE {self.r.choice(self.tables).name}",
                                          affected=False, verdict=True))

    def _define(self, kind: str, generator: Generator, make: object) -> None:
        before = copy.deepcopy(self.tables)
        a, _ = self._do(kind, make())  # type: ignore[operator]
        self.in_transaction = False
        if a.error:
            self.tables[:] = before
            generator.tables = self.tables

    def _transaction(self) -> None:
        roll = self.r.random()
        if not self.in_transaction:
            self._do("begin", Statement("BEGIN"))
            self.in_transaction, self.savepoints = True, 0
        elif roll < 0.40:
            self.savepoints += 1
            self._do("savepoint", Statement(f"SAVEPOINT s{self.savepoints}"))
        elif roll < 0.65 and self.savepoints:
            name = self.r.randint(1, self.savepoints)
            self.savepoints = name
            self._do("rollback to", Statement(f"ROLLBACK TO s{name}"))
        else:
            self._end_transaction()

    def _end_transaction(self) -> None:
        if self.in_transaction:
            self._do("end", Statement(self.r.choice(["COMMIT", "COMMIT", "ROLLBACK"])))
            self.in_transaction = False

    def _compare(self) -> None:
        """All rows, by each index, and the engines' own checks."""
        for table in self.tables:
            self._do("compare", Statement(f"SELECT * FROM {table.name}"))
            self._do("compare", Statement(f"SELECT COUNT(*) FROM {table.name}"))
            for index in table.indexes:
                hint = f"FORCE INDEX ({index.name})"
                name = index.parts[0].column.name
                self._do("compare", Statement(
                    f"SELECT * FROM {table.name} {hint} WHERE {name} IS NULL OR {name} IS NOT NULL"))
                for direction in ("", " DESC"):
                    lead = index.parts[0].column
                    if not index.parts[0].prefix:
                        self._do("compare", Statement(
                            f"SELECT {lead.ordered()} FROM {table.name} {hint} "
                            f"ORDER BY {name}{direction}", ordered=True))
            self._do("check", Statement(f"CHECK TABLE {table.name} EXTENDED", affected=False,
                                        verdict=True))


def report(seed: str, number: int, episode: Episode, failure: Failure) -> None:
    statement = episode.history[-1]
    print(f"\nDIFFERENCE in {failure.what}: SEED={seed} episode {number}, "
          f"statement {len(episode.history)}, sql_mode '{episode.mode}'")
    print("last statements:")
    for earlier in episode.history[-4:]:
        print(f"  {earlier.sql[:1500]};")
    _show(statement, failure.a, failure.b, episode.pair.engines)
    for name, text in zip(episode.pair.engines, failure.warnings):
        print(f"warnings of {name}: {text[:800]}")
    print(f"again: SEED={seed} EPISODE={number} scripts/test.sh 70", flush=True)


def _show(statement: Statement, a: Outcome, b: Outcome, engines: tuple[str, str]) -> None:
    for name, outcome in zip(engines, (a, b)):
        print(f"{name}: {outcome.short(statement.ordered)[:3000]}")
    if a.rows is not None and b.rows is not None:
        left, right = Counter(a.rows), Counter(b.rows)
        for name, extra in zip(engines, (left - right, right - left)):
            for row in list(extra)[:4]:
                print(f"only {name}: {row}")


def show_shrunk(pair: Pair, episode: Episode, number: int) -> None:
    small = Pair(pair.server, pair.engines[1], "s")
    statements, found = shrink(small, episode.mode, episode.history, SHRINK_SECONDS)
    if found is None:
        print("the failure does not come again when the statements are replayed")
        print("\n".join(f"  {s.sql};" for s in episode.history if s.sql.startswith("CREATE")))
        print(pair.server.log_end(25), flush=True)
        return
    print(f"shrunk from {len(episode.history)} to {len(statements)} statements ({found.what}):")
    print(f"  SET sql_mode = '{episode.mode}';")
    for statement in statements:
        print(f"  {statement.sql};")
    _show(statements[-1], *found.outcomes, pair.engines)
    if found.what == "the server ended":
        print(pair.server.log_end(60))
    small.close()
    sys.stdout.flush()


def options(tested: str) -> list[str]:
    common = ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
              "--innodb-log-file-size=32M", "--skip-log-bin", "--max-allowed-packet=64M",
              "--innodb-flush-method=fsync", "--innodb-stats-persistent=0"]
    if tested == "Frond":
        # The smallest memory: with it, and by OPTIMIZE, flushes and merges take part.
        common += ["--frond-flush-log-at-commit=0", "--frond-cache-size=8M"]
    return common


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--statements", type=int, default=50_000, help="how many at least")
    parser.add_argument("--seconds", type=float, default=600, help="safety limit")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    parser.add_argument("--episode", type=int)
    parser.add_argument("--name", default="diff")
    parser.add_argument("--canary", action="store_true")
    arguments = parser.parse_args()
    tested, audit, failures = engine(), Counter[str](), 0
    begin = time.monotonic()
    deadline = begin + arguments.seconds
    print(f"SEED={arguments.seed}: {tested} against InnoDB", flush=True)
    try:
        with Server(arguments.name, options(tested)) as server:
            pair = Pair(server, tested)
            number = arguments.episode or 0
            while pair.count < arguments.statements and time.monotonic() < deadline:
                episode = Episode(pair, arguments.seed, number, audit, arguments.canary)
                try:
                    episode.run(deadline)
                except Failure as failure:
                    failures += 1
                    report(arguments.seed, number, episode, failure)
                    if arguments.canary:
                        break
                    show_shrunk(pair, episode, number)
                    if not server.running():
                        server.start()
                    if failures >= FAILURES_MAX:
                        break
                if arguments.episode is not None:
                    break
                number += 1
    except (ServerFailed, pymysql.Error, OSError) as error:
        print(f"the test could not go on: {error}")
        return 2
    spent = time.monotonic() - begin
    print("ran: " + ", ".join(f"{k} {v}" for k, v in sorted(audit.items())))
    print(f"{pair.count} statements on both engines in {spent:.0f} s "
          f"({pair.count / spent:.0f}/s), {failures} differences", flush=True)
    if failures:
        return 1
    if arguments.episode is None and pair.count < arguments.statements:
        print(f"too few: {arguments.statements} statements were wanted within "
              f"{arguments.seconds:.0f} s", flush=True)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

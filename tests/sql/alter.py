"""ALTER TABLE while rows change: connections change rows at random while another alters the table.

    alter.py [--seconds N] [--seed SEED] [--kills N]

A Frond table and an InnoDB table get the same rows and the same definitions. Writers change a row in both, in
one transaction; each has rows of its own, so what they do to one another is what ALTER does. After each round the
two tables have the same rows and columns, the Frond table's indexes agree with its rows, and CHECK TABLE is clean. Some indexes
are CLUSTERING; Frond's table has lived through many instant changes before the first round, and its page size and compression change as well. One half of the time both are children of
tables whose rows the writers change, too, so cascades change their rows; and the parents' columns are renamed. In the other half they are partitioned, or
neither. Now and then they are made anew, and those that are not partitioned get another primary key (the server copies
a partitioned table for that); with foreign keys that is a copy.

With --kills, the server is killed at a random moment of further rounds, in which Frond's table alone is altered.
After the restart the .frm file and the table agree (it can be read), the definition is the one before or the one after
the ALTER, and acknowledged changes of rows are there.

Status: 0 all good, 1 something is wrong, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import threading
import time
from collections import Counter

import pymysql

from server import Server, ServerFailed, rows, run

WRITERS = 3
ROWS_EACH = 300
# A conflict, a deadlock, a lock wait, a definition that has changed: the writer goes on with another row.
AGAIN = (1020, 1213, 1205, 1412)
LOST = (0, 2003, 2006, 2013, 2055, 1053, 2002)
# A duplicate in an index that is to be unique; a change that the engines do not do without a copy.
REFUSED = (1062, 1845, 1846)
COLUMNS_MAX, INDEXES_MAX = 14, 6
CLUSTERING = " CLUSTERING=YES"
# Options of Frond's table: page size and compression of what is written from then on.
PAGES = ("PAGE_SIZE=4096", "PAGE_SIZE=0", "PAGE_SIZE=65536", "COMPRESSION=zstd", "COMPRESSION=none", "COMPRESSION=`default`",
         "COMPRESSION_LEVEL=5", "COMPRESSION=lz4, PAGE_SIZE=8192")
# Instant changes before the first round: more than any table had versions of rows at one time before.
AGES = 90
PARENTS_EACH = 15
# What the tables are, and how often it is aged.
MODES = {"children": AGES, "partitioned": 10, "plain": 10}
# Primary keys. No two rows have the same n.
PRIMARY = ("n", "n, owner", "owner, n")


class Wrong(Exception):
    """A failed expectation."""


class Definition:
    """Columns besides id, owner and n, and indexes; and random changes of them."""

    def __init__(self, r: random.Random, mode: str):
        self.r, self.mode = r, mode
        self.columns: dict[str, str] = {"a": "INT NULL", "s": "VARCHAR(30) NULL"}
        self.indexes: dict[str, tuple[str, bool]] = {"by_a": ("a", False)}
        self.serial = 0
        self.primary = "n"

    def _name(self, kind: str) -> str:
        self.serial += 1
        return f"{kind}{self.serial}"

    def change(self) -> tuple[str, str, "Definition"]:
        """A kind, the clauses, and the definition afterwards."""
        new = Definition(self.r, self.mode)
        new.columns, new.indexes, new.serial = dict(self.columns), dict(self.indexes), self.serial
        new.primary = self.primary
        r, kinds = self.r, ["add index", "add index", "swap index", "add column", "add column", "both", "move",
                            "rename", "widen", "drop column", "drop index", "drop index", "unique", "primary", "primary", "anew"]
        kind = r.choice(kinds)
        indexed = {c for columns, _ in self.indexes.values() for c in columns.replace("(9)", "").split(", ")}
        free = sorted(set(self.columns) - indexed)
        if kind in ("drop index", "swap index") and self.indexes:
            gone = r.choice(sorted(new.indexes))
            del new.indexes[gone]
            clauses = [f"DROP INDEX {gone}"]
            if kind == "swap index":
                clauses.append(new._add_index(gone if r.random() < 0.5 else "", False))
        elif kind in ("move", "rename", "widen", "drop column") and (free or kind == "rename"):
            clauses = [new._change_column(kind, free)]
        elif kind == "add column" and len(self.columns) < COLUMNS_MAX:
            clauses = [new._add_column() for _ in range(r.choice([1, 1, 3]))]
        elif kind == "both" and len(self.columns) < COLUMNS_MAX and len(self.indexes) < INDEXES_MAX:
            clauses = [new._add_column()]
            clauses.append(new._add_index("", False, list(new.columns)[-1:]))
        elif kind == "unique":
            clauses = [new._add_index("", True)]
        elif kind == "primary" and self.mode != "partitioned":
            new.primary = r.choice([key for key in PRIMARY if key != self.primary])
            clauses = ["DROP PRIMARY KEY", f"ADD PRIMARY KEY ({new.primary})"]
            if r.random() < 0.3 and len(self.indexes) < INDEXES_MAX:
                clauses.append(new._add_index("", False))
        elif kind in ("anew", "primary"):
            kind = "anew"
            clauses = ["FORCE"]
        elif len(self.indexes) < INDEXES_MAX:
            kind = "add index"
            clauses = [new._add_index("", False) for _ in range(r.choice([1, 1, 2]))]
        else:
            return self.change()
        return kind, ", ".join(clauses), new

    def _add_index(self, name: str, unique: bool, first: list[str] | None = None) -> str:
        name = name or self._name("k")
        columns = self.r.sample(sorted(self.columns), self.r.choice([1, 1, 2]) if len(self.columns) > 1 else 1)
        columns = (first or []) + [c for c in columns if c not in (first or [])]
        text = ", ".join(c + ("(9)" if "TEXT" in self.columns[c] else "") for c in columns)
        if unique and (self.mode == "partitioned" or self.r.random() < 0.7):
            text += ", n"
        self.indexes[name] = (text, unique)
        option = CLUSTERING if self.r.random() < 0.3 and self.mode != "partitioned" else ""
        return f"ADD {'UNIQUE ' if unique else ''}INDEX {name} ({text}){option}"

    def _add_column(self) -> str:
        name = self._name("c")
        kind = self.r.choice(["INT NULL", "BIGINT NOT NULL DEFAULT 77", "VARCHAR(20) NOT NULL DEFAULT 'none'",
                              "DECIMAL(9,2) DEFAULT 1.25", "CHAR(7) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x'",
                              "VARCHAR(25) CHARACTER SET utf8mb4 DEFAULT NULL", "TEXT NULL", "DOUBLE NOT NULL DEFAULT -0.5",
                              "ENUM('p','q','r') NOT NULL", "DATETIME(3) NOT NULL DEFAULT '2001-02-03 04:05:06.789'",
                              "INT UNSIGNED NOT NULL"])
        self.columns[name] = kind
        return f"ADD COLUMN {name} {kind} {self._place()}"

    def _place(self) -> str:
        return self.r.choice(["", "FIRST", "AFTER id", "AFTER n"])

    def _change_column(self, kind: str, free: list[str]) -> str:
        name = self.r.choice(free if free else sorted(self.columns))
        text = self.columns[name]
        if kind == "rename":
            name = self.r.choice(sorted(self.columns))
            new = self._name("r")
            self.columns = {new if c == name else c: t for c, t in self.columns.items()}
            self.indexes = {k: (", ".join(new + c[len(name):] if c.replace("(9)", "") == name else c
                                          for c in v.split(", ")), u) for k, (v, u) in self.indexes.items()}
            return f"RENAME COLUMN {name} TO {new}"
        if kind == "drop column" and len(self.columns) > 2:
            del self.columns[name]
            return f"DROP COLUMN {name}"
        if kind == "widen" and text.startswith("VARCHAR(") and "(9)" not in text:
            length, rest = text[len("VARCHAR("):].split(")", 1)
            self.columns[name] = text = f"VARCHAR({min(int(length) * 4, 400)}){rest.replace('NOT NULL', 'NULL')}"
        return f"MODIFY COLUMN {name} {text} {self._place()}"


class Writer(threading.Thread):
    """Changes rows of its own in both tables (or in Frond's alone)."""

    def __init__(self, test: "Test", number: int, tables: tuple[str, ...]):
        super().__init__(name=f"writer {number}")
        self.test, self.number, self.tables = test, number, tables
        self.r = random.Random(f"{test.seed}:{number}:{test.rounds}")
        self.stopping, self.problem = False, None
        self.done = self.given_up = 0
        self.slowest = 0.0

    def run(self) -> None:
        try:
            connection = self.test.server.connect("alters", autocommit=False)
            while not self.stopping:
                begin = time.monotonic()
                try:
                    self.step(connection)
                    self.slowest = max(self.slowest, time.monotonic() - begin)
                except pymysql.err.Error as error:
                    if error.args[0] in LOST:
                        return
                    run(connection, "ROLLBACK")
                    # 1062: a unique index is there by now. 1054, 1136: a column is not there any more.
                    if error.args[0] not in AGAIN + (1062, 1054, 1136):
                        raise
                    self.given_up += 1
            connection.close()
        except pymysql.err.Error as error:
            if error.args[0] not in LOST:
                self.problem = error
        except OSError:
            pass

    def step(self, connection: pymysql.Connection) -> None:
        r, test = self.r, self.test
        columns = sorted(test.definition.columns)
        changes = []
        for _ in range(r.choice([1, 1, 1, 4])):
            n = self.number * 100_000 + r.randrange(ROWS_EACH)
            column = r.choice(columns)
            value = r.choice(["NULL", str(r.randrange(3000)), str(r.randrange(20))])
            if value == "NULL" and "NOT NULL" in test.definition.columns.get(column, "NOT NULL"):
                value = "1"
            changes.append(r.choice([
                f"INSERT IGNORE INTO {{}} (n, owner, {column}) VALUES ({n}, {self.number}, {value})",
                f"UPDATE IGNORE {{}} SET {column} = {value} WHERE n = {n}",
                f"UPDATE IGNORE {{}} SET {column} = {value} WHERE n = {n}",
                f"DELETE FROM {{}} WHERE n = {n}"]))
        if test.mode == "children":
            parent, other = (self.number * 1000 + r.randrange(PARENTS_EACH) for _ in range(2))
            n = self.number * 100_000 + r.randrange(ROWS_EACH)
            changes.append(r.choice([
                f"UPDATE IGNORE {{}} SET parent = {parent} WHERE n BETWEEN {n} AND {n + 5}",
                f"INSERT IGNORE INTO p{{}} ({test.key}) VALUES ({parent})",
                f"DELETE FROM p{{}} WHERE {test.key} = {parent}",
                f"UPDATE IGNORE p{{}} SET {test.key} = {other} WHERE {test.key} = {parent}"]))
        # The order of the two decides nothing: nobody else changes these rows.
        for table in self.tables:
            for change in changes:
                run(connection, change.format(table))
        run(connection, "COMMIT")
        self.done += 1


class Test:
    def __init__(self, server: Server, seed: str, mode: str):
        self.server, self.seed, self.mode, self.rounds = server, f"{seed}:{mode}", mode, 0
        self.r = random.Random(f"{self.seed}:alter")
        self.definition = Definition(self.r, mode)
        self.key = "id"
        self.kinds: Counter[str] = Counter()
        self.changes = self.kills = 0
        self.in_place: Counter[str] = Counter()
        self.slowest = 0.0

    def prepare(self) -> None:
        admin = self.server.connect()
        run(admin, "DROP DATABASE IF EXISTS alters")
        run(admin, "CREATE DATABASE alters")
        admin.select_db("alters")
        for table, engine in (("f", "Frond"), ("i", "InnoDB")):
            foreign = partitions = ""
            if self.mode == "children":
                run(admin, f"CREATE TABLE p{table} (id INT NOT NULL PRIMARY KEY, x INT) ENGINE={engine}")
                foreign = (f", parent INT NULL, FOREIGN KEY (parent) REFERENCES p{table} (id) "
                           "ON DELETE CASCADE ON UPDATE CASCADE")
                for writer in range(WRITERS):
                    run(admin, f"INSERT INTO p{table} (id) SELECT {writer * 1000} + seq FROM seq_0_to_{PARENTS_EACH - 1}")
            elif self.mode == "partitioned":
                partitions = " PARTITION BY HASH (n) PARTITIONS 3"
            run(admin, f"CREATE TABLE {table} (id INT NOT NULL DEFAULT 0, n INT NOT NULL PRIMARY KEY, owner INT NOT NULL, "
                       f"a INT NULL, s VARCHAR(30) NULL, KEY by_a (a){foreign}) CHARACTER SET latin1 "
                       f"ENGINE={engine}{partitions}")
            for writer in range(WRITERS):
                run(admin, f"INSERT INTO {table} (n, owner, a, s) SELECT {writer * 100_000} + seq, {writer}, seq MOD 40, "
                           f"CONCAT('row ', seq) FROM seq_0_to_{ROWS_EACH - 1}")
        for age in range(MODES[self.mode]):
            run(admin, f"ALTER TABLE f ADD COLUMN h INT NOT NULL DEFAULT {age} FIRST, ALGORITHM=INSTANT")
            for table in ("f", "i"):
                run(admin, f"UPDATE {table} SET a = {age} WHERE n MOD 100 = {age}")
            run(admin, "ALTER TABLE f DROP COLUMN h, ALGORITHM=INSTANT")
        admin.close()

    def writers(self, tables: tuple[str, ...]) -> list[Writer]:
        writers = [Writer(self, number, tables) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        return writers

    def finish(self, writers: list[Writer]) -> None:
        for writer in writers:
            writer.stopping = True
        for writer in writers:
            writer.join(100)
            if writer.is_alive():
                raise Wrong(f"{writer.name} hangs")
            if writer.problem:
                raise Wrong(f"{writer.name}: {writer.problem}")
            self.changes += writer.done
            self.slowest = max(self.slowest, writer.slowest)

    def round(self) -> None:
        self.rounds += 1
        writers = self.writers(("f", "i"))
        admin = self.server.connect("alters")
        try:
            for _ in range(self.r.randint(1, 5)):
                time.sleep(self.r.random() * 0.1)
                if self.mode == "children" and self.r.random() < 0.15:
                    self.alter_parents(admin)
                else:
                    self.alter(admin)
        finally:
            self.finish(writers)
        self.verify(admin)
        admin.close()

    def options(self) -> str:
        """Now and then options that change with the definition, for Frond alone."""
        return f", {self.r.choice(PAGES)}" if self.r.random() < 0.3 else ""

    def alter(self, admin: pymysql.Connection) -> None:
        """The same change of both tables. When either refuses a UNIQUE index because of its rows, neither keeps it."""
        kind, clauses, after = self.definition.change()
        options = self.options()
        self.kinds["options"] += bool(options)
        for attempt in range(20):
            try:
                how = "COPY" if self.r.random() < 0.1 else "INPLACE" if kind in ("primary", "anew") else "NOCOPY"
                try:
                    run(admin, f"ALTER TABLE f {clauses}{options}, ALGORITHM={how}")
                    self.in_place[how] += 1
                except pymysql.err.Error as error:
                    if error.args[0] not in (1845, 1846):
                        raise
                    run(admin, f"ALTER TABLE f {clauses}{options}")
                    self.in_place[f"COPY after all: {kind}"] += 1
                break
            except pymysql.err.Error as error:
                if error.args[0] == 1062 and "UNIQUE" in clauses:
                    self.kinds[f"{kind} refused"] += 1
                    return
                if error.args[0] not in AGAIN or attempt == 19:
                    raise Wrong(f"ALTER TABLE f {clauses}: {error}") from error
        for attempt in range(20):
            try:
                run(admin, f"ALTER TABLE i {clauses.replace(CLUSTERING, '')}")
                break
            except pymysql.err.Error as error:
                if error.args[0] == 1062 and "UNIQUE" in clauses:
                    # A writer came in between; in f its row was refused, so f's and i's differ: take it back.
                    run(admin, f"ALTER TABLE f DROP INDEX {list(after.indexes)[-1]}")
                    self.kinds[f"{kind} taken back"] += 1
                    return
                if error.args[0] not in AGAIN or attempt == 19:
                    raise Wrong(f"ALTER TABLE i {clauses}: {error}") from error
        self.definition = after
        self.kinds[kind] += 1

    def alter_parents(self, admin: pymysql.Connection) -> None:
        """Their key gets another name, and Frond's an index more or less. In between writers meet an unknown column."""
        new = f"id{self.rounds}" if self.key == "id" else "id"
        more = self.r.choice(["", ", ADD COLUMN y INT DEFAULT 4 FIRST, DROP COLUMN x", ", ADD INDEX IF NOT EXISTS (x)"])
        if more and not rows(admin, "SHOW COLUMNS FROM pf LIKE 'x'"):
            more = ""
        for table, clauses in (("pf", more), ("pi", "")):
            for attempt in range(20):
                try:
                    run(admin, f"ALTER TABLE {table} RENAME COLUMN {self.key} TO {new}{clauses}")
                    break
                except pymysql.err.Error as error:
                    if error.args[0] not in AGAIN or attempt == 19:
                        raise Wrong(f"ALTER TABLE {table} RENAME COLUMN{clauses}: {error}") from error
        self.key = new
        self.kinds["parents"] += 1

    def verify_parents(self, admin: pymysql.Connection, pair: bool) -> None:
        if pair and rows(admin, f"SELECT {self.key} FROM pf ORDER BY 1") != rows(admin, f"SELECT {self.key} FROM pi ORDER BY 1"):
            raise Wrong("the parents differ")
        lost = rows(admin, f"SELECT n, parent FROM f LEFT JOIN pf ON pf.{self.key} = parent "
                           f"WHERE parent IS NOT NULL AND pf.{self.key} IS NULL")
        if lost:
            raise Wrong(f"children without parents: {lost[:5]}")
        verdict = rows(admin, "CHECK TABLE pf EXTENDED")
        if verdict[-1][3] != b"OK":
            raise Wrong(f"CHECK TABLE: {verdict}")

    def verify(self, admin: pymysql.Connection, pair: bool = True) -> None:
        if self.mode == "children":
            self.verify_parents(admin, pair)
        columns = {t: [r[0] for r in rows(admin, f"SHOW COLUMNS FROM {t}")] for t in ("f", "i")}
        if pair and columns["f"] != columns["i"]:
            raise Wrong(f"columns: {columns}")
        all_rows = {t: rows(admin, f"SELECT * FROM {t} ORDER BY n") for t in ("f", "i")}
        if pair and all_rows["f"] != all_rows["i"]:
            differ = [(a, b) for a, b in zip(all_rows["f"], all_rows["i"]) if a != b]
            if not self.uniques_refused():
                raise Wrong(f"rows: {len(all_rows['f'])} and {len(all_rows['i'])}, the first that differ: {differ[:2]}")
        verdict = rows(admin, "CHECK TABLE f EXTENDED")
        if verdict[-1][3] != b"OK":
            raise Wrong(f"CHECK TABLE: {verdict}")
        self.verify_pages(admin)
        keys = {r[2].decode(): r[4].decode() for r in rows(admin, "SHOW INDEX FROM f") if r[3] == b"1"}
        # Of all columns: those of a clustering index come from it alone.
        whole = sorted(all_rows["f"], key=repr)
        for key in keys:
            if key == "PRIMARY":
                continue
            by_key = rows(admin, f"SELECT * FROM f FORCE INDEX ({key}) WHERE {keys[key]} IS NULL OR {keys[key]} IS NOT NULL")
            if sorted(by_key, key=repr) != whole:
                differ = [r for r in by_key if r not in all_rows["f"]]
                raise Wrong(f"index {key}: {len(by_key)} rows of {len(whole)}, not right: {differ[:2]}")

    def verify_pages(self, admin: pymysql.Connection) -> None:
        """The engine's definition has the options that the .frm file has."""
        text = self.shape(admin).decode()
        size, method = (re.search(rf"[ (]`?{option}`?=`?(\w+)", text) for option in ("PAGE_SIZE", "COMPRESSION"))
        page = size[1] if size and size[1] != "0" else "16384"
        compression = method[1].lower() if method and method[1].lower() != "default" else "lz4"
        found = {(r[0].decode(), r[1].decode()) for r in rows(
            admin, "SELECT PAGE_SIZE, COMPRESSION FROM information_schema.FROND_INDEXES WHERE TABLE_SCHEMA = 'alters' "
                   "AND (TABLE_NAME = 'f' OR TABLE_NAME LIKE 'f#P#%')")}
        if found != {(page, compression)}:
            raise Wrong(f"page size and compression: {found}, by the .frm file {page} and {compression}: {text}")

    def uniques_refused(self) -> bool:
        """Between the two ALTERs of a UNIQUE index a row may be refused in one table alone: i gets f's rows."""
        if not self.kinds["unique"]:
            return False
        admin = self.server.connect("alters")
        run(admin, "DELETE FROM i")
        run(admin, "INSERT INTO i SELECT * FROM f")
        admin.close()
        return True

    # ---- kills ----

    def kill(self) -> None:
        self.rounds += 1
        admin = self.server.connect("alters")
        stamp = self.r.randrange(1 << 30)
        run(admin, f"REPLACE INTO f (n, owner, id) VALUES (-1, 0, {stamp})")
        before = self.shape(admin)
        kind, clauses, after = self.definition.change()
        # Some changes would leave everything as it is.
        clauses += f", COMMENT 'round {self.rounds}'{self.options()}"
        writers = self.writers(("f",))
        answered: list[bool] = []

        def change() -> None:
            try:
                connection = self.server.connect("alters")
                run(connection, f"ALTER TABLE f {clauses}")
                answered.append(True)
            except pymysql.err.Error as error:
                if error.args[0] not in LOST:
                    answered.append(False)
            except OSError:
                pass

        thread = threading.Thread(target=change)
        time.sleep(self.r.random() * 0.05)
        thread.start()
        time.sleep(self.r.random() ** 2 * 0.05)
        self.server.kill()
        thread.join(100)
        self.finish(writers)
        self.server.start()
        self.kills += 1
        admin = self.server.connect("alters")
        try:
            now = self.shape(admin)
            there = rows(admin, "SELECT id FROM f WHERE n = -1")
        except pymysql.err.Error as error:
            raise Wrong(f"after a kill in ALTER TABLE f {clauses}: {error}") from error
        changed = now != before
        if answered and changed != answered[0]:
            raise Wrong(f"ALTER TABLE f {clauses}: answered {answered[0]}, the definition is {now}")
        if [int(r[0]) for r in there] != [stamp]:
            raise Wrong(f"an acknowledged row is lost: {there}, {stamp}")
        if changed:
            self.definition = after
        self.kinds[f"{kind}, killed {'behind' if changed else 'before'}"] += 1
        self.verify(admin, pair=False)
        admin.close()

    def shape(self, admin: pymysql.Connection) -> bytes:
        return rows(admin, "SHOW CREATE TABLE f")[0][1]


OPTIONS = ["--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=3", "--lock-wait-timeout=20",
           "--frond-flush-log-at-commit=1", "--frond-cache-size=8M", "--frond-log-segment-size=1M",
           "--frond-log-capacity=16M", "--frond-lock-wait-timeout=3", "--innodb-flush-log-at-trx-commit=0",
           "--transaction-isolation=READ-COMMITTED", "--binlog-format=ROW", "--sql-mode="]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}", flush=True)
    problem, passed = "", 0
    with Server("alter", OPTIONS) as server:
        for mode in MODES:
            test, begin = Test(server, arguments.seed, mode), time.monotonic()
            try:
                test.prepare()
                while time.monotonic() - begin < arguments.seconds / len(MODES) or test.rounds < 4:
                    test.round()
                for _ in range(arguments.kills // len(MODES)):
                    test.kill()
            except (Wrong, ServerFailed, pymysql.Error) as error:
                problem = f"{mode}, round {test.rounds}: {type(error).__name__} {error}\n{server.log_end()}"
            passed += test.rounds - bool(problem)
            print(f"{mode}: {test.changes} changes of rows, the slowest {test.slowest * 1000:.0f} ms; {test.kills} kills; "
                  f"how: {dict(test.in_place)}")
            print(", ".join(f"{kind} {n}" for kind, n in sorted(test.kinds.items())), flush=True)
            if problem:
                break
    if problem:
        print(f"FAILED in {problem}\nagain: SEED={arguments.seed} scripts/test.sh 81")
    print(f"{passed} passed, {1 if problem else 0} failed")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())

"""The clients of the crash tests: each remembers its acknowledged changes and verifies them.

A statement's answer can be lost with the server. A transaction without an answer is in doubt: it
may exist whole or not at all.
"""

from __future__ import annotations

import itertools
import random
import threading
import time

import pymysql

from anomalies import Transaction
from server import Server, engine, rows, run

LOST = (0, 2006, 2013, 2055, 1053, 2003, 2002)
# Record changed, deadlock, lock wait: the client gives the transaction up.
RETRIED = (1020, 1213, 1205)

ACCOUNTS = 60
START_BALANCE = 1000
LISTS = 12
_numbers = itertools.count(1)


class Problem(Exception):
    """A broken promise of the engine."""


class Client:
    """One connection in one thread, between a start and a kill of the server."""

    # Errors that are an answer like any other, for example a full disk.
    tolerated: tuple[int, ...] = ()

    def __init__(self, server: Server, seed: str, number: int):
        self.server, self.number = server, number
        self.r = random.Random(f"{seed}:{type(self).__name__}:{number}")
        self.acknowledged = 0
        self.refused = 0
        self.problem: BaseException | None = None

    def prepare(self, admin: pymysql.Connection) -> None:
        raise NotImplementedError

    def step(self) -> None:
        raise NotImplementedError

    def verify(self, admin: pymysql.Connection) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        self.stopping = False
        self.thread = threading.Thread(target=self._loop, name=type(self).__name__)
        self.thread.start()

    def end(self) -> None:
        """After the kill (or to stop): waits for the thread; returns its unexpected errors."""
        self.stopping = True
        self.thread.join(100)
        if self.thread.is_alive():
            raise Problem(f"client {self.number} hangs")
        if self.problem:
            raise Problem(f"client {self.number}, {type(self).__name__}: {self.problem}")

    def summary(self) -> str:
        refused = f" ({self.refused} refused)" if self.refused else ""
        return f"{type(self).__name__.lower()} {self.acknowledged}{refused}"

    def _loop(self) -> None:
        try:
            self.connection = self.server.connect("kill9", autocommit=False)
            while not self.stopping:
                try:
                    self.step()
                except pymysql.err.Error as error:
                    if error.args[0] in LOST:
                        return
                    if error.args[0] not in RETRIED + self.tolerated:
                        raise
                    run(self.connection, "ROLLBACK")
                    if error.args[0] in self.tolerated:
                        self.refused += 1
                        time.sleep(0.02)
            self.connection.close()
        except pymysql.err.Error as error:
            if error.args[0] not in LOST:
                self.problem = error
        except OSError:
            pass
        except BaseException as error:  # pylint: disable=broad-except
            self.problem = error


class Bank(Client):
    """Moves money. Transfers are not remembered: the sum is checked, and the index has to agree."""

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, "CREATE TABLE kill9.accounts (id INT PRIMARY KEY, owner INT NOT NULL, balance BIGINT "
                   "NOT NULL, moves INT NOT NULL DEFAULT 0, note VARCHAR(300) NOT NULL DEFAULT '', "
                   f"KEY by_owner (owner, balance)) ENGINE={engine()}")
        run(admin, "INSERT INTO kill9.accounts (id, owner, balance) SELECT seq, seq MOD 7, "
                   f"{START_BALANCE} FROM seq_1_to_{ACCOUNTS}")

    def step(self) -> None:
        source, target = self.r.sample(range(1, ACCOUNTS + 1), 2)
        amount = self.r.randint(1, 50)
        note = "n" * self.r.randint(0, 300)
        for account, change in ((source, -amount), (target, amount)):
            run(self.connection, f"UPDATE accounts SET balance = balance + ({change}), "
                                 f"moves = moves + 1, note = '{note}' WHERE id = {account}")
        run(self.connection, "COMMIT")
        self.acknowledged += 1

    def verify(self, admin: pymysql.Connection) -> None:
        by_row = rows(admin, "SELECT id, owner, balance FROM accounts FORCE INDEX (PRIMARY)")
        by_index = rows(admin, "SELECT id, owner, balance FROM accounts FORCE INDEX (by_owner) "
                               "WHERE owner >= 0")
        if sorted(by_row) != sorted(by_index):
            raise Problem(f"by_owner and the rows differ: {set(by_row) ^ set(by_index)}")
        total = sum(int(row[2]) for row in by_row)
        if len(by_row) != ACCOUNTS or total != ACCOUNTS * START_BALANCE:
            raise Problem(f"{len(by_row)} accounts with {total} in sum")
        moves = int(rows(admin, "SELECT SUM(moves) FROM accounts")[0][0])
        if moves % 2:
            raise Problem(f"{moves} moves: half a transfer is there")


class Lists(Client):
    """Appends numbers to lists, a few in one transaction."""

    def __init__(self, server: Server, seed: str, number: int):
        super().__init__(server, seed, number)
        self.transactions: list[Transaction] = []

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, f"CREATE TABLE kill9.lists (id INT PRIMARY KEY, v LONGTEXT NOT NULL) ENGINE={engine()}")
        run(admin, f"INSERT INTO kill9.lists SELECT seq, '' FROM seq_1_to_{LISTS}")

    def step(self) -> None:
        t = Transaction(next(_numbers), self.number, time.monotonic(), 0, "aborted")
        self.transactions.append(t)
        try:
            for _ in range(self.r.randint(1, 3)):
                key, number = self.r.randint(1, LISTS), next(_numbers)
                t.operations.append(["append", key, number])
                run(self.connection, f"UPDATE lists SET v = CONCAT(v, ',{number}') WHERE id = {key}")
            t.status = "unknown"
            run(self.connection, "COMMIT")
            t.status = "ok"
            self.acknowledged += 1
        except pymysql.err.Error as error:
            # A COMMIT that was refused is undone; one that was not answered is in doubt.
            if error.args[0] in RETRIED + self.tolerated:
                t.status = "aborted"
            raise
        finally:
            t.end = time.monotonic()

    def verify(self, admin: pymysql.Connection) -> None:
        """Settles which transactions in doubt are there; the driver checks all lists."""
        text = b",".join(v for _, v in rows(admin, "SELECT id, v FROM lists"))
        there = {int(n) for n in text.split(b",") if n}
        for t in self.transactions:
            if t.status == "unknown":
                numbers = {o[2] for o in t.operations}
                if numbers <= there:
                    t.status = "ok"
                elif not numbers & there:
                    t.status = "aborted"
                else:
                    raise Problem(f"a part of a transaction: {numbers & there} of {numbers}")


class Ledger(Client):
    """Appends rows and deletes old ones; every acknowledged row is there until it is deleted."""

    def __init__(self, server: Server, seed: str, number: int):
        super().__init__(server, seed, number)
        self.present: dict[int, int] = {}
        self.doubt: tuple[set[int], set[int]] = (set(), set())
        self.largest = 0

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, "CREATE TABLE kill9.ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, mark BIGINT NOT NULL, "
                   "body TEXT NOT NULL, UNIQUE KEY by_mark (mark), KEY by_body (body(20)), KEY pair "
                   f"(mark, id)) ENGINE={engine()}")

    def step(self) -> None:
        made = {next(_numbers) for _ in range(self.r.choice([1, 1, 5, 50]))}
        gone = {m for m in sorted(self.present)[:3] if len(self.present) > 2000 or self.r.random() < 0.1}
        if self.r.random() < 0.2:
            # The newest go: then only the counter knows which numbers were given.
            gone |= set(sorted(self.present)[-60:])
        values = ", ".join(f"({m}, REPEAT('{m} ', {self.r.randint(0, 80)}))" for m in sorted(made))
        self.doubt = (set(), set())
        run(self.connection, f"INSERT INTO ledger (mark, body) VALUES {values}")
        given = self.connection.insert_id() + len(made) - 1
        if gone:
            run(self.connection, f"DELETE FROM ledger WHERE mark IN ({', '.join(map(str, gone))})")
        self.doubt = (made, gone)
        run(self.connection, "COMMIT")
        self._settle(True)
        self.largest = max(self.largest, given)
        self.acknowledged += 1

    def _settle(self, happened: bool) -> None:
        made, gone = self.doubt
        if happened:
            self.present.update(dict.fromkeys(made, 0))
            for mark in gone:
                del self.present[mark]
        self.doubt = (set(), set())

    def verify(self, admin: pymysql.Connection) -> None:
        there = {int(row[0]) for row in rows(admin, "SELECT mark FROM ledger FORCE INDEX (PRIMARY)")}
        by_index = {int(row[0]) for row in rows(admin, "SELECT mark FROM ledger FORCE INDEX (by_mark) "
                                                       "WHERE mark > 0")}
        if there != by_index:
            raise Problem(f"by_mark and the rows differ: {sorted(there ^ by_index)[:9]}")
        made, _ = self.doubt
        if made:
            self._settle(bool(made & there))
        if there != set(self.present):
            lost, extra = set(self.present) - there, there - set(self.present)
            raise Problem(f"ledger: lost {sorted(lost)[:9]}, too many {sorted(extra)[:9]}")
        largest = int(rows(admin, "SELECT COALESCE(MAX(id), 0) FROM ledger")[0][0])
        self.largest = max(self.largest, largest)
        try:
            run(admin, "INSERT INTO ledger (mark, body) VALUES (0, '')")
        except pymysql.err.Error as error:
            if error.args[0] in self.tolerated:
                return
            raise
        fresh = int(rows(admin, "SELECT id FROM ledger WHERE mark = 0")[0][0])
        run(admin, "DELETE FROM ledger WHERE mark = 0")
        if fresh <= self.largest:
            raise Problem(f"AUTO_INCREMENT gave {fresh} after {self.largest}")
        self.largest = fresh


class Define(Client):
    """Defines tables. After a kill, a table is as before or as after the statement in doubt.

    Partitioned tables have an x in their names, until they have no partitions. They are not copied to other partitioned ones,
    renamed or truncated: the server does not finish these after a kill, with InnoDB either."""

    def __init__(self, server: Server, seed: str, number: int):
        super().__init__(server, seed, number)
        # The one that is known, and those that the statement in doubt may have made of it.
        self.states: list[frozenset[tuple[str, int]]] = [frozenset()]
        self.serial = 0

    def prepare(self, admin: pymysql.Connection) -> None:
        pass

    def step(self) -> None:
        now = dict(self.states[0])
        name = self.r.choice(sorted(now)) if now and self.r.random() < 0.7 else ""
        if not name:
            self._create(now)
            return
        partitions = self._partitions(name) if "x" in name else []
        if partitions:
            self._change_partitions(now, name, partitions)
            return
        kind = self.r.choice(["alter", "alter", "truncate", "rename", "swap", "replace", "drop", "drop"])
        rest = {k: v for k, v in now.items() if k != name}
        plain = [other for other in sorted(rest) if "x" not in other]
        if kind == "alter":
            self.serial += 1
            change = self.r.choice([f"ADD KEY k{self.serial} (c, b)", "ENGINE=" + engine(), "FORCE",
                                    f"ADD COLUMN d{self.serial} INT NOT NULL DEFAULT 7 FIRST"])
            self._run(f"ALTER TABLE {name} {change}", now)
        elif kind == "truncate":
            self._run(f"TRUNCATE TABLE {name}", rest | {name: 0})
        elif kind == "rename":
            other = self._name()
            self._run(f"RENAME TABLE {name} TO {other}", rest | {other: now[name]})
        elif kind == "swap" and plain:
            other, between = self.r.choice(plain), self._name()
            self._run(f"RENAME TABLE {name} TO {between}, {other} TO {name}, {between} TO {other}",
                      rest | {name: now[other], other: now[name]})
        elif kind == "replace":
            self._run(f"CREATE OR REPLACE TABLE {name} {self.COLUMNS} ENGINE={engine()}", rest | {name: 0}, rest)
        else:
            self._run(f"DROP TABLE {name}", rest)

    COLUMNS = "(a INT PRIMARY KEY, b INT, c VARCHAR(50), KEY (b))"

    def _name(self, mark: str = "") -> str:
        self.serial += 1
        return f"made{self.number}_{mark}{self.serial}"

    def _create(self, now: dict[str, int]) -> None:
        partitioned = self.r.random() < 0.4
        name = self._name("x" if partitioned else "")
        ranges = ("PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (250), PARTITION p1 VALUES LESS THAN (1000))"
                  if partitioned else "")
        self._run(f"CREATE TABLE {name} {self.COLUMNS} ENGINE={engine()} {ranges}", now | {name: 0})
        self._run(f"INSERT INTO {name} SELECT seq, seq MOD 10, 'text' FROM seq_1_to_500", now | {name: 500})

    def _partitions(self, name: str) -> list[str]:
        return [row[0].decode() for row in rows(
            self.connection, "SELECT partition_name FROM information_schema.partitions WHERE table_schema = 'kill9' "
                             f"AND table_name = '{name}' AND partition_name IS NOT NULL")]

    def _change_partitions(self, now: dict[str, int], name: str, partitions: list[str]) -> None:
        kind = self.r.choice(["reorganize", "exchange", "exchange", "remove", "remove", "drop"])
        if kind == "reorganize":
            change = ("p1, p2 INTO (PARTITION p1 VALUES LESS THAN (1000))" if "p2" in partitions else
                      "p1 INTO (PARTITION p1 VALUES LESS THAN (400), PARTITION p2 VALUES LESS THAN (1000))")
            self._run(f"ALTER TABLE {name} REORGANIZE PARTITION {change}", now)
        elif kind == "exchange":
            other = self._name("x")
            self._run(f"CREATE TABLE {other} LIKE {name}", now | {other: 0})
            self._run(f"ALTER TABLE {other} REMOVE PARTITIONING", now | {other: 0})
            moved = int(rows(self.connection, f"SELECT COUNT(*) FROM {name} PARTITION (p0)")[0][0])
            self._run(f"ALTER TABLE {name} EXCHANGE PARTITION p0 WITH TABLE {other}",
                      now | {name: now[name] - moved, other: moved})
        elif kind == "remove":
            self._run(f"ALTER TABLE {name} REMOVE PARTITIONING", now)
        else:
            self._run(f"DROP TABLE {name}", {k: v for k, v in now.items() if k != name})

    def _run(self, sql: str, *after: dict[str, int]) -> None:
        self.states[1:] = [frozenset(state.items()) for state in after]
        self.last = sql
        try:
            run(self.connection, sql)
            run(self.connection, "COMMIT")
        except pymysql.err.Error as error:
            if error.args[0] in RETRIED + self.tolerated:
                del self.states[1:]
            elif error.args[0] not in LOST:
                raise Problem(f"{sql}: {error}") from error
            raise
        self.states = self.states[1:2]
        self.acknowledged += 1

    def verify(self, admin: pymysql.Connection) -> None:
        names = sorted(row[0].decode() for row in rows(
            admin, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'kill9' "
                   f"AND table_name LIKE 'made{self.number}\\_%'"))
        found = {}
        for name in names:
            try:
                found[name] = int(rows(admin, f"SELECT COUNT(*) FROM {name}")[0][0])
                by_index = int(rows(admin, f"SELECT COUNT(*) FROM {name} FORCE INDEX (b) "
                                           "WHERE b >= 0")[0][0])
                verdict = rows(admin, f"CHECK TABLE {name} EXTENDED")[-1][3]
            except pymysql.err.Error as error:
                raise Problem(f"table {name} after '{self.last}': {error}") from error
            if by_index != found[name] or verdict != b"OK":
                raise Problem(f"table {name} after '{self.last}': {found[name]} rows, {by_index} in an "
                              f"index, CHECK TABLE {verdict!r}")
        now = frozenset(found.items())
        if now not in self.states:
            raise Problem(f"tables after '{self.last}': {sorted(now)}, expected one of "
                          f"{[sorted(s) for s in self.states]}")
        self.states = [now]
        left = self._left(admin)
        if left and "REMOVE PARTITIONING" in self.last:
            # The server's DDL log names the old table but not its partitions: the start reports them, and says to drop them so.
            for name in {name.partition("#P#")[0] for name in left}:
                run(admin, f"DROP TABLE `{name}`")
            left = self._left(admin)
        if left:
            raise Problem(f"left in the engine after '{self.last}': {left}")

    @staticmethod
    def _left(admin: pymysql.Connection) -> list[str]:
        """The tables in the engine that have names of the server's for the course of a statement."""
        if engine() != "Frond":
            return []
        return [row[0].decode() for row in rows(
            admin, "SELECT DISTINCT table_name FROM information_schema.FROND_INDEXES WHERE table_schema = 'kill9' "
                   "AND table_name LIKE '#mysql50##sql%'")]

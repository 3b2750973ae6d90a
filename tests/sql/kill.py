"""KILL at any time: statements of every kind are killed at random moments, by KILL QUERY and by KILL CONNECTION.

    kill.py [--seconds N] [--seed SEED]

A killed statement ends soon, changed everything or nothing, and leaves no lock, no table and no damage behind.
The state of the table (rows, their sum, columns, keys) is known before each statement, and what it would be
after it; the answer says which of the two it has to be, and a connection that was killed may have either.

The run fails as well when too few statements, or too few kinds of them, were under way when they were killed.

Status: 0 all good, 1 something is wrong, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace

import pymysql

from server import Server, ServerFailed, rows, run

ROWS = 30_000
ENDS_WITHIN = 5.0
INTERRUPTED = 1317
GONE = (2006, 2013, 0, 1927, 1053)
KINDS_MIN, KILLED_MIN = 8, 40


class Wrong(Exception):
    """A failed expectation."""


@dataclass(frozen=True)
class State:
    rows: int
    total: int
    columns: int
    keys: int


@dataclass
class Work:
    """A statement and its effect on the state."""
    kind: str
    sql: str
    after: State
    # Statements before it, in a transaction that is rolled back.
    begin: tuple[str, ...] = ()
    # A lock that another transaction holds meanwhile.
    blocked: str = ""


class Test:
    def __init__(self, server: Server, seed: str):
        self.server = server
        self.r = random.Random(seed)
        self.admin = server.connect()
        self.killed = Counter[str]()
        self.done = Counter[str]()
        self.slowest = 0.0
        # How long a statement of a kind took, for kills that meet it.
        self.took: dict[str, float] = {}

    def prepare(self) -> None:
        run(self.admin, "CREATE DATABASE k")
        self.admin.select_db("k")
        run(self.admin, "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, w VARCHAR(60), KEY (v)) ENGINE=Frond")
        run(self.admin, "INSERT INTO t SELECT seq, seq % 1000, CONCAT('text of some length ', seq) "
                        f"FROM seq_1_to_{ROWS}")
        run(self.admin, "CREATE TABLE other (id INT PRIMARY KEY, v INT) ENGINE=Frond")
        run(self.admin, "SET frond_lock_wait_timeout = 5")

    def state(self) -> State:
        count, total = rows(self.admin, "SELECT COUNT(*), SUM(v) FROM k.t IGNORE INDEX (v)")[0]
        by_index = rows(self.admin, "SELECT COUNT(*), SUM(v) FROM k.t FORCE INDEX (v) WHERE v >= -1")[0]
        if (count, total) != by_index:
            raise Wrong(f"the rows say {count} and {total}, the index {by_index}")
        columns = rows(self.admin, "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'k' "
                                   "AND table_name = 't'")[0][0]
        keys = rows(self.admin, "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = 'k' "
                                "AND table_name = 't'")[0][0]
        return State(int(count), int(total), int(columns), int(keys))

    def works(self, s: State) -> list[Work]:
        more = s.rows > ROWS
        insert = (Work("delete", "DELETE FROM t WHERE id > 1000000",
                       replace(s, rows=ROWS, total=s.total // 2)) if more else
                  Work("big insert", "INSERT INTO t (id, v, w) SELECT id + 1000000, v, w FROM t",
                       replace(s, rows=2 * ROWS, total=2 * s.total)))
        column = (Work("alter", "ALTER TABLE t DROP COLUMN x, ALGORITHM=COPY", replace(s, columns=3))
                  if s.columns > 3 else
                  Work("alter", "ALTER TABLE t ADD COLUMN x INT DEFAULT 7, ALGORITHM=COPY", replace(s, columns=4)))
        key = (Work("drop key", "ALTER TABLE t DROP KEY w", replace(s, keys=2)) if s.keys > 2 else
               Work("add key", "ALTER TABLE t ADD KEY w (w)", replace(s, keys=3)))
        return [
            insert, column, key,
            Work("update", "UPDATE t SET v = v + 1", replace(s, total=s.total + s.rows)),
            Work("update of keys", "UPDATE t SET id = id + 5000000 WHERE id <= 1000000 ORDER BY id DESC", s,
                 begin=("BEGIN",)),
            Work("condition on the index", "SELECT COUNT(w) FROM t FORCE INDEX (v) WHERE v >= 0 AND v % 1000003 = 1000002",
                 s),
            Work("long scan", "SELECT SUM(a.v + b.v) FROM t a JOIN t b ON b.id = a.id + 1 JOIN t c ON c.id = b.id", s),
            Work("locking scan", "SELECT SUM(v) FROM t FOR UPDATE", s, begin=("BEGIN",)),
            Work("lock wait", "UPDATE t SET v = v + 1", s, blocked="SELECT * FROM t WHERE id = 5 FOR UPDATE"),
            Work("wait of an insert", "INSERT INTO other VALUES (1, 1)", s,
                 blocked="INSERT INTO other VALUES (1, 2)"),
            Work("create select", "CREATE OR REPLACE TABLE copied (KEY (v)) ENGINE=Frond SELECT * FROM t", s),
            Work("group commit", "UPDATE t SET v = v + 3", s, begin=("BEGIN", "UPDATE t SET v = v + 1", "SAVEPOINT a")),
            Work("check", "CHECK TABLE t", s),
            Work("optimize", "OPTIMIZE TABLE t", s),
        ]

    def one(self) -> None:
        before = self.state()
        work = self.r.choice(self.works(before))
        connection = self.server.connect("k")
        blocker = None
        if work.blocked:
            blocker = self.server.connect("k")
            run(blocker, "BEGIN")
            rows(blocker, work.blocked) if work.blocked.startswith("SELECT") else run(blocker, work.blocked)
        for sql in work.begin:
            run(connection, sql)
        answer: list[int] = []

        def statement() -> None:
            try:
                rows(connection, work.sql)
                answer.append(-1)
            except (pymysql.Error, OSError) as error:
                answer.append(error.args[0] if error.args and isinstance(error.args[0], int) else 0)

        soft = self.r.random() < 0.6
        number = connection.thread_id()
        start = time.monotonic()
        thread = threading.Thread(target=statement)
        thread.start()
        expected = 0.3 if work.blocked else self.took.get(work.kind, 0.2)
        time.sleep(expected * self.r.random())
        under_way = thread.is_alive()
        kill = time.monotonic()
        try:
            run(self.admin, f"KILL {'QUERY' if soft else 'CONNECTION'} {number}")
        except pymysql.Error as error:
            if error.args[0] != 1094:
                raise
        thread.join(60)
        spent = time.monotonic() - kill
        if thread.is_alive() or (spent > ENDS_WITHIN and answer[0] != -1):
            raise Wrong(f"{work.kind}: ended {spent:.1f} s after the KILL: {work.sql}")
        if answer[0] == -1:
            self.took[work.kind] = max(0.01, time.monotonic() - start)
        elif under_way:
            self.killed[work.kind] += 1
            self.slowest = max(self.slowest, spent)
        self.done[work.kind] += 1
        self._judge(work, before, answer[0], soft, connection)
        if blocker:
            run(blocker, "ROLLBACK")
            blocker.close()

    def _judge(self, work: Work, before: State, answer: int, soft: bool, connection: pymysql.Connection) -> None:
        allowed = {-1, INTERRUPTED} if soft else {-1, INTERRUPTED, *GONE}
        if answer not in allowed:
            raise Wrong(f"{work.kind}: error {answer}: {work.sql}")
        if work.begin and soft:
            # The transaction goes on after KILL QUERY.
            rows(connection, "SELECT COUNT(*) FROM t WHERE id < 10")
            run(connection, "ROLLBACK")
        try:
            connection.close()
        except (pymysql.Error, OSError):
            pass
        if not work.blocked:
            self._no_locks_left(work)
        now = self.state()
        possible = {-1: {work.after}, INTERRUPTED: {before}}.get(answer, {before, work.after})
        if answer == INTERRUPTED and work.kind in ("alter", "add key", "drop key"):
            # The KILL may come when the tables have changed places already.
            possible = {before, work.after}
        if now not in possible:
            raise Wrong(f"{work.kind}: answer {answer}, {before} became {now}: {work.sql}")

    def _no_locks_left(self, work: Work) -> None:
        run(self.admin, "BEGIN")
        try:
            rows(self.admin, "SELECT COUNT(*) FROM k.t FOR UPDATE")
        except pymysql.Error as error:
            raise Wrong(f"{work.kind}: locks are left: {error}") from error
        finally:
            run(self.admin, "ROLLBACK")

    def finish(self) -> None:
        for table in ("t", "other"):
            verdict = rows(self.admin, f"CHECK TABLE k.{table} EXTENDED")[-1]
            if verdict[3] != b"OK":
                raise Wrong(f"CHECK TABLE {table}: {verdict}")
        run(self.admin, "DROP TABLE IF EXISTS k.copied")
        status = rows(self.admin, "SHOW ENGINE FROND STATUS")[0][2].decode()
        trees = {line.split()[0] for line in status.split("TREES", 1)[1].splitlines() if line.startswith("k/")}
        if trees != {"k/t", "k/other"}:
            raise Wrong(f"tables are left behind: {sorted(trees)}")
        files = sorted(p.name for p in (self.server.data() / "k").iterdir() if p.suffix == ".frm")
        if files != ["other.frm", "t.frm"]:
            raise Wrong(f"files are left behind: {files}")
        if len(self.killed) < KINDS_MIN or sum(self.killed.values()) < KILLED_MIN:
            raise Wrong(f"too few statements were under way when they were killed: {dict(self.killed)}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}", flush=True)
    options = ["--frond-cache-size=64M", "--skip-log-bin", "--frond-flush-log-at-commit=0"]
    passed, failed = 0, 0
    try:
        with Server("kill", options) as server:
            test = Test(server, arguments.seed)
            test.prepare()
            end = time.monotonic() + arguments.seconds
            try:
                while time.monotonic() < end:
                    test.one()
                    passed += 1
                test.finish()
                passed += 1
            except Wrong as wrong:
                failed += 1
                print(f"FAILED: {wrong}")
                print(server.log_end(15))
            print("killed under way: " + ", ".join(f"{k} {n} of {test.done[k]}" for k, n in sorted(test.killed.items())))
            print(f"the slowest ended {test.slowest:.2f} s after its KILL")
    except (ServerFailed, pymysql.Error, OSError) as error:
        print(f"the test could not go on: {error}")
        print(f"{passed} passed, {failed + 1} failed")
        return 2
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Loading empty tables: what a load does beside InnoDB, and what a kill leaves.

    load.py [--rounds N] [--kills N] [--seed SEED]

In each round an empty Frond table and an empty InnoDB table get the same rows by the same statements: INSERT ... SELECT,
IGNORE, REPLACE, ON DUPLICATE KEY UPDATE, LOAD DATA, several in one transaction with savepoints, copies of a table by
ALTER TABLE. There are so many rows that Frond loads them; they are in order or not, with duplicates or without. Both give
the same errors, warnings and counts, and hold the same rows; CHECK TABLE is clean.

Then cases of their own (load_cases.py).

With --kills, the server is killed with kill -9, or the statement with KILL QUERY, at a random moment of the time that a load
takes. Afterwards the table is empty, or has all rows; after an answer it has all of them. A sixth must be in the middle.

Status: 0 all good, 1 something is wrong, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter

import pymysql

from load_cases import CASES, Case, Wrong
from server import Server, ServerFailed, rows, run

ROWS = 14_000
# Loads that are killed have this many times the rows.
TIMES = 8
LOST = (0, 2003, 2006, 2013, 2055, 1053, 2002)
KILLED = (1317, 1927, 1028)

TABLE = "(id INT NOT NULL, a INT, b VARCHAR(20), c CHAR(40), {keys}) ENGINE={engine}"
KEYS = ["PRIMARY KEY (id), UNIQUE ua (a), KEY (b), KEY (b, c)", "UNIQUE uid (id), KEY (a)", "KEY (id), KEY (b)",
        "PRIMARY KEY (b, id), UNIQUE (a), KEY (c)"]


class Test:
    def __init__(self, server: Server, seed: str):
        self.server, self.r = server, random.Random(seed)
        self.kinds: Counter[str] = Counter()
        self.files = 0
        # Seconds that a load takes when nobody kills it.
        self.takes = 0.0

    def prepare(self) -> None:
        admin = self.server.connect()
        run(admin, "CREATE DATABASE loads")
        run(admin, "USE loads")
        run(admin, "CREATE TABLE source (n INT PRIMARY KEY, id INT, a INT, b VARCHAR(20), c CHAR(40), KEY (a)) ENGINE=InnoDB")
        run(admin, "INSERT INTO source SELECT seq, seq, seq * 7919 % 20011, CONCAT('b', seq * 31 % 977), REPEAT(CHAR(65 + seq % 26), 40) "
                   f"FROM seq_1_to_{ROWS}")
        admin.close()

    def tables(self, admin: pymysql.Connection, keys: str) -> None:
        for name, engine in (("f", "Frond"), ("i", "InnoDB")):
            run(admin, f"DROP TABLE IF EXISTS {name}")
            run(admin, f"CREATE TABLE {name} " + TABLE.format(keys=keys, engine=engine))

    def loads(self, admin: pymysql.Connection) -> int:
        return int(rows(admin, "SHOW GLOBAL STATUS LIKE 'frond_loads'")[0][1])

    def statements(self) -> list[str]:
        """For a table called T."""
        r = self.r
        order = r.choice(["n", "n", "a", "n * 7919 % 1009, n"])
        ident = r.choice(["id"] * 4 + [f"IF(n = {r.randrange(ROWS)}, {r.randrange(ROWS)}, id)"])
        a = r.choice(["a"] * 4 + [f"IF(n = {r.randrange(ROWS)}, {r.randrange(20011)}, a)", "IF(n % 3, NULL, a)"])
        verb = r.choice(["INSERT INTO"] * 4 + ["INSERT IGNORE INTO", "REPLACE INTO", "INSERT INTO"])
        tail = " ON DUPLICATE KEY UPDATE c = 'again'" if verb == "INSERT INTO" and r.random() < 0.2 else ""
        cut = r.randrange(ROWS)

        def part(condition: str) -> str:
            return f"{verb} T SELECT {ident}, {a}, b, c FROM source WHERE {condition} ORDER BY {order}{tail}"

        kind = r.randrange(7)
        if kind == 6:
            how = r.choice(["", "", "IGNORE ", "REPLACE "])
            return [f"LOAD DATA INFILE '{self.file(order, ident, a)}' {how}INTO TABLE T (id, a, b, c)"]
        if kind < 3:
            return [part("1")]
        if kind == 3:
            return ["BEGIN", part(f"n <= {cut}"), part(f"n > {cut}"), r.choice(["COMMIT", "COMMIT", "ROLLBACK"])]
        if kind == 4:
            return ["BEGIN", part(f"n <= {cut}"), "SAVEPOINT s", part(f"n > {cut}"), "ROLLBACK TO s",
                    "INSERT IGNORE INTO T VALUES (-1, -1, 'x', 'y')", "COMMIT"]
        return [part("1"), r.choice(["ALTER TABLE T MODIFY a BIGINT, ALGORITHM=COPY", "ALTER TABLE T FORCE, ALGORITHM=COPY",
                                     "ALTER IGNORE TABLE T ADD UNIQUE more (b, a), ALGORITHM=COPY"])]

    def file(self, order: str, ident: str, a: str) -> str:
        admin = self.server.connect("loads")
        directory = rows(admin, "SELECT @@datadir")[0][0].decode()
        name = f"{directory}rows{self.files}.txt"
        self.files += 1
        run(admin, f"SELECT {ident}, {a}, b, c INTO OUTFILE '{name}' FROM source ORDER BY {order}")
        admin.close()
        self.kinds["files"] += 1
        return name

    def round(self) -> None:
        admin = self.server.connect("loads")
        keys = self.r.choice(KEYS)
        self.tables(admin, keys)
        before, statements = self.loads(admin), self.statements()
        for statement in statements:
            answers = []
            for name in ("f", "i"):
                sql = statement.replace(" T ", f" {name} ")
                try:
                    answers.append((run(admin, sql), int(rows(admin, "SELECT @@warning_count")[0][0])))
                except pymysql.err.Error as error:
                    answers.append(error.args)
                if "BEGIN" == statement or statement in ("COMMIT", "ROLLBACK"):
                    break
            if len(answers) == 2 and answers[0] != answers[1]:
                raise Wrong(f"{keys}: {statements}: {statement}: Frond {answers[0]}, InnoDB {answers[1]}")
            if len(answers[0]) == 2 and isinstance(answers[0][1], str):
                self.kinds["errors"] += 1
        pairs = [rows(admin, f"SELECT id, a, b, c FROM {name} ORDER BY id, a, b") for name in ("f", "i")]
        if pairs[0] != pairs[1]:
            raise Wrong(f"{keys}: {statements}: {len(pairs[0])} rows, InnoDB has {len(pairs[1])}")
        self.check(admin, "f")
        self.kinds["rounds"] += 1
        self.kinds["loads"] += self.loads(admin) - before
        admin.close()

    def check(self, admin: pymysql.Connection, table: str) -> None:
        said = rows(admin, f"CHECK TABLE {table}")
        if said[-1][3] != b"OK":
            raise Wrong(f"CHECK TABLE: {said}")

    # ---- kills ----

    def large(self, order: str) -> str:
        return (f"INSERT INTO f SELECT id * {TIMES} + seq, a * {TIMES} + seq, b, c FROM source JOIN seq_1_to_{TIMES} "
                f"ORDER BY {order}, seq")

    def time(self) -> None:
        admin = self.server.connect("loads")
        self.tables(admin, KEYS[0])
        began = time.monotonic()
        run(admin, self.large("n"))
        self.takes = time.monotonic() - began
        admin.close()

    def kill(self) -> None:
        admin = self.server.connect("loads")
        keys = self.r.choice(KEYS)
        self.tables(admin, keys)
        hard = self.r.random() < 0.6
        connection = self.server.connect("loads")
        ident = int(rows(connection, "SELECT CONNECTION_ID()")[0][0])
        answered: list[bool] = []
        order = self.r.choice(["n", "a"])

        def load() -> None:
            try:
                run(connection, self.large(order))
                answered.append(True)
            except pymysql.err.Error as error:
                if error.args[0] not in LOST + KILLED:
                    self.kinds[f"error {error.args[0]}"] += 1
                answered.append(False)
            except OSError:
                answered.append(False)

        thread = threading.Thread(target=load)
        thread.start()
        time.sleep(self.r.random() * self.takes * 1.1)
        if hard:
            self.server.kill()
        else:
            try:
                run(admin, f"KILL QUERY {ident}")
            except pymysql.err.Error:
                pass
        thread.join(100)
        if hard:
            self.server.start()
            admin = self.server.connect("loads")
        count = int(rows(admin, "SELECT COUNT(*) FROM f")[0][0])
        if count not in (0, ROWS * TIMES) or (answered == [True] and not count):
            raise Wrong(f"{keys}: {count} rows after {'kill -9' if hard else 'KILL'}, answered {answered}")
        if not hard and answered == [False] and count:
            raise Wrong(f"{keys}: {count} rows of a statement that was killed")
        self.check(admin, "f")
        # The table takes rows.
        if not count:
            run(admin, self.large("n"))
        if int(rows(admin, "SELECT COUNT(*) FROM f")[0][0]) != ROWS * TIMES:
            raise Wrong(f"{keys}: rows are missing after a kill")
        self.kinds[f"{'kill -9' if hard else 'KILL'}, {'all' if count else 'nothing'}"] += 1
        admin.close()


OPTIONS = ["--innodb-buffer-pool-size=64M", "--frond-flush-log-at-commit=1", "--frond-cache-size=16M",
           "--frond-log-segment-size=1M", "--frond-log-capacity=16M", "--innodb-flush-log-at-trx-commit=0",
           "--innodb-lock-wait-timeout=1", "--frond-lock-wait-timeout=1",
           "--transaction-isolation=READ-COMMITTED", "--sql-mode="]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}", flush=True)
    problem, done = "", 0
    with Server("load", OPTIONS) as server:
        test = Test(server, arguments.seed)
        try:
            test.prepare()
            for _ in range(arguments.rounds):
                test.round()
                done += 1
            for case in CASES:
                case(Case(server, f"{case.__name__}: "))
                done += 1
            test.time()
            for _ in range(arguments.kills):
                test.kill()
                done += 1
            middle = sum(n for kind, n in test.kinds.items() if kind.endswith("nothing"))
            if middle * 6 < arguments.kills:
                raise Wrong(f"too few kills in the middle of a load: {test.kinds}")
            if test.kinds["loads"] < arguments.rounds / 2:
                raise Wrong(f"too few loads: {test.kinds}")
        except (Wrong, ServerFailed, pymysql.Error) as error:
            problem = f"{type(error).__name__} {error}\n{server.log_end()}"
    if problem:
        print(f"FAILED: {problem}\nagain: SEED={arguments.seed} scripts/test.sh 79")
    print(", ".join(f"{kind} {n}" for kind, n in sorted(test.kinds.items())))
    print(f"{done} passed, {1 if problem else 0} failed")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())

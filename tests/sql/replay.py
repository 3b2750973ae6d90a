"""frond replay: the same statements on InnoDB and on Frond have the same answers, and a wrong row is found.

    replay.py [--statements N] [--seed SEED]

A log of random statements of many sessions (points, ranges, joins, aggregates, LIMIT with and without ORDER BY, ties, text in several
collations, doubles, clocks, transactions, errors, statements that write) is replayed on two servers with the same data: read-only, so that
no row changes; again with writes, in the log's order; and several sessions at once. Then one value of one row is changed on one server and
has to be found; one row that is missing, too.

FROND names the program (default: target/release/frond). Status: 0 good, 1 a promise is broken.
Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pymysql

from checks import FROND, Checks
from server import Server, rows, run

ROWS = 4000
SMALL = ["--skip-log-bin", "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=16M"]


def fill(admin: pymysql.Connection, engine: str) -> None:
    """The same rows whatever the engine."""
    run(admin, "CREATE DATABASE shop")
    run(admin, f"""CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT NOT NULL, state ENUM('new','paid','sent'),
        amount DECIMAL(10,2), weight DOUBLE, name VARCHAR(40) COLLATE utf8mb4_general_ci, code VARCHAR(20) COLLATE utf8mb4_bin,
        noted TEXT, made DATETIME, KEY (customer, state), KEY (name), KEY (made), UNIQUE (code)) ENGINE={engine} CHARSET=utf8mb4""")
    run(admin, f"""CREATE TABLE shop.customers (id INT PRIMARY KEY, city VARCHAR(30) CHARACTER SET utf8mb4, score FLOAT, KEY (city))
        ENGINE={engine} CHARSET=utf8mb4""")
    values = random.Random(1)
    some = []
    for i in range(1, ROWS + 1):
        name = values.choice(["Anna", "anna", "Bo", "ÄNNE", "Zoë", "x y ", "it's"])
        weight = values.choice(["NULL", repr(values.random() * 1000)])
        note = values.choice(["NULL", "'long %s'" % ("n" * values.randrange(300))])
        some.append(f"({i}, {values.randrange(400)}, {values.randrange(1, 4)}, {values.randrange(100000) / 100}, {weight}, "
                    f"'{name.replace(chr(39), chr(39) * 2)}', 'c{i}', {note}, '2026-01-01' + INTERVAL {values.randrange(90000)} MINUTE)")
    for begin in range(0, len(some), 1000):
        run(admin, "INSERT INTO shop.orders VALUES " + ",".join(some[begin:begin + 1000]))
    run(admin, "INSERT INTO shop.customers VALUES " + ",".join(
        f"({i}, '{values.choice(['Rom', 'rom', 'Oslo', 'Wien'])}', {values.random():.4f})" for i in range(400)))
    run(admin, "ANALYZE TABLE shop.orders, shop.customers PERSISTENT FOR ALL")


def statement(pick: random.Random) -> str:
    """One that reads."""
    n, m = pick.randrange(ROWS + 100), pick.randrange(400)
    kinds = [
        f"SELECT * FROM orders WHERE id = {n}",
        f"SELECT name, amount FROM orders WHERE code = 'c{n}'",
        f"SELECT id, state FROM orders WHERE customer = {m}",
        f"SELECT id, customer FROM orders WHERE customer BETWEEN {m} AND {m + 3} ORDER BY customer",
        f"SELECT id, name FROM orders WHERE customer = {m} ORDER BY name LIMIT 3",
        f"SELECT id FROM orders WHERE customer = {m} LIMIT 2",
        f"SELECT * FROM orders WHERE id > {n} ORDER BY id LIMIT 5",
        f"SELECT state, COUNT(*), SUM(amount), AVG(weight), SUM(weight) FROM orders WHERE customer < {m % 40} GROUP BY state",
        f"SELECT c.city, COUNT(*), MAX(o.weight) FROM orders o JOIN customers c ON c.id = o.customer WHERE c.id BETWEEN {m} AND {m + 5} "
        "GROUP BY c.city ORDER BY 2 DESC",
        f"SELECT COUNT(*) FROM orders WHERE name = 'anna' AND customer > {m}",
        f"SELECT DISTINCT name FROM orders WHERE customer IN ({m}, {m + 1}, {m + 2}) ORDER BY name DESC",
        f"SELECT id, NOW(), UNIX_TIMESTAMP() FROM orders WHERE made < NOW() AND id < {n % 20} ORDER BY id",
        f"SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer AND c.score > 0.9) AND o.id < {n % 300}",
        f"SELECT id, made FROM orders WHERE made BETWEEN '2026-01-{m % 27 + 1:02}' AND '2026-01-{m % 27 + 2:02}' ORDER BY made, id DESC",
        f"SELECT * FROM missing WHERE id = {n}",
        f"SELECT nothing FROM orders WHERE id = {n}",
        f"SELECT 1 / 0, CAST('x{n}' AS INT)",
        f"SELECT RAND(), UUID(), CONNECTION_ID(), {n}",
        f"SELECT GROUP_CONCAT(id) FROM orders WHERE customer = {m}",
        f"SELECT @n := {n}",
        f"SELECT id FROM orders WHERE noted LIKE 'long nnn%' AND customer = {m} UNION SELECT id FROM customers WHERE id = {m}",
        f"SELECT id, ROW_NUMBER() OVER (PARTITION BY state ORDER BY amount) FROM orders WHERE customer = {m}",
    ]
    return pick.choice(kinds)


def change(pick: random.Random) -> str:
    """One that writes."""
    n, m = pick.randrange(ROWS), pick.randrange(400)
    return pick.choice([
        f"UPDATE orders SET amount = amount + 1, made = NOW() WHERE id = {n}",
        f"INSERT INTO orders (customer, state, name, code, made) VALUES ({m}, 'new', 'new', 'n{pick.randrange(2000)}', NOW())",
        f"DELETE FROM orders WHERE code = 'n{pick.randrange(2000)}'",
        f"REPLACE INTO customers VALUES ({m}, 'Bonn', 0.5)",
        f"UPDATE customers SET score = score / 2 WHERE city = 'Rom' AND id < {m % 20}",
        f"INSERT INTO customers VALUES ({m}, 'twice', 1)",
    ])


def write_log(path: Path, count: int, seed: int) -> int:
    """Writes a slow log; gives how many statements in it read."""
    pick = random.Random(seed)
    reads = 0
    open_in: set[int] = set()
    with open(path, "w", encoding="utf-8") as log:
        for i in range(count):
            session = pick.randrange(1, 25)
            chance = pick.random()
            # One transaction at a time: in the log's order two would wait for each other's locks.
            if open_in and chance < 0.2:
                session, sql = open_in.pop(), "COMMIT"
            elif not open_in and chance < 0.03:
                sql = "BEGIN"
                open_in.add(session)
            elif 0.2 < chance < 0.3 and not open_in - {session}:
                sql = change(pick)
            else:
                sql = statement(pick)
                reads += 1
            log.write(f"# User@Host: app[app] @ localhost []\n# Thread_id: {session}  Schema: shop  QC_hit: No\n"
                      "# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1\n"
                      f"SET timestamp={1_767_290_000 + i // 100};\n{sql};\n")
    return reads


def replay(log: Path, on: Server, against: Server, *options: str) -> tuple[int, dict[str, Any], str]:
    begin = time.monotonic()
    done = subprocess.run([FROND, "replay", str(log), "--no-defaults", "--user", "root", "--on", on.socket, "--against", against.socket,
                           "--json", *options], capture_output=True, text=True, timeout=3000, check=False)
    report = json.loads(done.stdout) if done.stdout else {}
    print(f"replay {' '.join(options)}: {report.get('compared')} compared, {report.get('different')} different, "
          f"{sum(c['statements'] for c in report.get('undetermined', []))} undetermined, {time.monotonic() - begin:.1f} s {done.stderr}",
          flush=True)
    return done.returncode, report, done.stderr


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--statements", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    checks = Checks()
    with Server("replay-a", SMALL, {"SERVER_PLUGINS": ""}) as innodb, Server("replay-b", SMALL + ["--frond-cache-size=32M"]) as frond, \
            tempfile.TemporaryDirectory() as directory:
        a, b = innodb.connect(), frond.connect()
        fill(a, "InnoDB")
        fill(b, "Frond")
        log = Path(directory) / "slow.log"
        reads = write_log(log, arguments.statements, arguments.seed)
        sums = lambda: [rows(c, "CHECKSUM TABLE shop.orders, shop.customers EXTENDED") for c in (a, b)]  # noqa: E731
        before = sums()
        checks.that("both servers have the same rows", before[0] == before[1], before)

        status, report, error = replay(log, innodb, frond, "--threads", "4")
        checks.that("read-only: no false difference", status == 0 and report["different"] == 0, (status, error, report.get("differences")))
        checks.that("every statement that reads was compared", report["compared"] == reads, (report["compared"], reads))
        checks.that("what is not determined is little", sum(c["statements"] for c in report["undetermined"]) < reads * 0.2,
                    report["undetermined"])
        checks.that("no row changed", sums() == before)
        checks.that("times were compared", any(c["finding"] != "unsure" for c in report["classes"]), report["classes"][:3])

        run(b, "UPDATE shop.orders SET amount = amount + 0.01 WHERE id = 77")
        planted = Path(directory) / "planted.log"
        write_log(planted, min(arguments.statements, 1000), arguments.seed)
        with open(planted, "a", encoding="utf-8") as more:
            more.write("# User@Host: app[app] @ localhost []\n# Thread_id: 3  Schema: shop  QC_hit: No\n"
                       "# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1\n"
                       "SET timestamp=1767290000;\nSELECT id, amount FROM orders WHERE id BETWEEN 70 AND 80;\n")
        status, report, error = replay(planted, innodb, frond)
        found = [d for d in report["differences"] if "BETWEEN 70 AND 80" in d["statement"] and d["on"].startswith("id: 77,")]
        checks.that("a planted wrong value is found", status == 1 and len(found) == 1, (status, error, report.get("differences")))
        run(b, "UPDATE shop.orders SET amount = amount - 0.01 WHERE id = 77")
        run(a, "DELETE FROM shop.orders WHERE id = 78")
        status, report, error = replay(planted, innodb, frond)
        kinds = {d["what"] for d in report["differences"] if "BETWEEN 70 AND 80" in d["statement"]}
        checks.that("a missing row is found", status == 1 and kinds == {"row count"}, (status, error, kinds))
        run(b, "DELETE FROM shop.orders WHERE id = 78")

        status, report, error = replay(log, innodb, frond, "--writes")
        checks.that("writing: no false difference", status == 0 and report["different"] == 0, (status, error, report.get("differences")))
        checks.that("writing: everything was run", report["compared"] > reads, (report["compared"], reads))
        after = sums()
        checks.that("writing: the same rows at the end", after[0] == after[1] and after != before, after)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())

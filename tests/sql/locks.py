"""frond locks --live and frond digest --processlist on a server with Frond: chains of waits through both engines.

    locks.py

Connections wait for rows of Frond and of InnoDB, one chain goes through both. Every edge is found, none is invented, as a tree of
connections; when all are done, nobody waits.

FROND names the program (default: target/release/frond). Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any

import pymysql

from checks import FROND, Checks
from server import Server, rows, run


def ask(server: Server, *words: str, user: str = "reader") -> tuple[int, Any, str]:
    done = subprocess.run([FROND, *words, "--no-defaults", "--user", user, "--socket", server.socket, "--json"], capture_output=True,
                          text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def edges(report: dict[str, Any]) -> set[tuple[int, int]]:
    """(who waits, for whom) in the tree."""
    above: list[int] = []
    found = set()
    for node in (report.get("tree") or {}).get("nodes", []):
        del above[node["depth"]:]
        if above:
            found.add((node["connection"], above[-1]))
        above.append(node["connection"])
    return found


def number(connection: pymysql.Connection) -> int:
    return int(rows(connection, "SELECT CONNECTION_ID()")[0][0])


def main() -> int:
    checks = Checks()
    with Server("locks", ["--skip-log-bin", "--innodb-buffer-pool-size=16M"]) as server:
        admin = server.connect()
        run(admin, "CREATE DATABASE shop")
        run(admin, "CREATE USER reader@localhost")
        run(admin, "GRANT PROCESS ON *.* TO reader@localhost")
        for table, engine in [("f", "Frond"), ("i", "InnoDB")]:
            run(admin, f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE={engine}")
            run(admin, f"INSERT INTO shop.{table} SELECT seq, seq FROM shop.seq_1_to_100")
        status, report, error = ask(server, "locks", "--live")
        checks.that("nobody waits", status == 0 and not edges(report), (status, error, report))
        # one holds f5 and i6; two waits for f5 and holds i7; three waits for i7 and holds f8; four waits for f8; five for i6.
        clients = {name: server.connect("shop") for name in ["one", "two", "three", "four", "five"]}
        ids = {name: number(client) for name, client in clients.items()}
        for name, held in [("one", ["f5", "i6"]), ("two", ["i7"]), ("three", ["f8"])]:
            run(clients[name], "SET autocommit = 0")
            for row in held:
                run(clients[name], f"UPDATE {row[0]} SET v = 0 WHERE id = {row[1]}")
        threads = []
        for name, row in [("two", "f5"), ("three", "i7"), ("four", "f8"), ("five", "i6")]:
            sql = f"UPDATE {row[0]} SET v = 1 WHERE id = {row[1]}"
            threads.append(threading.Thread(target=lambda c=clients[name], s=sql: run(c, s)))
            threads[-1].start()
            time.sleep(0.2)
        wanted = {(ids[a], ids[b]) for a, b in [("two", "one"), ("three", "two"), ("four", "three"), ("five", "one")]}
        until = time.monotonic() + 20
        while True:
            status, report, error = ask(server, "locks", "--live")
            if edges(report) == wanted or time.monotonic() > until:
                break
            time.sleep(0.3)
        checks.that("every edge, through both engines, and no other", status == 1 and edges(report) == wanted, (edges(report), wanted, error))
        roots = [n["connection"] for n in report["tree"]["nodes"] if n["depth"] == 0]
        checks.that("the one root", roots == [ids["one"]], roots)
        blockers = report.get("blockers", [])
        checks.that("it is idle", bool(blockers) and blockers[0].get("idle_dumps") == 1, blockers)
        status, report, error = ask(server, "digest", "--processlist", "--run-time", "1")
        classes = {c["key"] for c in report.get("classes", [])}
        checks.that("the processlist has who waits", status == 0 and {"update f set v = ? where id = ?", "update i set v = ? where id = ?"}
                    <= classes, (classes, error))
        for name in ["one", "two", "three"]:
            deadline = time.monotonic() + 20
            while True:
                try:
                    run(clients[name], "ROLLBACK")
                    break
                except (pymysql.err.Error, AttributeError):
                    # It is still in its statement.
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
            if name != "three":
                threads[{"one": 0, "two": 1}[name]].join(timeout=30)
        for thread in threads:
            thread.join(timeout=30)
        status, report, error = ask(server, "locks", "--live")
        checks.that("nobody waits any more", status == 0 and not edges(report), (status, error))
        run(admin, "REVOKE PROCESS ON *.* FROM reader@localhost")
        status, _, error = ask(server, "locks", "--live")
        checks.that("without the privilege it says which", status == 2 and "GRANT PROCESS" in error, (status, error))
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())

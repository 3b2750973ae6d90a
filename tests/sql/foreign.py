"""Foreign keys under concurrency and kill -9: no child may lose its parent.

    foreign.py [--seconds N] [--kills N] [--seed SEED]

Connections at READ COMMITTED, REPEATABLE READ and SERIALIZABLE insert children, delete parents (some
constraints cascade, some set NULL, some restrict), change parents' keys, and roll some of it back. Errors
that say no are good; afterwards a LEFT JOIN finds no child without its parent, and CHECK TABLE EXTENDED
finds nothing. --kills: the server is killed that many times in between, and everything is checked again.

Status: 0 good, 1 something dangles, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time

import pymysql

from server import Server, ServerFailed, engine, rows, run

# Refused, deadlock, timeout, changed since the snapshot, duplicate, lost connection.
EXPECTED = {1062, 1205, 1213, 1020, 1412, 1451, 1452, 1761, 2006, 2013, 0}
ACTIONS = {"r": "", "c": "ON DELETE CASCADE ON UPDATE CASCADE", "n": "ON DELETE SET NULL ON UPDATE SET NULL"}
LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
KEYS = 12


class Client(threading.Thread):
    def __init__(self, server: Server, seed: str, number: int, until: float):
        super().__init__(daemon=True)
        self.server, self.until, self.number = server, until, number
        self.r = random.Random(f"{seed}:{number}:{until}")
        self.done, self.problem = 0, ""

    def run(self) -> None:
        try:
            connection = self.server.connect("foreign_keys")
            run(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {LEVELS[self.number % len(LEVELS)]}")
            while time.monotonic() < self.until:
                self.transaction(connection)
        except pymysql.Error as error:
            if error.args[0] not in EXPECTED:
                self.problem = str(error)
        except OSError:
            pass

    def transaction(self, connection: pymysql.Connection) -> None:
        try:
            run(connection, "BEGIN")
            rows(connection, "SELECT COUNT(*) FROM p")
            for _ in range(self.r.randint(1, 4)):
                run(connection, self.statement())
                self.done += 1
            run(connection, self.r.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        except pymysql.Error as error:
            if error.args[0] not in EXPECTED or error.args[0] in (0, 2006, 2013):
                raise
            run(connection, self.r.choice(["COMMIT", "ROLLBACK"]))

    def statement(self) -> str:
        key, table = self.r.randrange(KEYS), self.r.choice("rcn")
        match self.r.randrange(8):
            case 0 | 1 | 2:
                return f"INSERT INTO {table} (p) VALUES ({key})"
            case 3:
                return f"DELETE FROM p WHERE id = {key}"
            case 4:
                return f"INSERT INTO p VALUES ({key}, 0)"
            case 5:
                return f"UPDATE p SET id = {self.r.randrange(KEYS)} WHERE id = {key}"
            case 6:
                return f"UPDATE {table} SET p = {key} WHERE p = {self.r.randrange(KEYS)} LIMIT 3"
            case _:
                return f"DELETE FROM {table} WHERE p = {key} LIMIT 4"


def prepare(server: Server) -> None:
    admin = server.connect()
    run(admin, "CREATE DATABASE foreign_keys")
    admin.select_db("foreign_keys")
    run(admin, f"CREATE TABLE p (id INT PRIMARY KEY, a INT) ENGINE={engine()}")
    for name, action in ACTIONS.items():
        run(admin, f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, p INT, "
                   f"FOREIGN KEY (p) REFERENCES p (id) {action}) ENGINE={engine()}")
    admin.close()


def verify(server: Server) -> str:
    admin = server.connect("foreign_keys", read_timeout=300)
    for name in ACTIONS:
        found = rows(admin, f"SELECT c.id, c.p FROM {name} c LEFT JOIN p ON p.id = c.p "
                            f"WHERE c.p IS NOT NULL AND p.id IS NULL")
        if found:
            return f"children without parents in {name}: {found[:5]}"
    for name in [*ACTIONS, "p"]:
        verdict = rows(admin, f"CHECK TABLE {name} EXTENDED")
        if verdict[-1][3] != b"OK":
            return f"CHECK TABLE {name}: {verdict}"
    return ""


def round_of(server: Server, seed: str, seconds: float, kill: bool) -> tuple[int, str]:
    until = time.monotonic() + seconds
    clients = [Client(server, seed, n, until) for n in range(6)]
    for client in clients:
        client.start()
    if kill:
        time.sleep(seconds * random.Random(f"{seed}:{until}").random())
        server.kill()
    for client in clients:
        client.join(120)
    if kill:
        server.start()
    problem = next((c.problem for c in clients if c.problem), "") or verify(server)
    return sum(c.done for c in clients), problem


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}: {engine()}", flush=True)
    options = ["--innodb-lock-wait-timeout=1", "--lock-wait-timeout=5"]
    if engine() == "Frond":
        options += ["--frond-lock-wait-timeout=1", "--frond-flush-log-at-commit=2", "--frond-cache-size=8M"]
    passed, problem, done = 0, "", 0
    try:
        with Server("foreign", options) as server:
            prepare(server)
            for kill in [False] + [True] * arguments.kills:
                seconds = 2.0 if kill else arguments.seconds
                changes, problem = round_of(server, arguments.seed, seconds, kill)
                done += changes
                if problem:
                    break
                passed += 1
    except (ServerFailed, pymysql.Error, OSError) as error:
        print(f"{type(error).__name__}: {error}")
        return 2
    if problem:
        print(f"FAILED: {problem}")
    print(f"{done} changes\n{passed} passed, {1 if problem else 0} failed")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())

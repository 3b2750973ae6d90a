"""Foreign keys under concurrency, ALTER TABLE and kill -9: no child loses its parent, and a replica has the same.

    foreign.py [--seconds N] [--kills N] [--seed SEED]

Connections at READ COMMITTED, REPEATABLE READ and SERIALIZABLE insert children, delete parents (some
constraints cascade, some set NULL, some restrict; one cascades on to grandchildren), change parents' keys, and
roll some of it back. One connection adds and drops the foreign key of one more table meanwhile. Errors that say no are
good. --kills: the server is killed that many times in between.

After each round: a LEFT JOIN finds no child without its parent; CHECK TABLE EXTENDED finds nothing; and the
binary log, in which no row of a cascade is, gives a server that started empty the same tables.

Status: 0 good, 1 something dangles or differs, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import threading
import time

import pymysql

from clients import Problem
from kill9_binlog import Replayed
from server import Server, ServerFailed, engine, rows, run

# Refused, deadlock, timeout, changed since the snapshot or while it was read, duplicate, lost connection.
EXPECTED = {1062, 1205, 1213, 1020, 1412, 1451, 1452, 1761, 2006, 2013, 0}
GONE = (0, 2006, 2013)
CASCADE = "ON DELETE CASCADE ON UPDATE CASCADE"
SET_NULL = "ON DELETE SET NULL ON UPDATE SET NULL"
# Child: its parent and what happens to it. `a` has its foreign key some of the time.
CHILDREN = {"r": ("p", ""), "c": ("p", CASCADE), "n": ("p", SET_NULL), "g": ("c", CASCADE), "a": ("p", CASCADE)}
TABLES = {name: "id" for name in ["p", *CHILDREN]}
LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
KEYS = 12


def dangling(connection: pymysql.Connection, table: str) -> list[tuple[bytes, ...]]:
    parent = CHILDREN[table][0]
    return rows(connection, f"SELECT k.id, k.p FROM {table} k LEFT JOIN {parent} ON {parent}.id = k.p "
                            f"WHERE k.p IS NOT NULL AND {parent}.id IS NULL")


class Writer(threading.Thread):
    """Small transactions until the time is over or the server is gone."""

    def __init__(self, server: Server, seed: str, number: int, until: float):
        super().__init__(daemon=True)
        self.server, self.until, self.number = server, until, number
        self.r = random.Random(f"{seed}:{number}")
        self.done, self.problem = 0, ""

    def run(self) -> None:
        try:
            connection = self.server.connect("foreign_keys")
            run(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {LEVELS[self.number % len(LEVELS)]}")
            while time.monotonic() < self.until and not self.problem:
                self.step(connection)
        except pymysql.Error as error:
            if error.args[0] not in EXPECTED:
                self.problem = str(error)
        except OSError:
            pass

    def step(self, connection: pymysql.Connection) -> None:
        try:
            run(connection, "BEGIN")
            rows(connection, "SELECT COUNT(*) FROM p")
            for _ in range(self.r.randint(1, 4)):
                run(connection, self.statement())
                self.done += 1
            run(connection, self.r.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        except pymysql.Error as error:
            if error.args[0] not in EXPECTED or error.args[0] in GONE:
                raise
            run(connection, self.r.choice(["COMMIT", "ROLLBACK"]))

    def statement(self) -> str:
        key, table = self.r.randrange(KEYS), self.r.choice("rcna")
        match self.r.randrange(10):
            case 0 | 1 | 2:
                return f"INSERT INTO {table} (p) VALUES ({key})"
            case 3:
                return f"DELETE FROM p WHERE id = {key}"
            case 4:
                return f"INSERT INTO p VALUES ({key}, 0)"
            case 5:
                return f"UPDATE p SET id = {self.r.randrange(KEYS)} WHERE id = {key}"
            case 6:
                other = self.r.randrange(KEYS)
                return f"UPDATE {table} SET p = {key} WHERE p = {other} ORDER BY id LIMIT 3"
            case 7:
                return f"DELETE FROM {table} WHERE p = {key} ORDER BY id LIMIT 4"
            case _:
                return f"INSERT INTO g (p) SELECT id FROM c WHERE p = {key} ORDER BY id LIMIT 2"


class Alterer(Writer):
    """Adds the foreign key of `a`, looks whether its rows have parents, drops it again."""

    def run(self) -> None:
        self.number = 1
        super().run()

    def step(self, connection: pymysql.Connection) -> None:
        try:
            found = dangling(connection, "a") if constrain(connection) else None
            if found is None:
                return
            if found:
                self.problem = f"ADD FOREIGN KEY accepted children without parents: {found[:5]}"
                return
            self.done += 1
            time.sleep(0.05)
            run(connection, "ALTER TABLE a DROP FOREIGN KEY a_p")
        except pymysql.Error as error:
            if error.args[0] not in EXPECTED | {1091} or error.args[0] in GONE:
                raise
        time.sleep(0.05)


def constrain(connection: pymysql.Connection) -> bool:
    """Gives `a` its foreign key, if it has none. False when others' rows were in the way each time."""
    for _ in range(3):
        try:
            run(connection, f"ALTER TABLE a ADD CONSTRAINT a_p FOREIGN KEY (p) REFERENCES p (id) {CASCADE}")
            return True
        except pymysql.Error as error:
            if error.args[0] == 1005:  # it has it already: there was a kill before it was dropped
                return True
            if error.args[0] not in (1452, 1205, 1213):
                raise
            run(connection, "DELETE FROM a WHERE p NOT IN (SELECT id FROM p)")
    return False


def prepare(server: Server) -> None:
    admin = server.connect()
    run(admin, "CREATE DATABASE foreign_keys")
    admin.select_db("foreign_keys")
    run(admin, f"CREATE TABLE p (id INT PRIMARY KEY, a INT) ENGINE={engine()}")
    for name, (parent, action) in CHILDREN.items():
        constraint = "" if name == "a" else f", FOREIGN KEY (p) REFERENCES {parent} (id) {action}"
        run(admin, f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, p INT, KEY (p){constraint}) "
                   f"ENGINE={engine()}")
    admin.close()


def verify(server: Server, replayed: Replayed) -> None:
    admin = server.connect("foreign_keys", read_timeout=300)
    constrained = rows(admin, "SHOW CREATE TABLE a")[0][1].find(b"CONSTRAINT") >= 0
    for name in CHILDREN:
        found = dangling(admin, name) if name != "a" or constrained else []
        if found:
            raise Problem(f"children without parents in {name}: {found[:5]}")
    for name in TABLES:
        verdict = rows(admin, f"CHECK TABLE {name} EXTENDED")
        if verdict[-1][3] != b"OK":
            raise Problem(f"CHECK TABLE {name}: {verdict}")
    replayed.catch_up(admin)
    replayed.compare(admin)
    admin.close()


def round_of(server: Server, replayed: Replayed, seed: str, seconds: float, kill: bool) -> tuple[int, int]:
    until = time.monotonic() + seconds
    writers = [Writer(server, seed, n, until) for n in range(6)]
    alterer = Alterer(server, seed, 6, until)
    for writer in [*writers, alterer]:
        writer.start()
    if kill:
        time.sleep(seconds * random.Random(f"{seed}:kill").uniform(0.2, 1))
        server.kill()
    for writer in [*writers, alterer]:
        writer.join(120)
    if kill:
        server.start()
    problem = next((w.problem for w in [*writers, alterer] if w.problem), "")
    if problem:
        raise Problem(problem)
    verify(server, replayed)
    return sum(w.done for w in writers), alterer.done


OPTIONS = ["--innodb-lock-wait-timeout=1", "--lock-wait-timeout=5"]
LOGGED = ["--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=1", "--server-id=1"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}: {engine()}", flush=True)
    options = OPTIONS
    if engine() == "Frond":
        options = [*OPTIONS, "--frond-lock-wait-timeout=1", "--frond-cache-size=8M"]
    passed, problem, changes, added = 0, "", 0, 0
    with Server("foreign", options + LOGGED) as server, Server("foreign-replay", options) as target:
        try:
            prepare(server)
            replayed = Replayed(server, target, "foreign_keys", TABLES)
            for number in range(1 + arguments.kills):
                seconds = 1.2 if number else arguments.seconds
                done = round_of(server, replayed, f"{arguments.seed}:{number}", seconds, number > 0)
                changes, added = changes + done[0], added + done[1]
                passed += 1
        except (Problem, ServerFailed, pymysql.Error, OSError, subprocess.SubprocessError) as error:
            problem = f"round {passed + 1}: {type(error).__name__} {error}\n{server.log_end(20)}"
    if problem:
        print(f"FAILED in {problem}\nagain: SEED={arguments.seed} scripts/test.sh 77")
    elif not added or changes < 100:
        problem = "too little was done"
        print(f"FAILED: {problem}")
    print(f"{changes} changes, the foreign key added {added} times, {passed} rounds")
    print(f"{passed} passed, {1 if problem else 0} failed")
    return 1 if problem else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ServerFailed, OSError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        sys.exit(2)

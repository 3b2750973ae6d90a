"""Differential test of XA: the same random histories on a server with InnoDB and on one with the engine under test.

    xa.py [--episodes N] [--seed SEED] [--episode N] [--binlog on|off] [--canary]

An episode is a history of some connections, one statement at a time: branches are started, changed, ended, prepared,
committed or rolled back, also in one phase, by their own connection or by another; statements come in the wrong
state; connections end or are killed; plain transactions run between. Some episodes kill both servers (-9) or restart
them in the middle. Each answer is compared (error, rows, affected rows), so is XA RECOVER, and at the end the tables are.

Nobody waits: the lock wait timeout is 0, so a lock that is held is an answer at once. READ COMMITTED, as InnoDB locks no
gaps there. Not generated is what differs: which AUTO_INCREMENT values a crash gives back; a key that is inserted twice, as
the reference keeps a lock on it after the error; a key that is not there and that two sessions look for by primary key,
as the tested engine keeps its lock; locking reads, and changes that change nothing, of which InnoDB gives the locks back
when the branch is prepared and the tested engine when it ends. InnoDB's log is made durable before a kill: it does not wait for that when a prepared
branch is rolled back, which then comes back. The tested engine's is not.

Seed, binary log and number of an episode give the same statements: `--seed S --episode N` runs it again, with each answer.
`--canary` rolls one prepared branch back on one side only; the run has to notice it.

Status: 0 the answers agree, 1 a difference (its history is printed), 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import pymysql

from server import Server, ServerFailed, engine, rows

SESSIONS = 4
STEPS = 60
ROWS = 12
# Names of branches: few, so that they meet. Format, qualifier and bytes that are no text are parts of a name.
NAMES = ("'a'", "'b'", "'b','q'", "'b','q',7", "X'00ff','',2147483647", "'" + "n" * 64 + "','" + "q" * 64 + "'")
# To the server these are one name.
SAME = {"'b','q'": "'b','q',7", "'b','q',7": "'b','q'"}
# One in this many episodes has a kill, another one a restart.
KILL_EVERY = 12
Answer = tuple[Any, ...]


@dataclass
class Step:
    session: int
    sql: str  # a statement, or one of the actions below

    def __str__(self) -> str:
        return f"{self.session}: {self.sql}"


DISCONNECT, KILL, CRASH, RESTART = "-- disconnect", "-- killed by another", "-- kill -9", "-- restart"


@dataclass
class Branch:
    """What the generator believes of a connection; only to make most statements meaningful."""

    name: str = ""
    state: str = "none"  # none, active, idle, prepared, plain


@dataclass
class Generator:
    r: random.Random
    ending: str = ""  # how the servers end in the middle: CRASH, RESTART or not at all
    sessions: list[Branch] = field(default_factory=lambda: [Branch() for _ in range(SESSIONS)])
    detached: list[str] = field(default_factory=list)
    fresh: int = 1000
    made: list[int] = field(default_factory=list)

    def history(self) -> list[Step]:
        ends_at = self.r.randint(STEPS // 3, STEPS * 2 // 3)
        result = []
        for i in range(STEPS):
            if self.ending and i == ends_at:
                result.append(Step(0, self.ending))
                self._everybody_gone()
            else:
                result.append(self._step())
        return result

    def _everybody_gone(self) -> None:
        self.detached += [b.name for b in self.sessions if b.state == "prepared"]
        self.sessions = [Branch() for _ in range(SESSIONS)]

    def _step(self) -> Step:
        n = self.r.randrange(SESSIONS)
        branch, roll = self.sessions[n], self.r.random()
        if roll < 0.06:
            return Step(n, self.r.choice(("XA RECOVER", "XA RECOVER FORMAT='SQL'")))
        if roll < 0.12:
            if branch.state == "prepared":
                self.detached.append(branch.name)
            self.sessions[n] = Branch()
            return Step(n, self.r.choice((DISCONNECT, DISCONNECT, KILL)))
        if roll < 0.24:
            return Step(n, self._out_of_order(branch))
        if self.detached and branch.state == "none" and roll < 0.5:
            name = self.detached.pop(self.r.randrange(len(self.detached)))
            name = SAME.get(name, name) if self.r.random() < 0.5 else name
            return Step(n, f"XA {self.r.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {name}")
        return Step(n, self._in_order(branch))

    def _in_order(self, branch: Branch) -> str:
        if branch.state == "none":
            roll = self.r.random()
            if roll < 0.15:
                branch.state = "plain"
                return "BEGIN"
            if roll < 0.3:
                return self._statement()
            branch.name, branch.state = self.r.choice(NAMES), "active"
            return f"XA START {branch.name}"
        if branch.state == "plain":
            if self.r.random() < 0.6:
                return self._statement()
            branch.state = "none"
            return self.r.choice(("COMMIT", "ROLLBACK"))
        if branch.state == "active":
            if self.r.random() < 0.65:
                return self._statement()
            branch.state = "idle"
            return f"XA END {branch.name}"
        if branch.state == "idle":
            roll = self.r.random()
            if roll < 0.75:
                branch.state = "prepared"
                return f"XA PREPARE {branch.name}"
            branch.state = "none"
            return f"XA ROLLBACK {branch.name}" if roll < 0.85 else f"XA COMMIT {branch.name} ONE PHASE"
        branch.state = "none"
        return f"XA {self.r.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {branch.name}"

    def _out_of_order(self, branch: Branch) -> str:
        name = branch.name if branch.name and self.r.random() < 0.5 else self.r.choice(NAMES)
        return self.r.choice((
            f"XA START {name}", f"XA START {name} JOIN", f"XA START {name} RESUME", f"XA END {name}",
            f"XA END {name} SUSPEND", f"XA PREPARE {name}", f"XA COMMIT {name}", f"XA COMMIT {name} ONE PHASE",
            f"XA ROLLBACK {name}", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE SAVEPOINT s",
            "SELECT id, v FROM t", "SET autocommit = 0", "SET autocommit = 1", self._statement(), self._statement(),
            "SET TRANSACTION READ ONLY", "LOCK TABLES t WRITE", "UNLOCK TABLES", "CREATE TABLE made (a INT)",
            "DROP TABLE IF EXISTS made", "TRUNCATE TABLE empty"))

    def _statement(self) -> str:
        row = self.r.randint(1, ROWS)
        self.fresh += 1
        # Each key is deleted by one statement only.
        gone = self.made.pop(self.r.randrange(len(self.made))) if len(self.made) > 2 else 0
        self.made.append(self.fresh)
        return self.r.choice((
            f"UPDATE t SET v = v + 1 WHERE id = {row}", f"UPDATE t SET u = {self.fresh} WHERE id = {row}",
            f"UPDATE t SET v = v * 2 + 1 WHERE id IN ({row}, {self.r.randint(1, ROWS)})",
            f"INSERT INTO t VALUES ({self.fresh}, {self.fresh}, 0, REPEAT('x', {self.r.choice((0, 10, 3000))}))",
            f"INSERT INTO t (id, u) VALUES ({self.fresh}, {self.fresh})", f"DELETE FROM t WHERE id = {gone or -self.fresh}",
            f"INSERT INTO m (a) VALUES ({self.fresh})", "SELECT id, u, v, LENGTH(w) FROM t", "SELECT COUNT(*) FROM m",
            "SAVEPOINT s", "ROLLBACK TO s"))


class Side:
    """One server with its connections."""

    def __init__(self, server: Server, made_in: str):
        self.server, self.made_in = server, made_in
        self.sessions: list[pymysql.Connection] = []

    def fresh(self) -> None:
        self.close()
        self.settle()
        admin = self.server.connect()
        for row in rows(admin, "XA RECOVER FORMAT='SQL'"):
            self._answer(admin, f"XA ROLLBACK {row[3].decode()}")
        for sql in ("DROP DATABASE IF EXISTS xa", "CREATE DATABASE xa", "USE xa",
                    "CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT NOT NULL DEFAULT 0, w TEXT, "
                    f"UNIQUE (u), KEY (v)) ENGINE={self.made_in}",
                    f"CREATE TABLE m (a INT, KEY (a)) ENGINE={self.made_in}",
                    f"CREATE TABLE empty (a INT) ENGINE={self.made_in}",
                    f"INSERT INTO t SELECT seq, seq, 0, 'w' FROM seq_1_to_{ROWS}"):
            admin.query(sql)
        admin.close()
        self.sessions = [self._session() for _ in range(SESSIONS)]

    def _session(self) -> pymysql.Connection:
        session = self.server.connect("xa")
        for sql in ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET innodb_lock_wait_timeout = 0",
                    "SET lock_wait_timeout = 0", f"SET default_storage_engine = {self.made_in}"):
            session.query(sql)
        return session

    def close(self) -> None:
        for session in self.sessions:
            try:
                session.close()
            except (pymysql.Error, OSError):
                pass
        self.sessions = []

    def settle(self) -> None:
        """Connections that ended have left what they had prepared, and InnoDB has undone what a crash left running."""
        admin = self.server.connect()
        known = ", ".join(str(s.thread_id()) for s in [*self.sessions, admin] if s.open)
        for sql in ("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root' AND command != 'Daemon' "
                    f"AND id NOT IN ({known})",
                    "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'ROLLING BACK' OR "
                    "trx_operation_state LIKE 'rollback%'"):
            end = time.monotonic() + 10
            while int(rows(admin, sql)[0][0]):
                if time.monotonic() > end:
                    raise ServerFailed(f"not settled after 10 s: {sql}")
                time.sleep(0.005)
        admin.close()

    @staticmethod
    def _answer(session: pymysql.Connection, sql: str) -> Answer:
        try:
            with session.cursor() as cursor:
                affected = cursor.execute(sql)
                found = cursor.fetchall() if cursor.description else None
        except pymysql.err.Error as error:
            return ("error", *error.args)
        return ("ok", affected) if found is None else ("rows", tuple(sorted(found, key=repr)))

    def do(self, step: Step) -> Answer:
        if step.sql in (CRASH, RESTART):
            return self._again(step.sql == CRASH)
        if step.sql in (DISCONNECT, KILL):
            old = self.sessions[step.session]
            if step.sql == KILL:
                admin = self.server.connect()
                answer = self._answer(admin, f"KILL {old.thread_id()}")
                admin.close()
                if answer[0] == "error":
                    return answer
            old.close()
            self.settle()
            self.sessions[step.session] = self._session()
            return ("ok", 0)
        return self._answer(self.sessions[step.session], step.sql)

    def _again(self, crash: bool) -> Answer:
        if crash:
            if self.made_in == "InnoDB":
                admin = self.server.connect()
                admin.query("FLUSH ENGINE LOGS")
                admin.close()
            self.server.kill()
        self.close()
        if not crash:
            self.server.stop()
        self.server.start()
        self.settle()
        self.sessions = [self._session() for _ in range(SESSIONS)]
        return self.recovered()

    def recovered(self) -> Answer:
        return self._answer(self.sessions[0], "XA RECOVER")

    def tables(self) -> Answer:
        """What is committed; locks of prepared branches do not hide it."""
        self.close()
        self.settle()
        admin = self.server.connect("xa")
        result = (self._answer(admin, "XA RECOVER"), self._answer(admin, "SELECT id, u, v, MD5(w) FROM t"),
                  self._answer(admin, "SELECT u FROM t FORCE INDEX (u) WHERE u > 0"),
                  self._answer(admin, "SELECT a FROM m"))
        for row in rows(admin, "XA RECOVER FORMAT='SQL'"):
            self._answer(admin, f"XA COMMIT {row[3].decode()}")
        result += (self._answer(admin, "SELECT id, u, v, MD5(w) FROM t"), self._answer(admin, "SELECT a FROM m"),
                   self._answer(admin, "CHECK TABLE t, m EXTENDED"))
        admin.close()
        return result


def differ(a: Answer, b: Answer) -> bool:
    # Texts of errors may name the engine.
    return a[:2] != b[:2] if a[0] == b[0] == "error" else a != b


def episode(sides: tuple[Side, Side], history: list[Step], canary: bool, told: list[str]) -> str:
    """Runs a history on both; returns the difference, or an empty string. Puts each answer into `told`."""
    for side in sides:
        side.fresh()
    for step in history:
        steps = [step, step]
        if canary and step.sql.startswith("XA COMMIT") and not step.sql.endswith("PHASE"):
            steps[1] = Step(step.session, step.sql.replace("COMMIT", "ROLLBACK"))
        a, b = (side.do(s) for side, s in zip(sides, steps))
        told.append(f"  {step}\n      {str(a)[:300]}" + (f"\n      {str(b)[:300]}" if a != b else ""))
        if differ(a, b):
            return f"{step}\n  {sides[0].made_in}: {a}\n  {sides[1].made_in}: {b}"
        x, y = (side.recovered() for side in sides)
        if x != y:
            return f"XA RECOVER after {step}\n  {sides[0].made_in}: {x}\n  {sides[1].made_in}: {y}"
    a, b = (side.tables() for side in sides)
    return "" if a == b else f"tables at the end\n  {sides[0].made_in}: {a}\n  {sides[1].made_in}: {b}"


def options(binlog: bool) -> list[str]:
    result = ["--innodb-buffer-pool-size=32M", "--loose-frond-cache-size=16M", "--loose-frond-lock-wait-timeout=0",
              "--skip-name-resolve"]
    return result + (["--log-bin=bin", "--server-id=1", "--binlog-format=ROW", "--sync-binlog=1"] if binlog else [])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--episode", type=int)
    parser.add_argument("--binlog", choices=("on", "off"), default="on")
    parser.add_argument("--canary", action="store_true")
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}, binary log {arguments.binlog}", flush=True)
    numbers = range(arguments.episodes) if arguments.episode is None else (arguments.episode,)
    wrong, done, statements = "", 0, 0
    given = options(arguments.binlog == "on")
    with Server("xa-reference", given, {"SERVER_PLUGINS": ""}) as reference, Server("xa-tested", given) as tested:
        sides = (Side(reference, "InnoDB"), Side(tested, engine()))
        for number in numbers:
            ending = {0: CRASH, KILL_EVERY // 2: RESTART}.get(number % KILL_EVERY, "")
            told: list[str] = []
            history = Generator(random.Random(f"{arguments.seed}:{number}"), ending).history()
            wrong = episode(sides, history, arguments.canary, told)
            statements += len(told)
            if wrong or arguments.episode is not None:
                print("\n".join(told))
            if wrong:
                print(f"DIFFERENCE in episode {number}: {wrong}\nagain: /usr/bin/python3 -B tests/sql/xa.py --seed {arguments.seed} "
                      f"--binlog {arguments.binlog} --episode {number}")
                break
            done += 1
    print(f"{done} histories of {statements} steps agree" if not wrong else f"{done} histories agree before it")
    print(f"{done} passed, {1 if wrong else 0} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ServerFailed, OSError, pymysql.Error) as error:
        print(f"could not run: {type(error).__name__} {error}", file=sys.stderr)
        sys.exit(2)

"""Kill test with the binary log on: after each kill -9 the binary log and the tables agree.

    kill9_binlog.py [--cycles N] [--seconds N] [--seed SEED]

What the clients do, with sync_binlog=1 and frond_flush_log_at_commit=1 and 2 by turns:
    transfers   move money between accounts in Frond and in InnoDB, in one transaction
    journal     insert single rows with autocommit, and remember which were acknowledged
    branches    the same transfers as XA transactions: prepared, then committed or rolled back, some by
                another connection, some never

The server is killed at random moments, and by itself at the points between the steps of a commit that
FROND_CRASH_POINT names: after prepare, between the write of the binary log and its sync (with what was written, and
without it), after the sync, before the first commit of a group, between two of them, around a checkpoint of the
binary log. Once, before the first cycle, the binary log is cut within an XA transaction.

After each restart: the XA transactions that are left are ended; none is prepared any more; the sum holds; what was
acknowledged is there; and the binary log, replayed into another server that started empty, gives the same tables, by
checksum.

Status: 0 all cycles good, 1 something is lost or wrong, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pymysql

from clients import LOST, Client, Problem
from server import Server, ServerFailed, engine, rows, run

ACCOUNTS = 30
START_BALANCE = 1000
# Each with what its rows are ordered by.
TABLES = {"accounts_f": "id", "accounts_i": "id", "journal": "n"}
# Those of the binary log are in crash_at_sync.c, the others in the plugin.
POINTS = ("after_prepare", "before_binlog_sync", "lost_binlog", "after_binlog_sync", "before_commit_ordered",
          "after_commit_ordered", "before_checkpoint", "after_checkpoint")
# Kills that a run must get through, if as many were asked for, however long it takes.
LEAST_CYCLES = 20
# A transaction that a crash tore off gives its GTID to the next one.
READ = ("mariadb-binlog", "--no-defaults", "--skip-gtid-strict-mode")


class Transfers(Client):
    """Money from one engine to the other, or within one; the sum over both is constant."""

    def prepare(self, admin: pymysql.Connection) -> None:
        for table, made_in in (("accounts_f", engine()), ("accounts_i", "InnoDB")):
            run(admin, f"CREATE TABLE kill9.{table} (id INT PRIMARY KEY, balance BIGINT NOT NULL, moves INT NOT "
                       f"NULL DEFAULT 0, note VARCHAR(200) NOT NULL DEFAULT '', KEY (balance)) ENGINE={made_in}")
            run(admin, f"INSERT INTO kill9.{table} (id, balance) SELECT seq, {START_BALANCE} FROM "
                       f"seq_1_to_{ACCOUNTS}")

    def transfer(self) -> None:
        amount = self.r.randint(1, 50)
        for change in (-amount, amount):
            table = self.r.choice(("accounts_f", "accounts_f", "accounts_i"))
            account = self.r.randint(1, ACCOUNTS)
            run(self.connection, f"UPDATE {table} SET balance = balance + ({change}), moves = moves + 1, note = "
                                 f"'{'n' * self.r.randint(0, 200)}' WHERE id = {account}")

    def step(self) -> None:
        self.transfer()
        run(self.connection, self.r.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
        self.acknowledged += 1

    def verify(self, admin: pymysql.Connection) -> None:
        total = moves = 0
        for table in ("accounts_f", "accounts_i"):
            found = rows(admin, f"SELECT SUM(balance), SUM(moves) FROM {table}")[0]
            total, moves = total + int(found[0]), moves + int(found[1])
        if total != 2 * ACCOUNTS * START_BALANCE or moves % 2:
            raise Problem(f"{total} in sum, {moves} moves")


class Journal(Client):
    """Single rows; whoever was told that one is committed finds it again."""

    numbers = itertools.count(1)

    def __init__(self, server: Server, seed: str, number: int):
        super().__init__(server, seed, number)
        self.told: set[int] = set()
        self.is_new = True

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, f"CREATE TABLE kill9.journal (n INT PRIMARY KEY, v VARCHAR(100)) ENGINE={engine()}")

    def step(self) -> None:
        number = next(self.numbers)
        run(self.connection, f"INSERT INTO journal VALUES ({number}, '{'v' * self.r.randint(0, 100)}')")
        run(self.connection, "COMMIT")
        self.told.add(number)
        self.acknowledged += 1
        if self.r.random() < 0.02:
            run(self.connection, "FLUSH BINARY LOGS")

    def verify(self, admin: pymysql.Connection) -> None:
        there = {int(r[0]) for r in rows(admin, "SELECT n FROM journal")}
        if not self.told <= there:
            raise Problem(f"acknowledged and lost: {sorted(self.told - there)[:5]}")


class Branches(Transfers):
    """The same as XA transactions."""

    numbers = itertools.count(1)
    # XA transactions whose client was told that they are prepared.
    prepared: set[bytes] = set()

    def step(self) -> None:
        name = f"branch {next(self.numbers)}"
        self.connection.autocommit(True)
        run(self.connection, f"XA START '{name}'")
        try:
            self.transfer()
        except pymysql.err.Error as error:
            if error.args[0] in LOST:
                raise
            # A deadlock has rolled it back: both say so.
            for statement in (f"XA END '{name}'", f"XA ROLLBACK '{name}'"):
                try:
                    run(self.connection, statement)
                except pymysql.err.Error as told:
                    if told.args[0] in LOST:
                        raise
            return
        run(self.connection, f"XA END '{name}'")
        run(self.connection, f"XA PREPARE '{name}'")
        self.prepared.add(name.encode())
        if self.r.random() < 0.2:
            # Another connection ends it.
            self.connection.close()
            self.connection = self.server.connect("kill9")
        end = self.r.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        for _ in range(100):
            try:
                run(self.connection, f"XA {end} '{name}'")
                break
            except pymysql.err.Error as error:
                if error.args[0] != 1397:  # the other session is not gone yet
                    raise
                time.sleep(0.01)
        self.acknowledged += 1


def end_torn(statements: bytes) -> bytes:
    """Statements of mariadb-binlog, with an end for each XA transaction that a crash tore off in the binary log. For
    it mariadb-binlog writes ROLLBACK at the start of the next file, which the server refuses within an XA transaction."""
    torn = rb"^(XA START (X'\w*',X'\w*',\d+)(?:(?!^XA ).*\n)*?)ROLLBACK/\*!\*/;$"
    statements = re.sub(torn, rb"\1XA END \2/*!*/;\nXA ROLLBACK \2/*!*/;", statements, flags=re.MULTILINE)
    ended = rb"^(XA END (X'\w*',X'\w*',\d+)(?:(?!^XA ).*\n)*?)ROLLBACK/\*!\*/;$"
    return re.sub(ended, rb"\1XA ROLLBACK \2/*!*/;", statements, flags=re.MULTILINE)


class Replayed:
    """The server that has only what the binary log says. Of `database` the `tables` are compared."""

    def __init__(self, source: Server, target: Server, database: str, tables: dict[str, str]):
        self.source, self.target, self.done = source, target, ""
        self.database, self.tables = database, tables

    def new_files(self, admin: pymysql.Connection) -> list[str]:
        logs = [r[0].decode() for r in rows(admin, "SHOW BINARY LOGS")]
        return [str(self.source.data() / log) for log in logs if log > self.done]

    def said_of(self, admin: pymysql.Connection) -> dict[bytes, str]:
        """What the binary log last says of each XA transaction: PREPARE, COMMIT or ROLLBACK."""
        read = subprocess.run([*READ, *self.new_files(admin)], capture_output=True, timeout=300, check=True)
        found = re.findall(rb"^XA (PREPARE|COMMIT|ROLLBACK) X'([0-9a-f]*)'", read.stdout, re.MULTILINE)
        return {bytes.fromhex(name.decode()): said.decode() for said, name in found}

    def catch_up(self, admin: pymysql.Connection) -> None:
        """Replays what is new; nobody writes meanwhile."""
        run(admin, "FLUSH BINARY LOGS")
        files = self.new_files(admin)[:-1]
        self.done = files[-1].rsplit("/", 1)[1]
        statements = self.target.directory() / "replayed.sql"
        read = [*READ, f"--result-file={statements}", *files]
        subprocess.run(read, capture_output=True, timeout=300, check=True)
        statements.write_bytes(end_torn(statements.read_bytes()))
        write = ["mariadb", "--no-defaults", "--binary-mode", f"--socket={self.target.socket}", "-uroot"]
        with open(statements, "rb") as source:
            done = subprocess.run(write, stdin=source, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise Problem(f"the binary log cannot be replayed: {done.stderr.strip()}")
        other = self.target.connect(self.database, read_timeout=300)
        for row in rows(other, "XA RECOVER"):
            if row[3] in Branches.prepared:
                raise Problem(f"{row[3]!r} was prepared, and only the binary log has it")
            run(other, f"XA ROLLBACK '{row[3].decode()}'")
        other.close()

    def compare(self, admin: pymysql.Connection) -> None:
        other = self.target.connect(self.database, read_timeout=300)
        for table, order in self.tables.items():
            sql = f"CHECKSUM TABLE {table} EXTENDED"
            if rows(admin, sql) != rows(other, sql):
                here = rows(admin, f"SELECT * FROM {table} ORDER BY {order}")
                there = rows(other, f"SELECT * FROM {table} ORDER BY {order}")
                raise Problem(f"{table}: the table has {sorted(set(here) - set(there))[:3]}, the binary log "
                              f"{sorted(set(there) - set(here))[:3]}")
        other.close()


def preload(directory: Path) -> str:
    """The library that ends a server at a sync of its binary log."""
    directory.mkdir(parents=True, exist_ok=True)
    library = directory / "crash_at_sync.so"
    source = Path(__file__).with_name("crash_at_sync.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(source)],
                   stdin=subprocess.DEVNULL, timeout=60, check=True)
    return str(library)


class Cycle:
    def __init__(self, server: Server, replayed: Replayed, seed: str):
        self.server, self.replayed = server, replayed
        self.library = preload(server.directory())
        self.r = random.Random(f"{seed}:kills")
        self.clients: list[Client] = [
            *(Transfers(server, seed, n) for n in range(3)), *(Journal(server, seed, n) for n in (3, 4, 5)),
            Branches(server, seed, 6), Branches(server, seed, 7)]
        self.points: dict[str, int] = {}
        self.found = 0

    def prepare(self) -> None:
        admin = self.server.connect()
        run(admin, "CREATE DATABASE kill9")
        admin.select_db("kill9")
        self.clients[0].prepare(admin)
        self.clients[3].prepare(admin)
        admin.close()

    def run(self, number: int) -> None:
        admin = self.server.connect()
        run(admin, f"SET GLOBAL frond_flush_log_at_commit = {1 + number % 2}")
        admin.close()
        for client in self.clients:
            client.begin()
        point = self.server.environment.get("FROND_CRASH_POINT", "")
        end = time.monotonic() + (8 if point else 0.1 + 0.8 * self.r.random())
        while time.monotonic() < end and (not point or self.server.running()):
            time.sleep(0.05)
        if point and not self.server.running():
            name = point.split(":")[0]
            self.points[name] = self.points.get(name, 0) + 1
        self.server.kill()
        for client in self.clients:
            client.end()
        self.choose_point(number)
        self.server.start()
        self.verify()

    def torn_branch(self) -> None:
        """A kill in the middle of the write of an XA transaction to the binary log; the next one gets its GTID."""
        admin = self.server.connect("kill9")
        value = "v" * 100
        for statement in ("FLUSH BINARY LOGS", "XA START 'torn'", f"INSERT INTO journal VALUES (-1, '{value}')",
                          "XA END 'torn'", "XA PREPARE 'torn'"):
            run(admin, statement)
        last = self.server.data() / rows(admin, "SHOW BINARY LOGS")[-1][0].decode()
        self.server.kill()
        written = last.read_bytes()
        last.write_bytes(written[:written.rindex(value.encode()) + len(value) // 2])
        self.server.start()
        admin = self.server.connect("kill9")
        run(admin, "INSERT INTO journal VALUES (0, '')")
        admin.close()
        self.verify()

    def choose_point(self, number: int) -> None:
        """Every second time the next kill is at a chosen crash point."""
        for name in ("FROND_CRASH_POINT", "LD_PRELOAD"):
            self.server.environment.pop(name, None)
        if number % 2:
            point = POINTS[number // 2 % len(POINTS)]
            # Not so early that the start or `verify` comes there: both sync the binary log and end XA transactions.
            least, most = (2, 4) if "checkpoint" in point else (20, 150)
            self.server.environment["FROND_CRASH_POINT"] = f"{point}:{self.r.randint(least, most)}"
            if "_binlog" in point:
                self.server.environment["LD_PRELOAD"] = self.library

    def end_branches(self, admin: pymysql.Connection) -> None:
        """As a transaction manager that reads the binary log. The server writes XA COMMIT to it before the engines
        commit, and XA PREPARE before the first engine prepares, and when it recovers it does not compare. So what was
        not acknowledged as prepared is rolled back, here and where the binary log was replayed."""
        left = [row[3] for row in rows(admin, "XA RECOVER")]
        said = self.replayed.said_of(admin) if left else {}
        for name in left:
            self.found += 1
            end = said.get(name, "")
            undecided = end == "PREPARE" and name in Branches.prepared
            if end in ("", "PREPARE"):
                end = self.r.choice(("COMMIT", "ROLLBACK")) if undecided else "ROLLBACK"
            run(admin, f"SET SESSION sql_log_bin = {int(undecided)}")
            run(admin, f"XA {end} '{name.decode()}'")
        run(admin, "SET SESSION sql_log_bin = 1")

    def verify(self) -> None:
        admin = self.server.connect("kill9", read_timeout=300)
        self.end_branches(admin)
        left = rows(admin, "SHOW GLOBAL STATUS LIKE 'frond_prepared'")
        if [int(r[1]) for r in left] != [0]:
            raise Problem(f"prepared transactions are left: {left}")
        self.replayed.catch_up(admin)
        self.replayed.compare(admin)
        for client in self.clients:
            client.verify(admin)
        for table in TABLES:
            verdict = rows(admin, f"CHECK TABLE {table} EXTENDED")
            if verdict[-1][3] != b"OK":
                raise Problem(f"CHECK TABLE {table}: {verdict}")
        admin.close()


OPTIONS = ["--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=32M", "--innodb-lock-wait-timeout=2",
           "--frond-lock-wait-timeout=2", "--lock-wait-timeout=5", "--frond-cache-size=8M",
           "--frond-log-segment-size=1M", "--frond-log-capacity=16M"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}", flush=True)
    passed, problem, begin = 0, "", time.monotonic()
    logged = ["--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=1", "--server-id=1"]
    with Server("kill9b", OPTIONS + logged) as server, Server("replay", OPTIONS) as target:
        try:
            cycle = Cycle(server, Replayed(server, target, "kill9", TABLES), arguments.seed)
            cycle.prepare()
            cycle.torn_branch()
            least = min(LEAST_CYCLES, arguments.cycles)
            while passed < least or (passed < arguments.cycles
                                     and time.monotonic() - begin < arguments.seconds):
                cycle.run(passed)
                passed += 1
            print("clients: " + ", ".join(c.summary() for c in cycle.clients))
            print(f"{cycle.found} XA transactions found; ended at " +
                  ", ".join(f"{name} {n} times" for name, n in sorted(cycle.points.items())))
        except (Problem, ServerFailed, pymysql.Error, OSError, subprocess.SubprocessError) as error:
            problem = f"cycle {passed + 1}: {type(error).__name__} {error}\n{server.log_end()}"
    if problem:
        print(f"FAILED in {problem}\nagain: SEED={arguments.seed} scripts/test.sh 82")
    print(f"{passed} kills in {time.monotonic() - begin:.0f} s")
    failed = 1 if problem else 0
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ServerFailed, OSError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        sys.exit(2)

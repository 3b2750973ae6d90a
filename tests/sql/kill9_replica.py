"""Kill test of a replica: after each kill -9 it goes on by itself and ends with the primary's tables.

    kill9_replica.py [--cycles N] [--fresh N] [--primary N] [--seconds N] [--mode N] [--seed SEED]

The primary takes transactions all the time: transfers, rows with AUTO_INCREMENT and a UNIQUE index, a few rows that
everybody changes, some transactions of thousands of rows. The replica is made while they run, by mariadb-dump
--single-transaction --master-data, `--fresh` times; it keeps its position in a table of the engine under test. Then it
is killed `--cycles` times while it applies, half of the time what has piled up before. MODES has what changes from
one kill to the next: threads, order, the images in the binary log, a binary log of the replica's own, semi-synchronous,
whether rows are read before they are changed.

After each restart the replica is started, the load ends for a moment, and when the replica has the primary's
position all tables are compared by checksum. Money that is lost and rows that are there twice or not at all would
show, as would a replica that stops with an error.

Then the primary is killed, `--primary` times, while it waits for its replica (semi-synchronous, AFTER_SYNC): what was
acknowledged is on the replica before the primary comes back.

At the end a row is changed on the replica, and the replica is killed: the comparison must notice the row, and so must a
replica that compares the rows it changes unread.

Without XA: the server writes the position of XA PREPARE in a transaction of its own, whatever the engine.

Status: 0 all kills survived, 1 a difference or a stopped replica, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

import pymysql

from clients import Bank, Client, Ledger, Problem
from server import Server, ServerFailed, engine, rows, run

HOT_ROWS = 8
LARGE = 3000
# A client takes a step at most every so many seconds: the replica has to keep up, on two cores with everything else.
PACE = 0.003
# A replica that makes no progress for this long hangs.
CATCH_UP_SECONDS = 120


@dataclass
class Mode:
    threads: int
    order: str
    image: str
    own_binlog: bool
    semi_sync: bool = False
    # Rows are changed unread, and this many of a million are compared with the event.
    unread: int | None = None

    def __str__(self) -> str:
        return (f"{self.threads} threads, {self.order}, {self.image}{', binary log' if self.own_binlog else ''}"
                f"{', semi-synchronous' if self.semi_sync else ''}"
                f"{'' if self.unread is None else f', unread, {self.unread} compared'}")


MODES = (Mode(4, "optimistic", "FULL", True, unread=0), Mode(4, "optimistic", "MINIMAL", False),
         Mode(16, "optimistic", "NOBLOB", True), Mode(4, "optimistic", "FULL", False, True, 1000000),
         Mode(1, "conservative", "FULL", True, unread=1000), Mode(1, "conservative", "MINIMAL", True),
         Mode(16, "optimistic", "FULL", False, unread=0), Mode(4, "aggressive", "FULL", True))
# The primary's, while its death is tested. No client is told of a commit that no replica has.
SEMI_SYNC = ("rpl_semi_sync_master_wait_point = AFTER_SYNC", "rpl_semi_sync_master_timeout = 60000",
             "rpl_semi_sync_master_enabled = 1")


class PacedBank(Bank):
    def step(self) -> None:
        super().step()
        time.sleep(PACE)


class PacedLedger(Ledger):
    def step(self) -> None:
        super().step()
        time.sleep(PACE)


class Hot(Client):
    """Rows that every transaction wants, so that what is applied at the same time conflicts; now and then a long one."""

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, "CREATE TABLE kill9.hot (id INT PRIMARY KEY, v BIGINT NOT NULL, b BLOB, t TEXT, KEY (v)) "
                   f"ENGINE={engine()}")
        run(admin, f"INSERT INTO kill9.hot SELECT seq, 0, 'b', 't' FROM seq_1_to_{HOT_ROWS}")
        # No key: the replica finds rows by all their columns.
        run(admin, f"CREATE TABLE kill9.many (n INT NOT NULL, v INT NOT NULL, KEY (n)) ENGINE={engine()}")

    def step(self) -> None:
        row, roll = self.r.randint(1, HOT_ROWS), self.r.random()
        if roll < 0.02:
            run(self.connection, f"INSERT INTO many SELECT {self.number}, seq FROM seq_1_to_{LARGE}")
        elif roll < 0.03:
            run(self.connection, f"DELETE FROM many WHERE n = {self.number} LIMIT {LARGE // 2}")
        run(self.connection, self.r.choice((
            f"UPDATE hot SET v = v + 1 WHERE id = {row}", f"UPDATE hot SET v = v * 3 % 1000003 WHERE id = {row}",
            f"UPDATE hot SET b = REPEAT('{row}', {self.r.randint(0, 2000)}) WHERE id = {row}",
            f"UPDATE hot SET t = CONCAT(v, '{row}') WHERE id <= {row}", f"DELETE FROM hot WHERE id = {row}",
            f"REPLACE INTO hot VALUES ({row}, {self.r.randint(0, 999)}, 'new', NULL)")))
        run(self.connection, self.r.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
        self.acknowledged += 1
        time.sleep(PACE)

    def verify(self, admin: pymysql.Connection) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def options(number: int, port: int) -> list[str]:
    # Not durable at once: a kill of the process loses nothing that was written, and the machine's disk is spared.
    return ["--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", f"--server-id={number}",
            "--binlog-format=ROW", "--innodb-buffer-pool-size=32M", "--loose-frond-cache-size=32M",
            "--innodb-flush-log-at-trx-commit=2", "--loose-frond-flush-log-at-commit=2"]


class Pair:
    """A primary with its load, and a replica."""

    def __init__(self, primary: Server, replica: Server, port: int, seed: str):
        self.primary, self.replica, self.port = primary, replica, port
        self.r = random.Random(f"{seed}:kills")
        self.base = list(replica.options)
        self.retried = self.unread = 0
        self.clients: list[Client] = [PacedBank(primary, seed, 0), PacedBank(primary, seed, 1),
                                      PacedLedger(primary, seed, 2), Hot(primary, seed, 3), Hot(primary, seed, 4)]

    def prepare(self) -> None:
        admin = self.primary.connect()
        run(admin, "CREATE DATABASE kill9")
        admin.select_db("kill9")
        for kind in (PacedBank, PacedLedger, Hot):
            next(c for c in self.clients if isinstance(c, kind)).prepare(admin)
        admin.close()

    def load(self, seconds: float) -> None:
        for client in self.clients:
            client.begin()
        time.sleep(seconds)

    def pause(self) -> None:
        for client in self.clients:
            client.end()

    def fresh(self) -> None:
        """A replica from a dump that was taken under load."""
        admin = self.replica.connect()
        for sql in ("STOP SLAVE", "RESET SLAVE ALL", "DROP DATABASE IF EXISTS kill9",
                    "SET GLOBAL gtid_slave_pos = ''"):
            run(admin, sql)
        self.load(0.5)
        try:
            dump = self.replica.directory() / "dump.sql"
            with open(dump, "wb") as output:
                subprocess.run(["mariadb-dump", "--no-defaults", f"--socket={self.primary.socket}", "-uroot",
                                "--single-transaction", "--master-data=1", "--gtid", "--databases", "kill9"],
                               stdout=output, stdin=subprocess.DEVNULL, timeout=200, check=True)
            with open(dump, "rb") as source:
                subprocess.run(["mariadb", "--no-defaults", f"--socket={self.replica.socket}", "-uroot"],
                               stdin=source, timeout=200, check=True)
            run(admin, f"CHANGE MASTER TO master_host = '127.0.0.1', master_port = {self.port}, master_user = 'root', "
                       "master_use_gtid = slave_pos, master_connect_retry = 1")
            run(admin, "START SLAVE")
            time.sleep(0.5)
        finally:
            self.pause()
        admin.close()
        self.compare()

    def use(self, mode: Mode) -> None:
        """What the primary does from now on, and the replica from its next start."""
        admin = self.primary.connect()
        run(admin, f"SET GLOBAL binlog_row_image = {mode.image}")
        run(admin, f"SET GLOBAL rpl_semi_sync_master_enabled = {int(mode.semi_sync)}")
        run(admin, "SET GLOBAL rpl_semi_sync_master_timeout = 200")
        admin.close()
        self.replica.options = [*self.base, f"--slave-parallel-threads={mode.threads}",
                                f"--slave-parallel-mode={mode.order}",
                                f"--rpl-semi-sync-slave-enabled={int(mode.semi_sync)}",
                                f"--loose-frond-read-free-replication={'OFF' if mode.unread is None else 'PK'}",
                                f"--loose-frond-read-free-verify={mode.unread or 0}",
                                *(["--log-bin=bin", "--log-slave-updates", "--sync-binlog=1"] if mode.own_binlog
                                  else ["--skip-log-bin"])]

    def cycle(self, mode: Mode) -> None:
        self.use(mode)
        self.replica.stop()
        self.replica.start()
        piled_up = self.r.random() < 0.5
        if not piled_up:
            self._start_slave()
        self.load(0.5 + 0.5 * self.r.random())
        try:
            if piled_up:
                self._start_slave()
            time.sleep(0.05 + 0.7 * self.r.random() ** 2)
            self._count()
            self.replica.kill()
            self.replica.start()
            self._start_slave()
            time.sleep(0.2)
        finally:
            self.pause()
        self.compare()

    def _start_slave(self) -> None:
        admin = self.replica.connect()
        run(admin, "START SLAVE")
        admin.close()

    def _count(self) -> None:
        self.retried += self._status("Slave_retried_transactions")
        self.unread += self._status("Frond_read_free_rows")

    def _status(self, name: str, server: Server | None = None) -> int:
        admin = (server or self.replica).connect()
        found = rows(admin, f"SHOW GLOBAL STATUS LIKE '{name}'")
        admin.close()
        return int(found[0][1]) if found else 0

    def compare(self) -> None:
        """Waits until the replica has everything; nobody writes meanwhile."""
        here, there = self.primary.connect("kill9"), self.replica.connect(read_timeout=CATCH_UP_SECONDS + 30)
        position = rows(here, "SELECT @@gtid_binlog_pos")[0][0].decode()
        self._await(there, position)
        difference = self.difference(here, there)
        if difference:
            raise Problem(difference)
        self.clients[0].verify(here)
        here.close()
        there.close()

    @staticmethod
    def _await(there: pymysql.Connection, position: str) -> None:
        """Waits until the replica has `position`. A slow disk may take its time; a replica that makes no progress may
        not."""
        at, end = None, 0.0
        while int(rows(there, f"SELECT MASTER_GTID_WAIT('{position}', 2)")[0][0]):
            before, at = at, rows(there, "SELECT @@gtid_slave_pos")[0][0]
            if at != before:
                end = time.monotonic() + CATCH_UP_SECONDS
            error = [r[1] for r in rows(there, "SELECT variable_name, variable_value FROM information_schema."
                                               "global_status WHERE variable_name = 'slave_running'")]
            if error != [b"ON"] or time.monotonic() > end:
                state = b" ".join(f for f in rows(there, "SHOW SLAVE STATUS")[0] if f).decode(errors="replace")
                raise Problem(f"the replica does not come to {position}: {state}")

    @staticmethod
    def difference(here: pymysql.Connection, there: pymysql.Connection) -> str:
        names = [r[0].decode() for r in rows(here, "SHOW TABLES FROM kill9")]
        sql = "CHECKSUM TABLE " + ", ".join(f"kill9.{n}" for n in names) + " EXTENDED"
        a, b = rows(here, sql), rows(there, sql)
        if a != b:
            return f"checksums differ: primary {sorted(set(a) - set(b))}, replica {sorted(set(b) - set(a))}"
        sql = "CHECK TABLE " + ", ".join(f"kill9.{n}" for n in names) + " EXTENDED"
        bad = [r for r in rows(there, sql) if r[3] != b"OK"]
        return f"CHECK TABLE on the replica: {bad}" if bad else ""

    def primary_cycle(self) -> None:
        """The primary is killed under load; the replica has what clients were told of."""
        self.use(MODES[0])
        admin = self.primary.connect()
        for setting in SEMI_SYNC:
            run(admin, f"SET GLOBAL {setting}")
        admin.close()
        self.replica.options += ["--rpl-semi-sync-slave-enabled=1"]
        self.replica.stop()
        self.replica.start()
        self._start_slave()
        end = time.monotonic() + CATCH_UP_SECONDS
        while not self._status("Rpl_semi_sync_master_clients", self.primary):
            if time.monotonic() > end:
                raise Problem("the replica does not come as a semi-synchronous one")
            time.sleep(0.1)
        before = self._status("Rpl_semi_sync_master_no_tx", self.primary)
        self.load(0.3 + 0.5 * self.r.random())
        unacknowledged = self._status("Rpl_semi_sync_master_no_tx", self.primary) - before
        self.primary.kill()
        self.pause()
        if unacknowledged:
            raise Problem(f"{unacknowledged} commits did not wait for the replica")
        self._verify_acknowledged()
        self.primary.start()
        self.compare()
        admin = self.primary.connect("kill9")
        for client in self.clients:
            client.verify(admin)
        admin.close()

    def _verify_acknowledged(self) -> None:
        """Without the primary: waits until all that was received is applied, and looks for what its clients know."""
        there = self.replica.connect("kill9", read_timeout=CATCH_UP_SECONDS + 30)
        run(there, "STOP SLAVE IO_THREAD")
        with there.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            received = cursor.fetchone()["Gtid_IO_Pos"].decode()
        if int(rows(there, f"SELECT MASTER_GTID_WAIT('{received}', {CATCH_UP_SECONDS})")[0][0]):
            raise Problem(f"the replica does not come to {received}, which it has received")
        marks = {int(r[0]) for r in rows(there, "SELECT mark FROM ledger")}
        for client in self.clients:
            if isinstance(client, Ledger):
                made, gone = client.doubt
                lost = set(client.present) - gone - marks
                extra = marks - set(client.present) - made
                if lost or extra:
                    raise Problem(f"acknowledged, and not on the replica: {sorted(lost)[:9]} inserted, "
                                  f"{sorted(extra)[:9]} deleted")
        run(there, "START SLAVE IO_THREAD")
        there.close()

    def canary(self) -> None:
        here, there = self.primary.connect("kill9"), self.replica.connect("kill9")
        run(there, "STOP SLAVE")
        run(there, "UPDATE accounts SET balance = balance + 1 WHERE id = 1")
        if not self.difference(here, there):
            raise Problem("a row was changed on the replica, and the comparison did not notice it")
        positions = [r[0].decode() for r in rows(there, "SHOW TABLES FROM mysql LIKE 'gtid_slave_pos%'")]
        if not any(p.lower() == f"gtid_slave_pos_{engine().lower()}" for p in positions):
            raise Problem(f"the position is not in a table of the engine: {positions}")
        if engine() == "Frond":
            self._planted()

    def _planted(self) -> None:
        """The row of the canary differs after a crash, and the primary changes it."""
        self.use(Mode(4, "optimistic", "FULL", True, unread=1000000))
        self.replica.kill()
        self.replica.start()
        admin = self.primary.connect("kill9")
        run(admin, "UPDATE accounts SET note = 'changed' WHERE id = 1")
        admin.close()
        self._start_slave()
        end = time.monotonic() + CATCH_UP_SECONDS
        while not self._status("Frond_read_free_divergences"):
            if time.monotonic() > end:
                raise Problem("a row was changed on the replica, and frond_read_free_verify did not notice it")
            time.sleep(0.1)
        named = "row (id=1) of table 'kill9/accounts' differs in column 'balance'"
        if named not in self.replica.log_end():
            raise Problem(f"the error log does not say: {named}\n{self.replica.log_end()}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--fresh", type=int, default=1)
    parser.add_argument("--primary", type=int, default=1)
    parser.add_argument("--mode", type=int, choices=range(len(MODES)), help="only this one of MODES")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}", flush=True)
    begin, passed, problem = time.monotonic(), 0, ""
    port = free_port()
    with Server("primary", [*options(1, port), "--log-bin=bin"]) as primary, \
            Server("replica", [*options(2, free_port()), "--skip-slave-start",
                               f"--gtid-pos-auto-engines={engine()}"]) as replica:
        pair = Pair(primary, replica, port, arguments.seed)
        what = "preparing"
        try:
            pair.prepare()
            for number in range(arguments.fresh):
                what = f"replica {number + 1} from a dump"
                pair.fresh()
                passed += 1
            for number in range(arguments.cycles):
                mode = MODES[number % len(MODES) if arguments.mode is None else arguments.mode]
                what = f"kill {number + 1} ({mode})"
                pair.cycle(mode)
                passed += 1
                if time.monotonic() - begin > arguments.seconds:
                    break
            for number in range(arguments.primary):
                what = f"kill {number + 1} of the primary"
                pair.primary_cycle()
                passed += 1
            what = "rows changed unread"
            if engine() == "Frond" and arguments.cycles and arguments.mode is None and not pair.unread:
                raise Problem("none was")
            what = "the canary"
            pair.canary()
        except (Problem, ServerFailed, pymysql.Error, OSError, subprocess.SubprocessError) as error:
            problem = f"{what}: {type(error).__name__} {error}\n{replica.log_end()}"
        print("clients: " + ", ".join(c.summary() for c in pair.clients)
              + f"; {pair.retried} transactions applied again, {pair.unread} rows changed unread")
    if problem:
        print(f"FAILED in {problem}\nagain: SEED={arguments.seed} scripts/test.sh 84")
    print(f"{passed} replicas from dumps and kills in {time.monotonic() - begin:.0f} s")
    print(f"{passed} passed, {1 if problem else 0} failed")
    return 1 if problem else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ServerFailed, OSError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        sys.exit(2)

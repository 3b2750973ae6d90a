"""Many backups of servers under load, each restored and compared with a replica that stopped at its GTID.

    backup_soak.py [--backups N] [--seed SEED] [--kills N]

Half of the backups are of a server that has Frond alone, half of one that has InnoDB, too. Meanwhile: sysbench's oltp_read_write; rows with three
secondary indexes that come in batches and go (as iiBench's); money that moves between accounts in both engines; large updates and deletes; and CREATE, ALTER, TRUNCATE,
RENAME and DROP of tables in both. A chain is a full backup and five incremental ones.

Each backup is verified and restored, and a server is started on it:
- the sums hold, CHECK TABLE EXTENDED finds nothing;
- all tables have the checksums that they have on a replica that stopped at the backup's GTID;
- it becomes a replica of the source, or has the source's binary log replayed into it, and all tables are equal to the source's.

Between them the tool and the server are killed at random moments: the source stays whole and goes on, and nothing looks like a backup.

Last line: N passed, N failed. Status 1: a promise is broken; 2: it could not run. What it takes: `make backups`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pymysql

from backup import ACCOUNTS_SUM, CHAIN, FROND, OPTIONS, Bench, Definitions, frond
from clients import Client, Problem
from kill9_replica import free_port
from server import Server, rows, run

ROWS = 5000


class Purchases(Client):
    """Batches of rows with three secondary indexes; the oldest go."""

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, "CREATE TABLE kill9.purchases (id BIGINT AUTO_INCREMENT PRIMARY KEY, at DATETIME, register INT, customer INT, product INT, "
                   "price FLOAT, note VARCHAR(100), KEY (price, customer), KEY (register, price, customer), KEY (price, at, customer)) ENGINE=Frond")

    def step(self) -> None:
        run(self.connection, "INSERT INTO purchases (at, register, customer, product, price, note) SELECT NOW(), RAND() * 1000, RAND() * 1e5, "
                             "RAND() * 1e4, ROUND(RAND() * 500, 2), REPEAT(MD5(RAND()), 2) FROM seq_1_to_400")
        run(self.connection, "COMMIT")
        run(self.connection, "DELETE FROM purchases WHERE id < (SELECT * FROM (SELECT MAX(id) - 30000 FROM purchases) t)")
        run(self.connection, "COMMIT")
        self.acknowledged += 1
        time.sleep(0.1)


class OfBoth(Definitions):
    engines = ("Frond", "InnoDB")


class Soak:
    """A source with its clients, and the replica that stops at each backup's moment."""

    def __init__(self, source: Server, follower: Server, seed: str, others: bool, port: int):
        self.r = random.Random(seed)
        self.bench = bench = Bench(source, seed, others, port)
        bench.clients.append(Purchases(source, seed, 4))
        bench.clients[-1].prepare(bench.admin)
        if others:
            bench.clients[3] = OfBoth(source, seed, 3)
        self.sysbench("prepare", "--mysql-storage-engine=Frond", "--tables=1")
        if others:
            self.second()
        self.follower, self.others = follower, others
        self.loads: list[subprocess.Popen[bytes]] = []
        there = follower.connect(read_timeout=300)
        run(there, f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'follower', MASTER_PASSWORD = 'f', "
                   "MASTER_USE_GTID = slave_pos")
        self.kills = 0

    def command(self, action: str, *more: str) -> list[str]:
        return ["sysbench", "oltp_read_write", f"--mysql-socket={self.bench.server.socket}", "--mysql-user=root", "--mysql-db=kill9",
                f"--table-size={ROWS}", "--db-ps-mode=disable", "--mysql-ignore-errors=1020,1205,1213", *more, action]

    def sysbench(self, action: str, *more: str) -> None:
        done = subprocess.run(self.command(action, *more), capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise Problem(f"sysbench {action}: {done.stdout[-500:]} {done.stderr[-500:]}")

    def second(self) -> None:
        """The other table of sysbench, of the other engine."""
        run(self.bench.admin, "CREATE TABLE kill9.sbtest2 LIKE kill9.sbtest1")
        run(self.bench.admin, "ALTER TABLE kill9.sbtest2 ENGINE=InnoDB")
        run(self.bench.admin, "INSERT INTO kill9.sbtest2 SELECT * FROM kill9.sbtest1")

    def begin(self) -> None:
        self.bench.begin()
        run_ = self.command("run", f"--tables={2 if self.others else 1}", "--threads=2", "--time=600", "--rate=60")
        self.loads.append(subprocess.Popen(run_, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def end(self) -> None:
        for load in self.loads:
            load.terminate()
            load.wait()
        self.loads.clear()
        self.bench.end()

    def backup(self, n: int, before: str) -> dict[str, Any]:
        """One more of a chain, while everybody works; restored and compared."""
        name = f"b{n}"
        self.begin()
        try:
            time.sleep(self.r.uniform(0.3, 1.5))
            told = self.bench.incremental(name, before) if before else self.bench.full(name)
            time.sleep(self.r.uniform(0.1, 0.5))
        finally:
            self.end()
        if told["kind"] != ("incremental" if before else "full"):
            raise Problem(str(told))
        self.bench.wait_unpinned()
        frond("verify", self.bench.dir(name), "--quiet")
        other = Server(f"soak-restored-{name}", [*OPTIONS[2:], f"--server-id={n + 10}"])
        other.directory().mkdir(parents=True)
        try:
            frond("restore", self.bench.dir(name), str(other.data()), "--quiet")
            with other:
                self.at_the_moment(other, told)
                if self.others or n % CHAIN == CHAIN - 1:
                    self.converges(other, told)
                else:
                    self.bench.compare(other, told)
        finally:
            shutil.rmtree(other.directory(), ignore_errors=True)
        return told

    def at_the_moment(self, other: Server, told: dict[str, Any]) -> None:
        """As a replica that stops at the same GTID."""
        gtid = told["binlog"]["gtid"]
        there = self.follower.connect(read_timeout=300)
        run(there, f"START SLAVE UNTIL master_gtid_pos = '{gtid}'")
        if int(rows(there, f"SELECT MASTER_GTID_WAIT('{gtid}', 200)")[0][0]):
            raise Problem(f"the replica did not come to {gtid}: {rows(there, 'SHOW SLAVE STATUS')}")
        run(there, "STOP SLAVE")
        if rows(there, "SELECT @@gtid_slave_pos")[0][0].decode() != gtid:
            raise Problem(f"the replica is beyond {gtid}")
        restored = other.connect("kill9", read_timeout=300)
        total = sum(int(rows(restored, f"SELECT COALESCE(SUM(balance), 0) FROM accounts_{t}")[0][0]) for t in "fi")
        for table in self.bench.tables(restored):
            verdict = rows(restored, f"CHECK TABLE kill9.`{table}` EXTENDED")
            if verdict[-1][-1] != b"OK":
                raise Problem(f"{table}: {verdict}")
        want, found = self.bench.tables(there), self.bench.tables(restored)
        if total != ACCOUNTS_SUM or want != found:
            raise Problem(f"{gtid}: {total} in sum; differ: {set(want.items()) ^ set(found.items())}")

    def converges(self, other: Server, told: dict[str, Any]) -> None:
        """The restored server follows the source."""
        if not self.others:
            subprocess.run(["mariadb-upgrade", "--no-defaults", "--force", f"--socket={other.socket}", "--user=root"], check=True,
                           capture_output=True, timeout=300)
        there = other.connect(read_timeout=300)
        run(there, f"SET GLOBAL gtid_slave_pos = '{told['binlog']['gtid']}'")
        run(there, f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {self.bench.port}, MASTER_USER = 'follower', MASTER_PASSWORD = 'f', "
                   "MASTER_USE_GTID = slave_pos")
        run(there, "START SLAVE")
        end = rows(self.bench.admin, "SELECT @@gtid_binlog_pos")[0][0].decode()
        if int(rows(there, f"SELECT MASTER_GTID_WAIT('{end}', 200)")[0][0]):
            raise Problem(f"it does not converge: {rows(there, 'SHOW SLAVE STATUS')}")
        run(there, "STOP SLAVE")
        here, found = self.bench.tables(self.bench.admin), self.bench.tables(there)
        if here != found:
            raise Problem(f"a replica from the backup differs: {set(here.items()) ^ set(found.items())}")

    def kill(self, seconds: float, before: str) -> None:
        """The tool or the server at a random moment of a backup."""
        victim, target = self.r.choice(("tool", "server")), self.bench.dir("killed")
        more = ["incremental", target, "--base", self.bench.dir(before)] if before and self.r.random() < 0.5 else ["full", target]
        self.begin()
        tool = subprocess.Popen([FROND, "backup", *more, *self.bench.connection()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(self.r.uniform(0, seconds * 1.2))
        ended = tool.poll() is not None
        if victim == "tool":
            tool.send_signal(signal.SIGKILL)
        else:
            self.bench.server.kill()
        tool.communicate(timeout=300)
        self.end()
        if victim == "server":
            cut_torn_event(max(self.bench.server.data().glob("*-bin.[0-9]*")))
            self.bench.server.start()
            self.bench.admin = self.bench.server.connect("kill9", read_timeout=300)
        whole = [p for p in ("manifest.json", "backup.frb") if (Path(target) / p).exists()]
        if whole:
            # It was done before the kill: then it is one.
            if not ended and tool.returncode != 0 and victim == "server":
                raise Problem(f"status {tool.returncode}, and there is {whole}")
            frond("verify", target, "--quick", "--quiet")
        elif Path(target).exists():
            frond("restore", target, self.bench.dir("x"), status=2)
        shutil.rmtree(target, ignore_errors=True)
        self.bench.wait_unpinned()
        self.kills += 1
        run(self.bench.admin, "FLUSH TABLES")
        for table in self.bench.tables(self.bench.admin):
            verdict = rows(self.bench.admin, f"CHECK TABLE kill9.`{table}`")
            if verdict[-1][-1] != b"OK":
                raise Problem(f"after a kill of the {victim}: {table}: {verdict}")
        for pid in self.bench.place.parent.rglob("xb_backup_*"):
            raise Problem(f"left over: {pid}")


def cut_torn_event(log: Path) -> None:
    """What an administrator has to do before replicas can go on: a killed MariaDB 10.11 may leave half an event at the end of its binary log, does
    not cut it when it starts, and replicas that read through that file stop there with error 1236."""
    with log.open("r+b") as file:
        size, at = file.seek(0, 2), 4
        while at + 19 <= size:
            file.seek(at + 9)
            length = int.from_bytes(file.read(4), "little")
            if length < 19 or at + length > size:
                break
            at += length
        file.truncate(at)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backups", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", default=str(random.randrange(1 << 32)))
    arguments = parser.parse_args()
    if not shutil.which("sysbench"):
        print("sysbench is not installed")
        return 2
    print(f"seed {arguments.seed}", flush=True)
    passed = failed = 0
    for others in (False, True):
        port = free_port()
        network = ["--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", "--server-id=1"]
        with Server(f"soak-{'both' if others else 'alone'}", OPTIONS + network) as source, \
                Server("soak-follower", [*OPTIONS[2:], "--server-id=2", "--skip-slave-start"]) as follower:
            soak = Soak(source, follower, f"{arguments.seed}:{others}", others, port)
            count = arguments.backups // 2 if others else (arguments.backups + 1) // 2
            before, blocked = "", []
            for n in range(count):
                before = before if n % CHAIN else ""
                try:
                    told = soak.backup(n, before)
                    if n * arguments.kills // (2 * count) > soak.kills - 1:
                        soak.kill(told["seconds"], f"b{n}")
                except (Problem, pymysql.err.Error, OSError, subprocess.SubprocessError) as error:
                    failed += 1
                    print(f"FAILED backup {n}, seed {arguments.seed}: {error}\n{source.log_end(5)}", flush=True)
                    break
                passed += 1
                before = f"b{n}"
                if told["blocked_ms"] is not None:
                    blocked.append(told["blocked_ms"])
                if n % CHAIN == CHAIN - 1:
                    for path in soak.bench.place.glob("b*"):
                        shutil.rmtree(path)
                print(f"ok {n}: {told['kind']}, {told['bytes']} bytes, {told['bytes_named']} named, {told['seconds']:.1f} s", flush=True)
            print(f"{'both' if others else 'Frond alone'}: {soak.kills} kills, {[c.summary() for c in soak.bench.clients]}, commits blocked {blocked} ms",
                  flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

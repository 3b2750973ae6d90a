"""TPC-C with sysbench-tpcc: Frond beside InnoDB, then a replica that is killed while it applies it.

    tpcc.py --scripts DIR [--warehouses N] [--cache BYTES] [--threads N] [--seconds N] [--kills N]

DIR has Percona-Lab's sysbench-tpcc; its tables have foreign keys. Three parts:

  speed    Each engine in turn, twice, on a new server with a binary log: load, run, check. Transactions a second, and the server's
           CPU time for one, which depends less on what else the machine does. The engine under test runs with its defaults, and
           as InnoDB does: then REPEATABLE READ changes rows that others have changed since the snapshot, and does not fail.
  replica  A primary of the engine under test under this load, and a replica with four threads in optimistic order. The
           replica is killed --kills times and goes on by itself. Then the load ends, all tables of both have the same checksums,
           and tpcc_check finds nothing wrong on either.
  oltp     The same replica under sysbench's oltp_write_only.

Status: 0 as it should be, 1 a check or a comparison failed, 2 the test could not run.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pymysql

from clients import Problem
from kill9_replica import CATCH_UP_SECONDS, free_port
from server import Server, ServerFailed, engine, rows, run

DATABASE = "tpcc"
# What tpcc_check prints: one line for each of its checks and warehouses.
VERDICT = re.compile(r"^Check (\d+), warehouse: (\d+) (PASSED|FAILED)", re.M)


class Load:
    """sysbench-tpcc on one server."""

    TABLES = 9

    def __init__(self, server: Server, scripts: Path, tested: str, warehouses: int):
        self.server, self.scripts, self.warehouses = server, scripts, warehouses
        self.script = ["./tpcc.lua", "--tables=1", f"--scale={warehouses}", f"--mysql_storage_engine={tested}"]

    def _command(self, command: str, *options: str) -> list[str]:
        return ["sysbench", *self.script, "--db-driver=mysql", f"--mysql-socket={self.server.socket}", "--mysql-user=root",
                f"--mysql-db={DATABASE}", *options, command]

    def prepare(self) -> None:
        admin = self.server.connect()
        run(admin, f"CREATE DATABASE {DATABASE}")
        admin.close()
        self._run(self._command("prepare", "--threads=2"), 1200)

    def begin(self, threads: int, seconds: float) -> subprocess.Popen[str]:
        # Errors that a client has to expect: it would repeat the transaction.
        options = (f"--threads={threads}", f"--time={seconds:.0f}", "--report-interval=0", "--mysql-ignore-errors=1213,1205,1020")
        return subprocess.Popen(self._command("run", *options), cwd=self.scripts, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self, process: subprocess.Popen[str], seconds: float) -> tuple[int, float, float]:
        """Transactions, how many a second, and how often one was repeated."""
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        found = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec.*ignored errors:\s+(\d+)", output, re.S)
        if process.returncode or not found:
            raise Problem(f"sysbench ended with status {process.returncode}: {output[-2000:]}")
        return int(found[1]), float(found[2]), int(found[3]) / max(1, int(found[1]))

    def check(self) -> None:
        verdicts = VERDICT.findall(self._run(self._command("check", "--threads=1"), 600))
        failed = [f"check {c} of warehouse {w}" for c, w, verdict in verdicts if verdict != "PASSED"]
        if failed or len({w for _, w, _ in verdicts}) != self.warehouses:
            raise Problem(f"tpcc_check: {len(verdicts)} verdicts, failed: {failed}")

    def _run(self, command: list[str], seconds: float) -> str:
        done = subprocess.run(command, cwd=self.scripts, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds, check=False)
        if done.returncode:
            raise Problem(f"{' '.join(command)}: status {done.returncode}: {done.stdout[-2000:]}")
        return done.stdout


class WriteOnly(Load):
    """sysbench's oltp_write_only, on small tables: its transactions meet."""

    TABLES = 2

    def __init__(self, server: Server, scripts: Path, tested: str, warehouses: int):
        super().__init__(server, scripts, tested, warehouses)
        self.script = ["oltp_write_only", f"--tables={self.TABLES}", "--table-size=20000", f"--mysql_storage_engine={tested}"]

    def check(self) -> None:
        pass


def options(number: int, port: int, cache: str = "256M") -> list[str]:
    return ["--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", f"--server-id={number}", "--log-bin=bin",
            "--binlog-format=ROW", "--innodb-flush-log-at-trx-commit=1", "--loose-frond-flush-log-at-commit=1",
            f"--innodb-buffer-pool-size={cache}", f"--loose-frond-cache-size={cache}", "--innodb-log-file-size=1G"]


def cpu_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.pid()}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def speed(arguments: argparse.Namespace) -> None:
    # By default the engine fails a transaction that would change a row which was changed after its snapshot; InnoDB changes it.
    runs = (("InnoDB", "InnoDB", []), (engine(), engine(), []),
            (f"{engine()}, as InnoDB", engine(), ["--loose-frond-snapshot-isolation=OFF"]))
    figures: dict[str, list[tuple[float, float]]] = {}
    for name, tested, settings in runs * 2:
        with Server("tpcc", [*options(1, free_port(), arguments.cache), *settings]) as server:
            load = Load(server, arguments.scripts, tested, arguments.warehouses)
            load.prepare()
            before = cpu_seconds(server)
            count, rate, again = load.end(load.begin(arguments.threads, arguments.seconds), arguments.seconds + 120)
            used = (cpu_seconds(server) - before) / count * 1e6
            load.check()
            figures.setdefault(name, []).append((rate, used))
            print(f"{name:16} {rate:8.1f} transactions/s, {used:8.0f} us of the server's CPU for one, {again:.3f} repeated; checked",
                  flush=True)
    sums = {name: [sum(run[i] for run in of) for i in (0, 1)] for name, of in figures.items()}
    for name, (rate, used) in list(sums.items())[1:]:
        print(f"{name} / InnoDB: {rate / sums['InnoDB'][0]:.2f} of the rate, {used / sums['InnoDB'][1]:.2f} of the CPU")


def replica(arguments: argparse.Namespace, kind: type[Load]) -> None:
    port, r = free_port(), random.Random(arguments.seed)
    settings = ["--skip-slave-start", f"--gtid-pos-auto-engines={engine()}", "--log-slave-updates", "--slave-parallel-threads=4",
                "--slave-parallel-mode=optimistic"]
    with Server("tpcc1", options(1, port)) as primary, Server("tpcc2", [*options(2, free_port()), *settings]) as second:
        admin = second.connect()
        run(admin, f"CHANGE MASTER TO master_host = '127.0.0.1', master_port = {port}, master_user = 'root', "
                   "master_use_gtid = slave_pos, master_connect_retry = 1")
        run(admin, "START SLAVE")
        admin.close()
        load = kind(primary, arguments.scripts, engine(), arguments.warehouses)
        load.prepare()
        seconds = max(10.0, arguments.kills * 3.0)
        process = load.begin(arguments.threads, seconds)
        for _ in range(arguments.kills):
            time.sleep(0.5 + 1.5 * r.random())
            second.kill()
            second.start()
            admin = second.connect()
            run(admin, "START SLAVE")
            admin.close()
        count, rate, _ = load.end(process, seconds + 120)
        compare(primary, second, kind.TABLES)
        load.check()
        kind(second, arguments.scripts, engine(), arguments.warehouses).check()
        print(f"replica under {kind.__name__}: {count} transactions, {rate:.1f} a second, {arguments.kills} kills; same tables", flush=True)


def compare(primary: Server, second: Server, tables: int) -> None:
    here, there = primary.connect(DATABASE), second.connect(DATABASE, read_timeout=CATCH_UP_SECONDS * 5)
    position = rows(here, "SELECT @@gtid_binlog_pos")[0][0].decode()
    if int(rows(there, f"SELECT MASTER_GTID_WAIT('{position}', {CATCH_UP_SECONDS * 4})")[0][0]):
        state = b" ".join(f for f in rows(there, "SHOW SLAVE STATUS")[0] if f).decode(errors="replace")
        raise Problem(f"the replica does not come to {position}: {state}")
    names = [r[0].decode() for r in rows(here, "SHOW TABLES")]
    sql = "CHECKSUM TABLE " + ", ".join(names) + " EXTENDED"
    a, b = rows(here, sql), rows(there, sql)
    if a != b or len(a) != tables:
        raise Problem(f"tables differ: primary {sorted(set(a) - set(b))}, replica {sorted(set(b) - set(a))}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scripts", type=Path, required=True)
    parser.add_argument("--warehouses", type=int, default=2)
    parser.add_argument("--cache", default="256M", help="of each engine, for the comparison of speed")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    parser.add_argument("--only", choices=("speed", "replica", "oltp"))
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}", flush=True)
    passed = failed = 0
    parts = {"speed": lambda: speed(arguments), "replica": lambda: replica(arguments, Load), "oltp": lambda: replica(arguments, WriteOnly)}
    for name, part in parts.items():
        if arguments.only not in (None, name):
            continue
        try:
            part()
            passed += 1
        except (Problem, pymysql.Error, subprocess.SubprocessError) as error:
            failed += 1
            print(f"FAILED {name}: {type(error).__name__} {error}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ServerFailed, OSError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        sys.exit(2)

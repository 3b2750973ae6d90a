"""frond doctor on servers in which something is wrong: each situation is made, found, cured, and not found any more.

    doctor.py

A server without faults has no finding. Then, one after the other: too many and failing connects, files and tables at their limits, a
small log, temporary tables on disk, lost counters, a stopped and a late replica, caches larger than memory, a full file
system in memory. What cli/tests/cli/doctor.rs makes is not repeated. `proven` in toolkit/doctor/src/rules.toml says which rule is made
where, and why some are not.

FROND names the program (default: target/release/frond). Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Iterator

import pymysql

from checks import FROND, Checks
from server import Server, rows, run

# What these rules find is the machine's, and others run on it.
MACHINE = {"accept-queue-overflows", "accept-queue-waits", "syn-queue-full", "swapping", "swappiness", "transparent-huge-pages", "clock-source",
           "io-scheduler", "filesystem", "disk-space"}
SECONDS = 40


def ask(server: Server) -> dict[str, Any]:
    done = subprocess.run([FROND, "doctor", "--no-defaults", "--user", "reader", "--socket", server.socket, "--seconds", "1", "--json"],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    report = json.loads(done.stdout)
    assert (done.returncode == 0) == (not report["findings"]), done.stdout
    return dict(report)


def found(report: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in report["findings"]}


def until(server: Server, checks: Checks, rule: str, there: bool) -> None:
    end = time.monotonic() + SECONDS
    while True:
        report = ask(server)
        if (rule in found(report)) == there:
            texts = [text for f in report["findings"] if f["rule"] == rule for text in f.values()]
            checks.that(f"{rule}: its texts have all values", "?" not in "".join(texts), texts)
            return
        if time.monotonic() > end:
            unasked = [u for u in report["unasked"] if u["rule"] == rule]
            checks.that(f"{rule} is {'' if there else 'not '}found", False, (found(report), unasked))
            return


@contextlib.contextmanager
def load(*works: Callable[[], None]) -> Iterator[None]:
    """Runs each of `works` again and again on a thread of its own."""
    done = threading.Event()

    def repeat(work: Callable[[], None]) -> None:
        while not done.is_set():
            try:
                work()
            except pymysql.err.MySQLError:
                time.sleep(0.01)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join(timeout=60)


def made(server: Server, checks: Checks, rule: str, works: list[Callable[[], None]], cure: Callable[[], object] = lambda: None) -> None:
    """Found under its load; after the cure, or without the load, not."""
    with load(*works):
        until(server, checks, rule, True)
    cure()
    until(server, checks, rule, False)


def statement(server: Server, sql: str) -> Callable[[], None]:
    connection = server.connect("shop")
    return lambda: (run(connection, sql), None)[1]


def connections(server: Server, admin: pymysql.Connection, checks: Checks) -> None:
    def wrong() -> None:
        server.connect(user="nobody", password="wrong")

    made(server, checks, "aborted-connects", [wrong])
    run(admin, "SET GLOBAL max_connections = 10")
    held = [server.connect() for _ in range(9)]

    def one_more() -> None:
        time.sleep(0.05)
        server.connect().close()
        # The account of the monitor has to come in, too.
        time.sleep(0.05)

    # frond doctor connects first: the place it takes is the last one.
    held.pop().close()
    until_refused = [lambda: (time.sleep(0.2), one_more())[1]]
    with load(*until_refused, *until_refused):
        end = time.monotonic() + SECONDS
        seen = False
        while not seen and time.monotonic() < end:
            try:
                seen = "connections-refused" in found(ask(server))
            except RuntimeError:
                continue
        checks.that("connections-refused is found", seen)
    for one in held:
        one.close()
    run(admin, "SET GLOBAL max_connections = 200")
    until(server, checks, "connections-refused", False)


def files(server: Server, admin: pymysql.Connection, checks: Checks) -> None:
    pid = str(server.pid())
    limit = subprocess.run(["prlimit", "--pid", pid, "--nofile", "--noheadings", "--output", "SOFT,HARD"], capture_output=True, text=True,
                           check=True).stdout.split()
    used = len(os.listdir(f"/proc/{pid}/fd"))
    subprocess.run(["prlimit", "--pid", pid, f"--nofile={used + 1}:{limit[1]}"], check=True)
    until(server, checks, "open-files", True)
    subprocess.run(["prlimit", "--pid", pid, f"--nofile={limit[0]}:{limit[1]}"], check=True)
    until(server, checks, "open-files", False)

    for table in range(40):
        run(admin, f"CREATE TABLE shop.many{table} (a INT) ENGINE=MyISAM")
    before = int(rows(admin, "SELECT @@table_open_cache")[0][0])
    run(admin, "SET GLOBAL table_open_cache = 10")
    one, turn = server.connect("shop"), iter(range(10**9))

    def open_next() -> None:
        rows(one, f"SELECT * FROM many{next(turn) % 40}")

    made(server, checks, "table-cache", [open_next], lambda: run(admin, f"SET GLOBAL table_open_cache = {before}"))


def innodb(server: Server, admin: pymysql.Connection, checks: Checks, rules: list[str]) -> None:
    """All changes go to a table that fits in the buffer pool: the log is full first."""
    run(admin, "CREATE DATABASE IF NOT EXISTS shop")
    run(admin, "CREATE TABLE shop.big (id INT PRIMARY KEY, v INT, pad CHAR(200), KEY (v)) ENGINE=InnoDB")
    run(admin, "INSERT INTO shop.big SELECT seq, seq, 'x' FROM shop.seq_1_to_60000")
    # A page cleaner that does as little as it may, and changes all over the table.
    run(admin, "SET GLOBAL innodb_io_capacity = 100, innodb_max_dirty_pages_pct = 99, innodb_adaptive_flushing = OFF")
    changes = [statement(server, f"UPDATE big SET v = v + 1, pad = REPEAT('y', RAND() * 200) WHERE id % 6 = {part}") for part in range(2)]
    with load(*changes):
        for rule in rules:
            until(server, checks, rule, True)
    for rule in rules:
        until(server, checks, rule, False)


def others(server: Server, admin: pymysql.Connection, checks: Checks) -> None:
    run(admin, "CREATE TABLE shop.notes (id INT PRIMARY KEY, note TEXT) ENGINE=InnoDB")
    run(admin, "INSERT INTO shop.notes SELECT seq, seq FROM shop.seq_1_to_50")
    run(admin, "CREATE INDEX n ON shop.notes (note(20))")
    made(server, checks, "temporary-tables-on-disk", [statement(server, "SELECT note, COUNT(*) FROM notes GROUP BY note")])
    memory = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo", encoding="ascii") if line.startswith("MemTotal"))
    before = int(rows(admin, "SELECT @@frond_cache_size")[0][0])
    run(admin, f"SET GLOBAL frond_cache_size = {memory}")
    until(server, checks, "memory-overcommitted", True)
    run(admin, f"SET GLOBAL frond_cache_size = {before}")
    until(server, checks, "memory-overcommitted", False)


def replicas(primary: Server, port: int, checks: Checks) -> None:
    with Server("doctor-replica", ["--skip-log-bin", "--server-id=2", "--innodb-buffer-pool-size=8M",
                                   "--innodb-flush-log-at-trx-commit=0"]) as replica:
        source, here = primary.connect("shop"), replica.connect()
        run(here, "CREATE USER reader@localhost")
        run(here, "GRANT REPLICA MONITOR ON *.* TO reader@localhost")
        run(source, "CREATE USER copies@'127.0.0.1'")
        run(source, "GRANT REPLICATION SLAVE ON *.* TO copies@'127.0.0.1'")
        run(source, "RESET MASTER")
        run(here, f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='copies'")
        until(replica, checks, "replica-stopped", True)
        run(here, "START SLAVE")
        until(replica, checks, "replica-stopped", False)
        run(source, "CREATE DATABASE copied")
        run(source, "CREATE TABLE copied.t (a INT PRIMARY KEY) ENGINE=InnoDB")
        end = time.monotonic() + SECONDS
        while not rows(here, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'copied'") and time.monotonic() < end:
            time.sleep(0.1)
        # What the replica has to do next is an hour old, and waits for a transaction that somebody left open there.
        run(here, "BEGIN")
        run(here, "INSERT INTO copied.t VALUES (1)")
        run(source, "SET timestamp = UNIX_TIMESTAMP() - 3600")
        run(source, "INSERT INTO copied.t VALUES (1)")
        until(replica, checks, "replica-behind", True)
        run(here, "ROLLBACK")
        until(replica, checks, "replica-behind", False)
        run(here, "STOP SLAVE")


def full(checks: Checks) -> None:
    """A server whose data directory is on a small file system in memory."""
    server = Server("doctor-full", ["--skip-log-bin", "--innodb-buffer-pool-size=8M"])
    directory = server.directory()
    directory.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m", "frond-doctor", str(directory)], check=False, capture_output=True).returncode:
        checks.skip("a file system in memory cannot be mounted: needs root (filesystem, disk-space)")
        return
    try:
        with server:
            admin = server.connect()
            run(admin, "CREATE USER reader@localhost")
            until(server, checks, "filesystem", True)
            checks.that("there is space", "disk-space" not in found(ask(server)))
            space = os.statvfs(directory)
            with open(directory / "filler", "wb") as filler:
                left = space.f_bavail * space.f_frsize - space.f_blocks * space.f_frsize // 50
                while left > 0:
                    left -= filler.write(b"\0" * min(left, 1 << 20))
            until(server, checks, "disk-space", True)
            (directory / "filler").unlink()
            until(server, checks, "disk-space", False)
            os.environ["KEEP_SERVERS"] = "1"
    finally:
        os.environ.pop("KEEP_SERVERS", None)
        subprocess.run(["umount", str(directory)], check=False)
        directory.rmdir()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wrong(checks: Checks) -> None:
    port = free_port()
    options = ["--log-bin=log", "--server-id=1", "--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", "--back-log=60000",
               "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--binlog-format=ROW", "--performance-schema=ON", "--innodb-flush-log-at-trx-commit=0",
               "--performance-schema-max-table-instances=3", "--performance-schema-digests-size=5"]
    with Server("doctor", options) as server:
        admin = server.connect()
        run(admin, "CREATE DATABASE shop")
        run(admin, "CREATE USER reader@localhost")
        report = ask(server)
        checks.that("back_log beyond the kernel's", "somaxconn-below-back-log" in found(report), found(report))
        run(admin, "CREATE TABLE shop.t (a INT) ENGINE=InnoDB")
        until(server, checks, "performance-schema-lost", True)
        run(admin, "GRANT REPLICA MONITOR ON *.* TO reader@localhost")
        connections(server, admin, checks)
        files(server, admin, checks)
        others(server, admin, checks)
        replicas(server, port, checks)
        innodb(server, admin, checks, ["redo-log-small", "checkpoint-age"])


def well(checks: Checks) -> None:
    options = ["--skip-log-bin", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=96M", "--back-log=1000", "--thread-cache-size=100"]
    with Server("doctor-well", options) as server:
        admin = server.connect()
        run(admin, "CREATE USER reader@localhost")
        run(admin, "GRANT REPLICA MONITOR ON *.* TO reader@localhost")
        report = ask(server)
        checks.that("nothing is found on a well-set server", not found(report) - MACHINE, report["findings"])
        checks.that("and all rules were asked", {u["rule"] for u in report["unasked"]} <= MACHINE, report["unasked"])


def main() -> int:
    checks = Checks()
    for part in [well, wrong, full]:
        part(checks)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())

"""Disk-full test: the engine's files lie on a small file system, which fills up, gets space back, fills up
again, and the server is killed while it is full.

    disk_full.py [--seed SEED] [--mib N]

Promises that are tested: a writer without space gets a clear error and its transaction is undone;
reads go on; the server lives; nothing acknowledged is lost, now or after a kill; when space is back,
writers go on without a restart; a server that is killed while the disk is full comes back, if need be
after space was made.

Needs root, because it mounts a file system (a loop device, else tmpfs); otherwise it is skipped, and says so.

Status: 0 good or skipped, 1 a promise is broken. Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import pymysql

from anomalies import Checker, History
from clients import Bank, Client, Ledger, Lists, Problem
from server import Server, ServerFailed, engine, rows, run

# Disk full, table full, commit failed, error on write, and the operating system's 28 in disguise.
FULL = (1021, 1114, 1180, 1026, 1030, 3)


def quietly(*command: str) -> bool:
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


class SmallDisk:
    """A mounted file system of a given size, unmounted at the end."""

    def __init__(self, place: Path, mib: int):
        self.place, self.mib, self.kind = place, mib, ""
        self.image = place.parent / "disk.img"
        self.balloon = place / "balloon"

    def mount(self) -> bool:
        if os.geteuid() != 0:
            return False
        self.place.mkdir(parents=True, exist_ok=True)
        with open(self.image, "wb") as file:
            file.truncate(self.mib << 20)
        # A real file system first: tmpfs refuses O_DIRECT on older kernels and frees space otherwise.
        if (quietly("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(self.image))
                and quietly("mount", "-o", "loop", str(self.image), str(self.place))):
            self.kind = "ext4"
        elif quietly("mount", "-t", "tmpfs", "-o", f"size={self.mib}m", "tmpfs", str(self.place)):
            self.kind = "tmpfs"
        return bool(self.kind)

    def unmount(self) -> None:
        if self.kind and not quietly("umount", str(self.place)):
            quietly("umount", "-l", str(self.place))

    def inflate(self, mib: int) -> None:
        """Takes space away, as another program would; less than asked for when there is none."""
        with open(self.balloon, "ab", buffering=0) as file:
            try:
                for _ in range(mib):
                    file.write(b"\1" * (1 << 20))
            except OSError:
                pass

    def deflate(self) -> None:
        self.balloon.unlink(missing_ok=True)

    def free_mib(self) -> float:
        status = os.statvfs(self.place)
        return status.f_bavail * status.f_frsize / (1 << 20)


class Filler(Client):
    """Writes until there is no space, and goes on trying."""

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, "CREATE TABLE filler (id INT AUTO_INCREMENT PRIMARY KEY, k INT, v VARBINARY(2000), "
                   f"KEY (k)) ENGINE={engine()}")

    def step(self) -> None:
        run(self.connection, "INSERT INTO filler (k, v) SELECT seq, CONCAT(RANDOM_BYTES(900), "
                             "RANDOM_BYTES(900)) FROM seq_1_to_40")
        run(self.connection, "COMMIT")
        self.acknowledged += 40

    def verify(self, admin: pymysql.Connection) -> None:
        there = int(rows(admin, "SELECT COUNT(*) FROM filler")[0][0])
        by_index = int(rows(admin, "SELECT COUNT(*) FROM filler FORCE INDEX (k) WHERE k > 0")[0][0])
        if there != by_index or not self.acknowledged <= there <= self.acknowledged + 40 or there % 40:
            raise Problem(f"filler: {there} rows, {by_index} in the index, {self.acknowledged} acknowledged")
        self.acknowledged = there


class Run:
    def __init__(self, server: Server, disk: SmallDisk, seed: str):
        self.server, self.disk = server, disk
        self.filler = Filler(server, seed, 3)
        self.clients: list[Client] = [Bank(server, seed, 0), Lists(server, seed, 1),
                                      Ledger(server, seed, 2), self.filler]
        for client in self.clients:
            client.tolerated = FULL

    def prepare(self) -> None:
        admin = self.server.connect("kill9")
        for client in self.clients:
            client.prepare(admin)
        admin.close()

    def until_full(self) -> None:
        """Works until every client was refused, or most of the time that this may take is over."""
        refused = [c.refused for c in self.clients]
        for client in self.clients:
            client.begin()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.2)
            if self.filler.refused > refused[3] + 3:
                # The others write little: they may still fit for a while.
                time.sleep(2)
                break
        else:
            raise Problem(f"the disk did not fill: {self.disk.free_mib():.0f} MiB are free")
        if not self.server.running():
            raise Problem("the server ended on a full disk")

    def end(self) -> None:
        for client in self.clients:
            client.end()

    def verify(self) -> None:
        admin = self.server.connect("kill9")
        for client in self.clients:
            client.verify(admin)
        final = {int(k): [int(n) for n in v.split(b",") if n]
                 for k, v in rows(admin, "SELECT id, v FROM lists")}
        done = [t for c in self.clients if isinstance(c, Lists) for t in c.transactions]
        found = Checker(History(done, final), snapshot=True).check()
        if found:
            raise Problem("; ".join(f"{a.kind}: {a.text}" for a in found[:5]))
        for name in ("accounts", "lists", "ledger", "filler"):
            verdict = rows(admin, f"CHECK TABLE {name} EXTENDED")
            if verdict[-1][3] != b"OK":
                raise Problem(f"CHECK TABLE {name}: {verdict}")
        admin.close()

    def makes_progress(self) -> None:
        before = [c.acknowledged for c in self.clients]
        for client in self.clients:
            client.begin()
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            time.sleep(0.2)
            if all(c.acknowledged > b for c, b in zip(self.clients, before)):
                break
        self.end()
        stuck = [type(c).__name__ for c, b in zip(self.clients, before) if c.acknowledged == b]
        if stuck:
            raise Problem(f"space is back ({self.disk.free_mib():.0f} MiB), but these are still refused: "
                          f"{stuck}")


def opens(server: Server) -> bool:
    """Whether the server starts with the engine. If the database cannot be opened, it starts without the engine."""
    try:
        server.start()
    except ServerFailed:
        return False
    admin = server.connect()
    offered = rows(admin, "SELECT support FROM information_schema.engines "
                          f"WHERE engine = '{engine()}' AND support <> 'NO'")
    admin.close()
    return bool(offered)


def soon(work: Callable[[], None]) -> None:
    """Does what a full disk may still refuse for some seconds."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return work()
        except pymysql.err.Error as error:
            if error.args[0] not in FULL or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def drop_filler(admin: pymysql.Connection, disk: SmallDisk) -> None:
    """DROP TABLE, on a full disk if the engine can, else soon after it has space."""
    deadline, deflated = time.monotonic() + 10, False
    while True:
        try:
            run(admin, "DROP TABLE filler")
            break
        except pymysql.err.Error as error:
            if error.args[0] not in FULL or time.monotonic() > deadline:
                raise
            if not deflated:
                print(f"DROP TABLE on a full disk is refused: {error.args}")
            disk.deflate()
            deflated = True
            time.sleep(0.2)
    disk.deflate()


def scenario(test: Run) -> list[tuple[str, object]]:
    """The parts in order. Each is one test, and needs those before it."""
    server, disk = test.server, test.disk

    def fill() -> None:
        test.until_full()
        test.end()

    def create_is_refused() -> None:
        # The server itself would say no more than "errno: 135".
        disk.inflate(1024)
        admin = server.connect("kill9")
        try:
            for n in range(3000):
                run(admin, f"CREATE TABLE refused{n} (id INT PRIMARY KEY, v VARBINARY(200) DEFAULT '{'x' * 150}') "
                           f"COMMENT '{'y' * 1000}' ENGINE={engine()}")
            raise Problem("3000 tables are created on a full disk")
        except pymysql.err.Error as error:
            if error.args[0] not in FULL or (engine() == "Frond" and "Frond: " not in error.args[1]):
                raise Problem(f"CREATE TABLE on a full disk: {error.args}") from error
            print(f"CREATE TABLE on a full disk: {error.args}")
        for name, in rows(admin, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'kill9' "
                                 "AND table_name LIKE 'refused%'"):
            run(admin, f"DROP TABLE {name.decode() if isinstance(name, bytes) else name}")
        admin.close()

    def more_space() -> None:
        disk.deflate()
        test.makes_progress()
        test.verify()

    def fill_and_kill() -> None:
        disk.inflate(1024)
        test.until_full()
        server.kill()
        test.end()

    def come_back() -> None:
        if not opens(server):
            # Allowed if it is reported and does no harm: with space the engine has to start.
            said = [line for line in server.log_end(200).splitlines() if "Frond" in line]
            print(f"does not open on a full disk ({disk.free_mib():.1f} MiB free): "
                  + "\n".join(said[-6:]), flush=True)
            server.stop()
            disk.deflate()
            server.start()
        test.verify()

    def drop_gives_space() -> None:
        admin = server.connect("kill9")
        drop_filler(admin, disk)
        test.filler.acknowledged = 0
        # A full disk is remembered until the next look for space, which is a matter of a second.
        soon(lambda: test.filler.prepare(admin))
        admin.close()
        test.makes_progress()
        server.stop()
        server.start()
        test.verify()

    return [("writers are refused and the server lives", fill),
            ("nothing is lost while it is full", test.verify),
            ("CREATE TABLE says what is full", create_is_refused),
            ("writers go on when space is back", more_space),
            ("kill -9 while full", fill_and_kill),
            ("comes back with everything", come_back),
            ("goes on after DROP TABLE", drop_gives_space)]


def options(tested: str) -> list[str]:
    common = ["--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=3"]
    if tested == "Frond":
        common += ["--frond-cache-size=8M", "--frond-log-segment-size=1M", "--frond-log-capacity=16M",
                   "--frond-lock-wait-timeout=3"]
    return common


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    parser.add_argument("--mib", type=int, default=96)
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}: {engine()}", flush=True)
    passed, failed = 0, 0
    with Server("full", options(engine())) as server:
        # The engine's own directory only: the server's system tables keep their space.
        place = server.data() / ("#frond" if engine() == "Frond" else "kill9")
        admin = server.connect()
        run(admin, "CREATE DATABASE kill9")
        admin.close()
        server.stop()
        disk = SmallDisk(place, arguments.mib)
        kept = place.rename(place.parent.parent / "kept") if place.exists() else None
        try:
            if not disk.mount():
                print("skipped: no small file system can be mounted here (needs root and a loop device "
                      "or tmpfs)\n0 passed, 0 failed, 7 skipped")
                return 0
            if kept:
                subprocess.run(["cp", "-a", f"{kept}/.", str(place)], check=True)
            print(f"{arguments.mib} MiB of {disk.kind}, {disk.free_mib():.0f} free", flush=True)
            server.start()
            test = Run(server, disk, arguments.seed)
            test.prepare()
            disk.inflate(arguments.mib // 3)
            for name, part in scenario(test):
                begin = time.monotonic()
                part()  # type: ignore[operator]
                passed += 1
                print(f"ok: {name} ({time.monotonic() - begin:.0f} s; {disk.free_mib():.1f} MiB free; "
                      + ", ".join(c.summary() for c in test.clients) + ")", flush=True)
        except (Problem, ServerFailed, pymysql.Error, OSError) as error:
            failed = 1
            print(f"FAILED: {name if passed < 7 else ''}: {type(error).__name__} {error}\n"
                  f"{server.log_end(15)}\nfree: {disk.free_mib():.1f} MiB\n"
                  f"again: SEED={arguments.seed} scripts/test.sh 85", flush=True)
        finally:
            server.kill()
            disk.unmount()
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())

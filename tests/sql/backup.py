"""Backups of a server under load, restored and compared; and everything that may go wrong with one.

    backup.py [--backups N] [--seed SEED] [--only PART]

While backups are made, clients move money between Frond and InnoDB (or within Frond alone, where frond backup drives the stages by
itself), load and delete rows, and make, change, empty, rename and drop tables. Each backup is verified and restored; a
server is started on it; the sums hold; then the source's binary log from the backup's position on is replayed into it, and
all tables are equal to the source's, by checksum: a transaction that is missing from the backup, or is in it twice or by half, makes
them differ or the replay fail.

Then: what one does with backups (backup_uses.py); packed backups and streams (backup_packed.py); the tool and the server are killed in
the middle; the disk of the backup is full; wrong passwords and directories; an account with the fewest grants; damage to each kind of
file.

FROND names the program (default: target/release/frond). Status: 0 good, 1 a promise is broken.
Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pymysql

import backup_packed as packed
import backup_uses as uses
from checks import FROND
from clients import Client, Problem
from disk_full import SmallDisk
from kill9_binlog import Transfers
from kill9_replica import free_port
from server import Server, ServerFailed, rows, run

OPTIONS = ["--log-bin", "--binlog-format=ROW", "--sync-binlog=0", "--frond-flush-log-at-commit=2", "--frond-cache-size=16M",
           "--frond-log-capacity=32M", "--frond-log-segment-size=4M", "--innodb-flush-log-at-trx-commit=2"]
ACCOUNTS_SUM = 60_000
# A full backup and five incremental ones.
CHAIN = 6


class PacedTransfers(Transfers):
    """Some hundred a second: more would show nothing new, and all of it has to be replayed."""

    def step(self) -> None:
        super().step()
        time.sleep(0.004)


class FrondTransfers(PacedTransfers):
    """Within Frond alone."""

    def prepare(self, admin: pymysql.Connection) -> None:
        super().prepare(admin)
        run(admin, "ALTER TABLE kill9.accounts_i ENGINE=Frond")


class Rows(Client):
    """Rows come and go in large and small steps, so that runs are merged and space is freed."""

    def prepare(self, admin: pymysql.Connection) -> None:
        run(admin, "CREATE TABLE kill9.bulk (id INT PRIMARY KEY AUTO_INCREMENT, k INT, v VARCHAR(200), KEY (k)) "
                   "ENGINE=Frond")
        # What does not change is not copied again.
        run(admin, "CREATE TABLE kill9.still (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=Frond")
        run(admin, "INSERT INTO kill9.still SELECT seq, REPEAT(MD5(seq), 3) FROM kill9.seq_1_to_60000")
        run(admin, "OPTIMIZE TABLE kill9.still")

    def step(self) -> None:
        n = self.r.choice((10, 100, 2000))
        run(self.connection, f"INSERT INTO bulk (k, v) SELECT FLOOR(RAND() * 1e6), REPEAT(MD5(RAND()), 5) FROM seq_1_to_{n}")
        run(self.connection, f"UPDATE bulk SET k = k + 1 WHERE k < {self.r.randint(0, 50_000)}")
        run(self.connection, f"DELETE FROM bulk WHERE id % 7 = {self.r.randint(0, 6)} LIMIT 1500")
        run(self.connection, "COMMIT")
        self.acknowledged += 1
        time.sleep(0.05)


class Definitions(Client):
    """CREATE, ALTER, TRUNCATE, RENAME, DROP."""

    numbers = itertools.count(1)
    engines = ("Frond",)

    def prepare(self, admin: pymysql.Connection) -> None:
        pass

    def step(self) -> None:
        name = f"d{next(self.numbers)}"
        for statement in (f"CREATE TABLE {name} (a INT PRIMARY KEY, b VARCHAR(50), KEY (b)) ENGINE={self.r.choice(self.engines)}",
                          f"INSERT INTO {name} SELECT seq, MD5(seq) FROM seq_1_to_{self.r.randint(1, 3000)}",
                          f"ALTER TABLE {name} ADD COLUMN c INT DEFAULT 3, ALGORITHM={self.r.choice(('COPY', 'INSTANT'))}",
                          f"RENAME TABLE {name} TO {name}r"):
            run(self.connection, statement)
        if self.r.random() < 0.5:
            run(self.connection, f"TRUNCATE TABLE {name}r")
            run(self.connection, f"INSERT INTO {name}r (a) VALUES (1)")
        run(self.connection, "COMMIT")
        if self.r.random() < 0.7:
            run(self.connection, f"DROP TABLE {name}r")
        self.acknowledged += 1
        time.sleep(0.2)


def frond(*arguments: str, status: int = 0, env: dict[str, str] | None = None) -> str:
    """Runs `frond backup` and returns both outputs."""
    done = subprocess.run([FROND, "backup", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False, env=dict(os.environ, **(env or {})))
    if done.returncode != status:
        raise Problem(f"frond backup {' '.join(arguments)}: status {done.returncode}, not {status}: {done.stdout}")
    return done.stdout


class Bench:
    """A server, its clients, and a place for backups."""

    def __init__(self, server: Server, seed: str, others: bool, port: int):
        self.server, self.others, self.port = server, others, port
        self.place = server.directory() / "backups"
        self.admin = server.connect()
        run(self.admin, "CREATE DATABASE kill9")
        run(self.admin, "CREATE USER follower@'%' IDENTIFIED BY 'f'")
        run(self.admin, "GRANT REPLICATION SLAVE ON *.* TO follower@'%'")
        money: type[Client] = PacedTransfers if others else FrondTransfers
        self.clients: list[Client] = [money(server, seed, 0), money(server, seed, 1), Rows(server, seed, 2),
                                      Definitions(server, seed, 3)]
        self.admin.select_db("kill9")
        for client in (self.clients[0], *self.clients[2:]):
            client.prepare(self.admin)
        self.place.mkdir()
        self.made = itertools.count(1)

    def connection(self) -> list[str]:
        return ["--no-defaults", f"--socket={self.server.socket}", "--user=root", "--quiet"]

    def loud(self) -> list[str]:
        return self.connection()[:-1]

    def dir(self, name: str) -> str:
        return str(self.place / name)

    def full(self, name: str, *more: str) -> dict[str, Any]:
        return self.told(frond("full", self.dir(name), "--json", *self.connection(), *more))

    def incremental(self, name: str, base: str, *more: str) -> dict[str, Any]:
        return self.told(frond("incremental", self.dir(name), "--base", self.dir(base), "--json", *self.connection(), *more))

    frond = staticmethod(frond)
    program = (FROND, "backup")

    @staticmethod
    def told(text: str) -> dict[str, Any]:
        return dict(json.loads(text.splitlines()[-1]))

    def begin(self) -> None:
        for client in self.clients:
            client.begin()

    def end(self) -> None:
        for client in self.clients:
            client.end()

    def pinned(self) -> int:
        return int(rows(self.admin, "SHOW STATUS LIKE 'Frond_backup_files_pinned'")[0][1])

    def wait_unpinned(self) -> None:
        for _ in range(100):
            if not self.pinned():
                return
            time.sleep(0.1)
        raise Problem("the pin outlives its session")

    def tables(self, connection: pymysql.Connection) -> dict[str, Any]:
        names = [r[0].decode() for r in rows(connection, "SELECT table_name FROM information_schema.tables WHERE "
                                                         "table_schema = 'kill9' ORDER BY 1")]
        return {name: rows(connection, f"CHECKSUM TABLE kill9.`{name}` EXTENDED")[0][1] for name in names}

    def restored(self, name: str, told: dict[str, Any], *more: str) -> None:
        """Restores, starts, replays, compares. Nobody writes to the source meanwhile."""
        frond("verify", self.dir(name), "--quiet", *more)
        other = Server(f"backup-restored-{name}", OPTIONS[2:])
        other.directory().mkdir(parents=True)
        try:
            frond("restore", self.dir(name), str(other.data()), "--quiet", *more)
            frond("restore", self.dir(name), str(other.data()), "--quiet", *more, status=2)
            with other:
                self.compare(other, told)
        finally:
            shutil.rmtree(other.directory(), ignore_errors=True)

    def compare(self, other: Server, told: dict[str, Any]) -> None:
        there = other.connect("kill9", read_timeout=300)
        for table in self.tables(there):
            verdict = rows(there, f"CHECK TABLE kill9.`{table}` EXTENDED")
            if verdict[-1][-1] != b"OK":
                raise Problem(f"{table}: {verdict}")
        total = sum(int(rows(there, f"SELECT COALESCE(SUM(balance), 0) FROM accounts_{t}")[0][0]) for t in "fi")
        if total != ACCOUNTS_SUM:
            raise Problem(f"{total} in sum at {told['binlog']}")
        position = told["binlog"]
        logs = [r[0].decode() for r in rows(self.admin, "SHOW BINARY LOGS")]
        logs = logs[logs.index(position["file"]):]
        files = [str(self.server.data() / name) for name in logs]
        statements = other.directory() / "replayed.sql"
        subprocess.run(["mariadb-binlog", "--no-defaults", f"--start-position={position['position']}",
                        f"--result-file={statements}", *files], capture_output=True, timeout=300, check=True)
        with open(statements, "rb") as source:
            done = subprocess.run(["mariadb", "--no-defaults", "--binary-mode", f"--socket={other.socket}", "-uroot"],
                                  stdin=source, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise Problem(f"what came after {position} cannot be replayed: {done.stderr.strip()[:500]}")
        here, there_now = self.tables(self.admin), self.tables(there)
        if here != there_now:
            raise Problem(f"after the replay: {set(here.items()) ^ set(there_now.items())}")
        there.close()


def under_load(bench: Bench, backups: int, r: random.Random) -> None:
    """Chains, each member of which is based on the one before it."""
    before: tuple[str, dict[str, Any]] | None = None
    for n in range(backups):
        name = f"b{n}"
        bench.begin()
        time.sleep(r.uniform(0.2, 0.7))
        if n % CHAIN and before:
            told = bench.incremental(name, before[0])
            if told["kind"] != "incremental" or (told["bytes_named"] < 1 << 20):
                raise Problem(f"nothing is shared with the base: {told}")
        else:
            told = bench.full(name)
        time.sleep(0.15)
        bench.end()
        bench.wait_unpinned()
        bench.restored(name, told)
        before = (name, told)
    listed = frond("list", str(bench.place))
    if listed.count("whole") != backups:
        raise Problem(listed)
    print(f"{backups} backups under load, {[c.summary() for c in bench.clients]}, commits blocked {told['blocked_ms']} ms")


def killed_tool(bench: Bench) -> None:
    target = bench.dir("killed")
    tool = subprocess.Popen([FROND, "backup", "full", target, "--rate", "2M", *bench.connection()])
    for _ in range(200):
        if bench.pinned():
            break
        time.sleep(0.05)
    else:
        raise Problem("no pin within 10 s")
    time.sleep(0.5)
    if "pinned" not in rows(bench.admin, "SHOW ENGINE FROND STATUS")[0][2].decode():
        raise Problem("SHOW ENGINE FROND STATUS says nothing of the pin")
    job = rows(bench.admin, "SELECT state, started IS NOT NULL, details FROM information_schema.FROND_JOBS WHERE kind = 'BACKUP'")
    if [one[:2] for one in job] != [(b"PINNED", b"1")] or b"files are pinned" not in job[0][2]:
        raise Problem(f"FROND_JOBS says of the backup {job}")
    busy = frond("full", bench.dir("second"), *bench.connection(), status=2)
    if "another backup is under way" not in busy:
        raise Problem(busy)
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    bench.wait_unpinned()
    if "incomplete" not in frond("list", str(bench.place), status=1):
        raise Problem("a backup without a manifest is not listed as incomplete")
    for command in (("verify", target), ("restore", target, bench.dir("x")), ("full", target, *bench.connection())):
        frond(*command, status=2)
    shutil.rmtree(target)
    if (bench.server.data() / "#frond" / "backup.pin").exists():
        _leftover()


def _leftover() -> None:
    raise Problem("backup.pin outlives the pin")


def yields(bench: Bench) -> None:
    """A backup pauses for a busy server, in each form; an idle one is copied at once. 5 to 15 s, most of them pauses."""
    run(bench.admin, "SET SESSION sql_log_bin = 0")
    run(bench.admin, "CREATE TABLE kill9.calm (id INT PRIMARY KEY, v VARBINARY(1000)) ENGINE=Frond")
    run(bench.admin, "INSERT INTO kill9.calm SELECT seq, RANDOM_BYTES(1000) FROM kill9.seq_1_to_24000")

    def paused(*more: str) -> float:
        told = bench.full("calm", *more)
        shutil.rmtree(bench.dir("calm"))
        return float(told["seconds_paused"])

    idle = paused()
    bench.begin()
    time.sleep(0.5)
    busy = [paused(), paused("--compress", "--threads=2"), paused("--max-loss=100")]
    bench.end()
    run(bench.admin, "DROP TABLE kill9.calm")
    run(bench.admin, "SET SESSION sql_log_bin = 1")
    # A machine that needs more than a second for an idle server's backup has a look at it (0.2 s).
    if idle > 0.25 or min(busy[:2]) < 0.1 or busy[2]:
        raise Problem(f"pauses beside an idle server {idle} s; beside a busy one as files, as a pack, without a limit {busy} s")


def broken_pin(bench: Bench) -> None:
    """The source goes on; the backup fails. A table of 24 MiB is dropped while it is copied, which takes some seconds."""
    def broken() -> int:
        return int(rows(bench.admin, "SHOW STATUS LIKE 'Frond_backup_pins_broken'")[0][1])

    run(bench.admin, "SET GLOBAL frond_backup_pin_limit = 16777216")
    run(bench.admin, "SET SESSION sql_log_bin = 0")
    run(bench.admin, "CREATE TABLE kill9.large (id INT PRIMARY KEY, v VARBINARY(1000)) ENGINE=Frond")
    run(bench.admin, "INSERT INTO kill9.large SELECT seq, RANDOM_BYTES(1000) FROM kill9.seq_1_to_24000")
    before, end = broken(), time.monotonic() + 60
    tool = subprocess.Popen([FROND, "backup", "full", bench.dir("broken"), "--rate", "4M", "--json", *bench.loud()], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    assert tool.stderr
    # A pin that the server's status tells may be the first one, whose place the second one takes.
    while '"pinned"' not in (said := tool.stderr.readline()):
        if not said:
            raise Problem("the backup ended before it was pinned")
    run(bench.admin, "DROP TABLE kill9.large")
    run(bench.admin, "SET SESSION sql_log_bin = 1")
    while broken() == before and tool.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    _, told = tool.communicate(timeout=200)
    run(bench.admin, "SET GLOBAL frond_backup_pin_limit = DEFAULT")
    if tool.returncode != 2 or "pin was broken" not in told or (bench.place / "broken" / "manifest.json").exists():
        raise Problem(f"status {tool.returncode}: {told}")


def killed_server(bench: Bench) -> None:
    target = bench.dir("server-killed")
    tool = subprocess.Popen([FROND, "backup", "full", target, "--rate", "2M", *bench.connection()], stderr=subprocess.PIPE)
    for _ in range(200):
        if bench.pinned():
            break
        time.sleep(0.05)
    before = bench.tables(bench.admin)
    bench.server.kill()
    _, told = tool.communicate(timeout=200)
    if tool.returncode != 2 or os.path.exists(target + "/manifest.json"):
        raise Problem(f"status {tool.returncode}: {told!r}")
    bench.server.start()
    bench.admin = bench.server.connect("kill9", read_timeout=300)
    if (bench.server.data() / "#frond" / "backup.pin").exists():
        _leftover()
    if bench.tables(bench.admin) != before:
        raise Problem("the source lost something")


def refused(bench: Bench) -> None:
    """Wrong requests, each told for what it is."""
    run(bench.admin, "CREATE USER poor@localhost IDENTIFIED BY 'p'")
    run(bench.admin, "CREATE USER keeper@localhost IDENTIFIED BY 'secret'")
    run(bench.admin, "GRANT RELOAD, PROCESS, BINLOG MONITOR ON *.* TO keeper@localhost")
    place = ["--no-defaults", f"--socket={bench.server.socket}", "--quiet"]
    password = {"MYSQL_PWD": "secret"}

    def expect(what: str, *arguments: str, env: dict[str, str] | None = None) -> None:
        told = frond(*arguments, status=2, env=env)
        if what not in told:
            raise Problem(f"{arguments}: {told}")
        if os.path.exists(bench.dir("refused") + "/manifest.json"):
            raise Problem(f"{arguments}: a manifest")

    new = bench.dir("refused")
    expect("Access denied", "full", new, *place, "--user=keeper", env={"MYSQL_PWD": "wrong"})
    expect("RELOAD", "full", new, *place, "--user=poor", env={"MYSQL_PWD": "p"})
    expect("no such socket", "full", new, "--no-defaults", "--socket=/nowhere/s", "--user=root")
    expect("not empty", "full", str(bench.place), *bench.connection())
    expect("no manifest.json", "incremental", new, "--base", str(bench.server.data()), *bench.connection())
    if bench.others:
        expect("not found", "full", new, "--mariadb-backup=/nowhere/m", *bench.connection())
        expect("failed (exit status: 1)", "full", new, "--mariadb-backup=false", *bench.connection())
        expect("nothing is pinned", "full", new, "--mariadb-backup", str(fake(bench)), *bench.connection())
    # Commits do not wait for the limit of the rate: what is copied while they are blocked would take two seconds.
    rate = [] if bench.others else ["--rate=2M"]
    told = bench.told(frond("full", bench.dir("least"), *place, "--user=keeper", "--json", *rate, env=password))
    if rate and told["blocked_ms"] > 1000:
        raise Problem(f"commits were blocked {told['blocked_ms']} ms")
    frond("verify", bench.dir("least"), "--quick", "--quiet")
    shutil.rmtree(bench.dir("least"))


def fake(bench: Bench) -> Path:
    """A program that says that all went well."""
    path = bench.server.directory() / "fake"
    path.write_text("#!/bin/sh\necho completed OK! >&2\n")
    path.chmod(0o755)
    return path


def full_disk(bench: Bench) -> bool:
    disk = SmallDisk(bench.server.directory() / "disk", 8)
    if not disk.mount():
        return False
    try:
        told = frond("full", str(disk.place / "b"), *bench.connection(), status=2)
        if "No space left" not in told or (disk.place / "b" / "manifest.json").exists():
            raise Problem(told)
        bench.wait_unpinned()
        if shutil.disk_usage(disk.place).free < 4 << 20:
            raise Problem("what did not fit is still there")
    finally:
        disk.unmount()
    return True


def damage(bench: Bench, r: random.Random) -> None:
    """A flipped bit, a truncated file, files of another backup: found and named."""
    whole = sorted(bench.place.glob("b*"))[-1]
    others = [p for p in sorted(bench.place.glob("b*")) if p != whole]
    manifest = json.loads((whole / "manifest.json").read_text())
    own = len(manifest["chain"])
    pieces = [(t, b[1], b[2]) for t in manifest["tables"] for b in t["blocks"] if b[4] == own]
    pieces += [(t, p[0], p[1]) for t in manifest["tables"] for p in t["own"]]

    def found(change: Callable[[], None], path: Path, name: str, *, status: int = 1) -> None:
        kept = path.read_bytes()
        change()
        told = frond("verify", str(whole), "--quick", "--quiet", status=status)
        if name not in told:
            raise Problem(f"{path}: {told}")
        if frond_restores(whole, bench):
            raise Problem(f"{path}: damaged, and restored")
        path.write_bytes(kept)

    def flip(path: Path, at: int) -> None:
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << r.randrange(8)]))

    for table, offset, length in r.sample(pieces, min(6, len(pieces))):
        path = whole / "frond" / f"{table['table']}.frd"
        found(lambda path=path, at=offset + r.randrange(length): flip(path, at), path, table["name"] or "the catalog")
    # A part of an empty file has nothing to damage.
    parts = {path: [p for p in file["parts"] if p[1]] for path, file in manifest["files"].items() if file.get("parts")}
    # An increment has the end of the log, and what is in front of it is in its bases.
    of_log = {path: [p for p in parts.get(f"frond/{path.name}", ()) if p[3] == own] for path in whole.glob("frond/log.*")}
    log = max(path for path, pieces in of_log.items() if pieces)
    offset, length = r.choice(of_log[log])[:2]
    found(lambda: flip(log, offset + r.randrange(length)), log, log.name)
    found(lambda: os.truncate(log, log.stat().st_size - 1), log, log.name)
    of_bases = [(path, p) for path in parts for p in parts[path] if p[3] < own]
    if own and not of_bases:
        raise Problem("nothing of the log or the server's files is in the bases")
    for path, part in r.sample(of_bases, min(2, len(of_bases))):
        base = next(p for p in others if json.loads((p / "manifest.json").read_text())["id"] == manifest["chain"][part[3]])
        found(lambda file=base / path, part=part: flip(file, part[0] + r.randrange(part[1])), base / path, str(base / path))
    definition = whole / "server" / "mysql" / "db.opt"
    if definition.exists():
        found(lambda: flip(definition, 0), definition, "db.opt")
    text = whole / "manifest.json"
    found(lambda: flip(text, r.randrange(text.stat().st_size)), text, "", status=2)
    table = r.choice(manifest["tables"])
    path = whole / "frond" / f"{table['table']}.frd"
    found(lambda: os.truncate(path, 100), path, table["name"] or "the catalog")
    if others:
        found(lambda: shutil.copy(others[0] / "manifest.json", text), text, "")
    if manifest["chain"]:
        missing(whole, bench)
    frond("verify", str(whole), "--quiet")


def missing(whole: Path, bench: Bench) -> None:
    """A member of the chain that is not there is named; elsewhere it is found when it is named."""
    chain = json.loads((whole / "manifest.json").read_text())["chain"]
    base = next(p for p in bench.place.glob("b*") if json.loads((p / "manifest.json").read_text())["id"] == chain[-1])
    away = bench.server.directory() / "away"
    base.rename(away)
    told = frond("verify", str(whole), "--quick", "--quiet", status=2)
    frond("verify", str(whole), "--chain", str(away), "--quick", "--quiet")
    away.rename(base)
    if chain[-1] not in told or "base missing" in frond("list", str(bench.place)):
        raise Problem(told)


def frond_restores(backup: Path, bench: Bench) -> bool:
    target = bench.server.directory() / "damaged"
    shutil.rmtree(target, ignore_errors=True)
    done = subprocess.run([FROND, "backup", "restore", str(backup), str(target), "--quiet"], capture_output=True,
                          timeout=300, check=False)
    started = (target / "#frond" / "frond.id").exists()
    shutil.rmtree(target, ignore_errors=True)
    if done.returncode == 2 and started:
        raise Problem("a restore that failed left a database that opens")
    return done.returncode == 0


def without_stages(bench: Bench) -> None:
    """A stock mariadb-backup alone is still refused."""
    target = bench.server.directory() / "stock"
    done = subprocess.run(["mariadb-backup", "--no-defaults", "--backup", f"--target-dir={target}", "--user=root",
                           f"--socket={bench.server.socket}"], capture_output=True, text=True, timeout=200, check=False)
    if done.returncode == 0 or "does not hold the tables" not in done.stderr:
        raise Problem(f"mariadb-backup without Frond's tables: {done.stderr[-500:]}")


USES = {part.__name__: part for part in (uses.short_block, uses.late_changes, uses.prepared, uses.against, uses.until, uses.recipes,
                                         uses.extract)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backups", type=int, default=20)
    parser.add_argument("--only", help="parts whose names have this")
    parser.add_argument("--seed", default=str(random.randrange(1 << 32)))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    passed = failed = skipped = 0
    for others in (False, True):
        port = free_port()
        network = ["--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", "--server-id=1"]
        with Server(f"backup-{'both' if others else 'alone'}", OPTIONS + network) as server:
            r = random.Random(f"{arguments.seed}:{others}")
            bench = Bench(server, f"{arguments.seed}:{others}", others, port)
            count = arguments.backups * 3 // 10 if others else arguments.backups - arguments.backups * 3 // 10
            parts: list[tuple[str, Callable[[], Any]]] = [
                ("under load", lambda: under_load(bench, count, r)), ("damage", lambda: damage(bench, r)),
                ("refused", lambda: refused(bench)), ("full disk", lambda: full_disk(bench))]
            parts += [("packed stream", lambda: packed.stream(bench))]
            if not others:
                parts += [("packed", lambda: packed.packed(bench)), ("full disk of a pack", lambda: packed.full_pack(bench)),
                          ("places of a pack", lambda: packed.pack_places(bench)), ("replica of a pack", lambda: packed.replica(bench))]
            if others:
                parts += [("stock mariadb-backup", lambda: without_stages(bench)), ("extract", lambda: uses.extract(bench))]
            else:
                parts += [(name.replace("_", " "), lambda part=part: part(bench)) for name, part in USES.items()]
                parts += [("killed tool", lambda: killed_tool(bench)), ("yields", lambda: yields(bench)), ("broken pin", lambda: broken_pin(bench)),
                          ("killed server", lambda: killed_server(bench))]
            for name, part in parts:
                if arguments.only and name != "under load" and arguments.only not in name:
                    continue
                begin = time.monotonic()
                try:
                    if part() is False:
                        skipped += 1
                        print(f"skipped {name}: no file system can be mounted")
                        continue
                    passed += 1
                    print(f"ok {name}, {time.monotonic() - begin:.1f} s")
                except (Problem, ServerFailed, pymysql.err.Error, OSError, subprocess.SubprocessError) as error:
                    failed += 1
                    print(f"FAILED {name}, seed {arguments.seed}: {error}")
                    print(re.sub("^", "    ", server.log_end(5), flags=re.MULTILINE))
                    break
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

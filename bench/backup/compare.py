"""Compares frond backup with mariadb-backup: the same rows in Frond and in InnoDB, a server for each, measured in turn in one run.

compare.py [--rows N] [--seconds N] [--rounds N] [--load-rounds N] [--seed N]

For each engine: a full backup (time, processor, bytes); an incremental backup after 1 % of the rows were changed at random places;
transactions per second, and the longest wait of a client that commits one row at a time, both without a backup and while backups run one after
another; the time to restore the full backup (InnoDB's: --prepare and --copy-back); and how long a server on the restored files takes to answer
its first query, with the bytes it reads until then. Then Frond's figures over InnoDB's, and the limits that Frond must reach. Exit status 1
when one is missed.

Conditions: both servers have the same memory for data, write their log at each commit and sync it once a second. InnoDB's redo
log is 256 MiB; Frond's log has its default size. Neither tool compresses. mariadb-backup runs with its defaults, and its backups are not
prepared; Frond's backups need no preparation. Times are medians of the rounds, and the rounds alternate between the engines. The part of the
work that a server keeps is the mean of more rounds: in one of some seconds it is off by 0.05 (standard deviation, two idle cores), and so by 0.02 in the mean of nine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "sql"))

from server import ROOT, Server, rows, run  # noqa: E402

FROND = os.environ.get("FROND", str(ROOT / "target" / "release" / "frond"))
COMMON = ["--skip-log-bin", "--max-connections=50"]
OPTIONS = {
    "Frond": COMMON + ["--frond-cache-size=256M", "--frond-flush-log-at-commit=2"],
    "InnoDB": COMMON + ["--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=256M",
                        "--innodb-flush-method=O_DIRECT", "--innodb-io-capacity=2000", "--innodb-flush-neighbors=0"],
}
TABLE = """CREATE TABLE purchases (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, at DATETIME NOT NULL, register INT NOT NULL,
    customer INT NOT NULL, product INT NOT NULL, price FLOAT NOT NULL, note VARCHAR(100) NOT NULL, KEY (price, customer),
    KEY (register, price, customer), KEY (price, at, customer)) ENGINE="""
BATCH = 20_000


class Side:
    """One engine's server, its rows and its backups."""

    def __init__(self, engine: str, server: Server, arguments: argparse.Namespace):
        self.engine, self.server, self.rows = engine, server, arguments.rows
        self.place = server.directory() / "backups"
        self.place.mkdir()
        self.admin = server.connect(read_timeout=3600)
        self.made = 0

    def fill(self, seed: int) -> None:
        run(self.admin, "CREATE DATABASE shop")
        self.admin.select_db("shop")
        run(self.admin, TABLE + self.engine)
        for n in range(0, self.rows, BATCH):
            run(self.admin, f"INSERT INTO purchases SELECT seq, '2026-01-01' + INTERVAL seq SECOND, RAND({seed + n}) * 1000, "
                            f"RAND({seed + n + 1}) * 100000, RAND({seed + n + 2}) * 10000, ROUND(RAND({seed + n + 3}) * 500, 2), "
                            f"REPEAT(MD5(seq + {seed}), 2) FROM seq_{n + 1}_to_{min(n + BATCH, self.rows)}")
        self.settle()

    def change(self, seed: int) -> None:
        """Changes one row in a hundred, at random; the change moves the row's entry in each of its indexes."""
        r = random.Random(seed)
        chosen = r.sample(range(1, self.rows + 1), self.rows // 100)
        for n in range(0, len(chosen), 1000):
            ids = ",".join(map(str, chosen[n:n + 1000]))
            run(self.admin, f"UPDATE purchases SET price = price + 1 + id % 100, customer = customer + 7 WHERE id IN ({ids})")
        self.settle()

    def settle(self) -> None:
        """Waits until nothing is written any more: both engines have background work left from earlier changes."""
        last, still, end = self.written(), 0, time.monotonic() + 60
        while still < 4 and time.monotonic() < end:
            time.sleep(0.5)
            now = self.written()
            still = still + 1 if now - last < 1 << 18 else 0
            last = now

    def written(self) -> int:
        pid = self.server._script("pid").strip()
        text = Path(f"/proc/{pid}/io").read_text()
        return int(text.split("write_bytes: ")[1].split()[0])

    def full(self) -> dict[str, Any]:
        return self.make([FROND, "backup", "full", "DIR"], ["mariadb-backup", "--no-defaults", "--backup", "--target-dir=DIR"])

    def incremental(self, base: str) -> dict[str, Any]:
        return self.make([FROND, "backup", "incremental", "--base", base, "DIR"],
                         ["mariadb-backup", "--no-defaults", "--backup", "--target-dir=DIR", f"--incremental-basedir={base}"])

    def make(self, ours: list[str], theirs: list[str]) -> dict[str, Any]:
        """Runs the backup command of this side's engine and measures it."""
        self.made += 1
        target = str(self.place / f"b{self.made}")
        way = [f"--socket={self.server.socket}", "--user=root"]
        command = [*ours, "--no-defaults", "--quiet", "--json", *way] if self.engine == "Frond" else [*theirs, *way]
        command = [word.replace("DIR", target) if word.endswith("DIR") else word for word in command]
        told = measured(command)
        said = json.loads(told.pop("out")) if self.engine == "Frond" else {}
        return {**told, "dir": target, "bytes": on_disk(target), "blocked": said.get("blocked_ms")}


def restored(side: Side, backup: str) -> dict[str, float]:
    """Seconds and bytes read: of the restore, and of a server on the restored files until it has answered a query."""
    environment = {} if side.engine == "Frond" else {"SERVER_PLUGINS": ""}
    other = Server(f"bench-restored-{side.engine.lower()}", OPTIONS[side.engine], environment)
    other.directory().mkdir(parents=True)
    target = str(other.data())
    theirs = ["mariadb-backup", "--no-defaults", f"--target-dir={backup}"]
    steps = [[FROND, "backup", "restore", backup, target, "--quiet"]] if side.engine == "Frond" else \
        [[*theirs, "--prepare"], [*theirs, "--copy-back", f"--datadir={target}"]]
    told = {"restore": 0.0, "restore_read": 0.0}
    for step in steps:
        one = measured(step)
        told = {"restore": told["restore"] + one["seconds"], "restore_read": told["restore_read"] + one["read"]}
    try:
        begin = time.monotonic()
        with other:
            found = rows(other.connect("shop"), f"SELECT note FROM purchases WHERE id = {side.rows // 2}")
            told["first"] = time.monotonic() - begin
            pid = other._script("pid").strip()
            told["first_read"] = int(Path(f"/proc/{pid}/io").read_text().split("rchar: ")[1].split()[0])
            if len(found) != 1:
                sys.exit("a restored server lacks a row")
    finally:
        shutil.rmtree(other.directory(), ignore_errors=True)
    return told


def measured(command: list[str]) -> dict[str, Any]:
    """Runs a program. Returns its output, seconds, processor time, and the bytes that it read from files, pipes and sockets, cached or not."""
    begin = time.monotonic()
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with tool.stdout as stdout, tool.stderr as stderr:
        # mariadb-backup prints much: stdout and stderr are both drained as they come, or it would block.
        said: list[bytes] = []
        reader = threading.Thread(target=lambda: said.append(stderr.read()))
        reader.start()
        out = stdout.read()
        reader.join()
    os.waitid(os.P_PID, tool.pid, os.WEXITED | os.WNOWAIT)
    seconds = time.monotonic() - begin
    # The kernel keeps /proc/PID/io until the process is reaped, which wait4 below does.
    read = int(Path(f"/proc/{tool.pid}/io").read_text().split("rchar: ")[1].split()[0])
    _, status, used = os.wait4(tool.pid, 0)
    tool.returncode = status
    if status:
        sys.exit(f"{command}: {said[0].decode()[-1000:]}")
    return {"out": out, "seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "read": read}


def on_disk(place: str) -> int:
    return sum((Path(at) / name).stat().st_blocks * 512 for at, _, names in os.walk(place) for name in names)


class Load:
    """Clients that read and change rows, and one that commits a row at a time and notes how long it waits."""

    def __init__(self, side: Side, clients: int):
        self.side, self.stopping = side, False
        self.done = [0] * clients
        self.waits: list[float] = []
        work: list[Callable[[], None]] = [lambda n=n: self.client(n) for n in range(clients)]
        self.threads = [threading.Thread(target=one) for one in [*work, self.prober]]
        for thread in self.threads:
            thread.start()

    def client(self, n: int) -> None:
        connection, r = self.side.server.connect("shop"), random.Random(n)
        while not self.stopping:
            run(connection, "BEGIN")
            for _ in range(4):
                rows(connection, f"SELECT note FROM purchases WHERE id = {r.randint(1, self.side.rows)}")
            low = r.randint(1, 499)
            rows(connection, f"SELECT price, customer FROM purchases WHERE price >= {low} ORDER BY price, customer LIMIT 20")
            # A client has its own rows: nobody waits for another.
            own = r.randrange(n + 1, self.side.rows, len(self.done))
            run(connection, f"UPDATE purchases SET customer = customer + 1 WHERE id = {own}")
            run(connection, "COMMIT")
            self.done[n] += 1

    def prober(self) -> None:
        connection = self.side.server.connect("shop")
        run(connection, f"CREATE TABLE IF NOT EXISTS probe (id INT PRIMARY KEY, n INT) ENGINE={self.side.engine}")
        run(connection, "REPLACE INTO probe VALUES (1, 0)")
        while not self.stopping:
            begin = time.monotonic()
            run(connection, "UPDATE probe SET n = n + 1")
            self.waits.append(time.monotonic() - begin)
            time.sleep(0.002)

    def rate(self, seconds: float, during: Callable[[], None] | None = None) -> tuple[float, float]:
        """Transactions per second, and the longest wait in milliseconds. `during` runs again and again; its last call is measured to its end."""
        self.waits.clear()
        before, begin = sum(self.done), time.monotonic()
        while time.monotonic() - begin < seconds:
            if during:
                during()
            else:
                time.sleep(0.05)
        spent = time.monotonic() - begin
        return (sum(self.done) - before) / spent, max(self.waits) * 1000

    def end(self) -> None:
        self.stopping = True
        for thread in self.threads:
            thread.join()


def under_load(side: Side, seconds: float, rounds: int) -> dict[str, Any]:
    blocked: list[int] = []

    def again() -> None:
        told = side.full()
        shutil.rmtree(told["dir"])
        blocked.append(told["blocked"] or 0)

    load = Load(side, 2)
    load.rate(seconds)
    ratios, waits, alone = [], [], []
    for _ in range(rounds):
        one = load.rate(seconds)
        two = load.rate(seconds, again)
        three = load.rate(seconds)
        alone.append((one[0] + three[0]) / 2)
        ratios.append(two[0] / alone[-1])
        waits.append((max(one[1], three[1]), two[1]))
    load.end()
    return {"ratio": statistics.mean(ratios), "rate": statistics.median(alone), "blocked": max(blocked),
            "waits": statistics.median(w for w, _ in waits), "waits_then": statistics.median(w for _, w in waits)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load-rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 20))
    arguments = parser.parse_args()
    print(f"{arguments.rows} rows, seed {arguments.seed}", flush=True)
    found: dict[str, dict[str, Any]] = {}
    with Server("bench-frond", OPTIONS["Frond"]) as ours, Server("bench-innodb", OPTIONS["InnoDB"], {"SERVER_PLUGINS": ""}) as theirs:
        sides = [Side("Frond", ours, arguments), Side("InnoDB", theirs, arguments)]
        for side in sides:
            side.fill(arguments.seed)
            found[side.engine] = {"full": [], "incremental": []}
        for n in range(arguments.rounds):
            for side in sides:
                told = side.full()
                found[side.engine]["full"].append(told)
                side.change(arguments.seed + n)
                more = side.incremental(told["dir"])
                found[side.engine]["incremental"].append(more)
                for made in (more, told):
                    shutil.rmtree(made["dir"])
        for side in sides:
            last = side.full()
            found[side.engine]["restored"] = [{**restored(side, last["dir"]), "bytes": last["bytes"]}]
            shutil.rmtree(last["dir"])
            found[side.engine]["load"] = under_load(side, arguments.seconds, arguments.load_rounds)
    return report(found)


def report(found: dict[str, dict[str, Any]]) -> int:
    def middle(engine: str, kind: str, what: str) -> float:
        return statistics.median(one[what] for one in found[engine][kind])

    print("\n| | Frond, `frond backup` | InnoDB, mariadb-backup | ratio | limit |\n|---|---|---|---|---|")
    missed = 0

    def line(name: str, ours: str, theirs: str, ratio: float | None, limit: float | None, above: bool = False) -> None:
        nonlocal missed
        bad = ratio is not None and limit is not None and (ratio < limit if above else ratio > limit)
        missed += bad
        sign = ">=" if above else "<="
        shown = "" if limit is None else f"{sign} {limit:g}{' MISSED' if bad else ''}"
        print(f"| {name} | {ours} | {theirs} | {'' if ratio is None else f'{ratio:.2f}'} | {shown} |")

    def pair(name: str, kind: str, what: str, show: Callable[[float], str], limit: float | None) -> None:
        ours, theirs = middle("Frond", kind, what), middle("InnoDB", kind, what)
        line(name, show(ours), show(theirs), ours / theirs, limit)

    seconds, mib = (lambda n: f"{n:.2f} s"), (lambda n: f"{n / (1 << 20):.1f} MiB")
    pair("full: time", "full", "seconds", seconds, 0.5)
    pair("full: processor", "full", "cpu", seconds, None)
    pair("full: bytes", "full", "bytes", mib, 0.5)
    pair("incremental, 1 % changed: time", "incremental", "seconds", seconds, 0.1)
    pair("incremental: processor", "incremental", "cpu", seconds, None)
    pair("incremental: bytes", "incremental", "bytes", mib, None)
    pair("incremental: bytes read", "incremental", "read", mib, None)
    pair("restore: time", "restored", "restore", seconds, None)
    pair("restore: bytes read", "restored", "restore_read", mib, None)
    pair("then: server's start to the first query", "restored", "first", seconds, None)
    pair("and what the server read for that", "restored", "first_read", mib, None)
    whole = found["Frond"]["restored"][0]
    pair("of a backup of", "restored", "bytes", mib, None)
    share = whole["first_read"] / whole["bytes"]
    # Recovery reads the log twice. The log is bounded by frond_log_capacity, so the share is small where tables are large.
    line("the server read of the backup", f"{share:.2f} x", "", None, None)
    ours, theirs = found["Frond"]["load"], found["InnoDB"]["load"]
    line("transactions/s without a backup", f"{ours['rate']:.0f}", f"{theirs['rate']:.0f}", None, None)
    line("of them while one is made", f"{ours['ratio']:.2f}", f"{theirs['ratio']:.2f}", ours["ratio"], 0.9, above=True)
    line("longest commit without, with", f"{ours['waits']:.0f}, {ours['waits_then']:.0f} ms",
         f"{theirs['waits']:.0f}, {theirs['waits_then']:.0f} ms", None, None)
    line("commits blocked, most, ms", f"{ours['blocked']}", "not told", float(ours["blocked"]), 50)
    print(f"\n{missed} limits missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

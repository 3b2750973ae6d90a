"""Isolation test: concurrent list-append transactions through SQL, judged by anomalies.py.

    isolation.py [--seconds N] [--serializable N] [--clients N] [--seed SEED]

Each level runs for N seconds, SERIALIZABLE also until so many transactions have committed (--serializable): READ COMMITTED, REPEATABLE READ, SERIALIZABLE. The last reads ranges as well, of which
some rows are not there: phantoms, write skew and the anomaly of transactions that only read would be cycles. Last
comes a run that has to find anomalies: REPEATABLE READ without snapshot isolation (for InnoDB: its REPEATABLE READ),
which shows that the test can fail.

A list is a row (id, grp, n, v): v the numbers with a comma before each, n how many. Reads are by primary
key, by a range of groups through a secondary index, and of (id, n) from that index alone; an absent
row is an empty list, so phantoms count as missed writes.

The interleaving depends on the machine: a seed repeats each client's statements, not the history.
A failing history is kept as JSON lines in target/isolation.

Status: 0 as it should be, 1 an anomaly that the level forbids, or none where there has to be one.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pymysql

from anomalies import (READ_COMMITTED, SERIALIZABLE, SNAPSHOT, Anomaly, Checker, History,
                       Transaction)
from server import ROOT, Server, ServerFailed, engine, rows, run

# Record has changed, deadlock, lock wait timeout: the transaction is tried no further.
RETRIED = (1020, 1213, 1205)
GROUP = 4
WINDOW = 8
# Appends after which the clients move on to new lists, so that lists stay short.
APPENDS_OF_A_WINDOW = 240
# Least committed transactions per second for a meaningful history; usual are some hundred.
LEAST_RATE = 10
# How much longer than asked for a run may take to get through the transactions that were asked for.
MOST_SECONDS = 1800


@dataclass
class Level:
    name: str
    isolation: str
    forbidden: frozenset[str]
    settings: list[str]
    snapshot: bool
    expected: str = ""


def levels(tested: str) -> list[Level]:
    # InnoDB 10.11 reads old and changes new rows at REPEATABLE READ: the anomaly of the last run.
    on = ["SET frond_snapshot_isolation = ON"] if tested == "Frond" else []
    off = ["SET frond_snapshot_isolation = OFF"] if tested == "Frond" else []
    result = [Level("read committed", "READ COMMITTED", READ_COMMITTED, [], False)]
    if tested == "Frond":
        result.append(Level("snapshot isolation", "REPEATABLE READ", SNAPSHOT, on, True))
    # Reads lock what they read and do not find, and see the newest version: there is no snapshot.
    result.append(Level("serializable", "SERIALIZABLE", SERIALIZABLE, on, False))
    if tested == "Frond":
        result.append(Level("serializable, no snapshot isolation", "SERIALIZABLE", SERIALIZABLE, off, False))
    result.append(Level("no snapshot isolation", "REPEATABLE READ", frozenset(), off, True, "G-single"))
    return result


class Counters:
    """Numbers that all clients share."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.appended = 0
        self.transactions = 0
        self.committed = 0
        self.errors: Counter[int] = Counter()
        self.operations: Counter[str] = Counter()

    def next_number(self) -> int:
        with self.guard:
            self.appended += 1
            return self.appended

    def note_commit(self) -> None:
        with self.guard:
            self.committed += 1

    def next_transaction(self) -> int:
        with self.guard:
            self.transactions += 1
            return self.transactions


class Client(threading.Thread):
    def __init__(self, server: Server, level: Level, number: int, seed: str, deadline: float,
                 counters: Counters, least: int):
        super().__init__(name=f"client {number}")
        self.server, self.level, self.number = server, level, number
        self.r = random.Random(f"{seed}:{level.name}:{number}")
        self.deadline, self.counters, self.least = deadline, counters, least
        self.done: list[Transaction] = []
        self.problem = ""

    def run(self) -> None:
        try:
            self.connection = self.server.connect("lists", autocommit=False)
            run(self.connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {self.level.isolation}")
            for setting in self.level.settings:
                run(self.connection, setting)
            while time.monotonic() < self.deadline or self.counters.committed < self.least:
                self._transaction()
                if time.monotonic() > self.deadline + MOST_SECONDS:
                    break
            self.connection.close()
        except (pymysql.Error, OSError, AssertionError) as error:
            self.problem = f"{self.name}: {type(error).__name__} {error}"

    def _transaction(self) -> None:
        t = Transaction(self.counters.next_transaction(), self.number, time.monotonic(), 0, "aborted")
        base = self.counters.appended // APPENDS_OF_A_WINDOW * WINDOW
        try:
            for _ in range(self.r.choice([1, 2, 2, 3, 4, 6])):
                self._operation(t, base)
            if self.r.random() < 0.07:
                run(self.connection, "ROLLBACK")
            else:
                run(self.connection, "COMMIT")
                t.status = "ok"
                self.counters.note_commit()
        except pymysql.err.Error as error:
            if error.args[0] not in RETRIED:
                raise
            with self.counters.guard:
                self.counters.errors[error.args[0]] += 1
            run(self.connection, "ROLLBACK")
        t.end = time.monotonic()
        self.done.append(t)

    def _operation(self, t: Transaction, base: int) -> None:
        r = self.r
        key = base + r.randrange(WINDOW)
        roll = r.random()
        kind = ("append" if roll < 0.45 else "undo" if roll < 0.50 else "read" if roll < 0.68
                else "locked read" if roll < 0.73 else "range" if roll < 0.87 else "lengths")
        self.counters.operations[kind] += 1
        if kind == "append":
            self._append(t, key)
        elif kind == "undo":
            run(self.connection, "SAVEPOINT s")
            number = self._append(t, key)
            run(self.connection, "ROLLBACK TO SAVEPOINT s")
            if number:
                self._note(t, time.monotonic(), ["undo", key, number])
        elif kind in ("read", "locked read"):
            sent = time.monotonic()
            lock = self._lock() if kind == "locked read" else ""
            found = rows(self.connection, f"SELECT v FROM lists WHERE id = {key}{lock}")
            self._note(t, sent, ["read", key, numbers(found[0][0]) if found else []])
        elif kind == "range":
            self._range(t, base)
        else:
            self._lengths(t, key // GROUP)

    def _lock(self) -> str:
        # A locking read of the newest version is not a read of the snapshot.
        return self.r.choice([" FOR UPDATE", " LOCK IN SHARE MODE"])

    @staticmethod
    def _note(t: Transaction, sent: float, operation: list) -> None:
        t.operations.append(operation)
        t.sent.append(sent)

    def _append(self, t: Transaction, key: int) -> int:
        number = self.counters.next_number()
        sent = time.monotonic()
        # Noted before it runs: when its answer is an error, the write may still have been done.
        self._note(t, sent, ["append", key, number])
        if self.r.random() < 0.5:
            changed = run(self.connection,
                          f"UPDATE lists SET n = n + 1, v = CONCAT(v, ',{number}') WHERE id = {key}")
            if changed:
                return number
        run(self.connection, f"INSERT INTO lists VALUES ({key}, {key // GROUP}, 1, ',{number}') "
                             f"ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(v, ',{number}')")
        return number

    def _range(self, t: Transaction, base: int) -> None:
        low = base // GROUP
        high = low + self.r.randrange(WINDOW // GROUP)
        sent = time.monotonic()
        found = by_id(rows(self.connection, "SELECT id, n, v FROM lists FORCE INDEX (by_group) "
                                            f"WHERE grp BETWEEN {low} AND {high}"), self.level)
        for key in range(low * GROUP, (high + 1) * GROUP):
            values = numbers(found[key][2]) if key in found else []
            assert key not in found or int(found[key][1]) == len(values), \
                f"a row whose n is not the length of its v: {found[key]}"
            self._note(t, sent, ["read", key, values])

    def _lengths(self, t: Transaction, group: int) -> None:
        sent = time.monotonic()
        order = self.r.choice(["", " ORDER BY n DESC"])
        found = by_id(rows(self.connection, "SELECT id, n FROM lists FORCE INDEX (by_group) "
                                            f"WHERE grp = {group}{order}"), self.level)
        for key in range(group * GROUP, (group + 1) * GROUP):
            self._note(t, sent, ["length", key, int(found[key][1]) if key in found else 0])


def by_id(found: list[tuple], level: Level) -> dict[int, tuple]:
    """The rows by their id; a row that one read shows twice is an error of its own."""
    result = {int(row[0]): row for row in found}
    # One read may return the old and the own version of a row where a transaction may change rows
    # that it cannot see.
    assert level.expected or len(result) == len(found), f"one read shows a row twice: {found}"
    return result


def numbers(text: bytes) -> list[int]:
    return [int(n) for n in text.split(b",") if n]


def record(server: Server, level: Level, clients: int, seed: str, seconds: float, least: int) -> History:
    """Runs the clients for the given time, and until `least` transactions have committed, and returns the history."""
    admin = server.connect()
    run(admin, "DROP DATABASE IF EXISTS lists")
    run(admin, "CREATE DATABASE lists")
    admin.select_db("lists")
    run(admin, "CREATE TABLE lists.lists (id INT PRIMARY KEY, grp INT NOT NULL, n INT NOT NULL, "
               f"v TEXT NOT NULL, KEY by_group (grp, n)) ENGINE={engine()}")
    counters = Counters()
    deadline = time.monotonic() + seconds
    threads = [Client(server, level, i, seed, deadline, counters, least) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + (MOST_SECONDS if least else 0) + 120)
        if thread.is_alive():
            raise ServerFailed(f"{thread.name} hangs")
    problems = [t.problem for t in threads if t.problem]
    if problems:
        raise ServerFailed("; ".join(problems))
    final = {int(key): numbers(value) for key, value in rows(admin, "SELECT id, v FROM lists.lists")}
    verdict = rows(admin, "CHECK TABLE lists.lists EXTENDED")[-1][3]
    if verdict != b"OK":
        raise ServerFailed(f"CHECK TABLE says {verdict!r}")
    history = History(sorted((t for c in threads for t in c.done), key=lambda t: t.begin), final)
    committed = sum(1 for t in history.transactions if t.status == "ok")
    print(f"{level.name}: {len(history.transactions)} transactions, {committed} committed, "
          f"operations {dict(counters.operations)}, errors {dict(counters.errors)}", flush=True)
    if committed < max(least, LEAST_RATE * seconds):
        raise ServerFailed(f"only {committed} transactions committed in {seconds:.0f} s")
    return history


def keep(history: History, level: Level) -> Path:
    path = ROOT / "target" / "isolation" / f"{level.name.replace(' ', '-')}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        for transaction in history.transactions:
            file.write(transaction.line() + "\n")
        final = ", ".join(f'"{k}": {v}' for k, v in history.final.items())
        file.write(f'{{"final": {{{final}}}}}\n')
    return path


def judge(level: Level, history: History) -> bool:
    """Prints the verdict. True when the history is as the level wants it."""
    found = Checker(history, level.snapshot).check()
    counts = Counter(a.kind for a in found)
    if level.expected:
        good = counts[level.expected] > 0
        print(f"{level.name}: {'found, as it has to be' if good else 'NOT FOUND'}: "
              f"{level.expected}; all: {dict(counts)}")
        return good
    bad = [a for a in found if a.kind in level.forbidden]
    if not bad:
        print(f"{level.name}: none of the forbidden anomalies; allowed and found: {dict(counts)}")
        return True
    print(f"{level.name}: FORBIDDEN: {dict(Counter(a.kind for a in bad))}")
    by_number = {t.number: t for t in history.transactions}
    for anomaly in bad[:5]:
        _show(anomaly, by_number)
    print(f"the history: {keep(history, level)}")
    return False


def _show(anomaly: Anomaly, by_number: dict[int, Transaction]) -> None:
    print(f"  {anomaly.kind}: {anomaly.text}")
    for number in anomaly.transactions[:6]:
        print(f"    {by_number[number].line()[:1500]}")


def options(tested: str) -> list[str]:
    # Commits must not wait for the disk: more of them run at once.
    common = ["--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=2",
              "--innodb-buffer-pool-size=64M"]
    if tested == "Frond":
        common += ["--frond-flush-log-at-commit=0", "--frond-lock-wait-timeout=2",
                   "--frond-cache-size=8M"]
    return common


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--serializable", type=int, default=0)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}, {arguments.clients} clients", flush=True)
    passed = failed = 0
    with Server("isolation", options(engine())) as server:
        for level in levels(engine()):
            if not level.name.startswith(arguments.only):
                continue
            seconds = min(arguments.seconds, 8) if level.expected else arguments.seconds
            least = arguments.serializable if level.isolation == "SERIALIZABLE" else 0
            try:
                good = judge(level, record(server, level, arguments.clients, arguments.seed, seconds, least))
            except (ServerFailed, pymysql.Error, OSError) as error:
                print(f"{level.name}: FAILED: {error}\n{server.log_end()}")
                good = False
                if not server.running():
                    server.start()
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

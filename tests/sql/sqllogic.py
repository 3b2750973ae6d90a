"""SQLite's sqllogictest files against Frond.

    sqllogic.py [--engine NAME] [--minutes N] PATH...     files *.test, or directories with them

A file runs in a database of its own. Records are `statement ok|error` and `query TYPES [SORT] [LABEL]` with
`skipif` and `onlyif`; the server is "mysql" to them. A value is printed as the format says: integers as such,
reals with three digits, NULL, and (empty).

The files' results are those of several databases, and some of this server's are others. So a file that has
differences runs on InnoDB, too, and what differs there in the same way is the server's doing.

Each file is one test. The last line is "N passed, N failed". Status: 0 all passed, 1 some failed, 2 the test
could not run.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pymysql

from server import Server, ServerFailed, rows, run

SHOWN = 5
OPTIONS = ["--frond-cache-size=256M", "--innodb-buffer-pool-size=64M", "--skip-log-bin", "--loose-partition"]


class Record:
    """One paragraph of a file: its line, first words, SQL and expected lines."""

    def __init__(self, line: int, words: list[str], sql: str, wanted: list[str]):
        self.line, self.words, self.sql, self.wanted = line, words, sql, wanted


def applies(words: list[str]) -> bool:
    return (words[1] == "mysql") == (words[0] == "onlyif")


def records(path: Path) -> Iterator[Record]:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    at = 0
    while at < len(lines):
        first, wanted_here, words = at, True, []
        # Conditions stand above the record that they are about.
        while at < len(lines) and lines[at].strip():
            line = lines[at].strip()
            at += 1
            if line.startswith("#"):
                continue
            words = line.split()
            if words[0] not in ("skipif", "onlyif"):
                break
            wanted_here = wanted_here and applies(words)
        body: list[str] = []
        while at < len(lines) and lines[at].strip():
            body.append(lines[at].rstrip("\r"))
            at += 1
        at += 1
        if not wanted_here or not words:
            continue
        if words[0] == "halt":
            return
        if words[0] in ("statement", "query"):
            cut = body.index("----") if "----" in body else len(body)
            yield Record(first + 1, words, "\n".join(body[:cut]), body[cut + 1:])


def printed(value: bytes | None, kind: str) -> str:
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "replace")
    if kind == "I":
        try:
            return str(int(float(text))) if "." in text or "e" in text else str(int(text))
        except ValueError:
            return "0"
    if kind == "R":
        try:
            return f"{float(text):.3f}"
        except ValueError:
            return "0.000"
    return "".join(c if " " <= c <= "~" else "@" for c in text) or "(empty)"


def result(record: Record, got: list[tuple[Any, ...]]) -> list[str]:
    kinds = record.words[1] if len(record.words) > 1 else ""
    sort = record.words[2] if len(record.words) > 2 else "nosort"
    table = [[printed(v, kinds[i:i + 1]) for i, v in enumerate(row)] for row in got]
    if sort == "rowsort":
        table.sort()
    values = [value for row in table for value in row]
    return sorted(values) if sort == "valuesort" else values


def digest(values: list[str]) -> str:
    text = "".join(value + "\n" for value in values)
    return f"{len(values)} values hashing to {hashlib.md5(text.encode()).hexdigest()}"


def agrees(record: Record, values: list[str]) -> bool:
    if len(record.wanted) == 1 and " values hashing to " in record.wanted[0]:
        return digest(values) == record.wanted[0].strip()
    return values == [line.strip() for line in record.wanted]


def differences(server: Server, engine: str, path: Path) -> tuple[int, dict[int, str]]:
    """How many records ran, and what each differing one, by its line, gave."""
    admin = server.connect()
    run(admin, "drop database if exists slt")
    run(admin, "create database slt")
    connection = server.connect("slt", read_timeout=600)
    run(connection, f"set default_storage_engine={engine}, sql_mode='', join_buffer_size=1048576")
    ran, found = 0, {}
    for record in records(path):
        ran += 1
        try:
            got = rows(connection, record.sql)
        except pymysql.err.MySQLError as e:
            if record.words[1:2] != ["error"]:
                found[record.line] = f"{e.args}"
            if not connection.open or e.args[0] in (2006, 2013):
                found[record.line] = f"the connection is gone: {e.args}"
                break
            continue
        if record.words[0] == "statement":
            if record.words[1] == "error":
                found[record.line] = "an error was expected"
            continue
        values = result(record, got)
        if not agrees(record, values):
            found[record.line] = digest(values) if len(values) > SHOWN else " ".join(values)
    if connection.open:
        connection.close()
    admin.close()
    return ran, found


def main() -> int:
    parser = argparse.ArgumentParser(description="sqllogictest files against Frond")
    parser.add_argument("--engine", default="Frond")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    files = [f for p in arguments.paths for f in (sorted(p.rglob("*.test")) if p.is_dir() else [p])]
    end = time.monotonic() + arguments.minutes * 60
    passed = failed = statements = server_side = 0
    with Server("sqllogic", OPTIONS) as server:
        for path in files:
            if time.monotonic() > end:
                print(f"{len(files) - passed - failed} files are left out: the time is over")
                break
            ran, found = differences(server, arguments.engine, path)
            statements += ran
            if found:
                other = differences(server, "InnoDB", path)[1]
                server_side += sum(other.get(line) == got for line, got in found.items())
                found = {line: got for line, got in found.items() if other.get(line) != got}
            if found or not ran:
                failed += 1
                print(f"FAILED {path}: {len(found)} of {ran} records")
                for line, got in list(found.items())[:SHOWN]:
                    print(f"    line {line}: {got}")
            else:
                passed += 1
    print(f"{statements} records; {server_side} differ on InnoDB in the same way")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerFailed as e:
        print(f"cannot run: {e}")
        sys.exit(2)

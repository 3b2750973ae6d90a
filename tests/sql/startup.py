"""Bad input at the start of a server: directories that are not ours, taken or damaged, and option values out
of range.

    startup.py

The engine refuses what it cannot use: the server runs without it, its error log says why, nothing in the
directory changes but for the lock file, and once the cause is gone everything is there again. Numbers out of
range are put into range with a warning; with values that mean nothing the server runs without the engine.

The last line is "N passed, N failed". Status: 0 all passed, 1 some failed, 2 the test could not run.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Callable

import pymysql

from server import Server, ServerFailed, rows, run

UNKNOWN_ENGINE = 1286
BASE = ["--frond-cache-size=16M", "--innodb-buffer-pool-size=16M", "--skip-log-bin"]


class Wrong(Exception):
    """The server did something else than it should."""


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise Wrong(what)


def log_since(server: Server, before: int) -> str:
    path = server.directory() / "error.log"
    return path.read_bytes()[before:].decode("utf-8", "replace")


def log_size(server: Server) -> int:
    path = server.directory() / "error.log"
    return path.stat().st_size if path.exists() else 0


def contents(directory: Path) -> dict[str, bytes]:
    """Name and bytes of every file but LOCK, which is taken before anything else is looked at."""
    files = [p for p in sorted(directory.rglob("*")) if p.is_file() and p.name != "LOCK"]
    return {str(p.relative_to(directory)): p.read_bytes() for p in files}


def fill(server: Server) -> None:
    connection = server.connect()
    run(connection, "CREATE DATABASE s")
    run(connection, "CREATE TABLE s.t (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=Frond")
    run(connection, "INSERT INTO s.t VALUES (1, 1), (2, 2), (3, 3)")
    connection.close()


def check_works(server: Server) -> None:
    connection = server.connect()
    expect(rows(connection, "SELECT COUNT(*), SUM(b) FROM s.t FORCE INDEX (b)") == [(b"3", b"6")],
           "the table is not as it was")
    connection.close()


def check_refused(server: Server, before: int, words: list[str]) -> None:
    """The server runs, without the engine, and the log says why."""
    connection = server.connect()
    engines = rows(connection, "SELECT COUNT(*) FROM information_schema.engines WHERE engine = 'Frond' "
                               "AND support <> 'NO'")
    expect(engines == [(b"0",)], "the engine is offered all the same")
    try:
        run(connection, "SET sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        run(connection, "CREATE TABLE test_refused (a INT) ENGINE=Frond")
        expect(False, "a table was created")
    except pymysql.Error as error:
        expect(error.args[0] in (UNKNOWN_ENGINE, 1046), f"creating a table: {error}")
    try:
        rows(connection, "SELECT * FROM s.t")
        expect(False, "a table was read")
    except pymysql.Error:
        pass
    run(connection, "CREATE DATABASE others")
    run(connection, "CREATE TABLE others.t (a INT) ENGINE=InnoDB")
    run(connection, "DROP DATABASE others")
    connection.close()
    text = log_since(server, before)
    for word in words:
        expect(word in text, f"the error log does not say '{word}':\n{text[-1500:]}")


def damaged(change: Callable[[Path], None], words: list[str], crash: bool = False) -> None:
    """A directory after `change` is refused, left alone, and accepted when the change is taken back."""
    with Server("startup", BASE) as server:
        fill(server)
        if crash:
            # Something is in files, and something in the log alone.
            connection = server.connect()
            rows(connection, "OPTIMIZE TABLE s.t")
            run(connection, "UPDATE s.t SET b = b + 1")
            run(connection, "UPDATE s.t SET b = b - 1")
            connection.close()
            server.kill()
        else:
            server.stop()
        ours = server.data() / "#frond"
        kept = server.directory() / "kept"
        shutil.copytree(ours, kept)
        change(ours)
        before, files = log_size(server), contents(ours)
        server.start()
        check_refused(server, before, words)
        server.stop()
        expect(contents(ours) == files, "the directory changed")
        shutil.rmtree(ours)
        shutil.copytree(kept, ours)
        server.start()
        check_works(server)


def not_ours() -> None:
    def change(directory: Path) -> None:
        shutil.rmtree(directory)
        directory.mkdir()
        (directory / "notes.txt").write_text("somebody's notes\n")
    damaged(change, ["notes.txt", "not a Frond database"])


def a_file_in_its_place() -> None:
    def change(directory: Path) -> None:
        shutil.rmtree(directory)
        directory.mkdir()
        (directory / "frond.id").write_bytes(b"")
    damaged(change, ["frond.id"])


def identity_is_damaged() -> None:
    def change(directory: Path) -> None:
        path = directory / "frond.id"
        path.write_bytes(path.read_bytes()[:8] + b"\x63\x00\x00\x00" + path.read_bytes()[12:])
    damaged(change, ["frond.id", "checksum"])


def checksum(data: bytes) -> int:
    """XXH3, 64 bits, without a seed, of 17 to 32 bytes: how frond.id ends."""
    secret = bytes.fromhex("b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f")
    mask = (1 << 64) - 1

    def word(of: bytes, at: int) -> int:
        return int.from_bytes(of[at:at + 8], "little")

    def folded(at: int, key: int) -> int:
        product = (word(data, at) ^ word(secret, key)) * (word(data, at + 8) ^ word(secret, key + 8))
        return (product & mask) ^ (product >> 64)

    total = (len(data) * 0x9E3779B185EBCA87 + folded(0, 0) + folded(len(data) - 16, 16)) & mask
    total ^= total >> 37
    total = total * 0x165667919E3779F9 & mask
    return total ^ (total >> 32)


def with_identity(at: int, value: int, words: list[str]) -> None:
    """Another number in frond.id, and the checksum that it has to have."""
    def change(directory: Path) -> None:
        path = directory / "frond.id"
        data = path.read_bytes()
        expect(checksum(data[:24]) == int.from_bytes(data[24:32], "little"), "frond.id: not this checksum")
        data = data[:at] + value.to_bytes(4, "little") + data[at + 4:24]
        path.write_bytes(data + checksum(data).to_bytes(8, "little"))
    damaged(change, ["frond.id", *words])


def newer_format() -> None:
    with_identity(8, 99, ["written in format 99", "newer"])


def reserved_word_is_used() -> None:
    with_identity(12, 1, ["reserved word"])


def log_is_gone() -> None:
    def change(directory: Path) -> None:
        for path in directory.glob("log.*.frl"):
            path.unlink()
    damaged(change, ["Frond: cannot open"], crash=True)


def taken_by_another_server() -> None:
    with Server("startup-a", BASE) as first, Server("startup-b", BASE) as second:
        fill(first)
        second.stop()
        theirs = second.data() / "#frond"
        shutil.rmtree(theirs)
        theirs.symlink_to(first.data() / "#frond")
        before = log_size(second)
        second.start()
        connection = second.connect()
        run(connection, "CREATE DATABASE s")
        connection.close()
        check_refused(second, before, ["Frond: cannot open"])
        check_works(first)
        connection = first.connect()
        run(connection, "UPDATE s.t SET b = b + 1")
        run(connection, "UPDATE s.t SET b = b - 1")
        connection.close()
        # Free again: the second one gets it.
        first.stop()
        second.stop()
        second.start()
        connection = second.connect()
        expect(rows(connection, "SELECT COUNT(*) FROM information_schema.engines WHERE engine = 'Frond'") ==
               [(b"1",)], "the directory is free, and yet refused")
        connection.close()


def values_out_of_range() -> None:
    wrong = ["--frond-cache-size=1", "--frond-log-capacity=1", "--frond-lock-memory=0",
             "--frond-background-threads=0", "--frond-flush-log-at-commit=9", "--frond-log-segment-size=1",
             "--frond-default-page-size=1"]
    right = {"frond_cache_size": b"8388608", "frond_log_capacity": b"16777216", "frond_lock_memory": b"1048576",
             "frond_background_threads": b"1", "frond_flush_log_at_commit": b"2",
             "frond_log_segment_size": b"1048576", "frond_default_page_size": b"4096"}
    with Server("startup", wrong) as server:
        connection = server.connect()
        for name, value in right.items():
            expect(rows(connection, f"SELECT @@global.{name}") == [(value,)], f"{name} is not {value!r}")
        connection.close()
        text = log_since(server, 0)
        for option in wrong:
            name = option.split("=")[0].lstrip("-")
            expect(name in text or name.replace("-", "_") in text, f"the error log does not name {name}")
        fill(server)
        server.stop()
        # Large values, and sizes that do not go together, are no reason to refuse either. The segments of before
        # are smaller.
        server.options = ["--frond-log-capacity=16M", "--frond-log-segment-size=1G", "--frond-background-threads=999",
                          "--frond-cache-size=8M", "--frond-lock-memory=64G"]
        server.start()
        check_works(server)
        connection = server.connect()
        expect(rows(connection, "SELECT @@frond_log_segment_size") == [(b"8388608",)], "the segments do not fit")
        connection.close()
        expect("frond_log_segment_size is 8388608" in log_since(server, 0), "no warning of smaller segments")


def values_without_a_meaning() -> None:
    for option in ("--frond-lock-wait-timeout=-5", "--frond-default-compression=brotli"):
        with Server("startup", [option]) as server:
            check_refused(server, 0, [option.split("=")[0].lstrip("-")])


TESTS = [not_ours, a_file_in_its_place, identity_is_damaged, newer_format, reserved_word_is_used, log_is_gone,
         taken_by_another_server, values_out_of_range, values_without_a_meaning]


def main() -> int:
    passed = failed = 0
    wanted = sys.argv[1:]
    for test in TESTS:
        if wanted and test.__name__ not in wanted:
            continue
        try:
            test()
            passed += 1
            print(f"ok      {test.__name__}", flush=True)
        except (Wrong, ServerFailed, pymysql.Error, OSError) as error:
            failed += 1
            print(f"FAILED  {test.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

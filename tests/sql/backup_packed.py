"""Packed backups, streams, and what may go wrong with them: parts of backup.py, which says how they are run.

Each takes the bench of backup.py: a server, clients that are not at work, and at least one backup.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import backup_uses as uses
from clients import Problem
from disk_full import SmallDisk
from server import Server, rows, run


def pipe(bench: Any, stream: list[str], receive: list[str], status: tuple[int, int]) -> tuple[str, str]:
    """`frond backup STREAM | frond backup RECEIVE`, and what both said."""
    from_ = subprocess.Popen([*bench.program, *stream], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    to = subprocess.Popen(receive if receive[0] == "sh" else [*bench.program, *receive], stdin=from_.stdout,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert from_.stdout and from_.stderr
    from_.stdout.close()
    received, _ = to.communicate(timeout=300)
    sent = from_.stderr.read()
    from_.stderr.close()
    if (from_.wait(timeout=300), to.returncode) != status:
        raise Problem(f"{stream} | {receive}: {from_.returncode}, {to.returncode}: {sent} {received}")
    return sent, received


def packed(bench: Any) -> None:
    """A chain of compressed and encrypted backups does what one of directories does, and nothing without its key."""
    key, other = bench.dir("key"), bench.dir("other-key")
    for file in (key, other):
        bench.frond("key", file)
    way = ("--key-file", key)
    bench.full("c0", "--compress", "--threads", "3", *way)
    run(bench.admin, "UPDATE kill9.bulk SET k = k + 1 WHERE id % 9 = 0")
    told = bench.incremental("c1", "c0", "--compress=9", "--threads", "2", *way)
    if told["bytes_named"] < 1 << 20 or told["bytes_packed"] != os.path.getsize(bench.dir("c1") + "/backup.frb"):
        raise Problem(f"packed: {told}")
    if sorted(os.listdir(bench.dir("c1"))) != ["backup.frb"] or b"kill9" in Path(bench.dir("c1"), "backup.frb").read_bytes():
        raise Problem(f"in {bench.dir('c1')}: {os.listdir(bench.dir('c1'))}, or names in the clear")
    for command in (("verify", bench.dir("c1")), ("restore", bench.dir("c1"), bench.dir("x")),
                    ("incremental", bench.dir("x"), "--base", bench.dir("c1"), *bench.connection())):
        if "--key-file" not in bench.frond(*command, status=2) or "not" not in bench.frond(*command, "--key-file", other, status=2):
            raise Problem(f"{command} without the key")
    if bench.frond("list", str(bench.place), *way).count("encrypted") != 2:
        raise Problem(bench.frond("list", str(bench.place), *way))
    bench.restored("c1", told, *way, "--threads", "2")
    bench.frond("prepare", bench.dir("c1"), bench.dir("c2"), "--quiet", *way)
    bench.frond("verify", bench.dir("c2"), "--quiet")
    # One table of it, and no other's.
    want = uses.checksum(bench.admin, "kill9.still")
    bench.frond("extract", bench.dir("c1"), *uses.account(bench), *uses.private(bench), *way, "--table", "kill9.still", "--as", "copy")
    if uses.checksum(bench.admin, "kill9.copy") != want:
        raise Problem("a table came back different from an encrypted backup")
    run(bench.admin, "DROP TABLE kill9.copy")
    exchanged(bench, way)
    shutil.rmtree(bench.dir("c2"))
    place = bench.place / "kept"
    place.mkdir()
    for name in ("c0", "c1"):
        Path(bench.dir(name)).rename(place / name)
    bench.frond("keep", str(place), "--daily", "0", "--weekly", "0", "--delete")
    if sorted(os.listdir(place)) != ["c0", "c1"]:
        raise Problem("keep removed what the newest backup needs")
    shutil.rmtree(place)


def exchanged(bench: Any, way: tuple[str, ...]) -> None:
    """Files of two backups that changed places, bits and formats: refused by name."""
    first, second = (Path(bench.dir(name), "backup.frb") for name in ("c0", "c1"))
    away = first.with_name("away")
    first.rename(away)
    shutil.copy(second, first)
    told = bench.frond("verify", bench.dir("c1"), "--quick", "--quiet", *way, status=2)
    if "which is not there" not in told:
        raise Problem(told)
    first.unlink()
    away.rename(first)
    whole = second.read_bytes()
    for at, byte, want, status in ((8, 9, "has format 9", 2), (len(whole) // 3, whole[len(whole) // 3] ^ 4, "", 1)):
        second.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1:])
        told = bench.frond("verify", bench.dir("c1"), "--quick", "--quiet", *way, status=status)
        if want not in told:
            raise Problem(told)
    second.write_bytes(whole)
    bench.frond("verify", bench.dir("c1"), "--quick", "--quiet", *way)


def stream(bench: Any) -> None:
    """A stream under load is a backup at the other end; one that is cut off never is."""
    target, base = bench.dir("s0"), bench.dir("s1")
    bench.begin()
    try:
        time.sleep(0.5)
        sent, received = pipe(bench, ["full", "--stream", "--compress=1", "--threads", "2", "--json", *bench.loud()],
                              ["receive", target], (0, 0))
    finally:
        bench.end()
    events = [json.loads(line) for line in sent.splitlines()]
    # What mariadb-backup blocks is not known.
    expected = ["pinned", "done"] if bench.others else ["blocked", "pinned", "done"]
    if [e["event"] for e in events if e["event"] != "progress"] != expected or "received backup" not in received:
        raise Problem(f"{sent} {received}")
    bench.wait_unpinned()
    bench.restored("s0", events[-1])
    # The chain goes on beside it.
    pipe(bench, ["incremental", "--stream", "--base", target, *bench.connection()], ["receive", base, "--quiet"], (0, 0))
    bench.frond("verify", base, "--quiet")
    # A reader that goes away.
    sent, _ = pipe(bench, ["full", "--stream", *bench.connection()], ["sh", "-c", "head -c 3000000 > /dev/null"], (2, 0))
    if "Broken pipe" not in sent:
        raise Problem(sent)
    bench.wait_unpinned()
    cut_off(bench, Path(target) / "backup.frb")
    for name in ("s0", "s1"):
        shutil.rmtree(bench.dir(name))


def cut_off(bench: Any, pack: Path) -> None:
    whole = pack.read_bytes()
    again = Path(bench.dir("again"))

    def receive(data: bytes, *more: str, status: int) -> str:
        done = subprocess.run([*bench.program, "receive", str(again), *more], input=data, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300, check=False)
        if done.returncode != status:
            raise Problem(f"receive {more}: {done.returncode}, {done.stdout!r}")
        return done.stdout.decode()

    told = receive(whole[:len(whole) * 2 // 3], status=2)
    if "cut off" not in told or "incomplete" not in bench.frond("list", str(again), status=1):
        raise Problem(told)
    bench.frond("verify", str(again), status=2)
    bench.frond("restore", str(again), bench.dir("x"), status=2)
    # A rest that begins or ends at the wrong place, and then the right one.
    got = int(receive(b"", "--received", status=0))
    if not 0 < got <= len(whole) * 2 // 3:
        raise Problem(f"{got} bytes of {len(whole)}")
    receive(whole, status=2)
    receive(whole[got + 1:], "--resume", status=2)
    receive(whole[got:-1], "--resume", status=2)
    receive(whole[int(receive(b"", "--received", status=0)):], "--resume", status=0)
    if (again / "backup.frb").read_bytes() != whole:
        raise Problem("a stream that went on is not what was sent")
    shutil.rmtree(again)
    # As a plain file.
    file = Path(bench.dir("file.frb"))
    file.write_bytes(whole[:-20])
    if "cut off" not in bench.frond("verify", str(file), status=2) or "damaged" not in bench.frond("list", str(file), status=1):
        raise Problem("a file that was cut off")
    file.write_bytes(whole)
    bench.frond("verify", str(file), "--quick", "--quiet")
    file.unlink()


def full_pack(bench: Any) -> bool:
    """No space for a pack, at either end of a pipe."""
    disk = SmallDisk(bench.server.directory() / "disk", 8)
    if not disk.mount():
        return False
    try:
        bench.frond("key", bench.dir("disk-key"))
        told = bench.frond("full", str(disk.place / "b"), "--key-file", bench.dir("disk-key"), *bench.connection(), status=2)
        if "No space left" not in told or "whole" in bench.frond("list", str(disk.place)):
            raise Problem(told)
        if shutil.disk_usage(disk.place).free < 4 << 20:
            raise Problem("what did not fit is still there")
        _, told = pipe(bench, ["full", "--stream", *bench.connection()], ["receive", str(disk.place / "c")], (2, 2))
        if "No space left" not in told or "incomplete" not in bench.frond("list", str(disk.place), status=1):
            raise Problem(told)
        bench.wait_unpinned()
    finally:
        disk.unmount()
    return True


def pack_places(bench: Any) -> None:
    """The target goes away, may not be written or read; the format is newer; the server is without Frond."""
    for more in ((), ("--compress=1",)):
        target = bench.dir("gone")
        tool = subprocess.Popen([*bench.program, "full", target, "--rate", "4M", *more, *bench.connection()], stderr=subprocess.PIPE,
                                text=True)
        for _ in range(400):
            if os.path.exists(target + ("/backup.frb.part" if more else "/frond/frond.id")):
                break
            time.sleep(0.02)
        os.rename(target, target + "-away")
        shutil.rmtree(target + "-away", ignore_errors=True)
        _, told = tool.communicate(timeout=200)
        looks_whole = [name for name in ("manifest.json", "backup.frb") if os.path.exists(f"{target}/{name}")]
        if tool.returncode != 2 or looks_whole or "gone" not in told:
            raise Problem(f"the target went away: status {tool.returncode}, {looks_whole}: {told}")
        # Directories that it made again.
        shutil.rmtree(target, ignore_errors=True)
        bench.wait_unpinned()
    bench.full("newer")
    text = Path(bench.dir("newer"), "manifest.json")
    text.write_text(text.read_text().replace('"format":3', '"format":4', 1))
    for command in (("verify", bench.dir("newer")), ("restore", bench.dir("newer"), bench.dir("x"))):
        if "use the release that made it" not in bench.frond(*command, status=2):
            raise Problem("a newer format")
    shutil.rmtree(bench.dir("newer"))
    if os.geteuid() == 0:
        nobody(bench)
    with Server("backup-without-frond", [], {"SERVER_PLUGINS": ""}) as old:
        told = bench.frond("full", bench.dir("x"), "--no-defaults", f"--socket={old.socket}", "--user=root", status=2)
        if "not loaded, or too old" not in told or os.path.exists(bench.dir("x")):
            raise Problem(told)


def nobody(bench: Any) -> None:
    """An account of the machine that may read neither the server's files nor a key, nor write to the target."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        program = shutil.copy(bench.program[0], place)
        bench.frond("key", place + "/key")
        os.chmod(bench.server.data(), 0o700)
        for command, want in ((["full", place + "/b", *bench.connection()], ("can read", "may not use the socket")), (["key", place + "/own"], ("Permission denied",)),
                              (["receive", place + "/b"], ("Permission denied",)),
                              (["full", place + "/b", "--key-file", place + "/key", *bench.connection()], ("Permission denied",))):
            done = subprocess.run([program, "backup", *command], user=65534, group=65534, extra_groups=[], cwd="/", text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
            if done.returncode != 2 or not any(word in done.stdout for word in want) or os.path.exists(place + "/b"):
                raise Problem(f"as nobody: {command}: {done.returncode}: {done.stdout}")
    if rows(bench.admin, "SELECT 1")[0][0] != b"1":
        raise Problem("the server")


def replica(bench: Any) -> None:
    """A server that begins with a stream of the primary's follows it, as docs/backup.md says, and becomes equal."""
    target = bench.dir("r0")
    bench.begin()
    try:
        pipe(bench, ["full", "--stream", *bench.connection()], ["receive", target, "--quiet"], (0, 0))
    finally:
        bench.end()
    other = Server("backup-replica", ["--server-id=2", "--frond-cache-size=16M", "--skip-slave-start", "--frond-flush-log-at-commit=2",
                                      "--innodb-flush-log-at-trx-commit=2", "--innodb-max-dirty-pages-pct=0"])
    other.directory().mkdir(parents=True)
    try:
        told = bench.frond("restore", target, str(other.data()), "--quiet")
        position = re.search(r"SET GLOBAL gtid_slave_pos = '[^']*'", told)
        if not position:
            raise Problem(told)
        with other:
            if "mariadb-upgrade" in told:
                subprocess.run(["mariadb-upgrade", "--no-defaults", "--force", f"--socket={other.socket}", "--user=root"], check=True,
                               capture_output=True, timeout=300)
            there = other.connect(read_timeout=300)
            run(there, position[0])
            run(there, f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {bench.port}, MASTER_USER = 'follower', "
                       "MASTER_PASSWORD = 'f', MASTER_USE_GTID = slave_pos")
            run(there, "START SLAVE")
            end = rows(bench.admin, "SELECT @@gtid_binlog_pos")[0][0].decode()
            if int(rows(there, f"SELECT MASTER_GTID_WAIT('{end}', 60)")[0][0]):
                raise Problem(f"the replica: {rows(there, 'SHOW SLAVE STATUS')}")
            here, there_now = bench.tables(bench.admin), bench.tables(there)
            if here != there_now:
                raise Problem(f"the replica differs: {set(here.items()) ^ set(there_now.items())}")
            foreign(bench, other, target)
            # It writes no binary log, so a table comes as its files.
            way = ["--no-defaults", f"--socket={other.socket}", "--user=root"]
            told = bench.frond("extract", target, *way, *uses.private(bench), "--table", "kill9.still", "--as", "again")
            if "imported" not in told or uses.checksum(there, "kill9.again") != here["still"]:
                raise Problem(f"extract into a server without a binary log: {told}")
    finally:
        shutil.rmtree(other.directory(), ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)


def foreign(bench: Any, other: Server, base: str) -> None:
    """The chain goes on from a restored server; what the primary did after that backup is of another history.

    A base of it is refused, or, if both have removed the log that they had in common, is whole without it.
    """
    way = ["--no-defaults", f"--socket={other.socket}", "--user=root", "--quiet"]
    bench.full("r1")
    tool = subprocess.run([*bench.program, "incremental", bench.dir("r2"), "--base", bench.dir("r1"), *way], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    if tool.returncode:
        if tool.returncode != 2 or "cannot be the base" not in tool.stdout or "make a full backup" not in tool.stdout \
                or os.path.exists(bench.dir("r2") + "/manifest.json"):
            raise Problem(tool.stdout)
    else:
        same_as(bench, "r2", other)
        shutil.rmtree(bench.dir("r2"))
    bench.frond("incremental", bench.dir("r2"), "--base", base, *way)
    same_as(bench, "r2", other)
    for name in ("r1", "r2"):
        shutil.rmtree(bench.dir(name))


def same_as(bench: Any, name: str, server: Server) -> None:
    """A server on what the backup restores has the tables of `server`, which nobody changes."""
    bench.frond("verify", bench.dir(name), "--quick", "--quiet")
    other = Server("backup-same", ["--frond-cache-size=16M", "--innodb-buffer-pool-size=16M"])
    other.directory().mkdir(parents=True)
    try:
        bench.frond("restore", bench.dir(name), str(other.data()), "--quiet")
        with other:
            here, there = bench.tables(server.connect()), bench.tables(other.connect())
            if here != there:
                raise Problem(f"{name} differs from its server: {set(here.items()) ^ set(there.items())}")
    finally:
        shutil.rmtree(other.directory(), ignore_errors=True)

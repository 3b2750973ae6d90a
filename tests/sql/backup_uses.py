"""What one does with a backup, beside restoring it: parts of backup.py, which says how they are run.

Each takes the bench of backup.py: a server, clients that are not at work, and at least one backup.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pymysql

from clients import Problem
from server import ROOT, Server, rows, run


def private(bench: Any) -> list[str]:
    """Options for the private server of a command."""
    place = rows(bench.admin, "SELECT @@plugin_dir")[0][0].decode()
    return [f"--server-option=--plugin-dir={place}", "--server-option=--frond-cache-size=16M",
            "--server-option=--innodb-buffer-pool-size=16M", "--quiet"]


def account(bench: Any) -> list[str]:
    return ["--no-defaults", f"--socket={bench.server.socket}", "--user=root"]


def checksum(connection: pymysql.Connection, table: str) -> Any:
    return rows(connection, f"CHECKSUM TABLE {table} EXTENDED")[0][1]


def short_block(bench: Any) -> None:
    """Commits wait only for what has to be done while they are blocked: neither for copies nor for --rate, which alone takes a second."""
    bench.begin()
    try:
        blocked = [bench.full(f"block{n}", *(("--rate", "3M") if n == 4 else ()))["blocked_ms"] for n in range(5)]
    finally:
        bench.end()
    for n in range(5):
        shutil.rmtree(bench.dir(f"block{n}"))
    print(f"commits were blocked {blocked} ms")
    if min(blocked[:4]) > 50 or blocked[4] > 500:
        raise Problem(f"commits were blocked {blocked} ms")


def late_changes(bench: Any) -> None:
    """What the server's own tables get between their first copy and the moment is in the backup: accounts and logs."""
    run(bench.admin, "SET GLOBAL log_output = 'TABLE'")
    run(bench.admin, "SET GLOBAL general_log = ON")
    told = bench.full("late")
    run(bench.admin, "SET GLOBAL general_log = OFF")
    run(bench.admin, "SET GLOBAL log_output = DEFAULT")
    text = (Path(bench.dir("late")) / "server" / "mysql" / "general_log.CSV").read_bytes()
    if b"BACKUP STAGE START" not in text or b"BACKUP STAGE BLOCK_COMMIT" not in text or not text.endswith(b"\n"):
        raise Problem(f"the log's copy ends with {text[-300:]!r}, {told}")
    bench.frond("verify", bench.dir("late"), "--quick", "--quiet")
    shutil.rmtree(bench.dir("late"))


def prepared(bench: Any) -> None:
    """A full backup of a chain is the same database, without the others."""
    bench.full("p0")
    _short_log(bench, "p0")
    run(bench.admin, "DELETE FROM kill9.bulk WHERE id % 5 = 0")
    told = bench.incremental("p1", "p0")
    bench.frond("prepare", bench.dir("p1"), bench.dir("p2"), "--quiet")
    # Nothing changed since: neither log nor blocks nor the server's files are copied again.
    again = bench.incremental("p3", "p1")
    if again["bytes"] > 1 << 20 or again["bytes_named"] < 4 << 20:
        raise Problem(f"an increment without changes: {again}")
    bench.frond("verify", bench.dir("p3"), "--quiet")
    for name in ("p0", "p1", "p3"):
        shutil.rmtree(bench.dir(name))
    manifest = json.loads((Path(bench.dir("p2")) / "manifest.json").read_text())
    if manifest["chain"] or manifest["id"] == told["id"]:
        raise Problem(f"prepared: {manifest['id']} of {manifest['chain']}")
    bench.restored("p2", told)
    bench.frond("prepare", bench.dir("p2"), bench.dir("p2"), "--quiet", status=2)
    shutil.rmtree(bench.dir("p2"))


def _short_log(bench: Any, name: str) -> None:
    """What was in the log alone was written to the tables' files before the full backup: the log was up to 16 MiB."""
    files = json.loads((Path(bench.dir(name)) / "manifest.json").read_text())["files"]
    log = sum(file["bytes"] for path, file in files.items() if path.startswith("frond/log."))
    if log > 1 << 20:
        raise Problem(f"{log} bytes of log are in {name}")


def against(bench: Any) -> None:
    """Compared with the server while it changes; a change that was not logged is found."""
    bench.full("a0")
    verify = ("verify", bench.dir("a0"), "--quick", "--against-server", *account(bench), *private(bench))
    bench.begin()
    try:
        time.sleep(0.5)
        told = bench.frond(*verify)
    finally:
        bench.end()
    if ", 0 differ" not in told or "compared with" not in told:
        raise Problem(told)
    run(bench.admin, "SET SESSION sql_log_bin = 0")
    run(bench.admin, "UPDATE kill9.still SET v = 'not logged' WHERE id = 4711")
    told = bench.frond(*verify, status=1)
    if "`kill9`.`still`" not in told or ", 1 differ" not in told:
        raise Problem(told)
    run(bench.admin, "UPDATE kill9.still SET v = REPEAT(MD5(4711), 3) WHERE id = 4711")
    run(bench.admin, "SET SESSION sql_log_bin = 1")
    shutil.rmtree(bench.dir("a0"))
    _no_leftovers(bench)


def until(bench: Any) -> None:
    """Everything up to a transaction, or a second, and nothing after it."""
    bench.full("u0")
    run(bench.admin, "CREATE TABLE kill9.past (id INT PRIMARY KEY, v TEXT) ENGINE=Frond")
    run(bench.admin, "INSERT INTO kill9.past SELECT seq, MD5(seq) FROM kill9.seq_1_to_500")
    run(bench.admin, "CREATE USER late@localhost IDENTIFIED BY 'late'")
    run(bench.admin, "GRANT SELECT ON kill9.* TO late@localhost")
    run(bench.admin, "COMMIT")
    gtid = rows(bench.admin, "SELECT @@gtid_binlog_pos")[0][0].decode()
    want = checksum(bench.admin, "kill9.past")
    time.sleep(2.1)
    now = rows(bench.admin, "SELECT NOW()")[0][0].decode()
    run(bench.admin, "DELETE FROM kill9.past WHERE id > 7")
    run(bench.admin, "DROP TABLE kill9.past")
    for end in (gtid, now):
        other = Server(f"backup-until-{end[:3]}", ["--frond-cache-size=16M"])
        other.directory().mkdir(parents=True)
        try:
            told = bench.frond("restore", bench.dir("u0"), str(other.data()), "--until", end, "--binlogs",
                               str(bench.server.data()), *private(bench))
            if "mariadb-binlog" not in told:
                raise Problem(told)
            with other:
                there = other.connect("kill9")
                if checksum(there, "kill9.past") != want:
                    raise Problem(f"restored until {end}: {rows(there, 'SELECT COUNT(*) FROM past')}")
                if not rows(there, "SELECT 1 FROM mysql.user WHERE User = 'late'"):
                    raise Problem("an account of the binary log is missing")
        finally:
            shutil.rmtree(other.directory(), ignore_errors=True)
    domain, _, number = gtid.split("-")
    for end, why in ((f"{domain}-99-{number}", "have no transaction"), (f"{domain}-99-1", "is not behind")):
        told = bench.frond("restore", bench.dir("u0"), bench.dir("x"), "--until", end, "--binlogs", str(bench.server.data()),
                           *private(bench), status=2)
        if why not in told:
            raise Problem(told)
        shutil.rmtree(bench.dir("x"), ignore_errors=True)
    told = bench.frond("restore", bench.dir("u0"), bench.dir("x"), "--until", gtid, "--binlogs", "/nowhere/bin.000001",
                       status=2)
    if os.path.exists(bench.dir("x")):
        raise Problem(f"restored without binary logs: {told}")
    run(bench.admin, "DROP USER late@localhost")


def extract(bench: Any) -> None:
    """One dropped table back; the others stay as they are."""
    run(bench.admin, "CREATE TABLE kill9.`a-b c` (id INT PRIMARY KEY, b BLOB, KEY (b(20))) ENGINE=Frond "
                     "PARTITION BY HASH (id) PARTITIONS 3")
    run(bench.admin, "INSERT INTO kill9.`a-b c` SELECT seq, UNHEX(SHA2(seq, 512)) FROM kill9.seq_1_to_3000")
    with_history(bench)
    bench.full("e0")
    want = {name: checksum(bench.admin, f"kill9.`{name}`") for name in ("still", "a-b c", "accounts_i")}
    before = bench.tables(bench.admin)
    command = ("extract", bench.dir("e0"), *account(bench), *private(bench), "--table")
    told = bench.frond(*command, "kill9.still", status=2)
    if "exists in" not in told:
        raise Problem(told)
    for name in ("still", "a-b c"):
        run(bench.admin, f"DROP TABLE kill9.`{name}`")
        begin = time.monotonic()
        bench.frond(*command, f"kill9.{name}")
        print(f"{name} was back in {time.monotonic() - begin:.1f} s")
        if checksum(bench.admin, f"kill9.`{name}`") != want[name]:
            raise Problem(f"{name} came back different")
    bench.frond(*command, "kill9.accounts_i", "--as", "again")
    if checksum(bench.admin, "kill9.again") != want["accounts_i"]:
        raise Problem("accounts_i came back different under another name")
    run(bench.admin, "DROP TABLE kill9.again")
    if bench.tables(bench.admin) != before:
        raise Problem("other tables changed, or something is left over")
    if not bench.others:
        imported(bench, command)
        for name in ("kill9.nothing", "nowhere.still", "still"):
            bench.frond(*command, name, "--as", "other", status=2)
        damaged(bench, command)
    run(bench.admin, "DROP TABLE kill9.`a-b c`, kill9.history")
    shutil.rmtree(bench.dir("e0"))
    _no_leftovers(bench)


def with_history(bench: Any) -> None:
    """A table whose rows are of several schemas, with indexes of each kind and a trigger."""
    for statement in ("CREATE TABLE kill9.history (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(40), gone INT, KEY (a), "
                      "KEY b (b) CLUSTERING=YES) ENGINE=Frond",
                      "INSERT INTO kill9.history (a, b, gone) SELECT seq % 97, MD5(seq), 1 FROM kill9.seq_1_to_3000",
                      "ALTER TABLE kill9.history ADD COLUMN c VARCHAR(20) NOT NULL DEFAULT 'later' AFTER a, ALGORITHM=INSTANT",
                      "ALTER TABLE kill9.history DROP COLUMN gone, ALGORITHM=INSTANT",
                      "INSERT INTO kill9.history (a, b, c) SELECT seq, NULL, seq FROM kill9.seq_1_to_500",
                      "ALTER TABLE kill9.history ADD UNIQUE KEY u (c, id), ALGORITHM=INPLACE",
                      "UPDATE kill9.history SET a = a + 1 WHERE id % 11 = 0",
                      "CREATE TRIGGER kill9.history_t BEFORE INSERT ON `history` FOR EACH ROW SET NEW.a = NEW.a + 1000"):
        run(bench.admin, statement)


def imported(bench: Any, command: tuple[str, ...]) -> None:
    """Through its files: all that the table was, nothing in the binary log, no files left."""
    def is_now() -> Any:
        other = rows(bench.admin, "SHOW CREATE TRIGGER kill9.history_t")[0][2]
        return checksum(bench.admin, "kill9.history"), rows(bench.admin, "SHOW CREATE TABLE kill9.history")[0][1], other

    want, logged = is_now(), None
    run(bench.admin, "DROP TABLE kill9.history")
    logged = rows(bench.admin, "SELECT @@gtid_binlog_pos")
    told = bench.frond(*command, "kill9.history", "--through", "import")
    if is_now() != want or "rows imported" not in told or "on each replica" not in told:
        raise Problem(f"{told} {want} {is_now()}")
    if rows(bench.admin, "CHECK TABLE kill9.history EXTENDED")[-1][-1] != b"OK" or rows(bench.admin, "SELECT @@gtid_binlog_pos") != logged:
        raise Problem("an imported table is damaged, or its import was logged")
    left = [p.name for p in (bench.server.data() / "kill9").iterdir() if p.suffix in (".frd", ".cfg")]
    run(bench.admin, "INSERT INTO kill9.history (a, b, c) VALUES (1, 'x', 'new')")
    if left or rows(bench.admin, "SELECT a FROM kill9.history WHERE b = 'x'")[0][0] != b"1001":
        raise Problem(f"left over: {left}, or the trigger is lost")


def damaged(bench: Any, command: tuple[str, ...]) -> None:
    """A damaged table is not extracted; another one of the same backup is."""
    manifest = json.loads((Path(bench.dir("e0")) / "manifest.json").read_text())
    table = next(t for t in manifest["tables"] if t["name"] == "kill9/still")
    path = Path(bench.dir("e0")) / "frond" / f"{table['table']}.frd"
    with open(path, "r+b") as file:
        file.seek(table["blocks"][0][1] + 100)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 16]))
    told = bench.frond(*command, "kill9.still", "--as", "other", status=2)
    if "kill9/still" not in told or rows(bench.admin, "SHOW TABLES FROM kill9 LIKE 'other'"):
        raise Problem(told)
    bench.frond(*command, "kill9.a-b c", "--as", "other")
    run(bench.admin, "DROP TABLE kill9.other")


def _no_leftovers(bench: Any) -> None:
    left = list(bench.place.glob(".frond-work-*"))
    running = subprocess.run(["pgrep", "-f", str(bench.place / ".frond-work-")], capture_output=True, text=True, check=False)
    if left or running.stdout.strip():
        raise Problem(f"left over: {left}, processes {running.stdout.split()}")


def recipes(bench: Any) -> None:
    """The scripts of docs/backup.md, as they are there but for places: a full backup and one of the hour, with the account of that page."""
    text = (ROOT / "docs" / "backup.md").read_text(encoding="utf-8")
    run(bench.admin, "CREATE USER backup@localhost IDENTIFIED BY 'of the page'")
    for grant in re.findall(r"^    (GRANT .* TO backup@localhost);", text, re.MULTILINE):
        run(bench.admin, grant)
    home, place = Path(bench.dir("home")), Path(bench.dir("recipes"))
    home.mkdir()
    place.mkdir()
    (home / ".my.cnf").write_text(f"[client]\nsocket={bench.server.socket}\n")
    (home / "password").write_text("of the page\n")
    scripts = [re.sub("^    ", "", script, flags=re.MULTILINE) for script in re.findall(r"^    #!/bin/sh -e\n(?:    .*\n)+", text, re.MULTILINE)]
    if len(scripts) != 2:
        raise Problem(f"{len(scripts)} scripts in docs/backup.md")
    (home / "frond").symlink_to(Path(bench.program[0]).resolve())
    path = f"{home}:{os.environ['PATH']}"
    for script in scripts:
        mine = script.replace("/backup/", f"{place}/").replace("/backup ", f"{place} ").replace("/etc/frond-backup.password", str(home / "password"))
        done = subprocess.run(["/bin/sh", "-e", "-c", mine], env=dict(os.environ, HOME=str(home), PATH=path), text=True, timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise Problem(f"{mine}\n{done.stdout}")
    units(text, home)
    listed = bench.frond("list", str(place))
    if listed.count("whole") != 2 or " full " not in listed or " incremental " not in listed:
        raise Problem(listed)
    for directory in (place, home):
        shutil.rmtree(directory)
    run(bench.admin, "DROP USER backup@localhost")


def units(text: str, home: Path) -> None:
    """The units of docs/backup.md are what systemd takes, where it can be asked."""
    found = re.findall(r"^    # /etc/systemd/system/(frond-full\.\w+);.*\n((?:    .+\n)+)", text, re.MULTILINE)
    if [name for name, _ in found] != ["frond-full.service", "frond-full.timer"]:
        raise Problem(f"units in docs/backup.md: {found}")
    for name, unit in found:
        # The script is not installed here.
        (home / name).write_text(re.sub("^    ", "", unit, flags=re.MULTILINE).replace("/usr/local/sbin/frond-backup-full", "/bin/true"))
    if not shutil.which("systemd-analyze"):
        return
    done = subprocess.run(["systemd-analyze", "verify", *(str(home / name) for name, _ in found)], text=True, timeout=60,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode or "frond-full" in done.stdout:
        raise Problem(done.stdout)

"""Bad input for every command that looks at a server or its files: a clear error, nothing lost, the exit status that is documented.

    inputs.py

A table of commands and of what is wrong: a binary file, an empty one, one that is not there, a directory, no permission, a file cut at
many places; no server, a wrong password, a server that is killed in the middle. Each must end with status 2 and one message that begins
with "frond: " and names the file or the server (a cut file may also have a result, with its status). Never a panic, a hang, or half a JSON.
And the other way round: an account with the grants that the documents name, and no other, is enough.

FROND names the program (default: target/release/frond). SEED=N chooses the cuts. Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import json
import os
import pty
import random
import select
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from checks import FROND, Checks
from server import ROOT, Server, run

SEED = int(os.environ.get("SEED", "0")) or random.randrange(1 << 32)
NOBODY = 65534
# Files are given to these; FILE is replaced, and what a sound one is called.
FILES = {
    "locks": (["locks", "FILE", "--json"], "monitor"),
    "indexes": (["indexes", "FILE", "--json"], "dump"),
    "doctor": (["doctor", "--replay", "FILE", "--json"], "ring"),
    "top": (["top", "--replay", "FILE", "--once"], "recording"),
    "digest": (["digest", "FILE", "--json"], "slow"),
    "replay": (["replay", "FILE", "--on", "SOCKET", "--against", "SOCKET", "--user", "root", "--no-defaults", "--json"], "slow"),
}
# These ask a server. The second list makes them take some seconds, so that the server can go meanwhile.
SERVERS = {
    "locks": (["locks", "--live"], ["--run-time", "20", "--every", "0.1"]),
    "indexes": (["indexes"], []),
    "doctor": (["doctor", "--seconds", "1"], ["--seconds", "20"]),
    "top": (["top", "--once"], ["--every", "0.1"]),
    "digest": (["digest", "--processlist", "--run-time", "1"], ["--run-time", "20"]),
    "exporter": (["exporter", "--once"], []),
}
# What the documents say that an account needs; of replay for the database shop.
ACCOUNTS = {
    "locks": ["PROCESS ON *.*"],
    "indexes": ["SELECT ON *.*"],
    "doctor": ["REPLICA MONITOR ON *.*"],
    "top": ["PROCESS ON *.*", "SELECT ON performance_schema.*"],
    "exporter": [],
    "replay": ["SELECT ON shop.*"],
}
# It reports what it had seen when the server went away: a partial report, status 1.
PARTS = {"digest"}
# An empty file is an empty result of these: there were no statements, no tables.
EMPTY_IS_NOTHING = {"digest"}


def frond(words: list[str], user: int | None = None, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    settings = {name: value for name, value in os.environ.items() if name != "MYSQL_PWD"}
    done = subprocess.run([FROND, *words], capture_output=True, timeout=60, check=False, env={**settings, **(environment or {})},
                          stdin=subprocess.DEVNULL, user=user)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def fine(answer: tuple[int, str, str], statuses: tuple[int, ...], *words: str) -> bool:
    status, out, error = answer
    sound = "panicked" not in error and "RUST_BACKTRACE" not in error and "\x1b" not in error and "\0" not in error
    told = status != 2 or (error.startswith("frond: ") and all(word in error for word in words) and error.count("\n") <= 8)
    whole = True
    if out.lstrip().startswith("{"):
        try:
            json.loads(out)
        except ValueError:
            whole = False
    return status in statuses and sound and told and whole


def given(command: str, path: Path, socket: str) -> list[str]:
    return [str(path) if word == "FILE" else socket if word == "SOCKET" else word for word in FILES[command][0]]


def record(words: list[str]) -> None:
    """Runs it in a terminal for a moment, as it wants one."""
    here, there = pty.openpty()
    termios.tcsetwinsize(there, (24, 80))
    with subprocess.Popen([FROND, *words], stdin=there, stdout=there, stderr=there) as child:
        os.close(there)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            if select.select([here], [], [], 0.1)[0]:
                os.read(here, 65536)
        os.write(here, b"q")
        try:
            while os.read(here, 65536):
                pass
        except OSError:
            # On Linux a read from a terminal ends so when the other side is closed.
            pass
    os.close(here)


def sound_files(directory: Path, server: Server) -> dict[str, Path]:
    """One of each kind, made by the programs themselves."""
    admin = server.connect("shop")
    run(admin, "SET GLOBAL innodb_status_output_locks = ON, GLOBAL slow_query_log = ON, GLOBAL long_query_time = 0")
    run(admin, f"SET GLOBAL slow_query_log_file = '{directory}/slow'")
    holder, waiter = server.connect("shop"), server.connect("shop")
    run(holder, "BEGIN")
    run(holder, "UPDATE t SET b = 7 WHERE a = 1")
    waits = threading.Thread(target=lambda: run(waiter, "UPDATE t SET b = 8 WHERE a = 1"))
    waits.start()
    time.sleep(0.3)
    files = {name: directory / name for name in ["monitor", "dump", "ring", "recording", "slow"]}
    client = ["--no-defaults", "--user", "root", "--socket", server.socket]
    files["monitor"].write_bytes(subprocess.run(["mariadb", *client, "-e", "SHOW ENGINE INNODB STATUS\\G"], capture_output=True, check=True).stdout)
    files["dump"].write_bytes(subprocess.run(["mariadb-dump", *client, "--skip-lock-tables", "shop"], capture_output=True, check=True).stdout)
    subprocess.run([FROND, "doctor", *client, "--watch", str(files["ring"]), "--run-time", "3"], check=True, timeout=60)
    record(["top", *client, "--every", "0.3", "--record", str(files["recording"])])
    run(holder, "ROLLBACK")
    waits.join(timeout=30)
    return files


def bad_files(checks: Checks, directory: Path, socket: str, sound: dict[str, Path], dice: random.Random) -> None:
    noise = directory / "noise"
    noise.write_bytes(bytes(dice.randrange(256) for _ in range(60_000)))
    empty = directory / "empty"
    empty.write_bytes(b"")
    closed = directory / "closed"
    closed.write_bytes(b"x" * 100)
    closed.chmod(0)
    user = NOBODY if os.geteuid() == 0 else None
    reachable = user is None or frond(["--version"], user=user)[0] == 0
    if not reachable:
        checks.skip("another user may not run the program here (no permission)")
    for command, (_, kind) in FILES.items():
        for path in [noise, directory / "missing", directory]:
            answer = frond(given(command, path, socket))
            checks.that(f"{command} {path.name}", fine(answer, (2,), str(path)), answer)
        answer = frond(given(command, empty, socket))
        checks.that(f"{command} empty", fine(answer, (0,) if command in EMPTY_IS_NOTHING else (2,), str(empty)), answer)
        if reachable:
            answer = frond(given(command, closed, socket), user=user)
            checks.that(f"{command} no permission", fine(answer, (2,), str(closed), "ermission"), answer)
        whole = sound[kind].read_bytes() if sound[kind].exists() else b""
        answer = frond(given(command, sound[kind], socket))
        checks.that(f"{command} sound", fine(answer, (0, 1)), answer)
        for at in sorted(dice.randrange(1, len(whole)) for _ in range(8)) if len(whole) > 1 else []:
            cut = directory / f"cut-{command}"
            cut.write_bytes(whole[:at])
            answer = frond(given(command, cut, socket))
            checks.that(f"{command} cut at {at} of {len(whole)}", fine(answer, (0, 1, 2), str(cut)), answer)


def bad_servers(checks: Checks, server: Server) -> None:
    way = ["--no-defaults", "--socket", server.socket]
    for command, (words, _) in SERVERS.items():
        answer = frond([*words, "--no-defaults", "--socket", "/nonexistent/sock", "--user", "root"])
        checks.that(f"{command} without a server", fine(answer, (2,), "/nonexistent/sock", "running"), answer)
        answer = frond([*words, *way, "--user", "guarded"], environment={"MYSQL_PWD": "wrong, really"})
        checks.that(f"{command} wrong password", fine(answer, (2,), "guarded") and "wrong, really" not in answer[1] + answer[2], answer)
    for place in ["/nonexistent/sock", f"guarded@{server.socket}"]:
        answer = frond(["replay", "/dev/null", "--on", place, "--against", server.socket, "--user", "root", "--no-defaults"],
                       environment={"MYSQL_PWD": "wrong, really"})
        checks.that(f"replay on {place}", fine(answer, (2,), server.socket if "@" in place else place), answer)


def least_accounts(checks: Checks, server: Server, slow: Path) -> None:
    """Each with the grants that its document names and no other."""
    admin = server.connect()
    for command, grants in ACCOUNTS.items():
        run(admin, "CREATE USER least@localhost")
        for grant in grants:
            run(admin, f"GRANT {grant} TO least@localhost")
        document = (ROOT / "docs" / f"{command}.md").read_text(encoding="utf-8")
        checks.that(f"docs/{command}.md names the grants", all(f"GRANT {grant} TO frond@localhost" in document for grant in grants), grants)
        if command == "replay":
            words = ["replay", str(slow), "--on", server.socket, "--against", server.socket, "--no-defaults", "--user", "least", "--json"]
        else:
            words = [*SERVERS[command][0], "--no-defaults", "--socket", server.socket, "--user", "least"]
        answer = frond(words)
        checks.that(f"{command} with its grants", fine(answer, (0, 1)) and "denied" not in answer[1] + answer[2], answer)
        run(admin, "DROP USER least@localhost")
        if grants == ["PROCESS ON *.*"]:
            run(admin, "CREATE USER least@localhost")
            answer = frond(words)
            checks.that(f"{command} without them", fine(answer, (2,), "GRANT PROCESS"), answer)
            run(admin, "DROP USER least@localhost")


def server_goes(checks: Checks, server: Server, directory: Path) -> None:
    """kill -9 while they ask."""
    way = ["--no-defaults", "--socket", server.socket, "--user", "root"]
    log = directory / "long.sql"
    log.write_text("SELECT COUNT(*) FROM shop.t a JOIN shop.t b WHERE a.b + b.b > 5;\n" * 20_000, encoding="utf-8")
    children = {}
    for command, (words, longer) in SERVERS.items():
        if longer and command != "top":
            base = [word for word in words if word not in ("--seconds", "--run-time", "1")]
            children[command] = [*base, *longer, *way]
    children["replay"] = ["replay", str(log), "--on", server.socket, "--against", server.socket, "--user", "root", "--no-defaults"]
    started = {name: subprocess.Popen([FROND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
               for name, words in children.items()}
    time.sleep(2.5)
    server.kill()
    for name, child in started.items():
        try:
            out, error = child.communicate(timeout=45)
        except subprocess.TimeoutExpired:
            child.kill()
            checks.that(f"{name} ends when its server goes", False, "hangs")
            continue
        checks.that(f"{name} when its server goes", fine((child.returncode, out, error), (1,) if name in PARTS else (2,)) and
                    error.startswith("frond: ") and server.socket in error, (child.returncode, out[-500:], error))
    server.start()


def main() -> int:
    print(f"seed {SEED}", flush=True)
    dice, checks = random.Random(SEED), Checks()
    with Server("inputs", ["--skip-log-bin", "--innodb-buffer-pool-size=16M"]) as server, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o777)
        admin = server.connect()
        run(admin, "CREATE DATABASE shop")
        run(admin, "CREATE TABLE shop.t (a INT PRIMARY KEY, b INT, KEY (b), KEY (b, a)) ENGINE=InnoDB")
        run(admin, "INSERT INTO shop.t SELECT seq, seq FROM shop.seq_1_to_500")
        run(admin, "CREATE USER guarded@localhost IDENTIFIED BY 'right'")
        sound = sound_files(directory, server)
        bad_files(checks, directory, server.socket, sound, dice)
        bad_servers(checks, server)
        least_accounts(checks, server, sound["slow"])
        server_goes(checks, server, directory)
        # A device that cannot be written, a directory that is none.
        for words in [["/nonexistent"], ["/proc"], [str(sound["dump"])]]:
            answer = frond(["bench", "device", *words])
            checks.that(f"bench device {words[0]}", fine(answer, (2,), words[0]), answer)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())

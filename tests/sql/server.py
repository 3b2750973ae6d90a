"""Private MariaDB servers and connections for the drivers in this directory.

A thin layer over scripts/server.sh, which owns directories, process ids and time bounds.

Invariants
 SQ1. A server belongs to one driver process and is destroyed when its `with` block ends, also after
    an exception; KEEP_SERVERS=1 keeps its directory for a look at it.
 SQ2. `kill` is kill -9 by process id, done by scripts/server.sh after it has checked whose id it is.
 SQ3. A connection gives raw bytes: no conversion by the client hides a difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "server.sh"
# Of ./storage/innobase/trx/trx0purge.cc.
PURGE_ASSERTS = "tail.trx_no <= last_trx_no"


def engine() -> str:
    """The engine under test: ENGINE=InnoDB tests the drivers themselves."""
    return os.environ.get("ENGINE", "Frond")


class ServerFailed(Exception):
    """The server did not start, stop or answer."""


class Server:
    def __init__(self, name: str, options: list[str], environment: dict[str, str] | None = None):
        self.name = f"{name}-{os.getpid()}"
        self.options = options
        self.environment = dict(os.environ, **(environment or {}))
        if engine() != "Frond":
            self.environment.setdefault("SERVER_PLUGINS", "")
        self.socket = self._script("socket").strip()

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if os.environ.get("KEEP_SERVERS"):
            self._script("stop", check=False)
        else:
            self._script("destroy", check=False)

    def _script(self, command: str, *arguments: str, check: bool = True) -> str:
        done = subprocess.run([str(SCRIPT), command, self.name, *arguments], env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=300, check=False)
        if check and done.returncode != 0:
            raise ServerFailed(f"{command} {self.name}: {done.stderr.strip()}")
        return done.stdout

    def start(self) -> float:
        """Starts and returns the seconds until the server answered.

        After some kills in a thousand InnoDB's purge asserts when the server is up again. That is no fault of another engine: it is
        told, and the server started once more. Whatever else goes wrong, in InnoDB too, is a failure."""
        begin = time.monotonic()
        said = self._start()
        for _ in range(2):
            if said is None or PURGE_ASSERTS not in said:
                break
            print(f"InnoDB failed at the start of {self.name}, which is tried again:\n{self.complaints()}", flush=True)
            said = self._start()
        if said is not None:
            raise ServerFailed(f"start {self.name}: {said}")
        return time.monotonic() - begin

    def _start(self) -> str | None:
        """What the server said when it did not start."""
        # A pipe would stay open in the server, which inherits it.
        log = self.directory() / "start.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w", encoding="utf-8") as output:
            status = subprocess.run([str(SCRIPT), "start", self.name, *self.options],
                                    env=self.environment, stdin=subprocess.DEVNULL,
                                    stdout=output, stderr=output, timeout=300,
                                    check=False).returncode
        return f"{self.complaints()}\n{log.read_text(errors='replace')[-3000:]}" if status else None

    def stop(self) -> None:
        self._script("stop")

    def kill(self) -> None:
        self._script("kill")

    def running(self) -> bool:
        return bool(self._script("pid", check=False).strip())

    def pid(self) -> int:
        return int(self._script("pid"))

    def directory(self) -> Path:
        return ROOT / "target" / "run" / self.name

    def data(self) -> Path:
        return self.directory() / "data"

    def log_end(self, lines: int = 40) -> str:
        path = self.directory() / "error.log"
        if not path.exists():
            return ""
        text = path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def complaints(self) -> str:
        """What the newest start of the server says of errors: a stack trace may push it out of log_end()."""
        path = self.directory() / "error.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        last = text[text.rfind("Starting MariaDB"):]
        return "\n".join(line for line in last.splitlines() if re.search(r"\[ERROR\]|assert|panicked", line, re.I))[:3000]

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection:
        settings: dict[str, Any] = {
            "unix_socket": self.socket, "user": "root", "charset": "utf8mb4",
            "use_unicode": False, "conv": {}, "autocommit": True, "connect_timeout": 10,
            "read_timeout": 90, "client_flag": CLIENT.FOUND_ROWS & 0,
        }
        if database:
            settings["database"] = database
        settings.update(options)
        return pymysql.connect(**settings)


def rows(connection: pymysql.Connection, sql: str) -> list[tuple[Any, ...]]:
    """Runs one statement and returns all its rows, as bytes."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def run(connection: pymysql.Connection, sql: str) -> int:
    """Runs one statement and returns the number of affected rows."""
    with connection.cursor() as cursor:
        return int(cursor.execute(sql))

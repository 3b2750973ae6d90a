"""frond top in a terminal of 80 by 24 (tmux), live and from its recording.

    top.py

A server with Frond has load, and one connection waits for a lock. The screen shows both, the keys change it, the recording shows the
same again, and a server that goes away ends it with its message and leaves the terminal as it was.

FROND names the program (default: target/release/frond). Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Callable

from checks import FROND, Checks
from server import Server, run


class Terminal:
    """A tmux server of its own, with one window."""

    def __init__(self, directory: str):
        self.socket = f"{directory}/tmux"
        self._tmux("new-session", "-d", "-x", "80", "-y", "24", "sh")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, *words], capture_output=True, text=True, timeout=30, check=False)
        return done.stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def key(self, name: str) -> None:
        self._tmux("send-keys", name)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def until(self, good: Callable[[str], bool], seconds: float = 20) -> str:
        """The screen when it is good, or at the end."""
        end = time.monotonic() + seconds
        while True:
            shown = self.screen()
            if good(shown) or time.monotonic() > end:
                return shown
            time.sleep(0.2)

    def close(self) -> None:
        self._tmux("kill-server")


class Screens(Checks):
    def has(self, what: str, shown: str, *words: str) -> None:
        missing = [word for word in words if word not in shown]
        self.that(what, not missing, f"no {missing} in\n{shown}")


def drive(server: Server, directory: str, checks: Screens) -> None:
    admin = server.connect()
    run(admin, "CREATE DATABASE shop")
    run(admin, "CREATE TABLE shop.orders (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE=Frond")
    run(admin, "INSERT INTO shop.orders SELECT seq, seq FROM shop.seq_1_to_5000")
    holder, waiter, writer = server.connect("shop"), server.connect("shop"), server.connect("shop")
    run(holder, "BEGIN")
    run(holder, "UPDATE orders SET v = 0 WHERE id = 1")
    run(waiter, "SET frond_lock_wait_timeout = 60")
    waits = threading.Thread(target=lambda: run(waiter, "UPDATE orders SET v = 1 WHERE id = 1"))
    waits.start()
    done = threading.Event()

    def write() -> None:
        row = 10_000
        while not done.is_set():
            row += 1
            run(writer, f"INSERT INTO orders VALUES ({row}, {row % 7})")
            time.sleep(0.005)

    writes = threading.Thread(target=write)
    writes.start()
    terminal = Terminal(directory)
    recording = f"{directory}/kept.top"
    try:
        terminal.type(f"{shlex.quote(FROND)} top --no-defaults --user root --socket {server.socket} --every 0.5 --record {recording}\n")
        shown = terminal.until(lambda s: "shop.orders PRIMARY" in s and "insert into" in s.lower() and "recording" in s)
        checks.has("everything", shown, "frond top  10.", "recording", "SERVER", "memory", "merge debt", "WAITS", "shop.orders PRIMARY",
                   "TREES", "shop/orders", "STATEMENTS", "q end")
        terminal.key("3")
        shown = terminal.until(lambda s: "merge debt" not in s)
        checks.has("trees alone", shown.replace("merge debt", ""), "TREES", "shop/orders", "change/s")
        terminal.key("1")
        time.sleep(1.2)
        terminal.key("q")
        shown = terminal.until(lambda s: "frond top  10." not in s and "$" in s.splitlines()[-1] + s)
        terminal.type("echo left with $?\n")
        checks.has("the terminal is as it was", terminal.until(lambda s: "left with 0" in s), "left with 0")
        done.set()
        run(holder, "ROLLBACK")
        waits.join(timeout=30)
        writes.join(timeout=30)
        terminal.type(f"clear; {shlex.quote(FROND)} top --replay {recording}\n")
        shown = terminal.until(lambda s: "sample 1 of" in s)
        checks.has("the recording", shown, "sample 1 of", "TREES")
        terminal.key("Right")
        terminal.key("Right")
        shown = terminal.until(lambda s: "sample 3 of" in s)
        checks.has("a later sample", shown, "sample 3 of", "shop.orders PRIMARY", "merge debt")
        terminal.key("Left")
        checks.has("and back", terminal.until(lambda s: "sample 2 of" in s), "sample 2 of")
        terminal.key("q")
        terminal.type("clear\n")
        terminal.type(f"{shlex.quote(FROND)} top --no-defaults --user root --socket {server.socket} --every 0.5; echo left with $?\n")
        terminal.until(lambda s: "merge debt" in s)
        os.kill(server.pid(), signal.SIGSTOP)
        shown = terminal.until(lambda s: "no answer" in s)
        os.kill(server.pid(), signal.SIGCONT)
        checks.has("a server that hangs", shown, "no answer", "merge debt")
        shown = terminal.until(lambda s: "no answer" not in s)
        checks.has("and goes on", shown.replace("no answer", "left"), "merge debt", "q end")
        checks.that("without an end", "no answer" not in shown and "left with" not in shown, shown)
        server.kill()
        checks.has("a server that goes away", terminal.until(lambda s: "left with 2" in s), "frond:", "failed", "left with 2")
    finally:
        done.set()
        terminal.close()


def main() -> int:
    checks = Screens()
    if not shutil.which("tmux"):
        checks.skip("tmux is not installed")
        return checks.end()
    with tempfile.TemporaryDirectory() as directory, \
            Server("top", ["--skip-log-bin", "--innodb-buffer-pool-size=16M", "--performance-schema=ON"]) as server:
        drive(server, directory, checks)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())

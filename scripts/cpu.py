#!/usr/bin/python3
"""Runs a command and says what it and everything that it started cost.

    scripts/cpu.py FILE COMMAND...

One line is added to FILE, "NAME CLOCK CPU": seconds by the clock, and user plus system seconds of the command,
of its children, and of processes whose parents ended before them: servers above all. NAME is the package when
cargo runs a test by this program, else the command's file name. The status is the command's.

- UC1. Orphans become children of this process (PR_SET_CHILD_SUBREAPER), so that their time reaches it when it
  waits for them. The sums of `times` in a shell lack them, and cgroups need rights that CI may not give.
- UC2. What still runs when the command has ended is not waited for: its time so far is read from /proc.

Not counted: a child whose parent ignores SIGCHLD; the kernel drops its time. Nothing here does that.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def running():
    """User and system seconds of the descendants that still run, with those of the children they waited for."""
    parents, spent = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="latin-1") as file:
                # The name, in parentheses, may contain anything.
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry)] = int(fields[1])
        spent[int(entry)] = sum(int(field) for field in fields[11:15])
    found, more = set(), {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - found
        found |= more
    # This process itself is not among them: what it waited for is counted already.
    return sum(spent[pid] for pid in found) / os.sysconf("SC_CLK_TCK")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    # UC1; without it (an old kernel) orphans are missing from the sum, and nothing else changes.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    child = subprocess.Popen(sys.argv[2:])
    # The command decides what a signal means; `timeout` sends it to the whole group anyway.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: child.send_signal(number))
    status = None
    while status is None:
        pid, ended = os.wait()
        if pid == child.pid:
            status = os.waitstatus_to_exitcode(ended)
    child.returncode = status
    clock = time.monotonic() - started
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime + running()
    name = os.environ.get("CARGO_PKG_NAME") or os.path.basename(sys.argv[2])
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(f"{name} {clock:.2f} {cpu:.2f}\n")
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()

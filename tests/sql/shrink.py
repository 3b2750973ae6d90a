"""Makes a failing list of statements short: it is replayed on empty databases with parts left out as
long as some statement still differs.

Bounded in time: the shortest list found so far is always valid.
"""

from __future__ import annotations

import time

from pair import Outcome, Pair, difference
from server import ServerFailed
from statements import Statement

RESTART = "-- restart"


class Replay:
    """The result of one replay: the statement that differed, and how."""

    def __init__(self, at: int, what: str, outcomes: tuple[Outcome, Outcome]):
        self.at = at
        self.what = what
        self.outcomes = outcomes


def replay(pair: Pair, mode: str, statements: list[Statement], deadline: float) -> Replay | None:
    """Runs the list on fresh databases up to its first difference."""
    if not pair.server.running():
        pair.server.start()
    pair.mode = mode
    pair.fresh()
    for i, statement in enumerate(statements):
        if time.monotonic() > deadline:
            return None
        if statement.sql == RESTART:
            pair.restart()
            continue
        a, b = pair.run(statement)
        if a.lost() or b.lost():
            return Replay(i, "the server ended", (a, b))
        what = difference(statement, a, b)
        if what:
            return Replay(i, what, (a, b))
    return None


def shrink(pair: Pair, mode: str, statements: list[Statement],
           seconds: float) -> tuple[list[Statement], Replay | None]:
    """The shortest list found in the time, and what its replay shows; None when the failure does
    not come again."""
    deadline = time.monotonic() + seconds
    found = _try(pair, mode, statements, deadline)
    if found is None:
        return statements, None
    best, statements = found, statements[: found.at + 1]
    size = len(statements) // 2
    while size >= 1 and time.monotonic() < deadline:
        start, shorter = 0, False
        # The last statement is the one that shows it.
        while start < len(statements) - 1 and time.monotonic() < deadline:
            end = min(start + size, len(statements) - 1)
            candidate = statements[:start] + statements[end:]
            found = _try(pair, mode, candidate, deadline)
            if found is not None and found.what == best.what:
                best, statements, shorter = found, candidate[: found.at + 1], True
            else:
                start = end
        if size > 1:
            size //= 2
        elif not shorter:
            break
    return statements, best


def _try(pair: Pair, mode: str, statements: list[Statement], deadline: float) -> Replay | None:
    try:
        return replay(pair, mode, statements, deadline)
    except (ServerFailed, OSError):
        return None

"""Checks the answers of a schedule: an engine's own promises, and equality of two engines.

An engine alone
  torn       A locking read, UPDATE or DELETE that waited sees all committed rows behind the place where it
             waited, in the order of its scan. It may miss rows inserted before that place meanwhile: there are
             no gap locks. It may miss rows of a transaction whose COMMIT waited beside it (for a range that a
             SERIALIZABLE read locked) and was answered in the same turn. One that did not wait sees all rows
             that the same read without locks sees right after.
  repeated   From REPEATABLE READ on, the same plain SELECT sees the same again.
  dirty      No session sees a change of a transaction that has not committed, or of a statement that failed.
  lost update, waits for nobody   see schedule_run.py.

Two engines: while the same statements wait and answer in the same turns, the answers are the same, and so are the
tables in the end. LEGAL lists what may differ; from such a place on only the engine's own promises are checked.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable

from pair import Outcome
from schedule_run import ENDED, Broken, Event
from schedule_steps import Schedule

# ---------------------------------------------------------------- one engine


def check_alone(schedule: Schedule, events: list[Event]) -> None:
    commits = [event for event in events if event.step.kind == "commit" and event.waited()]
    for event in events:
        if event.probe is not None and not event.outcome.error:
            beside = {c.step.transaction for c in commits if c.sent < event.done == c.done}
            _check_torn(event, beside)
    _check_repeated(schedule, events)
    _check_dirty(schedule, events)


def _check_torn(event: Event, beside: set[int]) -> None:
    step, scan = event.step, event.step.scan
    assert scan and event.probe is not None
    there = sorted((row[:3] for row in event.probe), key=scan.key)
    if step.kind == "lock":
        seen = {row[:3] for row in event.rows()}
        extra = seen - set(there)
        if extra:
            raise Broken("torn", f"{_name(event)} saw rows that are not there: {sorted(extra)[:8]}")
    elif step.kind == "update":
        seen = {row[:3] for row in event.probe if row[4] == step.mark}
    else:
        seen = set()
    if scan.limit:
        if step.kind == "delete" or not seen:
            return
        if len(seen) == scan.limit:
            there = [row for row in there if scan.key(row) <= max(map(scan.key, seen))]
    if step.wait == "SKIP LOCKED":
        return
    missed = [row for row in there if row not in seen]
    place = None
    if event.waited():
        place = waited_at(event)
        late = {row[:3] for row in event.probe if row[3] in beside}
        missed = [row for row in missed if place is not None and scan.key(row) > place and row not in late]
    if event.left is not None:
        # Deleted since the snapshot, or moved to where the scan had been when it waited: no lock meets it (InnoDB notices
        # some of these with error 1020, and its gap locks refuse the move).
        now = {row: event.left.get(row[0]) for row in missed}
        missed = [row for row in missed if (to := now[row]) and (to == row or place is None or scan.key(to) > place)]
    if missed:
        raise Broken("torn", f"{_name(event)} missed {len(missed)} of {len(there)} rows: {missed[:8]}, "
                     f"but had {len(seen)}: {sorted(seen, key=scan.key)[-8:]}")


def waited_at(event: Event) -> tuple[int, int] | None:
    """The place in the scan where the statement waited last, or one behind it; None when unknown."""
    scan = event.step.scan
    if not scan or not event.blockers:
        return None
    if len(event.blockers) == 1:
        return min(scan.key(row) for held in event.blockers.values() for row in held)
    return max(scan.key(row) for held in event.blockers.values() for row in held)


def _check_repeated(schedule: Schedule, events: list[Event]) -> None:
    first: dict[tuple, Event] = {}
    for event in events:
        step = event.step
        if step.kind != "plain" or event.outcome.error or schedule.levels[step.session] == "READ COMMITTED":
            continue
        earlier = first.setdefault((step.transaction, step.sql), event)
        if earlier.changes == event.changes and Counter(earlier.rows()) != Counter(event.rows()):
            raise Broken("repeated", f"{_name(event)} at {schedule.levels[step.session]} differs from step "
                         f"{earlier.number + 1}, the same read of the same transaction: "
                         f"{_short(earlier.rows())}, then {_short(event.rows())}")


def _check_dirty(schedule: Schedule, events: list[Event]) -> None:
    maker = {step.mark: step.transaction for step in schedule.steps}
    failed = {event.step.mark for event in events if event.outcome.error}
    done = {event.step.transaction: event.done for event in events
            if event.step.kind == "commit" and not event.outcome.error}
    for event in events:
        own = event.step.transaction
        shown = event.rows() if "tag, mark" in event.step.sql and event.step.kind in ("plain", "lock") else []
        for row in [*shown, *(event.probe or [])]:
            for transaction, mark in ((row[3], 0), (maker.get(row[4], 0), row[4])):
                if mark in failed or transaction not in (0, own) and done.get(transaction, event.done + 1) > event.done:
                    raise Broken("dirty", f"{_name(event)} saw {row}, of a transaction that had not committed or of a "
                                 "statement that failed")


def _name(event: Event) -> str:
    waited = ", which waited," if event.waited() else ""
    return f"step {event.number + 1} ({event.step.sql[:90]}){waited}"


def _short(rows: list[tuple]) -> str:
    return str(rows) if len(rows) < 6 else f"{len(rows)} rows"


# ---------------------------------------------------------------- two engines

Rule = Callable[[str, Event, Event], bool]


def _one_ended(level: str, a: Event, b: Event) -> bool:
    return (a.outcome.error in ENDED) != (b.outcome.error in ENDED) or (
        a.outcome.error in ENDED and b.outcome.error in ENDED)


def _before_the_wait(level: str, a: Event, b: Event) -> bool:
    if not (a.waited() and b.waited()) or a.outcome.error or b.outcome.error:
        return False
    if b.step.kind in ("update", "delete"):
        return True
    place, scan = waited_at(b), b.step.scan
    if b.step.kind != "lock" or not scan:
        return False
    if place is None or scan.limit > 0:
        return True
    ours, theirs = {r[:3] for r in b.rows()}, {r[:3] for r in a.rows()}
    # InnoDB waits at none of the rows that were only read in a covering index, so it may have come as far as the last of them.
    theirs_waited = max((scan.key(row) for held in a.blockers.values() for row in held), default=place)
    return (all(scan.key(row) <= place for row in theirs - ours)
            and all(scan.key(row) <= max(place, theirs_waited) for row in ours - theirs))


BEFORE_THE_WAIT = ("rows inserted before the place where a statement waits may be missed; an UPDATE's and DELETE's own rows "
                   "are checked by their marks")


def _limit_met_others(a: Event, b: Event, differ: set[tuple]) -> bool:
    """Both changed as many rows as their LIMIT allows, but one began with rows that were inserted before the place
    where it waited, and so ended earlier in the order of the scan."""
    scan = b.step.scan
    if not (a.waited() and b.waited() and scan and scan.limit and b.step.kind in ("update", "delete")):
        return False
    place = waited_at(b)
    return place is None or any(scan.key(row[:3]) <= place for row in differ)


INSERT_SELECT = "what INSERT ... SELECT reads is locked and newest in InnoDB, of the snapshot in Frond"


def _reads_snapshot(level: str, event: Event) -> bool:
    return level != "READ COMMITTED" and event.step.kind == "insert" and " SELECT " in event.step.sql


LEGAL: list[tuple[str, Rule]] = [
    ("which transaction of a deadlock ends, and which of a snapshot's conflicts is noticed first, is the engine's choice: "
     "InnoDB has gap locks and Frond has none",
     _one_ended),
    ("InnoDB locks gaps, neighbours and rows that are not committed, which NOWAIT and SKIP LOCKED notice",
     lambda level, a, b: b.step.wait != ""),
    (BEFORE_THE_WAIT, _before_the_wait),
    ("a plain SELECT at SERIALIZABLE is of the snapshot in Frond, and newest in InnoDB, whose gap locks keep others out",
     lambda level, a, b: level == "SERIALIZABLE" and b.step.kind == "plain"),
    (INSERT_SELECT, lambda level, a, b: _reads_snapshot(level, b)),
]


def check_equal(schedule: Schedule, a: list[Event], b: list[Event]) -> str:
    """Raises at a difference. Else how far the two went together: "" to the end, or why no further."""
    apart = _apart(a, b)
    others = {event.number: event for event in a}

    def copies(turn: int) -> set[int]:
        """The rows that INSERT ... SELECT made until then, perhaps with other values on the two sides."""
        made = (e for e in b if e.done <= turn and not e.outcome.error)
        return {i for e in made if _reads_snapshot(schedule.levels[e.step.session], e) for i in e.step.ids}

    first: dict[int, Event] = {}
    for event in sorted(b, key=lambda e: e.sent):
        if event.step.kind == "plain" or _reads_snapshot(schedule.levels[event.step.session], event):
            first.setdefault(event.step.transaction, event)
    for event in sorted((e for e in b if e.done < apart), key=lambda e: (e.done, e.sent)):
        other = others[event.number]
        what = _differs(other.outcome, event.outcome, event)
        if what:
            # In Frond this transaction's snapshot is as old as its INSERT ... SELECT. InnoDB's begins at the first plain SELECT.
            if event.step.kind == "plain" and first[event.step.transaction].step.kind == "insert":
                return INSERT_SELECT
            for reason, rule in LEGAL:
                if rule(schedule.levels[event.step.session], other, event):
                    return reason
            if _differ_in_copies(other, event, copies(event.done)):
                return INSERT_SELECT
            raise Broken("unequal", f"{_name(event)}: {what}\nInnoDB: {other.outcome.short(False)}\n"
                         f"Frond: {event.outcome.short(False)}")
        if event.probe is not None and other.probe is not None and Counter(event.probe) != Counter(other.probe):
            differ = set(event.probe) ^ set(other.probe)
            if {row[0] for row in differ} <= copies(event.done):
                return INSERT_SELECT
            if _limit_met_others(other, event, differ):
                return BEFORE_THE_WAIT
            raise Broken("unequal", f"the read after {_name(event)}\nonly InnoDB: "
                         f"{sorted(set(other.probe) - set(event.probe))[:8]}\n"
                         f"only Frond: {sorted(set(event.probe) - set(other.probe))[:8]}")
    if any(_reads_snapshot(schedule.levels[e.step.session], e) and not e.outcome.error for e in b):
        # As many rows, perhaps with other values: the tables may differ in the end.
        return INSERT_SELECT
    return "" if apart > max(e.done for e in [*a, *b]) else "other statements wait"


def _differ_in_copies(a: Event, b: Event, copies: set[int]) -> bool:
    """Whether rows with these ids alone explain a difference: they are what differs, or they were looked for by their values."""
    if a.outcome.error or b.outcome.error or not copies:
        return False
    if a.outcome.rows is None or b.outcome.rows is None or b.step.scan and b.step.scan.limit:
        return b.step.scan is not None
    if "COUNT(*)" in b.step.sql:
        # Sums and counts do not tell which rows they are of.
        return True
    return {int(row[0]) for row in set(a.outcome.rows) ^ set(b.outcome.rows)} <= copies


def _apart(a: list[Event], b: list[Event]) -> int:
    """The first turn in which not the same statements were sent and answered."""
    last = max(event.sent for event in [*a, *b])
    for turn in range(1, last + 1):
        if any({e.number for e in a if at(e) == turn} != {e.number for e in b if at(e) == turn}
               for at in (lambda e: e.sent, lambda e: e.done)):
            return turn
    return last + 1


def _differs(a: Outcome, b: Outcome, event: Event) -> str:
    if a.error != b.error:
        return "other errors"
    if a.error:
        return ""
    if (a.rows is None) != (b.rows is None):
        return "rows and no rows"
    if a.rows is not None and b.rows is not None:
        scan = event.step.scan
        ordered = scan is not None and (scan.descending or scan.limit > 0)
        same = a.rows == b.rows if ordered else Counter(a.rows) == Counter(b.rows)
        return "" if same else "other rows"
    return "" if a.affected == b.affected else "other affected rows"

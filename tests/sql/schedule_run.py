"""Runs one schedule on one engine: one statement at a time, and each answer in its place.

After a statement was sent, the run goes on when every statement that has no answer yet waits for a
lock, according to the server: nothing depends on time. A session that waits sends its next
statement after its answer, so a schedule always ends.
"""

from __future__ import annotations

import re
import select
import time
from dataclasses import dataclass, field

import pymysql

from pair import Outcome, _receive, _send
from schedule_steps import CREATE, FILL, Schedule, Step
from server import Server, rows, run

# The whole transaction is gone.
ENDED = (1213, 1020)
SETTLE_SECONDS = 60


class Broken(Exception):
    """A violation: `kind` in a word."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


@dataclass
class Event:
    """One statement: sent in the turn `sent`, answered in the turn `done` (a later one when it waited)."""

    step: Step
    number: int
    sent: int
    done: int = -1
    outcome: Outcome = field(default_factory=Outcome)
    # The result of a later read of the range without locks: the session's own, or an outsider's.
    probe: list[tuple] | None = None
    # Its rows that an outsider saw then, by id.
    left: dict[int, tuple[int, int, int]] | None = None
    # How many statements of the transaction had changed something before.
    changes: int = 0
    # The rows at which it can have waited when it was last seen to wait, by the session that had locked them.
    blockers: dict[int, list[tuple]] = field(default_factory=dict)

    def waited(self) -> bool:
        return self.done > self.sent

    def rows(self) -> list[tuple]:
        return [tuple(int(v or 0) for v in row) for row in self.outcome.rows or ()]


class Session:
    """The state of one connection."""

    def __init__(self, connection: pymysql.Connection, level: str):
        self.connection, self.level = connection, level
        self.flying: Event | None = None
        self.later: list[tuple[int, Step]] = []
        self.open = self.lost = self.fetched = False
        self.statements = self.changes = 0
        # Committed rows that the transaction has certainly locked: (row, strength).
        self.held: list[tuple[tuple, str]] = []
        self.changed: set[int] = set()
        self.counted: list[int] = []
        self.savepoint: tuple[int, int] = (0, 0)

    def ends(self) -> None:
        self.open = False
        self.statements = self.changes = 0
        self.held, self.changed, self.counted, self.savepoint = [], set(), [], (0, 0)


class Side:
    """One engine's database, its sessions and two connections of the test itself."""

    def __init__(self, server: Server, engine: str, database: str, sessions: int = 3):
        self.server, self.engine, self.database = server, engine, database
        admin = server.connect()
        run(admin, f"DROP DATABASE IF EXISTS {database}")
        run(admin, f"CREATE DATABASE {database}")
        admin.select_db(database)
        for sql in CREATE:
            run(admin, sql.replace("{engine}", engine))
        self.admin = admin
        self.outsider = server.connect(database)
        run(self.outsider, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.connections = [server.connect(database) for _ in range(sessions)]
        self.events: list[Event] = []
        self.sessions: list[Session] = []
        self.turn = 0
        self.counted: dict[int, int] = {}
        self.committed: set[int] = {0}

    def close(self) -> None:
        for connection in [self.admin, self.outsider, *self.connections]:
            try:
                connection.close()
            except (pymysql.Error, OSError):
                pass

    # ---------------------------------------------------------------- a schedule

    def run(self, schedule: Schedule) -> list[Event]:
        self.events, self.turn, self.counted, self.committed = [], 0, {}, {0}
        self.sessions = []
        for sql in FILL:
            run(self.admin, sql)
        if schedule.optimize:
            rows(self.admin, "OPTIMIZE TABLE b")
        for level, connection in zip(schedule.levels, self.connections):
            isolation, _, off = level.partition(",")
            run(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            run(connection, f"SET {self.engine.lower()}_snapshot_isolation = {'OFF' if off else 'ON'}, "
                            f"{self.engine.lower()}_lock_wait_timeout = 50, @v = 0")
            self.sessions.append(Session(connection, level))
        for number, step in enumerate(schedule.steps):
            if step.kind == "kill":
                self._kill(number, step)
            else:
                self.sessions[step.session].later.append((number, step))
            self._send_on(number)
        if any(s.flying for s in self.sessions):
            raise Broken("waits for nobody", "a statement waits when all other transactions have ended")
        self._check_counters()
        return self.events

    def _check_counters(self) -> None:
        """Each counter is as high as often it was counted up by a transaction that committed."""
        for key, value in rows(self.admin, "SELECT id, v FROM c"):
            if int(value) != self.counted.get(int(key), 0):
                raise Broken("lost update", f"counter {int(key)} is {int(value)} after "
                             f"{self.counted.get(int(key), 0)} committed additions of one")

    def table(self) -> list[tuple]:
        """All rows of `b` in the end; both indexes have to have them."""
        found = [sorted(tuple(int(v) for v in row) for row in rows(
            self.admin, f"SELECT * FROM b FORCE INDEX ({index}) WHERE {column} >= 0"))
            for index, column in (("PRIMARY", "id"), ("room", "room"))]
        if found[0] != found[1]:
            raise Broken("indexes differ", str(set(found[0]) ^ set(found[1])))
        return found[0]

    def _send_on(self, last: int) -> None:
        """Sends the held-back statements that sessions may send now, in the order of the schedule."""
        while True:
            free = [s for s in self.sessions if s.later and not s.flying]
            if not free:
                break
            session = min(free, key=lambda s: s.later[0][0])
            self._step(session, *session.later.pop(0))

    def _kill(self, number: int, step: Step) -> None:
        if step.session < len(self.sessions) and self.sessions[step.session].flying:
            self.turn += 1
            event = Event(step, number, self.turn, self.turn)
            self.events.append(event)
            run(self.admin, f"KILL QUERY {self.sessions[step.session].connection.thread_id()}")
            self._settle(step, killed=self.sessions[step.session])

    def _step(self, session: Session, number: int, step: Step) -> None:
        ends = step.kind in ("commit", "rollback")
        if session.lost and not ends:
            return
        if step.kind == "count up" and step.counter < 0 and not session.fetched:
            return
        self.turn += 1
        event = Event(step, number, self.turn)
        self.events.append(event)
        session.flying = event
        early = _send(session.connection, step.sql)
        if early:
            raise Broken("the server ended", str(early.message))
        self._settle(step)
        if event.done < 0:
            self._note_blockers(session, event)

    def _seen(self, step: Step) -> list[tuple]:
        assert step.scan
        return [tuple(int(v) for v in row) for row in rows(
            self.outsider, f"SELECT id, room, d, tag, mark FROM {step.scan.source()} WHERE {step.scan.where()}")]

    # ---------------------------------------------------------------- waiting

    def _settle(self, step: Step, killed: Session | None = None) -> None:
        """Until all have answered or wait; then what the answered ones have seen is asked for."""
        flying = [s for s in self.sessions if s.flying]
        was = {id(s.flying) for s in flying}
        answered: list[Session] = []
        deadline = time.monotonic() + SETTLE_SECONDS
        pause, calm = 0.001, 0
        while flying:
            ready = select.select([s.connection._sock for s in flying], [], [], pause)[0]
            if ready:
                calm = 0
                for session in [s for s in flying if s.connection._sock in ready]:
                    session.flying.outcome = _receive(session.connection)
                    session.flying.done = self.turn
                    answered.append(session)
                    flying.remove(session)
                continue
            # Seen twice: a cycle may have been closed and its victim not been told yet.
            expects = killed is not None and killed in flying
            calm = calm + 1 if self._waiting() == len(flying) and not expects else 0
            if calm == 2:
                break
            pause = min(pause * 1.5, 0.02)
            if time.monotonic() > deadline:
                raise Broken("no answer", f"after {SETTLE_SECONDS} s neither an answer nor a wait for a lock: "
                             + "; ".join(s.flying.step.sql for s in flying))
        for session in answered:
            event, session.flying = session.flying, None
            if event.outcome.lost():
                raise Broken("the server ended", event.outcome.message)
            self._answered(session, event)
        for session in flying:
            if id(session.flying) in was and session.flying.step is not step:
                self._note_blockers(session, session.flying)
        if flying and not any(s.open and not s.flying for s in self.sessions):
            raise Broken("waits for nobody", f"no other transaction is open, and this waits: {flying[0].flying.step.sql}")

    def _waiting(self) -> int:
        """How many statements wait for a lock. A lock that is given counts no longer, even before its waiter runs."""
        text = rows(self.admin, f"SHOW ENGINE {self.engine} STATUS")[0][2].decode("utf-8", "replace")
        if self.engine == "InnoDB":
            return len(re.findall(r"^LOCK WAIT ", text[text.find("\nTRANSACTIONS\n"):], re.MULTILINE))
        section = text[text.find("LOCK WAITS\n"):].split("\n\n", 1)[0]
        # One line each: who "waits for" a lock, or "waits 0.1 s for" one.
        return len(re.findall(r"^[^\"\n]*\bwaits (?:[0-9.]+ s )?for\b", section, re.MULTILINE))

    def _note_blockers(self, session: Session, event: Event) -> None:
        if event.step.scan:
            event.blockers = {}
            for number, other in enumerate(self.sessions):
                places = [row for row, strength in other.held if event.step.scan.has(row)
                          and "X" in (strength, event.step.strength)]
                if other is not session and places:
                    event.blockers[number] = places

    # ---------------------------------------------------------------- answers

    def _answered(self, session: Session, event: Event) -> None:
        step, error = event.step, event.outcome.error
        if step.kind == "begin":
            session.ends()
            session.open, session.lost = True, False
        elif step.kind in ("commit", "rollback"):
            if step.kind == "commit" and session.open and not error:
                for counter in session.counted:
                    self.counted[counter] = self.counted.get(counter, 0) + 1
                self.committed.add(step.transaction)
            session.ends()
        elif error in ENDED:
            session.ends()
            session.lost = True
        elif step.kind == "savepoint":
            session.savepoint = (len(session.held), len(session.counted))
        elif step.kind == "rollback to":
            del session.held[session.savepoint[0]:]
            del session.counted[session.savepoint[1]:]
            session.changes += 1
        else:
            self._statement(session, event)

    def _statement(self, session: Session, event: Event) -> None:
        step, error = event.step, event.outcome.error
        first = session.statements == 0
        session.statements += 1
        event.changes = session.changes
        if step.kind == "fetch":
            session.fetched = not error
        if step.kind not in ("plain", "lock", "fetch"):
            session.changes += 1
            session.changed.update(step.ids)
        if error:
            return
        if step.kind == "count up":
            session.counted += [abs(step.counter)] * min(event.outcome.affected, 1)
        if step.scan and step.probe:
            event.probe = self._probe(session, event, first)
            if session.level != "READ COMMITTED":
                event.left = {row[0]: row[:3] for row in self._seen(step)}
        self._hold(session, event)

    def _probe(self, session: Session, event: Event, first: bool) -> list[tuple] | None:
        step = event.step
        assert step.scan
        newest = session.level.endswith("OFF")
        if session.level == "SERIALIZABLE" or newest and not first:
            # A read of its own would wait, or show the old rows: an outsider sees the same if nothing is changed yet.
            same = step.kind == "lock" and not event.changes and (first or newest)
            return self._seen(step) if same else None
        return [tuple(int(v) for v in row) for row in rows(
            session.connection, f"SELECT id, room, d, tag, mark FROM {step.scan.source()} WHERE {step.scan.where()}")]

    def _hold(self, session: Session, event: Event) -> None:
        step = event.step
        if step.kind == "lock":
            locked = event.rows()
        elif step.kind == "update" and event.probe is not None:
            locked = [row for row in event.probe if row[4] == step.mark]
        else:
            return
        session.held += [(row, step.strength) for row in locked if row[0] not in session.changed]

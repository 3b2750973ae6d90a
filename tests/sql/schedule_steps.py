"""Random schedules: the statements of two or three sessions and their order.

A schedule is a list of steps; a step is one statement of one session. Every statement belongs to a transaction that
a step begins and another ends. Two tables: `b` has rows of two rooms in the order of `id` and of `(room, d)`, and
a transaction's inserts lie between the rows that are there; `c` has counters.

Each change writes the number of its step into `mark`, each insert the number of its transaction
into `tag`: a row shows which transaction made it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

ROWS = 20
ROOMS = (1, 2)
COUNTERS = 3
LEVELS = ["READ COMMITTED", "REPEATABLE READ", "REPEATABLE READ, OFF", "SERIALIZABLE"]
CREATE = [
    "CREATE TABLE b (id INT PRIMARY KEY, room INT NOT NULL, d INT NOT NULL, tag INT NOT NULL, mark INT NOT NULL, "
    "KEY room (room, d)) ENGINE={engine}",
    "CREATE TABLE c (id INT PRIMARY KEY, v INT NOT NULL) ENGINE={engine}",
]
FILL = [
    "TRUNCATE TABLE b", "TRUNCATE TABLE c",
    "INSERT INTO b VALUES " + ", ".join(f"({room * 1000 + i * 10}, {room}, {i * 10}, 0, 0)"
                                        for room in ROOMS for i in range(1, ROWS + 1)),
    "INSERT INTO c VALUES " + ", ".join(f"({i}, 0)" for i in range(1, COUNTERS + 1)),
]


@dataclass
class Scan:
    """A range of one room of `b`, in the order of one index: `d` or `id` from low to high."""

    index: str
    room: int
    low: int
    high: int
    descending: bool = False
    limit: int = 0

    def source(self) -> str:
        return f"b FORCE INDEX ({self.index})"

    def where(self) -> str:
        if self.index == "room":
            whole = self.low <= 0 and self.high > 10 * ROWS + 9
            return f"room = {self.room}" + ("" if whole else f" AND d BETWEEN {self.low} AND {self.high}")
        return f"id BETWEEN {self.room * 1000 + self.low} AND {self.room * 1000 + self.high}"

    def order(self) -> str:
        by = ["d", "id"] if self.index == "room" else ["id"]
        return " ORDER BY " + ", ".join(c + (" DESC" if self.descending else "") for c in by)

    def tail(self) -> str:
        text = self.order() if self.descending or self.limit else ""
        return text + (f" LIMIT {self.limit}" if self.limit else "")

    def key(self, row: tuple) -> tuple[int, int]:
        """The place of a row (id, room, d, ...) in the order of the scan."""
        place = (int(row[2]), int(row[0])) if self.index == "room" else (int(row[0]), 0)
        return (-place[0], -place[1]) if self.descending else place

    def has(self, row: tuple) -> bool:
        place = int(row[2]) if self.index == "room" else int(row[0]) - self.room * 1000
        return int(row[1]) == self.room and self.low <= place <= self.high


@dataclass
class Step:
    session: int
    kind: str
    sql: str
    transaction: int
    # The value that a change writes into `mark`; unique in the schedule.
    mark: int = 0
    scan: Scan | None = None
    # "X" or "S", of a locking read or a change.
    strength: str = ""
    # "", "NOWAIT" or "SKIP LOCKED".
    wait: str = ""
    # Afterwards the same session reads the same range without locks.
    probe: bool = False
    # The ids of the rows that an INSERT makes or a statement moves.
    ids: list[int] = field(default_factory=list)
    counter: int = 0
    savepoint: str = ""


@dataclass
class Schedule:
    steps: list[Step]
    levels: list[str]
    # The filled table is put into runs first.
    optimize: bool


class Maker:
    def __init__(self, r: random.Random):
        self.r = r
        self.number = 0
        self.transactions = 0

    def schedule(self) -> Schedule:
        r = self.r
        sessions = r.choice([2, 2, 3])
        level = r.choice(LEVELS)
        levels = [level] * sessions if r.random() < 0.8 else [r.choice(LEVELS) for _ in range(sessions)]
        scripts = [[step for _ in range(r.choice([1, 2, 2])) for step in self._transaction(s, levels[s])]
                   for s in range(sessions)]
        steps: list[Step] = []
        while any(scripts):
            # A session sends a few statements in a row, for often a whole transaction is what another waits for.
            script = r.choice([s for s in scripts if s])
            for _ in range(r.choice([1, 1, 2, 2, 3])):
                if script:
                    steps.append(script.pop(0))
            if r.random() < 0.04:
                steps.append(Step(r.randrange(sessions), "kill", "KILL QUERY", 0))
        return Schedule(steps, levels, r.random() < 0.4)

    # ---------------------------------------------------------------- transactions

    def _transaction(self, session: int, level: str) -> list[Step]:
        r = self.r
        self.transactions += 1
        body: list[Step] = []
        plain = self._plain(session)
        room = r.choice(ROOMS + (1,))
        savepoint = ""
        for _ in range(r.choice([1, 2, 2, 3, 3, 4])):
            roll = r.random()
            if roll < 0.34:
                body.append(self._lock(session, room))
            elif roll < 0.46:
                body.append(self._change(session, room))
            elif roll < 0.68:
                body.append(self._insert(session, room))
            elif roll < 0.82:
                body.append(self._again(plain))
            elif roll < 0.91:
                body.extend(self._count_up(session, level))
            elif savepoint:
                body.append(self._step(session, "rollback to", f"ROLLBACK TO {savepoint}", savepoint=savepoint))
            else:
                savepoint = "s1"
                body.append(self._step(session, "savepoint", f"SAVEPOINT {savepoint}", savepoint=savepoint))
        if r.random() < (0.6 if level == "SERIALIZABLE" else 0.3):
            # The same read at both ends.
            body.insert(0, plain)
            body.append(self._again(plain))
        end = r.choice(["COMMIT"] * 4 + ["ROLLBACK"])
        return [self._step(session, "begin", "BEGIN"), *body, self._step(session, end.lower(), end)]

    def _step(self, session: int, kind: str, sql: str, **more: object) -> Step:
        self.number += 1
        return Step(session, kind, sql.replace("{mark}", str(self.number)).replace("{tag}", str(self.transactions)),
                    self.transactions, mark=self.number, **more)  # type: ignore[arg-type]

    def _again(self, plain: Step) -> Step:
        return self._step(plain.session, plain.kind, plain.sql)

    def _scan(self, room: int, limit: bool = True) -> Scan:
        r = self.r
        index = r.choice(["room", "room", "PRIMARY"])
        low, high = r.choice([(0, 10 * ROWS + 10), (0, 10 * ROWS + 10), (r.randint(0, 100), r.randint(100, 220))])
        scan = Scan(index, room, low, high, descending=r.random() < 0.25)
        if limit and r.random() < 0.2:
            scan.limit = r.choice([1, 3, 18])
        return scan

    def _point(self, room: int) -> Scan:
        place = 10 * self.r.choice([1, 1, 2, 3, self.r.randint(1, ROWS), ROWS])
        return Scan(self.r.choice(["room", "PRIMARY"]), room, place, place)

    # ---------------------------------------------------------------- statements

    def _plain(self, session: int) -> Step:
        r = self.r
        scan = self._scan(r.choice(ROOMS), limit=False)
        shown = r.choice(["COUNT(*)", "COUNT(*), SUM(d)", "id, room, d, tag, mark", "id, room, d"])
        return self._step(session, "plain", f"SELECT {shown} FROM {scan.source()} WHERE {scan.where()}")

    def _lock(self, session: int, room: int) -> Step:
        r = self.r
        scan = self._point(room) if r.random() < 0.45 else self._scan(room)
        shown = r.choice(["id, room, d", "id, room, d, tag, mark"])
        exclusive = r.random() < 0.7
        wait = r.choice([""] * 10 + ["NOWAIT", "SKIP LOCKED"])
        lock = "FOR UPDATE" if exclusive else "LOCK IN SHARE MODE"
        return self._step(session, "lock", f"SELECT {shown} FROM {scan.source()} WHERE {scan.where()}{scan.tail()} "
                          f"{lock}{' ' if wait else ''}{wait}", scan=scan, strength="X" if exclusive else "S",
                          wait=wait, probe=r.random() < 0.7)

    def _change(self, session: int, room: int) -> Step:
        r = self.r
        roll = r.random()
        if roll < 0.25:
            # Moves one row within its room.
            row = room * 1000 + 10 * r.randint(1, ROWS)
            return self._step(session, "move", f"UPDATE b SET d = {10 * r.randint(1, ROWS) + 7}, mark = {{mark}} "
                              f"WHERE id = {row}", ids=[row])
        scan = self._point(room) if r.random() < 0.4 else self._scan(room)
        if roll < 0.75:
            return self._step(session, "update", f"UPDATE {scan.source()} SET mark = {{mark}} "
                              f"WHERE {scan.where()}{scan.tail()}", scan=scan, strength="X", probe=r.random() < 0.8)
        if r.random() < 0.7 and scan.low != scan.high:
            scan = self._point(room)
        return self._step(session, "delete", f"DELETE FROM b WHERE {scan.where()}{scan.tail()}", scan=scan,
                          strength="X", probe=r.random() < 0.8)

    def _insert(self, session: int, room: int) -> Step:
        r, roll = self.r, self.r.random()
        offset = 1 + self.transactions % 8
        first, count = r.choice([(1, ROWS - 1), (r.randint(1, 15), r.randint(1, 5))])
        places = range(first, first + count)
        ids = [room * 1000 + 10 * i + offset for i in places]
        if roll < 0.2:
            return self._step(session, "insert", f"INSERT INTO b SELECT id + {offset}, room, d + 5, {{tag}}, {{mark}} "
                              f"FROM b WHERE id IN ({', '.join(str(i - offset) for i in ids)})", ids=ids)
        if roll < 0.35:
            # Some of these ids are there.
            ids = [i - offset * r.choice([0, 1]) for i in ids[:4]]
        lines = ", ".join(f"({i}, {room}, {i % 1000 // 10 * 10 + (5 if i % 10 else 0)}, {{tag}}, {{mark}})" for i in ids)
        tail = " ON DUPLICATE KEY UPDATE mark = {mark}" if roll > 0.9 or 0.2 <= roll < 0.3 else ""
        return self._step(session, "insert", f"INSERT INTO b VALUES {lines}{tail}", ids=ids)

    def _count_up(self, session: int, level: str) -> list[Step]:
        """One more, in one statement or in a read and a write of which nothing may come between."""
        r, counter = self.r, self.r.randint(1, COUNTERS)
        roll = r.random()
        if roll < 0.4:
            return [self._step(session, "count up", f"UPDATE c SET v = v + 1 WHERE id = {counter}", counter=counter)]
        # Without locks the write has to fail when the value is not the newest; only these levels promise that.
        lock = "" if roll < 0.7 and level in ("REPEATABLE READ", "SERIALIZABLE") else " FOR UPDATE"
        return [self._step(session, "fetch", f"SELECT v FROM c WHERE id = {counter} INTO @v{lock}", counter=counter),
                self._step(session, "count up", f"UPDATE c SET v = @v + 1 WHERE id = {counter}", counter=-counter)]

"""Scheduled differential test: interactions of two or three sessions, on InnoDB and on the engine under test.

    schedules.py [--episodes N] [--seed SEED] [--episode N] [--canary]

An episode is a schedule (schedule_steps.py), run on each engine one statement at a time (schedule_run.py)
and judged by the engine's own promises and by the other one's answers (schedule_check.py). Seed and number
of an episode give the same statements in the same order: `--seed S --episode N` runs it again, with each
answer. `--canary` takes a row from an answer that waited; the run has to notice it.

Status: 0 as it should be, 1 a broken promise or a difference (shrunk and printed), 2 the test could not run.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

import pymysql

from schedule_check import check_alone, check_equal
from schedule_run import Broken, Event, Side
from schedule_steps import CREATE, FILL, Maker, Schedule
from server import Server, ServerFailed, engine

FAILURES_MAX = 5
SHRINK_SECONDS = 20


class Runner:
    def __init__(self, server: Server, tested: str, canary: bool):
        self.server, self.tested, self.canary = server, tested, canary
        self.sides: list[Side] = []
        self.audit: Counter[str] = Counter()
        self.last: tuple[list[Event], list[Event]] = ([], [])

    def fresh(self) -> None:
        for side in self.sides:
            side.close()
        if not self.server.running():
            self.server.start()
        self.sides = [Side(self.server, "InnoDB", "si"), Side(self.server, self.tested, "sf")]

    def run(self, schedule: Schedule) -> Broken | None:
        """The failure of the schedule, or None."""
        if not self.sides:
            self.fresh()
        try:
            self._run(schedule)
        except Broken as broken:
            # Sessions may be anywhere.
            self.fresh()
            return broken
        return None

    def _run(self, schedule: Schedule) -> None:
        self.last = ([], [])
        try:
            reference = self.sides[0].run(schedule)
        except Broken as broken:
            raise ServerFailed(f"InnoDB, the reference: {broken.kind}: {broken}") from broken
        self.last = (reference, self.sides[1].events)
        try:
            events = self.sides[1].run(schedule)
        finally:
            self.last = (reference, self.sides[1].events)
        if self.canary:
            for event in events:
                if event.step.kind == "lock" and event.waited() and event.probe and event.outcome.rows:
                    event.outcome.rows = event.outcome.rows[:-1]
        self._count(events)
        check_alone(schedule, events)
        apart = check_equal(schedule, reference, events)
        self.audit["together to the end" if not apart else apart.split(":")[0][:60]] += 1
        tables = [side.table() for side in self.sides]
        if not apart and tables[0] != tables[1]:
            raise Broken("unequal", f"the tables in the end\nonly InnoDB: {sorted(set(tables[0]) - set(tables[1]))[:8]}"
                         f"\nonly {self.tested}: {sorted(set(tables[1]) - set(tables[0]))[:8]}")

    def _count(self, events: list[Event]) -> None:
        self.audit["statements"] += len(events)
        self.audit["waited"] += sum(e.waited() for e in events)
        self.audit["probed after a wait"] += sum(e.waited() and bool(e.blockers) and e.probe is not None for e in events)
        self.audit["answered by an error"] += sum(e.outcome.error != 0 for e in events)


def shrink(runner: Runner, schedule: Schedule, broken: Broken, seconds: float) -> tuple[Schedule, Broken]:
    """The shortest schedule found in the time that breaks the same promise: whole transactions are left out first,
    then statements within them, never what begins or ends one."""
    deadline = time.monotonic() + seconds

    def attempt(left_out: list[int]) -> bool:
        nonlocal schedule, broken
        steps = [s for i, s in enumerate(schedule.steps) if i not in left_out]
        if not left_out or time.monotonic() > deadline:
            return False
        smaller = Schedule(steps, schedule.levels, schedule.optimize)
        found = runner.run(smaller)
        if found is None or found.kind != broken.kind:
            return False
        schedule, broken = smaller, found
        return True

    for transaction in sorted({s.transaction for s in schedule.steps}):
        attempt([i for i, s in enumerate(schedule.steps) if s.transaction == transaction])
    shorter = True
    while shorter:
        shorter = False
        for i in range(len(schedule.steps) - 1, -1, -1):
            if i < len(schedule.steps) and schedule.steps[i].kind not in ("begin", "commit", "rollback"):
                step = schedule.steps[i]
                # A write of a value that was read goes with its read.
                pair = [j for j, other in enumerate(schedule.steps) if step.kind == "fetch"
                        and other.mark == step.mark + 1]
                shorter = attempt([i, *pair]) or shorter
    return schedule, broken


def show(runner: Runner, schedule: Schedule) -> None:
    for sql in [*CREATE, *FILL]:
        print(f"  {sql.replace('{engine}', runner.tested)};")
    if schedule.optimize:
        print("  OPTIMIZE TABLE b;")
    for number, level in enumerate(schedule.levels):
        print(f"  S{number + 1} at {level}")
    answers = [{e.number: e for e in events} for events in runner.last]
    for number, step in enumerate(schedule.steps):
        print(f"{number + 1:4} S{step.session + 1}: {step.sql};")
        for name, of in zip(("InnoDB", runner.tested), answers):
            event = of.get(number)
            if event:
                when = (" (waits until the answer came in the turn of step "
                        f"{1 + next((e.number for e in of.values() if e.sent == event.done), number)})"
                        if event.waited() else "")
                answer = event.outcome.short(False).split("\n")[0] if event.done >= 0 else "no answer"
                print(f"          {name}: {answer}{when}")
    sys.stdout.flush()


def options(tested: str) -> list[str]:
    common = ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--skip-log-bin",
              "--innodb-flush-method=fsync", "--innodb-stats-persistent=0"]
    return common + (["--frond-flush-log-at-commit=0", "--frond-cache-size=8M"] if tested == "Frond" else [])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    parser.add_argument("--episode", type=int)
    parser.add_argument("--canary", action="store_true")
    arguments = parser.parse_args()
    tested, failures, begin = engine(), Counter[str](), time.monotonic()
    print(f"SEED={arguments.seed}: schedules on {tested} and InnoDB", flush=True)
    numbers = range(arguments.episodes) if arguments.episode is None else [arguments.episode]
    try:
        with Server("schedules", options(tested)) as server:
            runner = Runner(server, tested, arguments.canary)
            for number in numbers:
                schedule = Maker(random.Random(f"{arguments.seed}:{number}")).schedule()
                broken = runner.run(schedule)
                runner.audit["schedules"] += 1
                if arguments.episode is not None:
                    show(runner, schedule)
                if broken is None:
                    continue
                failures[broken.kind] += 1
                print(f"\nBROKEN: {broken.kind}: SEED={arguments.seed} episode {number}: {broken}")
                if arguments.canary:
                    break
                if failures[broken.kind] == 1:
                    count = len(schedule.steps)
                    schedule, broken = shrink(runner, schedule, broken, SHRINK_SECONDS)
                    print(f"shrunk from {count} to {len(schedule.steps)} steps: {broken}")
                    runner.run(schedule)
                    show(runner, schedule)
                print(f"again: SEED={arguments.seed} SCHEDULE={number} scripts/test.sh 70", flush=True)
                if sum(failures.values()) >= FAILURES_MAX:
                    break
    except (ServerFailed, pymysql.Error, OSError) as error:
        print(f"the test could not go on: {error}")
        return 2
    print("ran: " + ", ".join(f"{k} {v}" for k, v in sorted(runner.audit.items())))
    print(f"{runner.audit['schedules']} schedules on both engines in {time.monotonic() - begin:.0f} s, "
          f"{sum(failures.values())} broken", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the drivers of the tool's commands share: which program it is, and how they count."""

from __future__ import annotations

import os

from server import ROOT

# `make test` names the one that its build made.
FROND = os.environ.get("FROND", str(ROOT / "target" / "release" / "frond"))


class Checks:
    """Counts what held; prints what did not, and what could not be tried here."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def that(self, what: str, good: bool, seen: object = "") -> None:
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {seen}", flush=True)

    def skip(self, what: str) -> None:
        self.skipped += 1
        print(f"skipped: {what}", flush=True)

    def end(self) -> int:
        """The last line of a driver, and its status."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0

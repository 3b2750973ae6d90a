"""Finds isolation anomalies in histories of transactions that append to lists and read them.

Lists are only appended to, and every appended number is unique, so a read of a list names all the
transactions whose writes it saw, in the order of their writes. A final read of all lists gives the
dependencies between transactions:

    ww  b appended directly after a          wr  b's read ends with what a appended
    rw  a's read lacks the next element, which b appended

A cycle of ww edges is G0, of ww and wr edges G1c, with exactly one rw edge G-single (which includes
lost updates), with several rw edges G2. READ COMMITTED forbids G0 and G1; snapshot isolation
forbids G-single too; only SERIALIZABLE forbids G2.

A history is a list of transactions; see History.load for the file. What a transaction did:

    ["append", key, number]         and it may be undone: ["undo", key, number] (savepoint)
    ["read", key, [numbers]]        a whole list; an absent row is an empty list
    ["length", key, n]              its length only, from an index; with the final list it names the
                                    same prefix
Times are of one monotonic clock, taken before the first statement is sent and after the last answer.

Tested by test_anomalies.py with histories of each kind.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Iterable

READ_COMMITTED = frozenset({"G0", "G1a", "G1b", "G1c", "internal", "lost append", "order", "stale"})
SNAPSHOT = READ_COMMITTED | {"G-single", "unrepeatable"}
SERIALIZABLE = SNAPSHOT | {"G2"}


@dataclass
class Transaction:
    number: int
    client: int
    begin: float
    end: float
    # "ok", "aborted", or "unknown" when the answer to COMMIT was lost
    status: str
    operations: list[list[Any]] = field(default_factory=list)
    # When each operation was sent; for READ COMMITTED, where each statement has its own snapshot.
    sent: list[float] = field(default_factory=list)

    def line(self) -> str:
        return json.dumps({"tx": self.number, "client": self.client, "begin": self.begin,
                           "end": self.end, "status": self.status, "ops": self.operations,
                           "sent": self.sent})


@dataclass
class Anomaly:
    kind: str
    text: str
    transactions: tuple[int, ...]


@dataclass
class History:
    transactions: list[Transaction]
    final: dict[int, list[int]]

    @staticmethod
    def load(lines: Iterable[str]) -> "History":
        """JSON lines: one transaction each, and last {"final": {key: [numbers]}}."""
        history = History([], {})
        for line in lines:
            data = json.loads(line)
            if "final" in data:
                history.final = {int(k): v for k, v in data["final"].items()}
            else:
                history.transactions.append(Transaction(
                    data["tx"], data["client"], data["begin"], data["end"], data["status"],
                    data["ops"], data.get("sent", [])))
        return history


class Checker:
    """All anomalies of one history. `snapshot` says that a transaction has one snapshot."""

    def __init__(self, history: History, snapshot: bool):
        self.history = history
        self.snapshot = snapshot
        self.found: list[Anomaly] = []
        self.by_number = {t.number: t for t in history.transactions}
        self.writer: dict[int, Transaction] = {}
        self.undone: set[int] = set()
        # Last append of each transaction to each key that was not undone.
        self.last_append: dict[tuple[int, int], int] = {}
        self.edges: dict[str, dict[int, set[int]]] = {k: defaultdict(set) for k in ("ww", "wr", "rw")}

    def check(self) -> list[Anomaly]:
        self._collect()
        self._check_final()
        for transaction in self.history.transactions:
            if transaction.status == "ok":
                self._check_reads(transaction)
        self._write_order()
        self._cycles()
        return self.found

    def _add(self, kind: str, text: str, *transactions: int) -> None:
        self.found.append(Anomaly(kind, text, transactions))

    # ---------------------------------------------------------------- single transactions

    def _collect(self) -> None:
        for t in self.history.transactions:
            for operation in t.operations:
                if operation[0] == "append":
                    _, key, number = operation
                    self.writer[number] = t
                    self.last_append[t.number, key] = number
            for operation in t.operations:
                if operation[0] == "undo":
                    self.undone.add(operation[2])
        for t in self.history.transactions:
            for operation in t.operations:
                if operation[0] == "append" and operation[2] not in self.undone:
                    self.last_append[t.number, operation[1]] = operation[2]

    def _visible(self, number: int) -> bool:
        """Whether others may see it."""
        return number not in self.undone and self.writer[number].status != "aborted"

    def _check_final(self) -> None:
        present: dict[int, set[int]] = {}
        for key, numbers in self.history.final.items():
            present[key] = set(numbers)
            if len(present[key]) != len(numbers):
                self._add("order", f"list {key} holds a number twice: {numbers}")
            for number in numbers:
                if number not in self.writer:
                    self._add("order", f"list {key} holds {number}, which nobody appended")
                elif not self._visible(number):
                    self._add("G1a", f"list {key} keeps {number} of an undone write",
                              self.writer[number].number)
        for t in self.history.transactions:
            kept = [(o[1], o[2]) for o in t.operations
                    if o[0] == "append" and o[2] not in self.undone]
            there = [number in present.get(key, ()) for key, number in kept]
            if t.status == "ok" and not all(there):
                self._add("lost append", f"committed, but not in the lists: {kept}", t.number)
            if t.status == "unknown" and any(there) and not all(there):
                self._add("lost append", f"in doubt, and only a part is there: {kept}", t.number)

    def _check_reads(self, t: Transaction) -> None:
        own: dict[int, list[int]] = defaultdict(list)
        base: dict[int, int] = {}
        for i, operation in enumerate(t.operations):
            kind, key = operation[0], operation[1]
            if kind == "append":
                own[key].append(operation[2])
            elif kind == "undo":
                own[key] = [n for n in own[key] if n != operation[2]]
            else:
                seen = self._foreign_prefix(t, operation, own[key])
                if seen is None:
                    continue
                if self.snapshot and base.setdefault(key, seen) != seen:
                    self._add("unrepeatable", f"list {key} was read with {base[key]} and with {seen} "
                              "elements of others", t.number)
                sent = t.begin if self.snapshot or not t.sent else t.sent[i]
                self._reads_prefix(t, key, seen, sent, own[key])

    def _foreign_prefix(self, t: Transaction, operation: list[Any], own: list[int]) -> int | None:
        """How many elements of others a read saw; None when it is not a prefix and own elements."""
        kind, key, value = operation
        final = self.history.final.get(key, [])
        if kind == "length":
            # The lengths of own and others' cannot be told apart; a wrong one shows as stale.
            return int(value) - len(own) if value >= len(own) else self._bad(t, operation, own)
        seen = value[: len(value) - len(own)] if own else value
        if own and value[len(value) - len(own):] != own:
            return self._bad(t, operation, own)
        if seen == final[: len(seen)]:
            return len(seen)
        for number in seen:
            if number in self.writer and not self._visible(number):
                self._add("G1a", f"read {number} of list {key}, which was undone", t.number,
                          self.writer[number].number)
                return None
        self._add("order", f"read {seen} of list {key}, which became {final}", t.number)
        return None

    def _bad(self, t: Transaction, operation: list[Any], own: list[int]) -> None:
        self._add("internal", f"{operation} does not show the own appends {own}", t.number)

    def _reads_prefix(self, t: Transaction, key: int, seen: int, sent: float, own: list[int]) -> None:
        final = self.history.final.get(key, [])
        if seen > len(final):
            self._add("order", f"list {key} had {seen} elements, later {len(final)}", t.number)
            return
        if seen:
            last = final[seen - 1]
            writer = self.writer.get(last)
            if writer is not None and writer is not t:
                self.edges["wr"][writer.number].add(t.number)
                if self.last_append.get((writer.number, key)) != last:
                    self._add("G1b", f"list {key} was read up to {last}, which is not the last that "
                              "its transaction appended", t.number, writer.number)
        for number in final[seen:]:
            writer = self.writer.get(number)
            if writer is None or writer is t:
                continue
            if number == final[seen] or own:
                self.edges["rw"][t.number].add(writer.number)
            if writer.status == "ok" and writer.end < sent:
                self._add("stale", f"list {key} was read without {number}, committed before", t.number,
                          writer.number)
            if not own or number != final[seen]:
                break

    # ---------------------------------------------------------------- cycles

    def _write_order(self) -> None:
        for numbers in self.history.final.values():
            for a, b in zip(numbers, numbers[1:]):
                if a in self.writer and b in self.writer and self.writer[a] is not self.writer[b]:
                    self.edges["ww"][self.writer[a].number].add(self.writer[b].number)

    def _cycles(self) -> None:
        for kinds, name in ((("ww",), "G0"), (("ww", "wr"), "G1c")):
            for component in components(self._graph(kinds)):
                self._add(name, "a cycle of " + " and ".join(kinds) + " edges", *component[:8])
        strong = self._graph(("ww", "wr"))
        single = False
        for a, targets in self.edges["rw"].items():
            for b in targets:
                path = self._path(strong, b, a)
                if path:
                    single = True
                    self._add("G-single", f"{a} missed what {b} wrote, and depends on it", a, *path)
        if not single:
            for component in components(self._graph(("ww", "wr", "rw"))):
                self._add("G2", f"a cycle with several rw edges in {len(component)} transactions",
                          *component[:8])

    def _graph(self, kinds: tuple[str, ...]) -> dict[int, set[int]]:
        graph: dict[int, set[int]] = defaultdict(set)
        for kind in kinds:
            for source, targets in self.edges[kind].items():
                graph[source] |= targets
        return graph

    def _path(self, graph: dict[int, set[int]], start: int, goal: int) -> list[int] | None:
        """Transactions on a path. What began after the goal ended cannot lead to it, which keeps
        the search within the transactions of the same moment."""
        limit = self.by_number[goal].end
        before: dict[int, int] = {start: start}
        queue = deque([start])
        while queue:
            at = queue.popleft()
            if at == goal:
                path = [at]
                while before[path[-1]] != path[-1]:
                    path.append(before[path[-1]])
                return path[::-1]
            for following in graph.get(at, ()):
                if following not in before and self.by_number[following].begin <= limit:
                    before[following] = at
                    queue.append(following)
        return None


def components(graph: dict[int, set[int]]) -> list[list[int]]:
    """Strongly connected components of more than one node (Tarjan's, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    result: list[list[int]] = []
    for root in list(graph):
        if root in order:
            continue
        work = [(root, iter(graph.get(root, ())))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            for target in following:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph.get(target, ()))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        result.append(component)
    return result

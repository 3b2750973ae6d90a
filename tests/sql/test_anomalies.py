"""The checker finds each kind of anomaly, and nothing in histories that are right."""

from __future__ import annotations

import unittest

from anomalies import Checker, History, Transaction


def tx(number: int, begin: float, end: float, *operations: list, status: str = "ok") -> Transaction:
    return Transaction(number, number, begin, end, status, list(operations))


def kinds(transactions: list[Transaction], final: dict[int, list[int]], snapshot: bool = True) -> set[str]:
    return {a.kind for a in Checker(History(transactions, final), snapshot).check()}


class Anomalies(unittest.TestCase):
    def test_serial_history_has_none(self) -> None:
        history = [tx(1, 0, 1, ["read", 1, []], ["append", 1, 10]),
                   tx(2, 2, 3, ["read", 1, [10]], ["append", 1, 20], ["read", 1, [10, 20]]),
                   tx(3, 4, 5, ["length", 1, 2])]
        self.assertEqual(kinds(history, {1: [10, 20]}), set())

    def test_concurrent_snapshot_read_has_none(self) -> None:
        history = [tx(1, 0, 9, ["read", 1, []], ["read", 2, []]),
                   tx(2, 1, 2, ["append", 1, 10], ["append", 2, 11])]
        self.assertEqual(kinds(history, {1: [10], 2: [11]}), set())

    def test_crossed_write_orders_are_g0(self) -> None:
        history = [tx(1, 0, 9, ["append", 1, 10], ["append", 2, 11]),
                   tx(2, 0, 9, ["append", 1, 20], ["append", 2, 21])]
        self.assertIn("G0", kinds(history, {1: [10, 20], 2: [21, 11]}))

    def test_read_of_aborted_write_is_g1a(self) -> None:
        history = [tx(1, 0, 9, ["append", 1, 10], status="aborted"), tx(2, 0, 9, ["read", 1, [10]])]
        self.assertIn("G1a", kinds(history, {1: []}))

    def test_write_undone_by_a_savepoint_that_stays_is_g1a(self) -> None:
        history = [tx(1, 0, 9, ["append", 1, 10], ["undo", 1, 10])]
        self.assertIn("G1a", kinds(history, {1: [10]}))

    def test_read_of_intermediate_write_is_g1b(self) -> None:
        history = [tx(1, 0, 9, ["append", 1, 10], ["append", 1, 11]), tx(2, 0, 9, ["read", 1, [10]])]
        self.assertIn("G1b", kinds(history, {1: [10, 11]}))

    def test_mutual_reads_are_g1c(self) -> None:
        history = [tx(1, 0, 9, ["append", 1, 10], ["read", 2, [20]]),
                   tx(2, 0, 9, ["append", 2, 20], ["read", 1, [10]])]
        self.assertIn("G1c", kinds(history, {1: [10], 2: [20]}))

    def test_append_to_a_newer_version_than_read_is_g_single(self) -> None:
        history = [tx(1, 0, 9, ["read", 1, []], ["append", 1, 10]), tx(2, 1, 2, ["append", 1, 20])]
        self.assertIn("G-single", kinds(history, {1: [20, 10]}))

    def test_fractured_read_is_g_single(self) -> None:
        history = [tx(1, 1, 2, ["append", 1, 10], ["append", 2, 11]),
                   tx(2, 0, 9, ["read", 1, []], ["read", 2, [11]])]
        self.assertIn("G-single", kinds(history, {1: [10], 2: [11]}))

    def test_phantom_by_length_is_g_single(self) -> None:
        history = [tx(1, 1, 2, ["append", 1, 10], ["append", 2, 11]),
                   tx(2, 0, 9, ["length", 1, 1], ["length", 2, 0])]
        self.assertIn("G-single", kinds(history, {1: [10], 2: [11]}))

    def test_write_skew_is_g2_only(self) -> None:
        history = [tx(1, 0, 9, ["read", 1, []], ["append", 2, 10]),
                   tx(2, 0, 9, ["read", 2, []], ["append", 1, 20])]
        self.assertEqual(kinds(history, {1: [20], 2: [10]}), {"G2"})

    def test_lost_append_is_found(self) -> None:
        history = [tx(1, 0, 1, ["append", 1, 10]), tx(2, 2, 3, ["append", 1, 20])]
        self.assertIn("lost append", kinds(history, {1: [20]}))

    def test_half_of_a_transaction_in_doubt_is_found(self) -> None:
        history = [tx(1, 0, 1, ["append", 1, 10], ["append", 2, 11], status="unknown")]
        self.assertIn("lost append", kinds(history, {1: [10], 2: []}))
        self.assertEqual(kinds(history, {1: [], 2: []}), set())
        self.assertEqual(kinds(history, {1: [10], 2: [11]}), set())

    def test_stale_read_is_found(self) -> None:
        history = [tx(1, 0, 1, ["append", 1, 10]), tx(2, 2, 3, ["read", 1, []])]
        self.assertIn("stale", kinds(history, {1: [10]}))

    def test_own_append_that_is_not_seen_is_internal(self) -> None:
        history = [tx(1, 0, 1, ["append", 1, 10], ["read", 1, []])]
        self.assertIn("internal", kinds(history, {1: [10]}))

    def test_changed_second_read_is_unrepeatable(self) -> None:
        history = [tx(1, 0, 9, ["read", 1, []], ["read", 1, [20]]), tx(2, 1, 2, ["append", 1, 20])]
        self.assertIn("unrepeatable", kinds(history, {1: [20]}))
        self.assertNotIn("unrepeatable", kinds(history, {1: [20]}, snapshot=False))

    def test_reordered_list_is_found(self) -> None:
        history = [tx(1, 0, 1, ["append", 1, 10]), tx(2, 0, 1, ["append", 1, 20]),
                   tx(3, 0, 9, ["read", 1, [20, 10]])]
        self.assertIn("order", kinds(history, {1: [10, 20]}))

    def test_history_survives_its_file(self) -> None:
        made = tx(1, 0.5, 1.5, ["append", 1, 10])
        loaded = History.load([made.line(), '{"final": {"1": [10]}}'])
        self.assertEqual(loaded.transactions, [made])
        self.assertEqual(loaded.final, {1: [10]})


if __name__ == "__main__":
    unittest.main()

"""Histories judged by hand: an order explains them, or none does."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from simulate.linear import ClientOperation, check_linearizability, independent_parts

WRITE, READ = "write", "read"


class Register:
    """One number, 0 at first."""

    def begin(self) -> int:
        """Nobody has written."""
        return 0

    def after(self, state: int, what: Any) -> int | None:
        """A read has to find what was written last."""
        kind, value = what
        if kind == WRITE:
            return int(value)
        return state if value == state else None

    def reads(self, what: Any) -> bool:
        """A write of what stands there counts behind another write."""
        return bool(what[0] == READ)


def of(*rows: tuple[str, int, float, float]) -> list[ClientOperation]:
    """Each row: kind, value, called, returned."""
    return [ClientOperation((kind, value), called, returned) for kind, value, called, returned in rows]


@pytest.mark.parametrize(
    ("story", "rows", "expected"),
    [
        ("nothing happened", [], True),
        ("one after another", [(WRITE, 1, 0, 1), (READ, 1, 2, 3)], True),
        ("a stale read", [(WRITE, 1, 0, 1), (READ, 0, 2, 3)], False),
        ("a read beside a write finds the old value", [(WRITE, 1, 0, 3), (READ, 0, 1, 2)], True),
        ("or the new one", [(WRITE, 1, 0, 3), (READ, 1, 1, 2)], True),
        ("what one has read the next has to", [(WRITE, 1, 0, 9), (READ, 1, 1, 2), (READ, 0, 3, 4)], False),
        ("unless they overlap", [(WRITE, 1, 0, 9), (READ, 1, 1, 3), (READ, 0, 2, 4)], True),
        ("times that touch are beside one another", [(WRITE, 1, 0, 1), (READ, 0, 1, 2)], True),
        ("an unanswered write has happened", [(WRITE, 1, 0, inf), (READ, 0, 1, 2), (READ, 1, 8, 9)], True),
        ("or never does", [(WRITE, 1, 0, inf), (READ, 0, 1, 2), (READ, 0, 8, 9)], True),
        ("but not twice", [(WRITE, 1, 0, inf), (READ, 1, 1, 2), (READ, 0, 3, 4)], False),
        ("nor before it was asked for", [(READ, 1, 0, 1), (WRITE, 1, 2, inf)], False),
        ("a write of what was there comes last", [
            (WRITE, 1, 0, 1), (WRITE, 1, 2, 9), (WRITE, 2, 2, 9), (READ, 1, 10, 11),
        ], True),
        ("readers see writes in one order", [
            (WRITE, 1, 0, 9), (WRITE, 2, 0, 9),
            (READ, 1, 1, 2), (READ, 2, 3, 4), (READ, 1, 5, 6),
        ], False),
    ],
)  # fmt: skip
def test_a_register(story: str, rows: list[tuple[str, int, float, float]], expected: bool) -> None:
    """Each with its own message."""
    assert check_linearizability(of(*rows), Register()).linearizable is expected, story


def test_it_lists_the_operations_that_no_order_explains() -> None:
    """The operations of the part in which it got stuck, not the earlier ones."""
    fine = of((WRITE, 1, 0, 1), (READ, 1, 2, 3))
    stale = of((READ, 0, 4, 5))
    found = check_linearizability(fine + stale + of((READ, 1, 6, 7)), Register())
    assert found.linearizable is False and found.stuck == tuple(stale)


def test_a_history_is_cut_if_no_operation_is_in_flight() -> None:
    """What has no answer is under way for ever."""
    rows = of((WRITE, 1, 0, 2), (READ, 1, 1, 3), (READ, 1, 4, 5), (WRITE, 2, 6, inf), (READ, 2, 8, 9))
    assert independent_parts(rows) == [rows[:2], rows[2:3], rows[3:]]


def test_open_results_of_pending_operations_carry_over() -> None:
    """Two concurrent writes end in either order, and only a later read reveals which."""
    both = of((WRITE, 1, 0, 2), (WRITE, 2, 1, 3))
    assert check_linearizability(both + of((READ, 1, 5, 6)), Register()).linearizable
    assert check_linearizability(both + of((READ, 2, 5, 6)), Register()).linearizable
    assert not check_linearizability(both + of((READ, 2, 5, 6), (READ, 1, 7, 8)), Register()).linearizable


def test_reads_are_not_tried_in_every_order() -> None:
    """Thirty concurrent reads: one step each, although there are more orders than could be tried."""
    reads = of(*((READ, 0, 0.0, 99.0) for _ in range(30)))
    found = check_linearizability([*reads, *of((WRITE, 1, 50.0, 60.0))], Register(), max_steps=100)
    assert found.linearizable is True
    found = check_linearizability(
        [*reads, *of((WRITE, 1, 50.0, 60.0), (READ, 0, 61.0, 62.0))], Register(), max_steps=2000
    )
    assert found.linearizable is False


def test_a_search_that_takes_too_long_ends_without_a_verdict() -> None:
    """It is no verdict, neither way."""
    many = of(*((WRITE, value, 0.0, 99.0) for value in range(20)), (READ, -1, 100.0, 101.0))
    found = check_linearizability(many, Register(), max_steps=500)
    assert found.linearizable is None and found.steps > 500


def test_a_long_history_of_easy_parts_is_checked_completely() -> None:
    """The bound holds for each part: 200 parts take more steps in all than one of them may."""
    found = check_linearizability(
        of(*((WRITE, value, 2 * value, 2 * value + 1) for value in range(200))), Register(), max_steps=50
    )
    assert found.linearizable is True and found.steps >= 200

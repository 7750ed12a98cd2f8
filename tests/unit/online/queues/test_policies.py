"""Dispatch policies by worked examples."""

from trimtab.online.queues.ledger import Ledger
from trimtab.online.queues.policies.least_work import LeastWorkLeft
from trimtab.online.queues.policies.round_robin import MarkedRoundRobin, RoundRobin


def test_round_robin_waits_for_its_turn_and_the_marked_one_goes_round() -> None:
    """Queue 1 is paused: the one waits for it, and goes on there; the other passes it over."""
    plain, marked = Ledger([9] * 3), Ledger([9] * 3)
    for ledger in (plain, marked):
        ledger.pause(1)
    waits, passes = RoundRobin(plain), MarkedRoundRobin(marked)
    assert [waits.choose(1.0) for _ in range(3)] == [0, None, None]
    assert [passes.choose(1.0) for _ in range(5)] == [0, 2, 0, 2, 0]
    plain.resume(1)
    marked.resume(1)
    assert [waits.choose(1.0) for _ in range(4)] == [1, 2, 0, 1]
    assert [passes.choose(1.0) for _ in range(4)] == [1, 2, 0, 1]


def test_marked_round_robin_loses_no_turn_to_back_pressure() -> None:
    """With all paused it says so, and goes on where it was."""
    ledger = Ledger([9] * 3)
    policy = MarkedRoundRobin(ledger)
    assert policy.choose(1.0) == 0
    for queue in range(3):
        ledger.pause(queue)
    assert [policy.choose(1.0) for _ in range(4)] == [None] * 4
    for queue in range(3):
        ledger.resume(queue)
    assert policy.choose(1.0) == 1


def test_least_work_left_counts_seconds_and_passes_closed_queues_over() -> None:
    """Three short messages are less than one long one; the first of equals is taken."""
    ledger = Ledger([9] * 3)
    policy = LeastWorkLeft(ledger)
    assert policy.choose(1.0) == 0
    ledger.enqueued(0, 1.0)
    for _ in range(3):
        ledger.enqueued(1, 0.1)
    ledger.enqueued(2, 0.5)
    assert policy.choose(1.0) == 1
    ledger.pause(1)
    assert policy.choose(1.0) == 2
    ledger.close(0)
    ledger.close(2)
    assert policy.choose(1.0) is None

"""The ledger at the edges of what it counts."""

import pytest

from trimtab_common.errors import InputError
from trimtab_queues.core.ledger import QueueLedger, waiting_work


def test_a_queue_is_open_until_it_is_full_and_again_when_something_is_done() -> None:
    """Two may be there: the second closes the queue, and one that is finished opens it."""
    ledger = QueueLedger([2, 2])
    ledger.enqueued(0, 0.5)
    assert ledger.open == [True, True]
    ledger.enqueued(0, 0.25)
    assert ledger.open == [False, True]
    ledger.started(0, 0.5)
    assert ledger.open == [False, True], "what is in work is still there"
    assert waiting_work(ledger) == [0.25, 0.0]
    ledger.finished(0, 0.5)
    assert (ledger.open, ledger.length, ledger.work) == ([True, True], [1, 0], [0.25, 0.0])
    assert (ledger.arrived, ledger.served) == ([0.75, 0.0], [0.5, 0.0])


def test_pausing_and_closing_are_independent() -> None:
    """A scheduler that resumes a queue does not open one without workers."""
    ledger = QueueLedger([2])
    ledger.close(0)
    ledger.pause(0)
    ledger.resume(0)
    assert ledger.open == [False]
    ledger.reopen(0)
    assert ledger.open == [True]
    ledger.pause(0)
    ledger.close(0)
    ledger.reopen(0)
    assert ledger.open == [False], "its mark is still there"


def test_a_moved_message_counts_neither_as_arrived_nor_as_served() -> None:
    """Work changes place, the rates of both queues stay what they were; a full receiver closes."""
    ledger = QueueLedger([3, 1])
    for _ in range(3):
        ledger.enqueued(0, 1.0)
    assert ledger.open == [False, True]
    ledger.moved(0, 1, 1, 1.0)
    assert (ledger.length, ledger.work) == ([2, 1], [2.0, 1.0])
    assert (ledger.arrived, ledger.served) == ([3.0, 0.0], [0.0, 0.0])
    assert ledger.open == [True, False]


def test_an_empty_queue_holds_no_crumbs_of_work() -> None:
    """0.1 + 0.2 - 0.1 - 0.2 is not 0; a queue with that much left would never be the emptiest."""
    ledger = QueueLedger([9])
    for weight in (0.1, 0.2):
        ledger.enqueued(0, weight)
    for weight in (0.1, 0.2):
        ledger.started(0, weight)
        ledger.finished(0, weight)
    assert (ledger.work, ledger.held_work) == ([0.0], [0.0])


def test_a_returned_message_waits_again() -> None:
    """Its worker died: it is there, it is not in work, nothing was served."""
    ledger = QueueLedger([2])
    ledger.enqueued(0, 1.0)
    ledger.started(0, 1.0)
    ledger.returned(0, 1.0)
    assert (ledger.length, ledger.held, ledger.held_work, ledger.served) == ([1], [0], [0.0], [0.0])


def test_refreshing_sets_the_counts_of_the_server() -> None:
    """A queue that another dispatcher filled is closed, and open once it is not full any more."""
    ledger = QueueLedger([5])
    ledger.refresh(0, length=5, work=2.5, held=1, held_work=0.5)
    assert (ledger.open, waiting_work(ledger)) == ([False], [2.0])
    ledger.refresh(0, length=4, work=2.0)
    assert ledger.open == [True]


def test_messages_in_flight_count_until_their_own_answer() -> None:
    """An answer to another message does not know of it yet; its own answer does."""
    ledger = QueueLedger([3])
    ledger.sending(0, 0.5)
    ledger.sending(0, 0.25)
    ledger.refresh(0, length=1, work=0.5)
    assert (ledger.length, ledger.work, ledger.open) == ([3], [1.25], [False])
    ledger.sent(0, 0.5)
    ledger.sent(0, 0.25)
    assert (ledger.length, ledger.work, ledger.open) == ([1], [0.5], [True])
    ledger.refresh(0, length=2, work=0.75)
    assert (ledger.length, ledger.work) == ([2], [0.75])
    assert ledger.arrived == [0.0], "the server counts what came in"


@pytest.mark.parametrize(("capacity", "said"), [([], "0 queues"), ([3, 0], "capacity of queue 1 is 0")])
def test_queues_that_can_hold_nothing_are_refused(capacity: list[int], said: str) -> None:
    """The error names the queue and what is expected."""
    with pytest.raises(InputError, match=said):
        QueueLedger(capacity)

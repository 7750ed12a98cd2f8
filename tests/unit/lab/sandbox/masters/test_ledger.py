"""The ledger of a sandbox of groups notices what must not be."""

from __future__ import annotations

import pytest

from trimtab.dataplane.masters.consumer import Message
from trimtab.lab.sandbox.masters.ledger import Ledger, Violation, payload


def message(offset: int, sequence: int, producer: str = "p") -> Message:
    """One as its producer sent it."""
    return Message(offset, producer, sequence, payload(producer, sequence, 40))


def read(ledger: Ledger, *messages: Message, consumer: str = "c") -> None:
    """One consumer gets these."""
    before = None
    for one in messages:
        ledger.read(consumer, one, before)
        before = one


def test_a_log_in_order_passes() -> None:
    """With two producers between one another, and one message that was not acknowledged."""
    ledger = Ledger("t")
    ledger.stored("p", 2)
    read(ledger, message(0, 1), message(1, 1, "q"), message(2, 2), message(3, 3))
    assert ledger.audit() == 4


def test_a_consumer_goes_on_between_what_was_kept_and_what_was_read() -> None:
    """What was read and not kept comes again, and is counted."""
    ledger = Ledger("t")
    read(ledger, *(message(offset, offset + 1) for offset in range(5)))
    ledger.kept["c"] = 2
    read(ledger, message(3, 4))
    assert ledger.again == 2
    with pytest.raises(Violation, match="begins at 1, and 2 was kept"):
        read(ledger, message(1, 2))
    with pytest.raises(Violation, match="begins at 6, and was at 5"):
        read(ledger, message(6, 7))


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ((message(0, 1), message(2, 2)), "got 2 after 0"),
        ((message(0, 1)._replace(payload=b"q 1 "),), "which nobody sent"),
        ((message(0, 1), message(1, 1)), "message 1 of p stands at 1 of t, not 2"),
        ((message(0, 2), message(1, 1)), "message 2 of p stands at 0 of t, not 1"),
        ((message(0, 1), message(1, 2)), "3 messages of p in t were acknowledged, and 2 are there"),
    ],
)
def test_what_is_missing_doubled_or_another_is_told(messages: tuple[Message, ...], sentence: str) -> None:
    """One sentence each."""
    ledger = Ledger("t")
    ledger.stored("p", 3)
    with pytest.raises(Violation, match=sentence):
        read(ledger, *messages)
        ledger.audit()


def test_two_consumers_that_read_different_messages_at_one_offset_are_told() -> None:
    """A log that was written again."""
    ledger = Ledger("t")
    read(ledger, message(0, 1))
    with pytest.raises(Violation, match="read .'q', 1. at 0, where .'p', 1. stood"):
        read(ledger, message(0, 1, "q"), consumer="d")


def test_what_was_let_go_before_is_no_loss() -> None:
    """An earlier load's messages begin anywhere; those of this one do not."""
    ledger = Ledger("t")
    ledger.stored("p", 1)
    read(ledger, message(70, 9, "old"), message(71, 10, "old"), message(72, 1))
    assert ledger.audit() == 3
    read(ledger, message(73, 12, "old"), consumer="d")
    with pytest.raises(Violation, match="message 12 of old stands at 73 of t, not 11"):
        ledger.audit()

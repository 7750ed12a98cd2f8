"""What a consumer is told to pause and to resume, and what it cannot read, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.dataplane.keys import receiving as module
from trimtab.dataplane.keys.marks import InMemoryMarks
from trimtab.dataplane.keys.receiving import Receiving
from trimtab.dataplane.keys.settings import Following
from trimtab.files.keys.stamp import HEADER, stamp_bytes
from trimtab.model.errors import InputError
from trimtab.online.keys.order.messages import Stamp
from trimtab.online.keys.order.settings import Guarding

WAITS = [(HEADER, stamp_bytes("p", Stamp(1, ((9, 1),))))]


class Unfollowed:
    """A follower that asks nobody."""

    recreated = table = trouble = None
    seen = SimpleNamespace(topic_id="t", partitions=2)

    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        """Nothing begins."""

    def ask(self, question: Callable[[Any], None]) -> None:
        """Nothing is answered."""


@pytest.fixture
def receiving(monkeypatch: pytest.MonkeyPatch) -> Receiving:
    """A consumer that may hold ten records of a partition; what it gets waits for partition 9."""
    monkeypatch.setattr(module, "Follower", Unfollowed)
    following = Following({}, tables_topic="tables", guarding=Guarding(held_records=10))
    made = Receiving(following, "orders", "g", "kafka-python", lambda _: None, InMemoryMarks())
    made.assigned(0, 0)
    made.assigned(1, 0)
    return made


def receive(receiving: Receiving, records: range) -> None:
    """Receive records of partition 0 that wait."""
    for offset in records:
        receiving.received(0, offset, b"k", WAITS, None)


def test_a_partition_that_fills_in_its_first_step_is_paused(receiving: Receiving) -> None:
    """What a client does with a partition that has just come nobody knows: it is told, once."""
    receive(receiving, range(10))
    assert receiving.flow() == ([0], [1])
    assert receiving.flow() == ([], [])


def test_a_partition_is_resumed_once_it_has_room(receiving: Receiving) -> None:
    """Paused as it fills, resumed as it has room again, and nothing said in between."""
    assert receiving.flow() == ([], [0, 1])
    receive(receiving, range(10))
    assert receiving.flow() == ([0], [])
    receiving._answers.put(lambda: receiving._receiver.passed(9, 1))
    receiving.turn()
    assert receiving.flow() == ([], [0])
    assert receiving.flow() == ([], [])


def test_a_partition_that_comes_back_is_told_anew(receiving: Receiving) -> None:
    """Its pause may have been forgotten with the rebalance, or not."""
    receive(receiving, range(10))
    receiving.flow()
    receiving.revoked([0])
    receiving.assigned(0, 0)
    receive(receiving, range(10))
    assert receiving.flow() == ([0], [])
    receiving.revoked([0])
    receiving.assigned(0, 0)
    assert receiving.flow() == ([], [0])


def test_a_stamp_that_cannot_be_read_ends_the_consumer_before_it(receiving: Receiving) -> None:
    """Whoever steps on would commit the record behind it, and with that this one."""
    handled: list[object] = []
    receiving._handler = handled.append
    receiving.received(0, 0, b"k", (), "before")
    receiving.turn()
    assert receiving.commits == {0: 1, 1: 0}
    receiving.received(1, 0, b"k", (), "of another partition")
    told = "orders, partition 0, offset 1: its header trimtab-order is not of version 1"
    with pytest.raises(InputError, match=told):
        receiving.received(0, 1, b"k", [(HEADER, b"forged")], None)
    for _ in range(2):
        receiving.received(0, 2, b"k", (), "behind")
        with pytest.raises(InputError, match=told):
            receiving.turn()
    assert receiving.commits == {0: 1, 1: 0}
    assert handled == ["before"]

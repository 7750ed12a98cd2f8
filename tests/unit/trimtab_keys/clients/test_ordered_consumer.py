"""What a consumer is told to pause and to resume, and what it cannot read, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from trimtab_common.errors import InputError
from trimtab_keys.clients import ordered_consumer as module
from trimtab_keys.clients.checkpoints import InMemoryCheckpointStore
from trimtab_keys.clients.ordered_consumer import OrderedConsumer
from trimtab_keys.clients.ordered_producer import OrderedProducer
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.clients.table_router import RequestIntervals
from trimtab_keys.core.order import OrderedSender, OrderingConfig, Stamp
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import HEADER, stamp_bytes, without_stamp


def stamped(stamp: Stamp, topic_id: str = "t", is_gap_filler: bool = False) -> list[tuple[str, bytes]]:
    """Headers of a record that one run of a producer wrote."""
    return [(HEADER, stamp_bytes(topic_id, "p", stamp, is_gap_filler))]


WAITS = stamped(Stamp(1, ((9, 1),)))


class Unfollowed:
    """A follower that asks nobody."""

    recreated = table = trouble = None
    intervals = RequestIntervals(3.0)
    description = SimpleNamespace(topic_id="t", partitions=2)
    asked: tuple[Callable[[Any], None], ...] = ()

    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        """Nothing begins."""

    def submit(self, job: Callable[[Any], None]) -> None:
        """Nothing is answered; the test may look."""
        self.asked = (*self.asked, job)


@pytest.fixture
def receiving(monkeypatch: pytest.MonkeyPatch) -> OrderedConsumer:
    """A consumer that may hold ten records of a partition; what it gets waits for partition 9."""
    monkeypatch.setattr(module, "TableFollower", Unfollowed)
    following = RoutingConfig({}, tables_topic="tables", ordering=OrderingConfig(held_records=10))
    made = OrderedConsumer(
        following, "orders", "g", "kafka-python", lambda _: None, InMemoryCheckpointStore()
    )
    made.assigned(0, 0)
    made.assigned(1, 0)
    return made


def receive(receiving: OrderedConsumer, records: range) -> None:
    """Receive records of partition 0 that wait."""
    for offset in records:
        receiving.received(0, offset, b"k", WAITS, None)


def test_a_partition_that_fills_in_its_first_step_is_paused(receiving: OrderedConsumer) -> None:
    """The client's state of a new partition is unknown: it is paused once."""
    receive(receiving, range(10))
    assert receiving.flow() == ([0], [1])
    assert receiving.flow() == ([], [])


def test_a_partition_is_resumed_once_it_has_room(receiving: OrderedConsumer) -> None:
    """Paused when full, resumed with free space, and no call in between."""
    assert receiving.flow() == ([], [0, 1])
    receive(receiving, range(10))
    assert receiving.flow() == ([0], [])
    receiving._answers.put(lambda: receiving._receiver.passed(9, 1))
    receiving.turn()
    assert receiving.flow() == ([], [0])
    assert receiving.flow() == ([], [])


def test_a_returned_partition_is_paused_again(receiving: OrderedConsumer) -> None:
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


@pytest.fixture
def handled(receiving: OrderedConsumer) -> list[object]:
    """What the handler was given."""
    given: list[object] = []
    receiving._handler = given.append
    return given


def test_a_stamp_of_a_newer_version_ends_the_consumer_before_it(
    receiving: OrderedConsumer, handled: list[object]
) -> None:
    """Continuing would commit the record behind it, and with that this one."""
    receiving.received(0, 0, b"k", (), "before")
    receiving.turn()
    assert receiving.commits == {0: 1, 1: 0}
    receiving.received(1, 0, b"k", (), "of another partition")
    told = "orders, partition 0, offset 1: its header trimtab-order is of version 2"
    newer = msgspec.msgpack.encode((2, "t"))
    with pytest.raises(InputError, match=told):
        receiving.received(0, 1, b"k", [(HEADER, newer)], None)
    for _ in range(2):
        receiving.received(0, 2, b"k", (), "behind")
        with pytest.raises(InputError, match=told):
            receiving.turn()
    assert receiving.commits == {0: 1, 1: 0}
    assert handled == ["before"]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about the topic."""
    return [one.getMessage() for one in caplog.records if one.name == "trimtab.keys"]


def split_key() -> OrderedProducer:
    """A producer whose key k is split over both partitions; nothing waits at its fence."""
    sender = OrderedSender(2, OrderingConfig(run_records=1))
    sending = OrderedProducer(sender, "p", 1.0)
    sending.topic_id = "t"
    sender.adopt_table(RoutingTable(1, 2, 2, {}, {b"k": Route((0, 1))}), 0.0)
    sender.flushed(1)
    sender.ends_read(1, {0: 0, 1: 0}, 0.0)
    return sending


def test_a_record_resent_with_its_headers_takes_effect_again_and_blocks_nothing(
    receiving: OrderedConsumer, handled: list[object]
) -> None:
    """A retry topic hands the old headers over; the producer takes the stamp out and writes its own."""
    sending = split_key()
    headers: Any = [("trace", b"7")]
    for offset in range(3):
        _, _, stamp = sending.begin(b"k")
        headers = [*without_stamp(headers), sending.header(stamp)]
        receiving.received(0, offset, b"k", headers, offset)
        receiving.turn()
    assert handled == [0, 1, 2]
    assert receiving.held == 0
    assert headers[:-1] == [("trace", b"7")]


def test_the_last_of_several_stamps_counts(receiving: OrderedConsumer, handled: list[object]) -> None:
    """A program below the producer may add the old headers again: the stamp stands behind them."""
    first = stamped(Stamp(1, (), 1))
    receiving.received(0, 0, b"k", first, "first")
    receiving.received(0, 1, b"k", [*first, *stamped(Stamp(1, (), 2))], "second")
    receiving.turn()
    assert handled == ["first", "second"]


def test_a_copy_with_its_stamp_has_no_effect_and_is_reported(
    receiving: OrderedConsumer, handled: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    """One tool copies a record before it took effect, and one afterwards; log and counts report it."""
    receiving.received(0, 0, b"k", stamped(Stamp(1, (), 2)), "second")
    receiving.received(1, 0, b"k", stamped(Stamp(1, (), 2)), "its copy")
    receiving.received(0, 1, b"k", stamped(Stamp(1, (), 1)), "first")
    receiving.turn()
    receiving.received(1, 1, b"k", stamped(Stamp(1, (), 1)), "a later copy")
    receiving.turn()
    assert handled == ["first", "second"]
    assert receiving.commits == {0: 2, 1: 2}
    assert (receiving.counts.handled, receiving.counts.duplicates) == (2, 2)
    (told,) = lines(caplog)
    assert "keys of orders, group g: partition 1, offset 0: no effect, since sequence 2" in told
    assert "a copy that carries the header trimtab-order (duplicates: 1)" in told


def test_a_copy_is_reported_by_a_later_consumer(
    receiving: OrderedConsumer, handled: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    """It reads from the marks that the sequence has taken effect."""
    receiving._marks.write(receiving._stream_name(("p", b"k", 1)), 1)
    receiving.received(0, 0, b"k", stamped(Stamp(1, (), 1)), "copy")
    receiving.turn()
    assert handled == []
    assert receiving.counts.duplicates == 1
    assert len(lines(caplog)) == 1


def test_a_filler_for_a_failed_record_is_no_duplicate(
    receiving: OrderedConsumer, handled: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    """It has no content that could be lost."""
    receiving.received(0, 0, b"k", stamped(Stamp(1, (), 1)), "there after all")
    for offset in (0, 1):  # received before it took effect, and afterwards
        receiving.received(1, offset, b"k", stamped(Stamp(1, (), 1), is_gap_filler=True), None)
        receiving.turn()
    assert handled == ["there after all"]
    assert receiving.commits == {0: 1, 1: 2}
    assert receiving.counts.duplicates == 0
    assert not lines(caplog)


def test_a_stamp_of_another_topic_is_not_believed(
    receiving: OrderedConsumer, handled: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    """Its fence and its sequence are that topic's: the record would wait for ever, or have no effect."""
    for offset, stamp in enumerate((Stamp(1, ((9, 5),)), Stamp(1, (), 3), Stamp(1, (), 3))):
        receiving.received(0, offset, b"k", stamped(stamp, "another"), offset)
    receiving.received(0, 3, b"k", stamped(Stamp(1, (), 4), "another", is_gap_filler=True), "nothing")
    receiving.turn()
    assert handled == [0, 1, 2]
    assert receiving.commits[0] == 4
    assert receiving.counts.foreign_stamps == 4
    (told,) = lines(caplog)
    assert "partition 0, offset 0: its stamp is of another topic" in told


def test_a_foreign_header_blocks_no_consumer(
    receiving: OrderedConsumer, handled: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise anyone who may write to the topic could end all of its groups; the record keeps its
    partition's order.
    """
    receive(receiving, range(1))
    receiving.received(0, 1, b"k", [(HEADER, b"forged")], "waits behind its group")
    receiving.received(1, 0, b"k", [(HEADER, b"forged")], "free")
    receiving.turn()
    assert handled == ["free"]
    receiving._answers.put(lambda: receiving._receiver.passed(9, 1))
    receiving.turn()
    assert handled == ["free", None, "waits behind its group"]
    assert receiving.counts.unreadable_stamps == 2
    (told,) = lines(caplog)
    assert "partition 0, offset 1: no trimtab wrote its header trimtab-order" in told


def test_held_records_are_reported(
    receiving: OrderedConsumer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A partition that is fetched no further, a gap that is searched for and skipped, a fence that is far."""
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    receive(receiving, range(10))
    receiving.received(1, 0, b"k", stamped(Stamp(1, (), 4)), "fourth")
    receiving.flow()
    receiving.flow()
    now = 151.0
    receiving.turn()
    receiving._answers.put(lambda: receiving._receiver.searched(("p", b"k", 1), 1, None, 3))
    receiving.turn()
    counts = receiving.counts
    assert (counts.pauses, counts.fence_probes, counts.gap_searches, counts.skipped) == (1, 1, 1, 3)
    assert counts.handled == 1
    told = "\n".join(lines(caplog))
    assert "partition 0 is fetched no further: 11 records wait (pauses: 1)" in told
    assert "sequences 1 to 3 of run p are searched for" in told
    assert "sequences 1 to 3 of run p are nowhere, and are waited for no longer (skipped: 3)" in told
    assert "records have waited at a fence in partition 9 for fence_seconds (fence_probes: 1)" in told


def test_a_handler_that_fails_is_reported_with_its_record(
    receiving: OrderedConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each member of the group would end by it: the log names the record."""

    def handler(message: object) -> None:
        raise ValueError("no such account")

    receiving._handler = handler
    receiving.received(1, 7, b"k", (), None)
    with pytest.raises(ValueError, match="no such account"):
        receiving.turn()
    assert lines(caplog) == [
        "keys of orders, group g: partition 1, offset 7: could not take effect "
        "(ValueError('no such account')), and this consumer ends"
    ]
    assert receiving.commits == {0: 0, 1: 0}


def test_each_kind_of_message_is_logged_once_a_minute(
    receiving: OrderedConsumer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mirror of another topic brings nothing but foreign stamps."""
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    for offset, now in enumerate((0.0, 1.0, 59.0, 61.0, 62.0)):  # noqa: B007
        receiving.received(0, offset, b"k", stamped(Stamp(1, (), 1), "another"), None)
    assert [one.rpartition(" (")[2] for one in lines(caplog)] == [
        "foreign_stamps: 1)",
        "foreign_stamps: 4)",
    ]


def test_commits_are_requested_while_a_fence_waits_for_them(
    receiving: OrderedConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for a record that waits for its turn in a stream; less often, the more processes may ask."""
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    follower: Any = receiving.follower
    receiving.received(1, 0, b"k", stamped(Stamp(1, (), 2)), "second")
    receiving.turn()
    assert follower.asked == ()
    receive(receiving, range(1))
    now += 1
    receiving.turn()
    assert follower.asked == (receiving._receive,)
    receiving._polled_at = True
    now += 0.1
    receiving.turn()
    assert len(follower.asked) == 2
    receiving._polled_at = True
    follower.intervals = RequestIntervals(3.0)
    follower.intervals.processes = 5000.0
    now += 2
    receiving.turn()
    assert len(follower.asked) == 2
    now += 0.6
    receiving.turn()
    assert len(follower.asked) == 3


class CountedCheckpoints(InMemoryCheckpointStore):
    """Marks that count what is asked of them."""

    reads = writes = 0

    def read(self, name: bytes) -> int:
        """See `CheckpointStore`."""
        self.reads += 1
        return super().read(name)

    def write(self, name: bytes, number: int) -> None:
        """See `CheckpointStore`."""
        self.writes += 1
        super().write(name, number)


def test_records_that_wait_for_nothing_need_one_mark_for_all(
    receiving: OrderedConsumer, handled: list[object]
) -> None:
    """Of keys that no table has moved: a mark a partition and transaction, not one a record."""
    marks = receiving._marks = CountedCheckpoints()
    for offset in range(500):
        receiving.received(offset % 2, offset // 2, b"key %d" % offset, (), offset)
    receiving.turn()
    assert handled == list(range(500))
    assert (marks.reads, marks.writes) == (4, 2)
    for partition in (0, 1):
        receiving.assigned(partition, 100)
    for offset in range(100, 251):
        receiving.received(0, offset, b"key %d" % (2 * offset), (), "again" if offset < 250 else "new")
    receiving.turn()
    assert handled[500:] == ["new"]
    assert receiving.counts.duplicates == 150


@pytest.mark.parametrize("seed", range(40))
def test_each_record_has_one_effect_though_consumers_die(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records wait at fences and others pass them; a consumer dies with some of what it did committed."""
    chance = Random(seed)
    monkeypatch.setattr(module, "TableFollower", Unfollowed)
    following = RoutingConfig({}, tables_topic="tables")
    marks, handled = InMemoryCheckpointStore(), list[int]()
    records = [(b"%d" % chance.randrange(6), chance.random() < 0.2) for _ in range(60)]
    committed = 0
    for life in range(6):
        receiving = OrderedConsumer(following, "orders", "g", "kafka-python", handled.append, marks)
        receiving.assigned(0, committed)
        if life > chance.randrange(1, 5) or life == 5:
            receiving._answers.put(partial(receiving._receiver.passed, 9, 1))
        for offset in range(committed, 60 if life == 5 else chance.randrange(committed, 61)):
            key, waits = records[offset]
            receiving.received(0, offset, key, WAITS if waits else (), offset)
            if chance.random() < 0.2:
                receiving.turn()
                if chance.random() < 0.3:
                    committed = receiving.commits.get(0, committed)
        receiving.turn()
    assert sorted(handled) == list(range(60))
    for key, _ in records:
        own = [one for one in handled if records[one][0] == key]
        assert own == sorted(own)

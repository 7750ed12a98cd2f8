"""Both sides of the order guard, step by step."""

from __future__ import annotations

import pytest

from trimtab_common.errors import SettingsError
from trimtab_keys.core.order import (
    PLAIN,
    CommitOffset,
    DropRecord,
    FillGap,
    Flush,
    OrderedReceiver,
    OrderedRecord,
    OrderedSender,
    OrderingConfig,
    ProbePartition,
    ReadCheckpoint,
    ReadEnds,
    ReleaseRecord,
    SearchStream,
    SkipSequence,
    Stamp,
)
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, murmur2

KEY = b"21"
HASH = murmur2(KEY) & POSITIVE
HOME, GROUP = HASH % 4, HASH % 1024


def table(
    version: int, *partitions: int, earlier: tuple[int, ...] = (), passed: int | None = None
) -> RoutingTable:
    """One in which the key is where these say; all four partitions are passed up to an offset."""
    known = () if passed is None else (passed,) * 4
    return RoutingTable(version, 4, 4, {}, {KEY: Route(partitions, earlier)}, known)


def placed(sender: OrderedSender) -> tuple[int, Stamp] | None:
    """Where the key's next record goes."""
    return sender.place(KEY, lambda: 0.0)


def test_a_sender_without_a_table_uses_the_plain_hash() -> None:
    """No stamp, and no header to write."""
    assert placed(OrderedSender(4)) == (HOME, PLAIN)


def test_a_change_of_tables_step_by_step() -> None:
    """Flush, then read ends, then the new route with a fence; meanwhile the key waits, others do not."""
    sender = OrderedSender(4)
    assert sender.adopt_table(table(7, 3), 0.0) == [Flush(7)]
    assert placed(sender) is None
    other = sender.place(b"other", lambda: 0.0)
    assert other is not None
    assert sender.flushed(7) == [ReadEnds(7, (HOME,))]
    assert placed(sender) is None
    assert sender.ends_read(7, {HOME: 12}, 0.1) == []
    assert placed(sender) == (3, Stamp(7, ((HOME, 12),)))
    assert sender.adopt_table(table(7, 3), 0.2) == sender.adopt_table(table(6, 1), 0.2) == [], (
        "twice, or older"
    )
    assert sender.adopt_table(table(8, 3, earlier=(HOME,)), 0.3) == []
    assert placed(sender) == (3, Stamp(7, ((HOME, 12),))), "not passed yet"
    assert sender.adopt_table(table(9, 3, passed=12), 0.4) == []
    assert placed(sender) == (3, PLAIN)


def test_a_fence_is_dropped_only_by_offsets_in_effect() -> None:
    """That a route has no earlier places any more may have been found before this run wrote there."""
    sender = OrderedSender(4)
    other = (HOME + 1) % 4
    sender.adopt_table(table(7, 3, earlier=(HOME, other)), 0.0)
    sender.flushed(7)
    sender.ends_read(7, {HOME: 12, other: 5}, 0.0)
    both = tuple(sorted({HOME: 12, other: 5}.items()))
    for version, passed, fence in (
        (8, None, both),
        (9, 4, both),
        (10, 11, ((HOME, 12),)),
        (11, None, ((HOME, 12),)),
    ):
        assert sender.adopt_table(table(version, 3, passed=passed), 0.0) == []
        assert placed(sender) == (3, Stamp(7, fence)), version
    assert sender.adopt_table(table(12, 3, earlier=(HOME,), passed=12), 0.0) == []
    assert placed(sender) == (3, PLAIN), "whatever else the table says"


def test_a_fence_in_an_added_partition_waits_for_a_table_that_names_it() -> None:
    """A table from before the addition has no offset of it."""
    sender = OrderedSender(4)
    moved = RoutingTable(1, 4, 5, {}, {KEY: Route((4,))})
    sender.adopt_table(moved, 0.0)
    sender.flushed(1)
    sender.ends_read(1, {HOME: 0}, 0.0)
    sender.adopt_table(RoutingTable(2, 4, 5, {}, {KEY: Route((HOME,), (4,))}), 0.0)
    sender.flushed(2)
    sender.ends_read(2, {HOME: 0, 4: 3}, 0.0)
    for version, passed, stamp in (
        (3, (9, 9, 9, 9), Stamp(2, ((4, 3),))),
        (4, (9, 9, 9, 9, 3), PLAIN),
    ):
        sender.adopt_table(RoutingTable(version, 4, 5, {}, {KEY: Route((HOME,))}, passed), 0.0)
        assert placed(sender) == (HOME, stamp)


def test_a_new_run_waits_for_the_last_runs_records_of_a_split_key() -> None:
    """The route was settled before that run's last records: the table does not cover them."""
    sender = OrderedSender(4)
    sender.adopt_table(table(7, 1, 2), 0.0)
    places = sorted({HOME, 1, 2})
    sender.flushed(7)
    sender.ends_read(7, dict.fromkeys(places, 12), 0.0)
    assert sender.adopt_table(table(8, 1, 2, passed=11), 0.0) == []
    assert placed(sender) == (1, Stamp(7, tuple((one, 12) for one in places), 1))
    assert sender.adopt_table(table(9, 1, 2, passed=12), 0.0) == []
    assert placed(sender) == (1, Stamp(7, (), 2)), "the stream goes on"


def test_a_split_key_counts_its_records_from_one() -> None:
    """A first table: an earlier run may have written to the partitions of the split as well."""
    sender = OrderedSender(4, OrderingConfig(run_records=1))
    sender.adopt_table(table(1, 1, 2), 0.0)
    places = tuple(sorted({HOME, 1, 2}))
    assert sender.flushed(1) == [ReadEnds(1, places)]
    sender.ends_read(1, dict.fromkeys(places, 5), 0.0)
    fence = tuple((place, 5) for place in places)
    found = [sender.place(KEY, lambda: 0.0) for _ in range(3)]
    assert found == [(1, Stamp(1, fence, 1)), (2, Stamp(1, fence, 2)), (1, Stamp(1, fence, 3))]
    assert sender.failed(KEY, Stamp(1, fence, 2)) == [FillGap(KEY, Stamp(1, fence, 2), (1, 2))]
    assert sender.failed(KEY, PLAIN) == []
    # Passed: the fence is no longer carried, the stream goes on.
    assert sender.adopt_table(table(2, 1, 2, passed=5), 0.0) == []
    assert sender.place(KEY, lambda: 0.0) == (2, Stamp(1, (), 4))


def test_a_split_key_alternates_in_runs_of_records() -> None:
    """Three to one, three to the next; the first is drawn, or all producers would go in step."""
    sender = OrderedSender(4, OrderingConfig(run_records=3))
    sender.adopt_table(table(1, 1, 2), 0.0)
    sender.flushed(1)
    sender.ends_read(1, {HOME: 0, 1: 0, 2: 0}, 0.0)
    draws = iter([0.5])
    found = [sender.place(KEY, lambda: next(draws)) for _ in range(7)]
    assert [one and one[0] for one in found] == [2, 2, 2, 1, 1, 1, 2]
    assert [one and one[1].sequence for one in found] == [1, 2, 3, 4, 5, 6, 7]


def test_a_mark_that_jumps_frees_all_that_it_passes() -> None:
    """By one, by fewer than wait, by more than wait: what is at or below it is done, the next is released."""
    for jump in (1, 2, 50):
        receiver = OrderedReceiver()
        receiver.assigned(0, 0)
        for offset, sequence in enumerate((2, 3, 4, 52)):
            receiver.arrived(0, offset, record(Stamp(1, (), sequence)), 0.0)
        stream = record(Stamp(1, (), 2)).stream
        assert receiver.waits_for(stream)
        assert receiver.held == 4
        dropped = [DropRecord(0, offset) for offset in range({1: 0, 2: 1, 50: 3}[jump])]
        released = [ReleaseRecord(0, {1: 0, 2: 1}[jump])] if jump in (1, 2) else []
        assert receiver.marked(stream, jump) == dropped + released
        assert receiver.held == {1: 3, 2: 2, 50: 1}[jump]
    assert receiver.marked(stream, 51) == [ReleaseRecord(0, 3)]
    assert not receiver.waits_for(stream)


def test_a_new_run_waits_for_the_places_that_the_table_calls_earlier() -> None:
    """It goes where the hash puts it, as its last run may have done in 2."""
    sender = OrderedSender(4)
    assert sender.adopt_table(table(5, HOME, earlier=(2,)), 0.0) == [Flush(5)]
    assert sender.flushed(5) == [ReadEnds(5, tuple(sorted({HOME, 2})))]


def test_a_change_that_takes_too_long_is_cancelled_and_late_answers_are_ignored() -> None:
    """The key goes on where it was; a late answer to the old question must not bring the table in."""
    sender = OrderedSender(4, OrderingConfig(switch_seconds=1))
    sender.adopt_table(table(1, 3), 0.0)
    sender.ticked(0.9)
    assert placed(sender) is None
    sender.ticked(1.0)
    assert placed(sender) == (HOME, PLAIN)
    assert sender.gave_up == 1
    assert sender.flushed(1) == sender.ends_read(1, {HOME: 1}, 1.0) == []
    assert sender.adopt_table(table(2, 1), 2.0) == [Flush(2)]
    assert sender.flushed(1) == sender.ends_read(1, {HOME: 1}, 2.0) == []
    assert placed(sender) is None
    assert sender.flushed(2) == [ReadEnds(2, (HOME,))]


def test_a_table_received_during_a_change_is_next() -> None:
    """Only the newest of them."""
    sender = OrderedSender(4)
    sender.adopt_table(table(1, 3), 0.0)
    assert (
        sender.adopt_table(table(2, 1), 0.0)
        == sender.adopt_table(table(3, 2), 0.0)
        == sender.adopt_table(table(2, 1), 0.0)
        == []
    )
    sender.flushed(1)
    assert sender.ends_read(1, {HOME: 1}, 0.0) == [Flush(3)]
    # What waited in the hash's place may wait there still, though nothing was written to 3.
    assert sender.flushed(3) == [ReadEnds(3, tuple(sorted({HOME, 3})))]


def test_a_key_named_for_the_first_time_keeps_the_fence_of_its_group() -> None:
    """Its group has moved to 3; naming the key there must not free it of what the group waits for."""
    sender = OrderedSender(4)
    sender.adopt_table(RoutingTable(1, 4, 4, {GROUP: Route((3,))}), 0.0)
    sender.flushed(1)
    sender.ends_read(1, {HOME: 9}, 0.0)
    assert placed(sender) == (3, Stamp(1, ((HOME, 9),)))
    both = RoutingTable(2, 4, 4, {GROUP: Route((3,))}, {KEY: Route((3,))})
    assert sender.adopt_table(both, 0.0) == [Flush(2)]
    assert sender.flushed(2) == [ReadEnds(2, tuple(sorted({HOME, 3})))]


def record(stamp: Stamp = PLAIN, group: int = 0, key: bytes = b"k") -> OrderedRecord:
    """Of one producer."""
    return OrderedRecord("p", key, group, stamp)


def test_a_record_at_a_fence_holds_only_its_group() -> None:
    """Then all of it is released in its order, once the other partition is committed far enough."""
    receiver = OrderedReceiver()
    assert receiver.assigned(0, 5) == [CommitOffset(0, 5)], "others may wait for this partition already"
    assert receiver.arrived(0, 5, record(Stamp(1, ((3, 7),))), 0.0) == []
    assert receiver.arrived(0, 6, record(), 0.0) == []
    assert receiver.arrived(0, 7, record(group=1), 0.0) == [ReleaseRecord(0, 7)]
    assert receiver.arrived(0, 6, record(), 0.0) == [], "received already"
    assert receiver.applied(0, 7) == []
    assert receiver.ticked(0.0) == [], "5 and 6 are not done"
    assert receiver.passed(3, 6) == []
    assert receiver.passed(3, 7) == [ReleaseRecord(0, 5), ReleaseRecord(0, 6)]
    receiver.applied(0, 5)
    assert receiver.ticked(0.0) == [CommitOffset(0, 6)]
    receiver.applied(0, 6)
    assert receiver.ticked(0.0) == [CommitOffset(0, 8)]
    receiver.positioned(0, 9)
    assert receiver.ticked(0.0) == [CommitOffset(0, 9)], "a marker of a transaction lies there"


def test_sequences_are_released_in_turn() -> None:
    """The checkpoint of a stream is read first; a record in effect elsewhere is finished."""
    receiver = OrderedReceiver()
    receiver.assigned(0, 0)
    stream = ("p", b"k", 1)
    assert receiver.arrived(0, 0, record(Stamp(1, (), 3)), 0.0) == [ReadCheckpoint(stream)]
    assert receiver.marked(stream, 1) == []
    assert receiver.arrived(0, 1, record(Stamp(1, (), 2)), 0.0) == [ReleaseRecord(0, 1)]
    assert receiver.applied(0, 1) == [ReleaseRecord(0, 0)]
    receiver.applied(0, 0)
    assert receiver.arrived(0, 2, record(Stamp(1, (), 2)), 0.0) == [DropRecord(0, 2)], "a retry"
    assert receiver.ticked(0.0) == [CommitOffset(0, 3)]
    assert receiver.arrived(0, 3, record(Stamp(1, (), 5)), 0.0) == [], "4 is somewhere else"
    assert receiver.ticked(0.0) == [ReadCheckpoint(stream)]


def test_records_in_effect_elsewhere_are_dropped() -> None:
    """Below the mark, and a second copy of what waits."""
    receiver = OrderedReceiver()
    receiver.assigned(0, 0)
    receiver.arrived(0, 0, record(Stamp(1, (), 1)), 0.0)
    receiver.marked(record(Stamp(1, (), 1)).stream, 0)
    receiver.applied(0, 0)
    assert receiver.arrived(0, 1, record(Stamp(1, (), 1)), 0.0) == [DropRecord(0, 1)]
    assert receiver.arrived(0, 2, record(Stamp(1, (), 3)), 0.0) == []
    assert receiver.arrived(0, 3, record(Stamp(1, (), 3)), 0.0) == [DropRecord(0, 3)]


def test_a_partition_has_room_for_so_many_records_that_wait() -> None:
    """Then none until half of them wait no more, or one batch each time a gap's time has passed."""
    receiver = OrderedReceiver(OrderingConfig(held_records=4, delivery_seconds=10, gap_seconds=20))
    receiver.assigned(0, 0)
    receiver.assigned(1, 0)
    for offset in range(4):
        assert receiver.has_capacity(0, 1.0)
        receiver.arrived(0, offset, record(Stamp(1, ((3, 7 + offset),)), group=offset), 1.0)
    assert receiver.has_capacity(1, 1.0)
    assert not receiver.has_capacity(0, 1.0)
    receiver.passed(3, 7)
    receiver.applied(0, 0)
    assert not receiver.has_capacity(0, 20.9)
    assert receiver.has_capacity(0, 21.0), "what is waited for may lie behind them"
    assert not receiver.has_capacity(0, 21.0)
    receiver.passed(3, 8)
    receiver.applied(0, 1)
    assert receiver.has_capacity(0, 22.0)
    receiver.arrived(0, 4, record(Stamp(1, ((3, 99),)), group=9), 22.0)
    assert receiver.has_capacity(0, 22.0), "three wait"


def test_a_gap_is_searched_for_before_it_is_skipped() -> None:
    """Sequence 1 is nowhere: the mark is set past it. Had it been found, it would be waited for."""
    receiver = OrderedReceiver(OrderingConfig(delivery_seconds=10, gap_seconds=20))
    receiver.assigned(0, 0)
    stream = ("p", b"k", 1)
    receiver.arrived(0, 0, record(Stamp(1, (), 4)), 0.0)
    receiver.marked(stream, 0)
    assert receiver.ticked(19.9) == [ReadCheckpoint(stream)]
    assert receiver.ticked(20.0) == [ReadCheckpoint(stream), SearchStream(stream, 1, 3)]
    assert receiver.searched(stream, 1, 1, 3) == []
    assert receiver.searched(stream, 1, 3, 3) == [SkipSequence(stream, 1, 2)]
    assert receiver.searched(stream, 1, None, 3) == [SkipSequence(stream, 1, 3)]
    assert receiver.marked(stream, 3) == [ReleaseRecord(0, 0)]
    assert receiver.searched(stream, 1, None, 3) == [], "an answer to an older question"


def test_a_fence_beyond_a_truncated_log_is_awaited_until_its_end_is_known() -> None:
    """A fence at 9 in a log that ends at 6: released when all six are committed, for the waiting record."""
    receiver = OrderedReceiver(OrderingConfig(fence_seconds=30))
    receiver.assigned(0, 0)
    receiver.arrived(0, 0, record(Stamp(1, ((3, 9),))), 0.0)
    assert receiver.ticked(29.0) == []
    assert receiver.ticked(30.0) == [ProbePartition(3)]
    assert receiver.arrived(0, 1, record(Stamp(1, ((3, 9),)), group=1), 30.0) == []
    assert receiver.probed(3, 5, 6) == []
    assert receiver.ticked(59.9) == [], "one that lags is not asked for at each tick"
    assert receiver.ticked(60.0) == [ProbePartition(3)]
    assert receiver.ticked(60.1) == [], "nor while the answer is on its way"
    assert receiver.arrived(0, 2, record(Stamp(1, ((3, 9),)), group=2), 60.2) == []
    assert receiver.probed(3, 6, 6) == [ReleaseRecord(0, 0), ReleaseRecord(0, 1)]


def test_a_fence_below_the_start_of_a_log_is_passed() -> None:
    """Retention deleted what it waited for: who is assigned that partition begins, and commits, above."""
    receiver = OrderedReceiver()
    assert receiver.assigned(0, 0) == [CommitOffset(0, 0)]
    assert receiver.arrived(0, 0, record(Stamp(1, ((1, 5),))), 0.0) == []
    assert receiver.passed(1, 3) == []
    assert receiver.assigned(1, 7) == [CommitOffset(1, 7)]
    assert receiver.passed(1, 7) == [ReleaseRecord(0, 0)]


def test_a_fence_above_the_start_of_a_log_is_awaited() -> None:
    """What retention has left goes first; what it cut off meanwhile is passed without a record."""
    receiver = OrderedReceiver()
    receiver.assigned(0, 0)
    receiver.assigned(1, 7)
    assert receiver.arrived(0, 0, record(Stamp(1, ((1, 9),))), 0.0) == []
    assert receiver.passed(1, 7) == []
    assert receiver.arrived(1, 7, record(group=1), 0.0) == [ReleaseRecord(1, 7)]
    receiver.positioned(1, 12)
    assert receiver.ticked(0.0) == [], "the one at 7 has not taken effect"
    receiver.applied(1, 7)
    assert receiver.ticked(0.1) == [CommitOffset(1, 12)]
    assert receiver.passed(1, 12) == [ReleaseRecord(0, 0)]


def test_a_sequence_that_retention_deleted_is_searched_for_and_skipped() -> None:
    """The second of a stream waits for the first, which is nowhere any more."""
    receiver = OrderedReceiver(OrderingConfig(delivery_seconds=120, gap_seconds=150))
    receiver.assigned(0, 4)
    one = record(Stamp(1, (), 2))
    assert receiver.arrived(0, 4, one, 0.0) == [ReadCheckpoint(one.stream)]
    receiver.marked(one.stream, 0)
    assert receiver.ticked(150.0) == [ReadCheckpoint(one.stream), SearchStream(one.stream, 1, 1)]
    assert receiver.searched(one.stream, 1, None, 1) == [SkipSequence(one.stream, 1, 1)]
    assert receiver.marked(one.stream, 1) == [ReleaseRecord(0, 4)]


def test_the_records_of_a_revoked_partition_are_forgotten() -> None:
    """What was early in it is its next owner's; what is done of it afterwards changes nothing."""
    receiver = OrderedReceiver()
    receiver.assigned(0, 0)
    receiver.arrived(0, 0, record(), 0.0)
    receiver.arrived(0, 1, record(Stamp(1, (), 2)), 0.0)
    assert receiver.held == 1
    receiver.revoked(0)
    assert receiver.held == 0
    assert receiver.applied(0, 0) == receiver.arrived(0, 2, record(), 0.0) == receiver.ticked(0.0) == []


def test_time_outs_that_contradict_one_another_are_refused() -> None:
    """A gap may be given up only after the client has given up the delivery."""
    with pytest.raises(SettingsError, match="gap_seconds is 100, expected more than delivery_seconds, 120"):
        OrderingConfig(gap_seconds=100)
    with pytest.raises(SettingsError, match="switch_seconds is 0, expected seconds above 0"):
        OrderingConfig(switch_seconds=0)
    with pytest.raises(SettingsError, match="run_records is 0, expected 1 or more"):
        OrderingConfig(run_records=0)
    with pytest.raises(SettingsError, match="held_records is 0, expected 1 or more"):
        OrderingConfig(held_records=0)

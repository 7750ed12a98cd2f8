"""A log in a store of slots, answer by answer."""

from __future__ import annotations

from typing import Any

from trimtab_store.core.messages import (
    AppendConflict,
    AppendMessages,
    AppendTimeout,
    ClaimMastership,
    CreateEntries,
    EntriesCreated,
    EntriesRead,
    Entry,
    GroupSnapshot,
    MessageRecord,
    ReadEntries,
    SnapshotStored,
    StoreRequest,
    StoreSnapshot,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.stored import STORE, StoreLog

A, B, C, D = (AppendMessages(fence, ()) for fence in range(1, 5))
WISH = ClaimMastership(0, (1, 7), 0)


class Asking:
    """A log whose questions and applied entries are kept."""

    def __init__(self, **settings: Any) -> None:
        self.context = NodeContext(0, 3, 1, StoreSettings(**settings), now=100.0)
        self.applied: list[tuple[int, Entry]] = []
        self.also: dict[int, Entry] = {}
        self.log = StoreLog(self.context, 0, self._apply, lambda: tuple(self.applied), self._restore)

    def _apply(self, slot: int, entry: Entry) -> None:
        self.applied.append((slot, entry))
        if slot in self.also:
            self.log.propose(self.also[slot])

    def _restore(self, value: tuple[Any, ...]) -> None:
        self.applied = list(value)

    def take(self, kind: type = CreateEntries) -> list[Any]:
        """Questions of a kind since the last time; the others are forgotten."""
        orders, self.context.orders = self.context.orders, []
        return [
            one.request for one in orders if isinstance(one, StoreRequest) and isinstance(one.request, kind)
        ]

    def propose(self, *entries: Entry) -> list[Any]:
        """Propose; the transactions that follow."""
        for entry in entries:
            self.log.propose(entry)
        return self.take()

    def hear(self, told: Any, kind: type = CreateEntries) -> list[Any]:
        """Take in what the store tells; the questions that follow."""
        assert self.log.received(STORE, told)
        return self.take(kind)

    def wait(self, seconds: float, kind: type = CreateEntries) -> list[Any]:
        """Let time pass; the questions that follow."""
        self.context.now += seconds
        self.log.tick()
        return self.take(kind)


def test_one_transaction_is_in_flight_and_the_next_contains_all_later_entries() -> None:
    """In the order of arrival."""
    one = Asking()
    (first,) = one.propose(A, B, C)
    assert first[1:] == (1, (A,))
    (second,) = one.hear(EntriesCreated(first.number))
    assert second[1:] == (2, (B, C)) and one.applied == [(1, A)]


def test_a_transaction_has_no_more_than_the_window_and_a_mebibyte() -> None:
    """The store takes no more at once; a large entry goes by itself."""
    one = Asking(window=3)
    large = AppendMessages(1, (MessageRecord("t", "p", 1, bytes(700_000)),))
    (first,) = one.propose(A, large, large, B, C, D, A)
    (second,) = one.hear(EntriesCreated(first.number))
    assert second.entries == (large,)
    (third,) = one.hear(EntriesCreated(second.number))
    assert third.entries == (large, B, C)
    (fourth,) = one.hear(EntriesCreated(third.number))
    assert fourth.entries == (D, A)


def test_a_slot_used_by_another_node_voids_the_batch_which_is_proposed_again() -> None:
    """Masterships too: it is certain that they were not chosen."""
    one = Asking()
    (first,) = one.propose(A, WISH, B)
    (second,) = one.hear(EntriesCreated(first.number))
    one.log.propose(C)
    (third,) = one.hear(AppendConflict(second.number, 2, (D,)))
    assert one.applied == [(1, A), (2, D)] and third[1:] == (3, (WISH, B, C))


def test_a_watched_value_decides_before_the_response() -> None:
    """The watch may be faster; the response then adds nothing."""
    one = Asking()
    (first,) = one.propose(A, B)
    (second,) = one.hear(EntriesRead(1, (A,)))
    assert one.applied == [(1, A)] and second[1:] == (2, (B,))
    assert one.hear(EntriesCreated(first.number)) == [] and one.applied == [(1, A)]
    (third,) = one.hear(EntriesRead(2, (D,)))
    assert third[1:] == (3, (B,))


def test_an_unknown_outcome_is_read_and_batches_are_proposed_again_but_masterships_not() -> None:
    """For the same slot, since nothing else was observed there: one of both attempts has it."""
    one = Asking()
    (first,) = one.propose(A)
    one.propose(WISH, B)
    (second,) = one.hear(EntriesCreated(first.number))
    assert second.entries == (WISH, B)
    assert one.hear(AppendTimeout(second.number), ReadEntries) == [ReadEntries(2)]
    (third,) = one.wait(one.context.settings.retry_seconds)
    assert third[1:] == (2, (B,))


def test_no_answer_is_an_unknown_outcome_too() -> None:
    """After the time of a proposal."""
    one = Asking()
    one.propose(A)
    assert one.wait(one.context.settings.propose_seconds, ReadEntries) == [ReadEntries(1)]
    (again,) = one.wait(one.context.settings.retry_seconds)
    assert again[1:] == (1, (A,))


def test_an_earlier_attempt_that_arrives_late_does_not_cover_later_entries() -> None:
    """It had fewer entries: the rest is proposed once more, behind them."""
    one = Asking()
    one.propose(A)
    one.wait(one.context.settings.propose_seconds)
    one.log.propose(B)
    (second,) = one.wait(one.context.settings.retry_seconds)
    assert second[1:] == (1, (A, B))
    one.hear(EntriesRead(1, (A,)))
    (third,) = one.hear(AppendConflict(second.number, 1, (A,)))
    assert one.applied == [(1, A)] and third[1:] == (2, (B,))


def test_an_earlier_attempt_that_arrives_late_is_the_chosen_one() -> None:
    """Whatever the response to the later one: the content of the slot decides."""
    one = Asking()
    one.propose(A)
    one.wait(one.context.settings.propose_seconds)
    (second,) = one.wait(one.context.settings.retry_seconds)
    assert one.hear(AppendConflict(second.number, 1, (A,))) == [] and one.applied == [(1, A)]


def test_an_answer_to_an_earlier_try_is_no_answer_to_this_one() -> None:
    """It is what stands in the slots that counts."""
    one = Asking()
    (first,) = one.propose(A)
    one.wait(one.context.settings.propose_seconds)
    one.wait(one.context.settings.retry_seconds)
    one.hear(AppendTimeout(first.number))
    one.hear(EntriesCreated(first.number))
    assert one.log.in_flight == (A,) and one.applied == []


def test_a_slot_that_was_not_observed_is_read() -> None:
    """Nothing behind it is applied before."""
    one = Asking()
    assert one.hear(EntriesRead(2, (B,)), ReadEntries) == [ReadEntries(1)] and one.applied == []
    one.hear(EntriesRead(1, (A, B)))
    assert one.applied == [(1, A), (2, B)]


def test_a_watch_without_events_is_not_trusted_indefinitely() -> None:
    """It may be dead; nor is the same request repeated continuously."""
    one = Asking()
    quiet = 2 * one.context.settings.renewal_seconds
    assert one.log.next_deadline() == one.context.now + quiet
    assert one.wait(quiet, ReadEntries) == [ReadEntries(1)]
    assert one.wait(quiet / 2, ReadEntries) == []


def test_values_proposed_while_entries_are_applied_use_later_slots() -> None:
    """Its slot would be one that is taken, as is known already."""
    one = Asking()
    one.also = {1: D}
    (asked,) = one.hear(EntriesRead(1, (A, B, C)))
    assert asked[1:] == (4, (D,))


def test_the_state_is_stored_after_some_entries_and_the_last_slot_remains() -> None:
    """The next one is made only behind it; nothing is stored twice before the confirmation."""
    one = Asking(snapshot_entries=2)
    kept, number = [], one.propose(A)[0].number
    for _ in range(3):
        one.log.propose(B)
        assert one.log.received(STORE, EntriesCreated(number))
        orders = [order.request for order in one.context.orders if isinstance(order, StoreRequest)]
        assert len(orders) == len(one.context.orders)
        one.context.orders = []
        kept += [asked for asked in orders if isinstance(asked, StoreSnapshot)]
        (number,) = [asked.number for asked in orders if isinstance(asked, CreateEntries)]
    assert kept == [StoreSnapshot(2, 1, ((1, A), (2, B)))]
    one.hear(SnapshotStored(2))
    one.hear(EntriesCreated(number))
    assert one.applied[-1] == (4, B)


def test_a_node_behind_the_retained_entries_starts_with_the_snapshot() -> None:
    """The transaction finds nothing where it should be, not even the slot before."""
    one = Asking()
    (first,) = one.propose(A)
    assert one.hear(AppendConflict(first.number, 1, ()), ReadEntries) == [ReadEntries(1)]
    one.hear(GroupSnapshot(9, ((9, D),)))
    assert one.applied == [(9, D)] and one.log.applied == 9
    (again,) = one.wait(one.context.settings.retry_seconds)
    assert again[1:] == (10, (A,))


def test_messages_of_other_nodes_are_none_of_its_own() -> None:
    """Nodes do not exchange entries of the log."""
    one = Asking()
    assert not one.log.received(1, EntriesRead(1, (A,))) and one.applied == []

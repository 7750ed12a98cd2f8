"""Messages that a move takes, and keys that stay together."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import MISFITS, KeyAffinity, choose_messages
from trimtab_queues.core.policies import LeastWorkLeft
from trimtab_queues.core.scheduling import MoveMessages


@dataclass(frozen=True)
class Waiting:
    weight: float
    key: str | None = None


def by_work(work: float) -> MoveMessages:
    """So many seconds at most."""
    return MoveMessages(0, 1, None, work)


def by_count(messages: int) -> MoveMessages:
    """So many messages at most."""
    return MoveMessages(0, 1, messages, None)


def test_the_newest_messages_move_first_up_to_the_ordered_work() -> None:
    """Of 3, 1, 2, 2 seconds four are ordered: the last two; three and a half take the last and the third."""
    waiting = [Waiting(weight) for weight in (3.0, 1.0, 2.0, 2.0)]
    assert choose_messages(waiting, by_work(4.0)) == [2, 3]
    assert choose_messages(waiting, by_work(3.5)) == [1, 3], (
        "the second last does not fit, the one before it does"
    )
    assert choose_messages(waiting, by_work(0.5)) == []
    assert choose_messages(waiting, by_count(3)) == [1, 2, 3]


def test_sums_of_fractions_do_not_leave_a_message_behind() -> None:
    """Three tenths are ordered; 0.1 + 0.1 + 0.1 is a hair more."""
    assert choose_messages([Waiting(0.1)] * 5, by_work(0.3)) == [2, 3, 4]


def test_no_more_messages_move_than_the_target_can_hold() -> None:
    """Work for all of them is ordered, and there is room for two."""
    assert choose_messages([Waiting(1.0)] * 5, by_work(9.0), room=2) == [3, 4]
    assert choose_messages([Waiting(1.0)] * 5, by_work(9.0), room=0) == []


def test_recently_moved_messages_stay_and_so_do_their_keys() -> None:
    """The last and the second were moved; Ann's other message stays with the second."""
    waiting = [Waiting(1.0, "ann"), Waiting(1.0, "ann"), Waiting(1.0), Waiting(1.0)]
    assert choose_messages(waiting, by_work(9.0), resting={1, 3}) == [2]
    assert choose_messages(waiting, by_work(9.0), resting={3}) == [0, 1, 2]


def test_messages_of_one_key_go_together_or_stay() -> None:
    """Ann has three seconds waiting: with two ordered she stays and Bob goes, with three she goes whole."""
    waiting = [Waiting(1.0, "ann"), Waiting(1.0, "bob"), Waiting(1.0, "ann"), Waiting(1.0, "ann")]
    assert choose_messages(waiting, by_work(2.0)) == [1]
    assert choose_messages(waiting, by_work(3.0)) == [0, 2, 3]
    assert choose_messages(waiting, by_count(4)) == [0, 1, 2, 3]
    assert choose_messages(waiting, by_count(4), in_work={"ann"}) == [1], "one of hers is in work"


def test_the_search_gives_up_among_messages_that_are_all_too_long() -> None:
    """A short one further on than that is not found, one nearer is."""
    assert choose_messages([Waiting(1.0), *[Waiting(9.0)] * MISFITS], by_work(2.0)) == []
    some = [Waiting(1.0), *[Waiting(9.0)] * (MISFITS - 1)]
    assert choose_messages(some, by_work(2.0)) == [0]
    assert choose_messages([*some, *some], by_work(2.0)) == [0, MISFITS], "it gives up after so many in a row"


@given(
    waiting=st.lists(
        st.builds(Waiting, st.sampled_from([1.0, 2.0, 7.0]), st.none() | st.sampled_from("abc")), max_size=30
    ),
    work=st.floats(0, 40),
    in_work=st.sets(st.sampled_from("abc")),
    room=st.integers(0, 30),
)
def test_moves_do_not_exceed_their_order_and_keep_keys_whole(
    waiting: list[Waiting], work: float, in_work: set[str], room: int
) -> None:
    """Each place once, in order; within the work and the room; all of a key or none of it."""
    places = choose_messages(waiting, by_work(work), in_work=in_work, room=room)
    assert places == sorted(set(places))
    assert len(places) <= room
    assert sum(waiting[place].weight for place in places) <= work * (1 + 1e-9)
    gone = {waiting[place].key for place in places} - {None}
    left = {one.key for place, one in enumerate(waiting) if place not in places}
    assert not gone & (left | in_work)


def test_a_key_stays_in_its_queue_while_any_of_its_messages_is_in_flight() -> None:
    """Ann's second message follows her first though another is emptier; when both are done she is free."""
    ledger = QueueLedger([9, 9])
    affinity = KeyAffinity(LeastWorkLeft(ledger), ledger)

    def send(weight: float, key: str | None) -> int | None:
        queue = affinity.choose(weight, key)
        if queue is not None:
            ledger.enqueued(queue, weight)
            if key is not None:
                affinity.enqueued(queue, key)
        return queue

    assert [send(5.0, "ann"), send(1.0, None), send(1.0, "ann"), send(1.0, "bob")] == [0, 1, 0, 1]
    assert len(affinity) == 2
    affinity.finished("ann")
    assert affinity.choose(1.0, "ann") == 0, "one of hers is still in flight"
    affinity.finished("ann")
    assert affinity.choose(1.0, "ann") == 1
    assert len(affinity) == 1


def test_a_key_whose_queue_is_full_waits_for_space_or_a_move() -> None:
    """Elsewhere the second message would overtake the first. A paused queue receives it, as on a server."""
    ledger = QueueLedger([2, 9])
    affinity = KeyAffinity(LeastWorkLeft(ledger), ledger)
    ledger.enqueued(0, 1.0)
    affinity.enqueued(0, "ann")
    ledger.pause(0)
    assert affinity.choose(1.0, "ann") == 0
    ledger.enqueued(0, 1.0)
    assert affinity.choose(1.0, "ann") is None
    assert affinity.choose(1.0, "bob") == 1
    affinity.moved(["ann"], 1)
    assert affinity.choose(1.0, "ann") == 1
    with pytest.raises(KeyError):
        affinity.finished("nobody")

"""What a log makes of a group, entry by entry."""

from __future__ import annotations

from trimtab_store.core.messages import (
    AppendMessages,
    ClaimMastership,
    MessageRecord,
    SyncOffsets,
    TransferMastership,
)
from trimtab_store.core.settings import TransferScheme
from trimtab_store.core.state import NO_MASTER, READ_BYTES, GroupState

LIFE = 70


def mastered(node: int = 0) -> GroupState:
    """A group whose master is a node since slot 1."""
    state = GroupState()
    assert state.apply(1, ClaimMastership(node, (LIFE + node, 1), 0))
    return state


def record(sequence: int, producer: str = "p") -> MessageRecord:
    """A message of topic `t`."""
    return MessageRecord("t", producer, sequence, b"%d" % sequence)


def test_a_mastership_counts_only_after_the_one_it_was_requested_after() -> None:
    """Two nodes claimed after the same mastership: the first chosen claim counts."""
    state = mastered(0)
    assert state.apply(2, ClaimMastership(1, (LIFE + 1, 1), 0)) is False
    assert (state.master, state.version) == (0, 1)
    assert state.apply(3, ClaimMastership(1, (LIFE + 1, 2), 1)) is True
    assert (state.master, state.version, state.fence) == (1, 3, 3)


def test_a_renewal_changes_the_version_and_not_the_fence() -> None:
    """Batches in flight continue to count; those of a new incarnation of the node do not."""
    state = mastered(0)
    state.apply(2, ClaimMastership(0, (LIFE, 2), 1))
    assert (state.version, state.fence) == (2, 1)
    state.apply(3, ClaimMastership(0, (LIFE + 9, 1), 2))
    assert (state.version, state.fence) == (3, 3)


def test_a_batch_under_another_fence_is_void() -> None:
    """Its writer may write no more, though the messages themselves are new."""
    state = mastered(0)
    state.apply(2, ClaimMastership(1, (LIFE + 1, 1), 1))
    assert state.apply(3, AppendMessages(1, (record(1), record(2)))) == ("moved", "moved")
    assert state.topics == {} and state.sequences == {}
    assert state.apply(4, AppendMessages(2, (record(1),))) == ("stored",)


def test_offsets_under_another_fence_are_void_and_offsets_only_rise() -> None:
    """The previous master knows of fewer messages than its successor has delivered."""
    state = mastered(0)
    assert state.apply(2, SyncOffsets(1, (("c", "t", 5),)))
    assert state.apply(3, SyncOffsets(1, (("c", "t", 3), ("d", "t", 1))))
    assert state.offsets == {("c", "t"): 5, ("d", "t"): 1}
    state.apply(4, ClaimMastership(1, (LIFE + 1, 1), 1))
    assert state.apply(5, SyncOffsets(1, (("c", "t", 9),))) is False
    assert state.offsets["c", "t"] == 5


def test_a_transfer_counts_only_after_the_mastership_that_it_ends() -> None:
    """A transfer chosen after the current master renewed, or by another node, changes nothing."""
    state = mastered(0)
    state.apply(2, ClaimMastership(0, (LIFE, 2), 1))
    for current_master, expected in ((0, 1), (2, 2)):
        entry = TransferMastership(current_master, 1, expected, TransferScheme.EXPIRE, (LIFE + 1, 1))
        assert state.apply(3, entry) is False
        assert (state.writer, state.fence) == (0, 1)
    assert state.apply(4, TransferMastership(0, 1, 2, TransferScheme.EXPIRE, (LIFE + 1, 1))) is True
    assert (state.master, state.preferred, state.writer, state.version, state.fence) == (0, 1, 1, 4, 4)


def test_a_mastership_requested_in_a_transfer_counts_only_without_later_changes() -> None:
    """The preferred node dies, another becomes master, and then the preferred node's question is chosen after
    all.
    """
    state = mastered(0)
    state.apply(2, TransferMastership(0, 1, 1, TransferScheme.EXPIRE, (LIFE + 1, 1)))
    late = ClaimMastership(1, (LIFE + 1, 2), 2)
    assert state.apply(3, ClaimMastership(2, (LIFE + 2, 1), 2)) is True
    assert state.apply(4, late) is False
    assert (state.master, state.preferred) == (2, NO_MASTER)


def test_a_group_is_handed_over_once_at_a_time() -> None:
    """A second transfer has to wait until the first has become a mastership."""
    state = mastered(0)
    state.apply(2, TransferMastership(0, 1, 1, TransferScheme.EXPIRE, (LIFE + 1, 1)))
    assert state.apply(3, TransferMastership(0, 2, 2, TransferScheme.EXPIRE, (LIFE + 2, 1))) is False


def test_the_preferred_nodes_batches_count_from_the_transfer_on() -> None:
    """Its fence is the transfer's slot, and stays when it becomes master in the same incarnation."""
    state = mastered(0)
    state.apply(2, TransferMastership(0, 1, 1, TransferScheme.EXPIRE, (LIFE + 1, 1)))
    assert state.apply(3, AppendMessages(1, (record(1),))) == ("moved",)
    assert state.apply(4, AppendMessages(2, (record(1),))) == ("stored",)
    state.apply(5, ClaimMastership(1, (LIFE + 1, 2), 2))
    assert state.apply(6, AppendMessages(2, (record(2),))) == ("stored",)


def test_instating_makes_the_preferred_node_master_without_a_request() -> None:
    """No further claim is needed."""
    state = mastered(0)
    state.apply(2, TransferMastership(0, 1, 1, TransferScheme.INSTATE, (LIFE + 1, 1)))
    assert (state.master, state.preferred, state.fence) == (1, NO_MASTER, 2)


def test_a_message_counts_once_and_behind_those_before_it() -> None:
    """Sent again it is stored already; one behind a missing one has to be sent again."""
    state = mastered(0)
    told = state.apply(
        2, AppendMessages(1, (record(1), record(3), record(1), record(2), record(3), record(1, "q")))
    )
    assert told == ("stored", "gap", "stored", "stored", "stored", "stored")
    assert [(one.producer, one.sequence) for one in state.topics["t"]] == [
        ("p", 1),
        ("p", 2),
        ("p", 3),
        ("q", 1),
    ]


def test_an_answer_is_bounded_and_never_empty_if_messages_exist() -> None:
    """Large messages come one by one."""
    state = mastered(0)
    large = tuple(MessageRecord("t", "p", sequence, b"x" * (READ_BYTES // 2 + 1)) for sequence in (1, 2, 3))
    state.apply(2, AppendMessages(1, large))
    assert [one.sequence for one in state.read("t", 0, 100)[1]] == [1]
    assert [one.sequence for one in state.read("t", 2, 100)[1]] == [3]
    assert state.read("t", 3, 100) == (3, ()) and state.read("u", 0, 100) == (0, ())
    assert state.read("t", 0, 0) == (0, ())


def test_the_oldest_messages_of_the_largest_topic_go_when_a_group_holds_too_much() -> None:
    """Offsets stay what they were, sequences too, and a node that has a snapshot forgets the same."""
    state, other = GroupState(keep_bytes=20_000), GroupState(keep_bytes=20_000)
    for one in (state, other):
        one.apply(1, ClaimMastership(0, (LIFE, 1), 0))
    small = AppendMessages(1, (MessageRecord("small", "p", 1, b""),))
    assert state.apply(2, small) == ("stored",)
    for sequence in range(1, 101):
        assert state.apply(
            2 + sequence, AppendMessages(1, (MessageRecord("t", "p", sequence, b"x" * 900),))
        ) == ("stored",)
        if sequence == 50:
            other.restore(state.snapshot())
        elif sequence > 50:
            other.apply(2 + sequence, AppendMessages(1, (MessageRecord("t", "p", sequence, b"x" * 900),)))
    begin, records = state.read("t", 0, 1000)
    assert begin == state.begins["t"] > 75 and [one.sequence for one in records] == [*range(begin + 1, 101)]
    assert state.read("t", 98, 1)[1][0].sequence == 99
    assert len(state.topics["small"]) == 1
    assert state.apply(200, AppendMessages(1, (MessageRecord("t", "p", 1, b""),))) == ("stored",)
    assert state.snapshot() == other.snapshot()


def test_a_snapshot_is_the_state() -> None:
    """Another node goes on from it as from the log."""
    state, other = mastered(0), GroupState()
    state.apply(2, AppendMessages(1, (record(1), record(2))))
    state.apply(3, SyncOffsets(1, (("c", "t", 1),)))
    state.apply(4, TransferMastership(0, 1, 1, TransferScheme.EXPIRE, (LIFE + 1, 1)))
    other.restore(state.snapshot())
    for entry in (AppendMessages(4, (record(3),)), ClaimMastership(1, (LIFE + 1, 2), 4)):
        assert state.apply(5, entry) == other.apply(5, entry)
    assert state.snapshot() == other.snapshot()

"""What is said over a connection, and what is refused there though it is a frame."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab_common.errors import InputError
from trimtab_store.core.messages import (
    AppendMessages,
    ChosenUpTo,
    FetchRequest,
    GroupSnapshot,
    MessageRecord,
    NodeHeartbeat,
    NoOp,
    OffsetUpload,
    ProduceRequest,
)
from trimtab_store.core.state import GroupState
from trimtab_store.format.wire import checked_message

RECORD = MessageRecord("t", "p", 1, b"x")
BEAT = NodeHeartbeat((), 0, 0)
EMPTY = GroupState().snapshot()


def state() -> tuple[Any, ...]:
    """One with something of all that there is."""
    one = GroupState()
    one.apply(1, AppendMessages(0, (RECORD,)))
    one.offsets["consumer", "t"] = 1
    return one.snapshot()


@pytest.mark.parametrize(
    "told",
    [
        5, "x", (), (1,), (1, BEAT, 2), ("0", BEAT), (True, BEAT), (0.0, BEAT), (0, 5), (0, (1, 2)),
        (0, NoOp()), (0, RECORD), (0, ChosenUpTo(1)),
    ],
)  # fmt: skip
def test_messages_that_are_not_for_a_group_are_rejected(told: Any) -> None:
    """Entries alone, and lines of a node's own log, are no messages."""
    with pytest.raises(InputError, match="no number of a group with a message for it"):
        checked_message(told)
    assert checked_message((0, ProduceRequest("c", RECORD))) == (0, ProduceRequest("c", RECORD))
    assert checked_message((-1, NodeHeartbeat((1,), 0, 0))) == (-1, NodeHeartbeat((1,), 0, 0))


@pytest.mark.parametrize(
    ("group", "wrong"),
    [
        (0, ()),
        (0, (1,)),
        (0, EMPTY[:-1]),
        (0, (*EMPTY[:5], (("t", 0, (5,)),), (), ())),
        (0, (*EMPTY[:5], (("t", (RECORD,)),), (), ())),
        (0, (*EMPTY[:6], (("t", "p", "1"),), ())),
        (0, (*EMPTY[:7], ((1, "t", 1),))),
        (-1, EMPTY),
        (-1, (7,)),
        (-1, ("7", 1, (0,), ("a",))),
        (-1, (7, 1, (0,), (5,))),
    ],
)
def test_a_snapshot_that_no_log_could_restore_is_refused(group: int, wrong: tuple[Any, ...]) -> None:
    """A node would end in the middle of restoring it."""
    with pytest.raises(InputError, match=f"a snapshot of group {group} holds another state"):
        checked_message((group, GroupSnapshot(3, wrong)))
    for right in (
        (0, GroupSnapshot(3, EMPTY)),
        (0, GroupSnapshot(3, state())),
        (-1, GroupSnapshot(3, (7, 1, (0,), ("a",)))),
    ):
        assert checked_message(right) == right


@pytest.mark.parametrize(
    ("told", "what"),
    [
        (FetchRequest("c", "ä" * 128, "t", 1, 0, 9), "a consumer has 256 bytes"),
        (FetchRequest("c", "n", "x" * 256, 1, 0, 9), "a topic has 256 bytes"),
        (OffsetUpload("c", "n" * 256, "t", 1, -1), "a consumer has 256 bytes"),
        (OffsetUpload("c", "n", "x" * 70_000, 1, -1), "a topic has 70,000 bytes"),
    ],
)
def test_names_of_consumers_are_bounded(told: Any, what: str) -> None:
    """They are stored permanently, so a longer one is rejected on arrival; in bytes, not letters."""
    with pytest.raises(InputError, match=f"the name of {what}, expected 255 or fewer"):
        checked_message((0, told))
    assert checked_message((0, FetchRequest("c", "n" * 255, "ä" * 127, 1, 0, 9)))

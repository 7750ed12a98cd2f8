"""What a frame holds: every field of every message has its type, or the frame is refused in one sentence."""

from __future__ import annotations

from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints
from zlib import crc32

import msgspec
import pytest

from trimtab_common.errors import InputError
from trimtab_store.core.messages import (
    Accept,
    AppendMessages,
    Chosen,
    ClaimMastership,
    ForwardMessage,
    GroupSnapshot,
    MessageRecord,
    NodeHeartbeat,
    NoOp,
    Prepare,
    ProduceRequest,
    Promise,
    TransferProbed,
)
from trimtab_store.format import wire
from trimtab_store.format.wire import FRAME_HEAD, NUMBERED, TornFrameError, decoded, encoded

RECORD = MessageRecord("t", "p", 1, b"x")
WRONG: tuple[Any, ...] = (None, {}, "x", 5, b"x", (), ((((1,),),),), RECORD, True)


def read(value: Any) -> Any:
    """There and back, as a node of another version or language may write it."""
    frame = encoded(value)
    return decoded(frame[FRAME_HEAD.size :], crc32(frame[FRAME_HEAD.size :]))


def raw(code: int, *fields: Any) -> Any:
    """A message by its number, whatever its fields are."""
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(fields))


def of(hint: Any) -> Any:
    """A value of a type."""
    if hint in (int, float, str, bytes, bool):
        return hint()
    if hint is Any:
        return 1
    if isinstance(hint, UnionType):
        return of(get_args(hint)[1])
    if get_origin(hint) is tuple:
        return tuple(of(one) for one in get_args(hint) if one is not ...)
    return hint(*map(of, get_type_hints(hint).values()))


@pytest.mark.parametrize("kind", NUMBERED.values(), ids=lambda kind: kind.__name__)
def test_a_field_of_another_type_is_refused(kind: Any) -> None:
    """Each in turn, none left out; with all of them correct the message is read back unchanged."""
    hints = get_type_hints(kind)
    whole = of(kind)
    assert read((3, whole)) == (3, whole) and type(read(whole)) is kind
    for place, hint in enumerate(hints.values()):
        for wrong in WRONG:
            if right_after_all(wrong, hint):
                continue
            with pytest.raises(InputError, match=f"message {kind.__name__} has other fields here"):
                read((3, kind(*whole[:place], wrong, *whole[place + 1 :])))
    for fields in (whole[:-1], (*whole, 1)):
        if fields != whole:
            with pytest.raises(InputError, match=f"message {kind.__name__} has other fields here"):
                read(tuple.__new__(kind, fields))


def right_after_all(value: Any, hint: Any) -> bool:
    """Whether a value of a wrong one's shape is right after all."""
    if hint in (int, float, str, bytes, bool):
        return type(value) is hint or (hint is float and type(value) is int)
    if get_origin(hint) is tuple and get_args(hint)[-1] is ...:
        return value == () or (get_args(hint)[0] is Any and isinstance(value, tuple))
    return type(value) is hint


@pytest.mark.parametrize(
    "wrong",
    [
        raw(17, "cl", 5),
        ProduceRequest("cl", ("t", "p", "1", b"")),  # type: ignore[arg-type]
        ProduceRequest("cl", NodeHeartbeat((), 0, 0)),  # type: ignore[arg-type]
        ForwardMessage(RECORD),  # type: ignore[arg-type]
        ProduceRequest("cl", MessageRecord("t", "p", 1 << 63, b"")),
        ProduceRequest("cl", MessageRecord("t", "p", 1, 7)),  # type: ignore[arg-type]
        Prepare(((1 << 62) + 1, 0), 1),
        TransferProbed(1, 2, float("nan"), 3),
        TransferProbed(1, 2, float("inf"), 3),
        Accept((1, 0), 1, RECORD),  # type: ignore[arg-type]
        Accept((1, 0, 0), 1, NoOp()),  # type: ignore[arg-type]
        Accept((1, 0), 1, AppendMessages(1, (RECORD, ClaimMastership(1, (1, 1), 0)))),  # type: ignore[arg-type]
        Promise((1, 0), 1, ((1, (1, 0), RECORD),)),  # type: ignore[arg-type]
        Promise((1, 0), 1, ((1, NoOp()),)),  # type: ignore[arg-type]
        Chosen(1, (NoOp(), 5)),  # type: ignore[arg-type]
    ],
)
def test_nested_errors_are_rejected(wrong: Any) -> None:
    """In entries, in lists of them, and numbers beyond 64 bits."""
    with pytest.raises(InputError, match="has other fields here .*: update this node"):
        read((0, wrong))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"\x91" * 5000 + b"\x01", "no MessagePack .maximum recursion"),
        (b"\xa1\xff", "no MessagePack .'utf-8' codec"),
        (b"\xdd\xff\xff\xff\xff", "no MessagePack .*truncated"),
        (
            msgspec.msgpack.encode(msgspec.msgpack.Ext(17, b"\x92\xa1\xff\x01")),
            "message ProduceRequest has other",
        ),
        (msgspec.msgpack.encode(raw(99)), "message 99 is not known here, expected 1 to 48: update this node"),
    ],
)
def test_bytes_that_are_no_message_are_refused(body: bytes, sentence: str) -> None:
    """With any stated depth or length, and any damage."""
    with pytest.raises(InputError, match=sentence):
        decoded(body, crc32(body))
    with pytest.raises(TornFrameError):
        decoded(body, crc32(body) ^ 1)


def test_the_state_in_a_snapshot_is_restored_unchanged() -> None:
    """For any log: lists in it are tuples, messages in it messages."""
    snapshot = GroupSnapshot(9, (1, -1, (("t", 4, (RECORD,)),), (), (("a", "b", 3),)))
    assert read((0, snapshot)) == (0, snapshot)
    assert type(read(snapshot).state[2][0][2][0]) is MessageRecord


def test_a_message_too_large_to_be_read_again_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame has a limit, beyond which its length is taken for damage."""
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 100)
    assert encoded(b"x" * 98)
    with pytest.raises(InputError, match="a message has 101 bytes, expected 100 or fewer"):
        encoded(b"x" * 99)
    with pytest.raises(TornFrameError):
        next(wire.frames(memoryview(FRAME_HEAD.pack(101, 0) + bytes(101))))

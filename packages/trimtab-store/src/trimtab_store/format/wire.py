"""Messages and entries as bytes: frames with length and checksum, and checks of what a peer sends.

The same frames go over connections and into the log on disk. A message of a peer is checked before the core
sees it: ranges of numbers, lengths of names, and whether the peer may send it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, NoReturn, get_args, get_origin, get_type_hints
from zlib import crc32

import msgspec

from trimtab_common.errors import InputError
from trimtab_store.core import messages
from trimtab_store.core.messages import NAME_BYTES, FetchRequest, GroupSnapshot, OffsetUpload, name_bytes
from trimtab_store.core.state import Integers
from trimtab_store.core.token import CLUSTER, WholeCluster

Fields = tuple[Any, ...]
"""The fields of a message."""
MAX_EXACT_FLOAT: Final = 1 << 62
"""Limit of integers, so that a sum of two can still be encoded."""
MAX_INTEGER: Final = 1e300
"""Limit of floating-point numbers, which excludes infinities and NaN."""
_PLAIN: Final[dict[object, object]] = {
    int: Annotated[int, msgspec.Meta(ge=-MAX_EXACT_FLOAT, le=MAX_EXACT_FLOAT)],
    float: Annotated[float, msgspec.Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)],
    str: str,
    bytes: bytes,
    bool: bool,
    Any: Any,
}


class _TaggedUnion(type):
    """The type of a field that holds one of several kinds of entries; each entry carries its number."""

    kinds: frozenset[type]

    def __instancecheck__(cls, value: object) -> bool:
        return type(value) in cls.kinds


def form_of(hint: Any) -> Any:
    """The type by which msgspec checks values of a type: bounded numbers, tuples, and records of bounded
    numbers.
    """
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) is tuple:
        return tuple[tuple(one if one is ... else form_of(one) for one in get_args(hint))]  # type: ignore[misc]
    if isinstance(hint, UnionType):
        return _TaggedUnion("message", (), {"kinds": frozenset(get_args(hint))})
    return _bounded(hint)


@cache
def _bounded(kind: type[Fields]) -> type[Fields]:
    """A record inside a message, with bounds on its fields, since msgspec reads it by the types of its
    fields.
    """
    forms = {name: form_of(hint) for name, hint in get_type_hints(kind).items()}
    return type(kind.__name__, (kind,), {"__slots__": (), "__annotations__": forms})


def fields_of(kind: type) -> Any:
    """The type of a message's fields, a tuple."""
    return tuple[tuple(form_of(hint) for hint in get_type_hints(kind).values())]  # type: ignore[misc]


def _has_union(hint: object) -> bool:
    """Whether values of a type contain a field that holds one of several kinds of entries."""
    if isinstance(hint, UnionType) or hint is Any:
        return True
    return any(_has_union(one) for one in get_args(hint)) or any(map(_has_union, _hints_of(hint)))


def _hints_of(hint: object) -> list[object]:
    return list(get_type_hints(hint).values()) if isinstance(hint, type) and issubclass(hint, tuple) else []


NUMBERED: Final[dict[int, type[Fields]]] = {
    1: messages.Prepare, 2: messages.Promise, 3: messages.Rejected, 4: messages.Accept, 5: messages.Accepted,
    6: messages.Commit, 7: messages.CatchUp, 8: messages.Chosen, 9: messages.GroupSnapshot,
    10: messages.NodeHeartbeat,
    11: messages.ProbeTransfer, 12: messages.TransferProbed, 13: messages.StartTransfer,
    14: messages.ConfirmReady, 15: messages.TransferReady,
    16: messages.TransferEnded, 17: messages.ProduceRequest, 18: messages.ForwardMessage,
    19: messages.ProduceResponse,
    20: messages.FetchRequest, 21: messages.FetchResponse, 22: messages.RequestOffset,
    23: messages.OffsetUpload,
    24: messages.OffsetCommitted, 25: messages.Promised, 26: messages.AcceptedAt, 27: messages.ChosenUpTo,
    28: messages.DescribeGroup, 29: messages.GroupStatus, 30: messages.ReadGroupMetrics,
    31: messages.GroupReport,
    32: messages.AskMap, 33: messages.MapIs, 34: messages.ChangeMap,
    37: messages.Rejoin, 38: messages.Rejoined,
    40: messages.NoOp, 41: messages.MessageRecord, 42: messages.AppendMessages, 43: messages.SyncOffsets,
    44: messages.ClaimMastership, 45: messages.TransferMastership, 46: messages.AcquireToken,
    47: messages.PublishMap,
    48: messages.ChangeClaims,
}  # fmt: skip
"""Messages by number."""
FIRST_ENTRY: Final = 40
"""Lowest number of the entries of logs."""
FRAME_HEAD: Final = struct.Struct("<II")
MAX_FRAME_BYTES: Final = 256 << 20
"""Maximum size of a frame; a larger length was read wrong."""
_CODES: Final = {kind: code for code, kind in NUMBERED.items()}
_UNIONS: Final = frozenset(code for code, kind in NUMBERED.items() if any(map(_has_union, _hints_of(kind))))
"""Messages with a field that holds one of several kinds of entries."""
_ENCODER: Final = msgspec.msgpack.Encoder()


class TornFrameError(Exception):
    """A frame is incomplete, or its checksum is wrong."""


def _packed(value: object) -> object:
    """A value as msgspec can write it: a message becomes its number and its fields."""
    if not isinstance(value, tuple):
        return value
    code = _CODES.get(type(value))
    if code is None:
        # A record that was read inside another message is of a class of its own, and goes without a number.
        return [_packed(one) for one in value]
    fields = [_packed(one) for one in value] if code in _UNIONS else value
    return msgspec.msgpack.Ext(code, _ENCODER.encode(fields))


def _tuples(value: object) -> Any:
    return tuple([_tuples(one) for one in value]) if isinstance(value, list) else value


def _extension(code: int, data: memoryview) -> Any:
    kind = NUMBERED.get(code)
    if kind is None:
        raise InputError(f"message {code} is not known here, expected 1 to {max(NUMBERED)}: update this node")
    try:
        fields = _FIELDS[kind](data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _other_fields(kind, error) from None
    if kind is messages.GroupSnapshot:
        slot, state = fields
        fields = slot, tuple([_tuples(one) for one in state])
    return tuple.__new__(kind, fields)


def _other_fields(kind: type, error: Exception) -> InputError:
    return InputError(f"message {kind.__name__} has other fields here ({error}): update this node")


_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_extension)
_FIELDS: Final[dict[type, Callable[[memoryview], Fields]]] = {
    kind: msgspec.msgpack.Decoder(fields_of(kind), ext_hook=_extension).decode for kind in NUMBERED.values()
}


def encoded(value: object) -> bytes:
    """The frame of a value.

    Raises
    ------
    InputError
        If it is too large to be read again.
    """
    body = _ENCODER.encode(_packed(value))
    if len(body) > MAX_FRAME_BYTES:
        raise InputError(
            f"a message has {len(body):,} bytes, expected {MAX_FRAME_BYTES:,} or fewer: send smaller ones"
        )
    return FRAME_HEAD.pack(len(body), crc32(body)) + body


def decoded(body: bytes | memoryview, crc: int) -> Any:
    """The message in the body of a frame.

    Raises
    ------
    TornFrameError
        If the checksum is wrong.
    InputError
        If the body is of an unknown format.
    """
    if crc32(body) != crc:
        raise TornFrameError
    try:
        return _tuples(_DECODER.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _unreadable(error)


def _unreadable(error: Exception) -> NoReturn:
    raise InputError(f"a frame is whole, and no MessagePack ({error}): another program wrote it") from None


def frames(data: memoryview, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Messages from an offset on, each with the offset behind it.

    Raises
    ------
    TornFrameError
        At the first frame that is not complete; not at a clean end.
    """
    at = start
    while at < len(data):
        if at + FRAME_HEAD.size > len(data):
            raise TornFrameError
        length, crc = FRAME_HEAD.unpack_from(data, at)
        end = at + FRAME_HEAD.size + length
        if length > MAX_FRAME_BYTES or end > len(data):
            raise TornFrameError
        yield end, decoded(data[at + FRAME_HEAD.size : end], crc)
        at = end


_WRITTEN: Final = (messages.Promised, messages.AcceptedAt, messages.ChosenUpTo)
_SENT: Final = frozenset(
    kind for number, kind in NUMBERED.items() if number < FIRST_ENTRY and kind not in _WRITTEN
)
"""Messages that a connection may carry: no entries of logs by themselves, and no records of the disk."""
_STATE: Final = form_of(Integers)
_CLUSTER: Final = form_of(WholeCluster)


def checked_message(text: object) -> tuple[int, Any]:
    """The group and the message of a frame.

    Raises
    ------
    InputError
        If it is no message that a connection may carry.
    """
    if type(text) is tuple and len(text) == 2:
        group, message = text
        kind = type(message)
        if type(group) is int and kind in _SENT:
            if kind is GroupSnapshot:
                _check_state(group, message)
            elif kind is FetchRequest or kind is OffsetUpload:
                _check_names(message)
            return group, message
    raise InputError(
        "what came is no number of a group with a message for it: run the same version of trimtab there and "
        "here"
    )


def _check_state(group: int, snapshot: GroupSnapshot) -> None:
    """Raise `InputError` if a snapshot has the state of another version."""
    try:
        msgspec.convert(snapshot.state, _CLUSTER if group == CLUSTER else _STATE)
    except msgspec.ValidationError as error:
        raise InputError(
            f"a snapshot of group {group} holds another state ({error}): run the same version of trimtab "
            "there and here"
        ) from None


def _check_names(request: FetchRequest | OffsetUpload) -> None:
    """Raise `InputError` if a name is too long."""
    for what, name in (("a consumer", request.consumer), ("a topic", request.topic)):
        if name_bytes(name) > NAME_BYTES:
            raise InputError(
                f"the name of {what} has {name_bytes(name):,} bytes, expected {NAME_BYTES} or fewer: "
                "choose a shorter one"
            )

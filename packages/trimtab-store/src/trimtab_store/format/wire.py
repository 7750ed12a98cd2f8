"""Messages and entries as bytes: frames with length and checksum, and checks of what a peer sends.

The same frames go over connections and into the log on disk. A message of a peer is checked before the core
sees it: ranges of numbers, lengths of names, and whether the peer may send it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Annotated, Any, Final, NoReturn, get_args, get_origin, get_type_hints
from zlib import crc32

import msgspec

from trimtab_common.errors import InputError
from trimtab_store.core import messages
from trimtab_store.core import messages as entries
from trimtab_store.core.messages import NAME_BYTES, FetchRequest, GroupSnapshot, OffsetUpload, name_bytes
from trimtab_store.core.state import Integers
from trimtab_store.core.token import CLUSTER, WholeCluster

MAX_EXACT_FLOAT: Final = 1 << 62
"""Numbers stay this far from zero, or nearer: whoever adds one to them can still write them down."""
MAX_INTEGER: Final = 1e300
"""No infinity, and nothing that is no number."""
_PLAIN: Final[dict[Any, Any]] = {
    int: Annotated[int, msgspec.Meta(ge=-MAX_EXACT_FLOAT, le=MAX_EXACT_FLOAT)],
    float: Annotated[float, msgspec.Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)],
    str: str,
    bytes: bytes,
    bool: bool,
    Any: Any,
}


class _TaggedUnion(type):
    """A type whose values are messages of some kinds: msgspec takes a named tuple itself for an array."""

    kinds: frozenset[type]

    def __instancecheck__(cls, value: Any) -> bool:
        return type(value) in cls.kinds


def form_of(hint: Any) -> Any:
    """The form of values of a type: bounded numbers, tuples of forms, messages as they were decoded."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) is tuple:
        return tuple[tuple(one if one is ... else form_of(one) for one in get_args(hint))]  # type: ignore[misc]
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    name = "message" if len(kinds) > 1 else kinds[0].__name__
    return _TaggedUnion(name, (), {"kinds": frozenset(kinds)})


def fields_of(kind: type) -> Any:
    """The form of a message's fields, a tuple."""
    return tuple[tuple(form_of(hint) for hint in get_type_hints(kind).values())]  # type: ignore[misc]


NUMBERED: Final[dict[int, type[tuple[Any, ...]]]] = {
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
    40: entries.NoOp, 41: entries.MessageRecord, 42: entries.AppendMessages, 43: entries.SyncOffsets,
    44: entries.ClaimMastership, 45: entries.TransferMastership, 46: entries.AcquireToken,
    47: entries.PublishMap,
    48: entries.ChangeClaims,
}  # fmt: skip
"""Number to message."""
FIRST_ENTRY: Final = 40
"""Entries of logs have this number or a higher one."""
FRAME_HEAD: Final = struct.Struct("<II")
MAX_FRAME_BYTES: Final = 256 << 20
"""A longer frame is a length that was read wrong."""
_CODES: Final = {kind: code for code, kind in NUMBERED.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()


class TornFrameError(Exception):
    """A frame is not all there, or not what was written."""


def _packed(value: Any) -> Any:
    if isinstance(value, tuple):
        code = _CODES.get(type(value))
        plain = [_packed(one) for one in value]
        return plain if code is None else msgspec.msgpack.Ext(code, _ENCODER.encode(plain))
    return value


def _tuples(value: Any) -> Any:
    return tuple([_tuples(one) for one in value]) if isinstance(value, list) else value


def _extension(code: int, data: memoryview) -> Any:
    kind = NUMBERED.get(code)
    if kind is None:
        raise InputError(f"message {code} is not known here, expected 1 to {max(NUMBERED)}: update this node")
    try:
        fields = _FIELDS[kind](data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if kind is not entries.MessageRecord:
            raise _other_fields(kind, error) from None
        fields = _text_record(data, error)
    if kind is messages.GroupSnapshot:
        slot, state = fields
        fields = slot, tuple([_tuples(one) for one in state])
    return tuple.__new__(kind, fields)


def _text_record(data: memoryview, error: Exception) -> tuple[Any, ...]:
    """A message whose payload is text: nodes took them before, so logs hold them."""
    try:
        fields: tuple[Any, ...] = _TEXT_RECORD(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _other_fields(entries.MessageRecord, error) from None
    return fields


def _other_fields(kind: type, error: Exception) -> InputError:
    return InputError(f"message {kind.__name__} has other fields here ({error}): update this node")


_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_extension)
_FIELDS: Final[dict[type, Callable[[memoryview], tuple[Any, ...]]]] = {
    kind: msgspec.msgpack.Decoder(fields_of(kind), ext_hook=_extension).decode for kind in NUMBERED.values()
}
_TEXT_RECORD: Final = msgspec.msgpack.Decoder(form_of(tuple[str, str, int, str])).decode


def encoded(value: Any) -> bytes:
    """A frame.

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
    """The message of a frame's body.

    Raises
    ------
    TornError
        If the body is not what was written.
    InputError
        If it is, but nothing that is known here.
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
    """Messages from an offset on, each with the offset behind it, up to the first that is torn.

    Raises
    ------
    TornError
        At the first frame that is not whole; none at a clean end.
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


def checked_message(text: Any) -> tuple[int, Any]:
    """The group and the message, of a frame whose fields have their types.

    Raises
    ------
    InputError
        If it is nothing that is said over a connection: no node could do anything with it.
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
    """Errors as in `opened`."""
    try:
        msgspec.convert(snapshot.state, _CLUSTER if group == CLUSTER else _STATE)
    except msgspec.ValidationError as error:
        raise InputError(
            f"a snapshot of group {group} holds another state ({error}): run the same version of trimtab "
            "there and here"
        ) from None


def _check_names(request: FetchRequest | OffsetUpload) -> None:
    """Errors as in `opened`."""
    for what, name in (("a consumer", request.consumer), ("a topic", request.topic)):
        if name_bytes(name) > NAME_BYTES:
            raise InputError(
                f"the name of {what} has {name_bytes(name):,} bytes, expected {NAME_BYTES} or fewer: "
                "choose a shorter one"
            )

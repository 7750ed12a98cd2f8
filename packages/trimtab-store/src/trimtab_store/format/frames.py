"""Frames, the same on the wire and on disk: length, CRC, and one message in MessagePack.

A frame is the length of its body and the CRC-32 of it, four bytes each, lowest first, then the body. A
message is an extension of MessagePack whose code is its number in `NUMBERED` and whose data are its fields as
an array, by position; a ballot, a nonce and any list is an array. Numbers are never used again for something
else, and other fields are another version of the formats that name them. Whoever reads a message can rely on
the types of its fields, but for the state in a `Snapshot`, which each log knows by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn
from zlib import crc32

import msgspec

from trimtab_common.errors import InputError
from trimtab_store.core import entries, messages
from trimtab_store.format.message_codec import fields_of, form_of

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
HEAD: Final = struct.Struct("<II")
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
    return HEAD.pack(len(body), crc32(body)) + body


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
        if at + HEAD.size > len(data):
            raise TornFrameError
        length, crc = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        if length > MAX_FRAME_BYTES or end > len(data):
            raise TornFrameError
        yield end, decoded(data[at + HEAD.size : end], crc)
        at = end

"""Stamps of the order guard as MessagePack: [1, topic id, producer, epoch, sequence, fill, fence]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from trimtab_common.errors import InputError
from trimtab_keys.core.order.messages import PLAIN, Stamp

HEADER: Final = "trimtab-order"
"""Name of the header; a record without it has no stamp."""
VERSION: Final = 1


class EncodedStamp(NamedTuple):
    """A stamp as it stands in a record's header.

    Attributes
    ----------
    topic_id
        Of the topic that the record was written to: offsets and sequences mean nothing in another one.
    producer
        Name of the run that wrote it.
    stamp
        What the order guard goes by.
    is_gap_filler
        Whether the record has no content of its own: it stands for one that failed.
    """

    topic_id: str
    producer: str
    stamp: Stamp
    is_gap_filler: bool


UNSTAMPED: Final = EncodedStamp("", "", PLAIN, False)


class _StampRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    topic_id: str
    producer: str
    epoch: int
    sequence: int
    is_gap_filler: bool
    fence: list[tuple[int, int]]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_StampRecord)


def stamp_bytes(topic_id: str, producer: str, stamp: Stamp, fill: bool = False) -> bytes:
    """A header's value; arguments as the attributes of `EncodedStamp`."""
    return _ENCODER.encode((VERSION, topic_id, producer, stamp.epoch, stamp.sequence, fill, stamp.fence))


def read_stamp(data: Any, subject: str) -> EncodedStamp | None:
    """A stamp out of a header's value; None where no trimtab wrote it.

    Parameters
    ----------
    data
        The value; None for a record without the header.
    subject
        What errors call the record.

    Raises
    ------
    InputError
        If a newer trimtab wrote it: the record's place in its key's order is then unknown.
    """
    if data is None:
        return UNSTAMPED
    try:
        found = _DECODER.decode(data)
        if found.version == VERSION:
            stamp = Stamp(found.epoch, tuple(found.fence), found.sequence)
            return EncodedStamp(found.topic_id, found.producer, stamp, found.is_gap_filler)
    except (msgspec.DecodeError, TypeError):
        pass
    version = _version(data)
    if version <= VERSION:
        return None
    raise InputError(
        f"{subject}: its header {HEADER} is of version {version}, this program reads {VERSION}: a newer "
        "trimtab wrote it; update this program, or skip the record by committing the offset behind it"
    )


def _version(data: Any) -> int:
    """The version of what looks like a stamp, 0 for anything else."""
    try:
        version = msgspec.msgpack.decode(data, type=list[Any])[0]
    except (msgspec.DecodeError, TypeError, IndexError):
        return 0
    return version if isinstance(version, int) else 0


def stamp_in(headers: Sequence[tuple[str, object]]) -> Any:
    """The value of the header that holds the stamp; None where there is none.

    The last one counts, as for Kafka's own clients: a program may have copied another record's headers, and
    the producer writes its stamp behind them.
    """
    return next((value for name, value in reversed(headers) if name == HEADER), None)


def without_stamp(headers: Any) -> Any:
    """Headers that an application hands over, without a stamp that it copied from another record.

    Parameters
    ----------
    headers
        Pairs or a dictionary, as the client takes them, or None.
    """
    if not headers:
        return headers
    if isinstance(headers, dict):
        return {name: value for name, value in headers.items() if name != HEADER}
    return [one for one in headers if one[0] != HEADER]

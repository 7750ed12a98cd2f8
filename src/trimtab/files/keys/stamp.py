"""Stamps of the order guard in a header: MessagePack, [1, producer, epoch, sequence, fill, fence]."""

from __future__ import annotations

from typing import Final

import msgspec

from trimtab.model.errors import InputError
from trimtab.online.keys.order.messages import PLAIN, Stamp

HEADER: Final = "trimtab-order"
"""Name of the header; a record without it has no stamp."""
VERSION: Final = 1


class _Written(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    producer: str
    epoch: int
    sequence: int
    fill: bool
    fence: list[tuple[int, int]]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Written)


def stamp_bytes(producer: str, stamp: Stamp, fill: bool = False) -> bytes:
    """A header's value.

    Parameters
    ----------
    producer
        Name of the run that writes it.
    stamp
        As the guard gave it.
    fill
        Whether the record has no content of its own: it stands for one that failed.
    """
    return _ENCODER.encode((VERSION, producer, stamp.epoch, stamp.sequence, fill, stamp.fence))


def read_stamp(data: bytes | None, subject: str) -> tuple[str, Stamp, bool]:
    """Producer, stamp, and whether it is a fill, out of a header's value; None for a record without.

    Raises
    ------
    InputError
        If it cannot be read: the record's place in its key's order is then unknown.
    """
    if data is None:
        return "", PLAIN, False
    try:
        found = _DECODER.decode(data)
        if found.version == VERSION:
            stamp = Stamp(found.epoch, tuple(found.fence), found.sequence)
            return found.producer, stamp, found.fill
    except msgspec.DecodeError:
        pass
    raise InputError(
        f"{subject}: its header {HEADER} is not of version {VERSION}: a newer trimtab wrote it, or something "
        "else; update this program, or skip the record by committing the offset behind it"
    )

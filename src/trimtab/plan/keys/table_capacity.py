"""The size of a routing table: it is one record, which brokers and clients must accept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.model.keys.plan import Places
from trimtab.model.keys.snapshot import KeysSnapshot

SPLIT_KEY_BYTES: Final = 1_024
"""The longest key that is split. Names, numbers and addresses are shorter by far; a table of hundreds of such
keys is still one record, and each client compares it with every record that it sends."""
TABLE_BYTES: Final = 786_432
"""Brokers refuse a record of more than 1,048,588 bytes unless told otherwise (`message.max.bytes`), and
kafka-python one of more than 1,048,576. A quarter is reserved for entries that a snapshot does not list:
split keys that are no longer frequent, and earlier places that the table in force still names.
"""

_HEAD_BYTES: Final = 1_024
"""Everything but routes and offsets; a topic's name has at most 249 bytes."""
_ENTRY_BYTES: Final = 64
"""A route without its key and partitions: names of fields, brackets, the number of a group."""
_PLACE_BYTES: Final = 8
"""A partition in a list, of up to six digits."""
_OFFSET_BYTES: Final = 21
"""An offset in a list, of up to nineteen digits."""


@dataclass
class TableCapacity:
    """Bytes that are left in a table."""

    left: int

    @classmethod
    def remaining(cls, snapshot: KeysSnapshot) -> TableCapacity:
        """Bytes left besides the entries of the table in force, as far as the snapshot lists them."""
        room = cls(TABLE_BYTES - _HEAD_BYTES - _OFFSET_BYTES * len(snapshot.partitions))
        places = {one.group: one.partition for one in snapshot.groups}
        for group, place in places.items():
            if place != group % snapshot.base:
                room.left -= group_bytes()
        for key in snapshot.keys:
            if key.partitions != (places.get(key.group),):
                room.left -= key_bytes(len(key.key.encode()), (), key.partitions)
        return room

    def reserve_key(self, size: int, before: Places, after: Places) -> bool:
        """Reserve space for a key of a given length, if there is enough."""
        needed = key_bytes(size, before, after)
        if needed > self.left:
            return False
        self.left -= needed
        return True

    @property
    def groups(self) -> int:
        """Number of key groups that still fit."""
        return max(0, self.left // group_bytes())


def key_bytes(size: int, before: Places, after: Places) -> int:
    """Bytes of the route of a key: base64, its places, and its earlier places."""
    return _ENTRY_BYTES + 4 * -(-size // 3) + _PLACE_BYTES * (len(before) + len(after))


def group_bytes() -> int:
    """Bytes of the route of a key group: one partition, and one earlier one."""
    return _ENTRY_BYTES + 2 * _PLACE_BYTES

"""How large a routing table gets: it is one record, which brokers and clients have to take."""

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
kafka-python one of more than 1,048,576. A quarter is left for what a snapshot does not tell: keys that were
split and are no longer frequent, and places that the table in force still names as earlier ones."""

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
        """Those beside what stands in the table in force, as far as the snapshot tells."""
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
        """Take room for a key of so many bytes, if there is enough."""
        needed = key_bytes(size, before, after)
        if needed > self.left:
            return False
        self.left -= needed
        return True

    @property
    def groups(self) -> int:
        """Key groups that have room."""
        return max(0, self.left // group_bytes())


def key_bytes(size: int, before: Places, after: Places) -> int:
    """What the route of a key takes: base64, where it goes, and where it went."""
    return _ENTRY_BYTES + 4 * -(-size // 3) + _PLACE_BYTES * (len(before) + len(after))


def group_bytes() -> int:
    """What the route of a key group takes: one partition, and one where it was."""
    return _ENTRY_BYTES + 2 * _PLACE_BYTES

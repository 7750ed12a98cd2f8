"""The ideal map of a node, and whether others go by the same one."""

from __future__ import annotations

from zlib import crc32

from trimtab.online.masters.messages import Beat, MapSeen
from trimtab.online.masters.state import NOBODY


class Maps:
    """The newest map that a node has seen, and which ones others say that they have.

    Nodes see maps each in its own time, so another version is nothing to worry about. One version with
    another content is: each of two ideal nodes would take the group over from the other, without end.

    Attributes
    ----------
    seen
        The map.
    disputed_by
        Nodes that last said to have another map of the same version.
    """

    __slots__ = ("_checksum", "_others", "disputed_by", "seen")

    def __init__(self, groups: int) -> None:
        self.seen = MapSeen(0, (NOBODY,) * groups)
        self.disputed_by: tuple[int, ...] = ()
        self._checksum = 0
        self._others: dict[int, tuple[int, int]] = {}

    def look(self, seen: MapSeen) -> None:
        """A map was published; an older one, or another of the same version, changes nothing."""
        if seen.version > self.seen.version:
            self.seen, self._checksum = seen, crc32(repr(tuple(seen.ideal)).encode())
            self._compare()

    def beat(self, muted: tuple[int, ...]) -> Beat:
        """What others are told, with which map this node has."""
        return Beat(muted, self.seen.version, self._checksum)

    def heard(self, sender: int, beat: Beat) -> None:
        """Another node has said which map it has."""
        self._others[sender] = beat.version, beat.checksum
        self._compare()

    def _compare(self) -> None:
        mine = self.seen.version, self._checksum
        self.disputed_by = tuple(
            node for node, of in sorted(self._others.items()) if of != mine and of[0] == mine[0]
        )

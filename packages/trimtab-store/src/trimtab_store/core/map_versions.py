"""The preferred map: as it is published in the store, as a node has it, and whether others go by the same
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from trimtab_store.core.bounds import CLAIM_BYTES, claims_bytes
from trimtab_store.core.entries import Change, ChangeClaims, PublishMap
from trimtab_store.core.messages import MapChanged
from trimtab_store.core.state import NO_MASTER


class Registry:
    """What is published in the log of the token; the same on every node after the same slot.

    Attributes
    ----------
    version, preferred
        Of the map; version 0 before the first.
    claims
        Texts of programs that publish maps, by which they keep one another out.
    """

    __slots__ = ("claims", "preferred", "version")

    def __init__(self) -> None:
        self.version = 0
        self.preferred: tuple[int, ...] = ()
        self.claims: frozenset[str] = frozenset()

    def apply(self, entry: Change) -> None:
        """An entry was chosen; a map over another version than the newest is void."""
        match entry:
            case PublishMap(expected, version, preferred):
                if expected == self.version < version:
                    self.version, self.preferred = version, preferred
            case ChangeClaims(added, removed):
                claims = (self.claims | set(added)) - set(removed)
                if claims_bytes(claims) <= CLAIM_BYTES:
                    self.claims = claims

    def snapshot(self) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
        """All of it as a value, the same on every node."""
        return self.version, self.preferred, tuple(sorted(self.claims))

    def restore(self, version: int = 0, preferred: tuple[int, ...] = (), claims: Iterable[str] = ()) -> None:
        """The inverse of `snapshot`."""
        self.version, self.preferred, self.claims = version, preferred, frozenset(claims)


class MapVersions:
    """The newest map that a node has seen, and which ones others say that they have.

    Nodes see maps each in its own time. A node that stays at an older version, though, takes nothing over by
    the newer one, and would by its own: it is passed over, and takes nothing over itself. One version with
    another content is as bad: each of two preferred nodes would take the group over from the other, without
    end.

    Parameters
    ----------
    bound_seconds
        A node whose version is older for longer, and does not rise, will not see the newer one by itself.

    Attributes
    ----------
    newest
        The map.
    checksum
        Of its content.
    disputed_by
        Nodes that last said to have another map of the same version.
    older, newer
        Version of each node that last said to have an older map, or a newer one.
    late
        Of these, those with which it has been so for longer than the bound.
    """

    __slots__ = ("_bound", "_others", "_since", "checksum", "disputed_by", "late", "newer", "newest", "older")

    def __init__(self, groups: int, bound_seconds: float) -> None:
        self.newest = MapChanged(0, (NO_MASTER,) * groups)
        self.checksum = 0
        self.disputed_by: tuple[int, ...] = ()
        self.older: dict[int, int] = {}
        self.newer: dict[int, int] = {}
        self.late: frozenset[int] = frozenset()
        self._bound = bound_seconds
        self._others: dict[int, tuple[int, int]] = {}
        self._since: dict[int, float] = {}

    def adopt(self, now: float, observation: MapChanged) -> None:
        """A map was published; an older one, or another of the same version, changes nothing."""
        if observation.version > self.newest.version:
            # Whoever was behind the last one does not get longer for this one.
            self._since = {node: self._since[node] for node in self.older}
            self.newest, self.checksum = observation, crc32(repr(tuple(observation.preferred)).encode())
            self._compare(now)

    def record_peer_version(self, now: float, sender: int, version: int, checksum: int) -> None:
        """Another node has said which map it has."""
        if self.older.get(sender, version) < version:
            del self._since[sender]  # it does see new maps, only later
        self._others[sender] = version, checksum
        self._compare(now)

    def _compare(self, now: float) -> None:
        mine = self.newest.version
        versions = {node: version for node, (version, _) in sorted(self._others.items())}
        self._since = {
            node: self._since.get(node, now) for node, version in versions.items() if version != mine
        }
        self.late = frozenset(node for node, since in self._since.items() if now - since > self._bound)
        self.older = {node: version for node, version in versions.items() if version < mine}
        self.newer = {node: version for node, version in versions.items() if version > mine}
        same = [node for node, version in versions.items() if version == mine]
        self.disputed_by = tuple(node for node in same if self._others[node][1] != self.checksum)

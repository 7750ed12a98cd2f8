"""What a node says of itself on standard error while it runs, a line each, and few of them."""

from __future__ import annotations

from typing import Final

from trimtab.dataplane.masters.complaints import Complaints
from trimtab.online.masters.maps import Maps
from trimtab.online.masters.settings import MasterSettings


class Notices:
    """Says when the node stood still, and when another one goes by another map.

    Parameters
    ----------
    node
        Its number.
    """

    def __init__(self, node: int, settings: MasterSettings) -> None:
        self._node, self._settings = node, settings
        self._complaints: Final = Complaints()
        self._looked_at: float | None = None
        self._disputed: tuple[int, ...] = ()

    def looked(self, now: float) -> None:
        """The node does something, as it does each half of R at least: a longer pause is one of its own."""
        before, self._looked_at = self._looked_at, now
        if before is None or now - before <= self._settings.renewal_seconds:
            return
        lease = self._settings.lease_seconds
        over = now - before >= lease
        self._complaints.tell(
            f"node {self._node} stood still for {now - before:,.1f} s: its machine slept, its process was "
            "stopped, or others took the processor; "
            + (
                "whatever it was master of has been taken over by now"
                if over
                else f"the lease is {lease:g} s, so it may have lost what it was master of"
            )
        )

    def compared(self, maps: Maps) -> None:
        """Another node may have said which map it has: once of each, as long as they differ."""
        # Where a further version is disputed by the same node, it was not for a moment before.
        before, self._disputed = self._disputed, maps.disputed_by
        version = maps.seen.version
        for other in self._disputed:
            if other not in before:
                self._complaints.tell(
                    f"nodes {self._node} and {other} have different maps of version {version}: no group is "
                    f"taken over meanwhile; publish a map with version {version + 1} or higher, the same for "
                    "all nodes"
                )

    def rejoins(self, without_vote: list[str]) -> None:
        """The node has no vote in some groups for a while already; or has one in all of them again."""
        if without_vote:
            groups = f"{len(without_vote)} group{'s' * (len(without_vote) > 1)}"
            self._complaints.tell(
                f"node {self._node} has no log in {groups}, and no vote there until all other nodes have "
                f"answered and it has caught up: {without_vote[0]}"
            )
        else:
            self._complaints.tell(f"node {self._node} votes in all groups")

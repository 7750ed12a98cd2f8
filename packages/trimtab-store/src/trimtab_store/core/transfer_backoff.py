"""How long a group is not given to a node that took it over and lost it again soon."""

from __future__ import annotations

from typing import Final

FACTOR: Final = 8
"""By which each rest is longer than the one before it."""
MAX_TRANSFERS: Final = 256
"""The longest rest, in first rests."""
MIN_INTERVAL: Final = 40
"""A mastership was lost soon that lasted no longer than so many first rests."""


class TransferBackoff:
    """Of one group: what its log tells of transfers, timed by this node's clock.

    A node that stands still now and then is alive between, and named by the map: without a rest it would be
    given the group each time, and each time the group would have no master for a lease.

    Parameters
    ----------
    seconds
        The first rest; 0 for none.
    """

    __slots__ = ("_losses", "_seconds", "_taken", "_until")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._taken: tuple[int, float] | None = None
        self._losses: dict[int, int] = {}
        self._until: dict[int, float] = {}

    def transferred(self, now: float, node: int) -> None:
        """The group is handed to a node, which is its master now or soon."""
        self._taken = node, now

    def mastered(self, now: float, node: int) -> None:
        """A node became master, or stayed it, without being named by a transfer just before."""
        if self._taken is None or self._taken[0] == node:
            return
        (loser, since), self._taken = self._taken, None
        if now - since > MIN_INTERVAL * self._seconds:
            self._losses.pop(loser, None)
            return
        losses = self._losses[loser] = self._losses.get(loser, 0) + 1
        self._until[loser] = now + self._seconds * min(FACTOR ** (losses - 1), MAX_TRANSFERS)

    def left(self, now: float, node: int) -> float:
        """Seconds for which the group is not given to a node yet; 0 if it may be."""
        return max(0.0, self._until.get(node, now) - now)

"""Workers that hang: they give signs of life, have messages in hand, and finish none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

HANG_SECONDS: Final = 30.0
"""No worker hangs that has finished something within this time."""
WEIGHTS: Final = 3.0
"""Nor within so many times the work that it has in hand: long messages take long."""


class Progress:
    """When each worker last finished something, or had nothing to do.

    Parameters
    ----------
    hang_seconds
        The least time without progress after which a worker hangs.
    """

    def __init__(self, hang_seconds: float = HANG_SECONDS) -> None:
        self.hang_seconds = hang_seconds
        self._last: list[tuple[float, float]] = []

    def hanging(self, at: float, served: Sequence[float], held_work: Sequence[float]) -> list[int]:
        """Queues whose worker hangs, ascending.

        Parameters
        ----------
        at
            Seconds, on a clock that never goes back.
        served
            Shape (queues,): work finished since the beginning, in any unit.
        held_work
            Shape (queues,): seconds of work in the worker's hands, 0 for nothing.
        """
        if len(self._last) != len(served):
            self._last = [(done, at) for done in served]
        found = []
        for queue, (done, held) in enumerate(zip(served, held_work, strict=True)):
            before, since = self._last[queue]
            if not held or done != before:
                self._last[queue] = (done, at)
            elif at - since > max(self.hang_seconds, WEIGHTS * held):
                found.append(queue)
        return found

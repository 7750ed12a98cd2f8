"""Workers that hang: they give signs of life, have messages in hand, and finish none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Since = tuple[tuple[float, float], ...]
"""Shape (queues,): work finished since the beginning, and since when it is that or there was none to do."""

HANG_SECONDS: Final = 30.0
"""No worker hangs that has finished something within this time."""
WEIGHTS: Final = 3.0
"""Nor within so many times the work that it has in hand: long messages take long."""


def progressed(before: Since, at: float, served: Sequence[float], held_work: Sequence[float]) -> Since:
    """When each worker last finished something, or had nothing to do; `before` as of an earlier look.

    Parameters
    ----------
    at
        Seconds, on a clock that never goes back.
    served
        Shape (queues,): work finished since the beginning, in any unit.
    held_work
        Shape (queues,): seconds of work in the worker's hands, 0 for nothing.
    """
    if len(before) != len(served):
        return tuple((done, at) for done in served)
    return tuple(
        (done, at) if not held or done != last else (last, since)
        for (last, since), done, held in zip(before, served, held_work, strict=True)
    )


class WorkerProgress:
    """When each worker last finished something, or had nothing to do.

    Parameters
    ----------
    hang_timeout_seconds
        The least time without progress after which a worker hangs.
    """

    def __init__(self, hang_timeout_seconds: float = HANG_SECONDS) -> None:
        self.hang_timeout_seconds = hang_timeout_seconds
        self._last: Since = ()

    def hanging(self, at: float, served: Sequence[float], held_work: Sequence[float]) -> list[int]:
        """Queues whose worker hangs, ascending; parameters as of `progressed`."""
        self._last = progressed(self._last, at, served, held_work)
        return [
            queue
            for queue, ((_, since), held) in enumerate(zip(self._last, held_work, strict=True))
            if at - since > max(self.hang_timeout_seconds, WEIGHTS * held)
        ]

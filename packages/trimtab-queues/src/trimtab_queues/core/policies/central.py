"""A central queue: one for all workers, which no queue of one's own can beat by much."""

from __future__ import annotations

from typing import ClassVar

from trimtab_queues.core.policy import OwnQueue

CENTRAL = 0
"""The queue that is for all; those of the other workers hold only what is in work."""


class CentralQueue(OwnQueue):
    """Every message to the first queue, from which every free worker takes: first come, first served.

    A bound rather than a way to run a system: each worker goes to the same place for every message.
    """

    name: ClassVar[str] = "central_queue"
    waits_for_choice: ClassVar[bool] = True

    def choose(self, weight: float, /) -> int | None:
        """The central queue."""
        return CENTRAL if self.ledger.open[CENTRAL] else None

    def source(self, worker: int, /) -> int | None:
        """The central queue, where something waits; else its own, which a scheduler may have filled."""
        found = super().source(CENTRAL)
        return super().source(worker) if found is None else found

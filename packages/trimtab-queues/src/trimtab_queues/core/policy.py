"""The protocol of dispatch policies: where a message goes, and where a free worker takes its next one."""

from __future__ import annotations

from typing import ClassVar, Protocol

from trimtab_queues.core.ledger import QueueLedger


class DispatchPolicy(Protocol):
    """A rule that sends each message to a queue.

    A policy reads a `QueueLedger` and never changes it: whoever puts the message in says so to the ledger.
    The same ledger, weights and generator give the same choices.

    Attributes
    ----------
    name
        As in settings.
    waits_for_choice
        Whether it has one queue in mind and waits for that one, though another is open.
    """

    name: ClassVar[str]
    waits_for_choice: ClassVar[bool]

    def choose(self, weight: float, /) -> int | None:
        """The queue of a message.

        Parameters
        ----------
        weight
            Seconds that its processing takes, by its class.

        Returns
        -------
        int or None
            The index of an open queue; None where none is: back-pressure, the caller has to wait or refuse.
        """
        ...

    def source(self, worker: int, /) -> int | None:
        """The queue from which the free worker of a queue takes its next message; None where nothing waits.

        Taking from another queue is a move: the message counts with the worker's own queue from then on.
        """
        ...


class OwnQueue:
    """Workers that take from their own queue only.

    Attributes
    ----------
    ledger
        What the policy reads.
    """

    waits_for_choice: ClassVar[bool] = False

    def __init__(self, ledger: QueueLedger) -> None:
        self.ledger = ledger

    def source(self, worker: int, /) -> int | None:
        """The worker's own queue, where something waits."""
        ledger = self.ledger
        return worker if ledger.length[worker] > ledger.held[worker] else None

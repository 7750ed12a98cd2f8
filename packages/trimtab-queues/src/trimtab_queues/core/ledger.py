"""The ledger of a set of queues: how much lies in each, who may receive, and what came and went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trimtab_common.errors import InputError


class QueueLedger:
    """Queues by index, as a dispatcher and a scheduler see them.

    Whoever owns the queues keeps it: an in-process back-end at every message, one with a server by
    `refresh` from the server's counters. Policies read its lists, which stay the same objects for good.

    Parameters
    ----------
    capacity
        Shape (queues,): the most messages that each may hold.

    Attributes
    ----------
    capacity
        As given.
    length
        Shape (queues,): messages waiting or in work (the paper's N).
    work
        Shape (queues,): seconds of processing of those messages (R).
    held, held_work
        Shape (queues,): how many of them are in work, and their seconds; these cannot be moved.
    paused
        Shape (queues,): marks of the scheduler.
    closed
        Shape (queues,): without a worker that could empty it, or being drained; stays so until reopened.
    open
        Shape (queues,): neither paused nor closed nor full. Kept up by every change.
    arrived, served
        Shape (queues,): seconds of processing that came in and that were finished since the beginning.
        What is moved counts in neither.

    Raises
    ------
    InputError
        If there is no queue, or one may hold nothing.
    """

    __slots__ = (
        "_forecast", "_forecast_work", "_watched", "arrived", "capacity", "closed", "held", "held_work",
        "length",
        "open", "paused", "served", "work",
    )  # fmt: skip

    def __init__(self, capacity: Iterable[int]) -> None:
        self.capacity = list(capacity)
        if not self.capacity:
            raise InputError("there are 0 queues to dispatch to, expected 1 or more: name their capacities")
        for queue, most in enumerate(self.capacity):
            if most < 1:
                raise InputError(f"capacity of queue {queue} is {most}, expected 1 or more messages")
        count = len(self.capacity)
        self.length, self.held = [0] * count, [0] * count
        self.work, self.held_work = [0.0] * count, [0.0] * count
        self.arrived, self.served = [0.0] * count, [0.0] * count
        self._watched: list[set[int]] = []
        self._forecast, self._forecast_work = [0] * count, [0.0] * count
        self.paused, self.closed, self.open = [False] * count, [False] * count, [True] * count

    def __len__(self) -> int:
        return len(self.capacity)

    def enqueued(self, queue: int, weight: float) -> None:
        """A message of that many seconds was put into a queue."""
        self.arrived[queue] += weight
        self._enqueued(queue, weight)

    def sending(self, queue: int, weight: float) -> None:
        """A message is on its way to a queue: it counts there until `sent`, whatever its owner counts."""
        self._forecast[queue] += 1
        self._forecast_work[queue] += weight
        self._enqueued(queue, weight)

    def sent(self, queue: int, weight: float) -> None:
        """A message is on its way no longer: the owner of the queues counts it, if it took it."""
        left = self._forecast[queue] = self._forecast[queue] - 1
        self._forecast_work[queue] = self._forecast_work[queue] - weight if left else 0.0
        self._dequeued(queue, 1, weight)

    def started(self, queue: int, weight: float) -> None:
        """A worker of the queue has taken the message; it counts there until it is finished."""
        self.held[queue] += 1
        self.held_work[queue] += weight

    def finished(self, queue: int, weight: float) -> None:
        """A message that was taken is done with."""
        self.held[queue] -= 1
        self.held_work[queue] = self.held_work[queue] - weight if self.held[queue] else 0.0
        self.served[queue] += weight
        self._dequeued(queue, 1, weight)

    def returned(self, queue: int, weight: float) -> None:
        """A message that was taken waits again: its worker could not finish it."""
        self.held[queue] -= 1
        self.held_work[queue] = self.held_work[queue] - weight if self.held[queue] else 0.0

    def moved(self, source: int, target: int, messages: int, work: float) -> None:
        """Waiting messages went from one queue to another; that is neither arrival nor service."""
        self.work[target] += work
        self.length[target] += messages
        self._update_open(target)
        self._dequeued(source, messages, work)

    def pause(self, queue: int) -> None:
        """Mark a queue: it receives nothing until it is resumed."""
        self.paused[queue] = True
        self.open[queue] = False

    def resume(self, queue: int) -> None:
        """Reopen a paused queue for dispatch."""
        self.paused[queue] = False
        self._update_open(queue)

    def close(self, queue: int) -> None:
        """Take a queue out of dispatch whatever its mark: nobody empties it."""
        self.closed[queue] = True
        self.open[queue] = False

    def reopen(self, queue: int) -> None:
        """Take a closed queue back into dispatch."""
        self.closed[queue] = False
        self._update_open(queue)

    def watch(self) -> set[int]:
        """A set into which queues are put whose work or length shrinks from now on; its reader empties it."""
        eased: set[int] = set()
        self._watched.append(eased)
        return eased

    def refresh(self, queue: int, *, length: int, work: float, held: int = 0, held_work: float = 0.0) -> None:
        """Set a queue to what its owner counts and what is on its way; for dispatchers that are not alone."""
        self.length[queue] = length + self._forecast[queue]
        self.work[queue] = work + self._forecast_work[queue]
        self.held[queue], self.held_work[queue] = held, held_work
        for eased in self._watched:
            eased.add(queue)
        self._update_open(queue)

    def _enqueued(self, queue: int, weight: float) -> None:
        self.work[queue] += weight
        length = self.length[queue] = self.length[queue] + 1
        if length >= self.capacity[queue]:
            self.open[queue] = False

    def _dequeued(self, queue: int, messages: int, work: float) -> None:
        left = self.length[queue] = self.length[queue] - messages
        # An empty queue holds no work: sums of fractions must not leave a crumb that makes it look busy.
        self.work[queue] = self.work[queue] - work if left else 0.0
        for eased in self._watched:
            eased.add(queue)
        if not self.open[queue]:
            self._update_open(queue)

    def _update_open(self, queue: int) -> None:
        self.open[queue] = not (
            self.paused[queue] or self.closed[queue] or self.length[queue] >= self.capacity[queue]
        )


def waiting_work(ledger: QueueLedger) -> Sequence[float]:
    """Seconds of processing that wait in each queue, what is in work left out: shape (queues,)."""
    return [all_of_it - held for all_of_it, held in zip(ledger.work, ledger.held_work, strict=True)]

"""Virtual time: sequences take their next step when it is due, or in whatever order a test wants."""

import heapq

from trimtab.lab.simulate.pulsar.world_protocol import Steps


class VirtualTime:
    """A clock that is a number, and the sequences that wait for it.

    Attributes
    ----------
    now
        Virtual seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Steps]] = []
        self._number = 0

    def begin(self, steps: Steps) -> None:
        """Let a sequence begin now."""
        self._advance(steps)

    def pending(self) -> int:
        """The number of sequences that wait for their next step."""
        return len(self._queue)

    def run_until(self, at: float) -> None:
        """Let everything happen that is due by then."""
        while self._queue and self._queue[0][0] <= at:
            due, _, steps = heapq.heappop(self._queue)
            # What was put off by `step` may be due in the past.
            self.now = max(self.now, due)
            self._advance(steps)
        self.now = max(self.now, at)

    def step(self, number: int) -> None:
        """Let any waiting sequence go on, whenever it is due: messages may take as long as they like.

        Parameters
        ----------
        number
            From 0 to `pending() - 1`.
        """
        due, _, steps = self._queue.pop(number)
        heapq.heapify(self._queue)
        self.now = max(self.now, due)
        self._advance(steps)

    def _advance(self, steps: Steps) -> None:
        pause = next(steps, None)
        if pause is not None:
            self._number += 1
            heapq.heappush(self._queue, (self.now + pause, self._number, steps))

"""Clocks that drift, and what a process would read if it asked the wall."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class DriftingClock:
    """A node's clock: true time at a rate that changes now and then.

    Attributes
    ----------
    rate
        Seconds of this clock in a true second.
    wall_offset
        What an operator or a time server has added to the wall clock, seconds; leaves the other alone.
    reads_wall
        Whether nodes read the wall clock: a mistake, by which checkers show that its jumps would be noticed.
    """

    rate: float = 1.0
    wall_offset: float = 0.0
    reads_wall: bool = False
    _true: float = 0.0
    _local: float = 0.0

    def monotonic(self, true: float) -> float:
        """Seconds since it was started; never goes back."""
        return self._local + (true - self._true) * self.rate

    def wall(self, true: float) -> float:
        """The time of day, which jumps; nothing may hang on it."""
        return self.monotonic(true) + self.wall_offset

    def read(self, true: float) -> float:
        """What nodes read, and so what their terms are counted in."""
        return self.wall(true) if self.reads_wall else self.monotonic(true)

    def true(self, local: float) -> float:
        """When nodes will read that, if its rate stays and nobody sets it."""
        if self.reads_wall:
            local -= self.wall_offset
        return self._true + (local - self._local) / self.rate

    def drift(self, true: float, rate: float) -> None:
        """Go at another rate from now on."""
        self._local, self._true, self.rate = self.monotonic(true), true, rate

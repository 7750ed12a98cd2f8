"""The two lanes of a queue: quick messages go before long ones that came a little earlier."""

from __future__ import annotations

from typing import Final

OVERTAKE_SECONDS: Final = 30.0
"""Quick messages go before others that came at most so long before them."""

QUICK_SHARE: Final = 0.5
"""A message is quick that takes at most this share of the mean: alike messages stay in one line."""

MEMORY: Final = 1000
"""Messages over which the mean is taken; older ones fade."""


class Lanes:
    """A dispatcher's judgement of which messages are quick, by the mean weight of what came.

    Two lanes are the coarsest form of shortest first, the order of least mean wait among those that do not
    interrupt (Harchol-Balter, Performance Modeling and Design of Computer Systems, 2013, chapter 31).
    """

    def __init__(self) -> None:
        self._mean, self._count = 0.0, 0

    def quick(self, weight: float) -> bool:
        """Whether a message goes into the quick lane; it counts in the mean from now on.

        Parameters
        ----------
        weight
            Seconds of processing.
        """
        self._count = min(self._count + 1, MEMORY)
        self._mean += (weight - self._mean) / self._count
        return weight <= QUICK_SHARE * self._mean


def quick_goes_first(quick_at: float, other_at: float, overtake_seconds: float) -> bool:
    """Whether the oldest quick message goes before the oldest other; the same rule as `take.lua`.

    A long message waits for no quick one that came later than this after it: nobody starves.

    Parameters
    ----------
    quick_at, other_at
        When they came into the queue, seconds.
    """
    return quick_at <= other_at + overtake_seconds

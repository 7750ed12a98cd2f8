"""The two lanes of a queue: quick messages go before long ones that came a little earlier."""

from __future__ import annotations

from typing import Final

OVERTAKE_SECONDS: Final = 30.0
"""Quick messages go before others that came at most so long before them."""

QUICK_SHARE: Final = 0.5
"""A message is quick that takes less than this share of the usual: alike messages stay in one line."""

FADE: Final = 0.999
"""What each message leaves of the weight of those before it: some thousand count."""


class LaneClassifier:
    """Which messages are quick, by the weights of what came into the queues, whoever sent it.

    The usual weight is the mean over work, Σw²/Σw: that of the message which a random moment of a busy worker
    belongs to. One report of a second among a hundred votes of 10 ms makes it half a second, though it hardly
    moves the mean over messages: votes are quick.

    Two lanes are the coarsest form of shortest first, the order of least mean wait among those that do not
    interrupt (Harchol-Balter, Performance Modeling and Design of Computer Systems, 2013, chapter 31).

    Attributes
    ----------
    work, squares
        Σw and Σw² of what came, older messages faded.
    """

    __slots__ = ("squares", "work")

    def __init__(self, work: float = 0.0, squares: float = 0.0) -> None:
        self.work, self.squares = work, squares

    def enqueued(self, weight: float) -> None:
        """A message came into a queue; the same rule as `put.lua`.

        Parameters
        ----------
        weight
            Seconds of processing.
        """
        self.work = self.work * FADE + weight
        self.squares = self.squares * FADE + weight * weight

    def quick(self, weight: float) -> bool:
        """Whether a message of so many seconds goes into the quick lane."""
        return weight * self.work < QUICK_SHARE * self.squares


def is_quick_first(quick_at: float, other_at: float, max_overtake_seconds: float) -> bool:
    """Whether the oldest quick message goes before the others; the same rule as `take.lua`.

    A long message waits for no quick one that came later than this after it, also where it was moved: nobody
    starves.

    Parameters
    ----------
    quick_at, other_at
        When they were accepted, seconds; `other_at` is that of the other message that has waited longest.
    """
    return quick_at <= other_at + max_overtake_seconds

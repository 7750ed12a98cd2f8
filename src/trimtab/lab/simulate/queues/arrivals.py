"""Arrivals at a set of queues: messages of several classes, in step with the queues or at random."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """A message on its way through the queues.

    Attributes
    ----------
    number
        Its place in the order of arrival.
    due
        When its sender wants to hand it over, seconds.
    weight
        Seconds of processing, as the dispatcher believes.
    key
        Its affinity key, a user; None without.
    seconds
        Seconds that its processing takes at speed 1; None where that is its weight.
    """

    number: int
    due: float
    weight: float
    key: Hashable | None = None
    seconds: float | None = None

    @property
    def takes_seconds(self) -> float:
        """Seconds of processing at speed 1."""
        return self.weight if self.seconds is None else self.seconds


def in_step(count: int, weights: Sequence[float], interval_seconds: float) -> list[Message]:
    """Classes in turn: with as many queues as classes and plain round-robin, class i always meets queue i."""
    return [
        Message(number, number * interval_seconds, weights[number % len(weights)]) for number in range(count)
    ]


def at_random(
    count: int, weights: Sequence[float], interval_seconds: float, seed: int, *, users: int = 0
) -> list[Message]:
    """Each message of a class drawn evenly; of a user drawn evenly, where there are users."""
    chance = random.Random(seed)
    return [
        Message(
            number,
            number * interval_seconds,
            chance.choice(weights),
            chance.randrange(users) if users else None,
        )
        for number in range(count)
    ]

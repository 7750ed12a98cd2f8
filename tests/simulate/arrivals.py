"""Arrivals at a set of queues: messages of several classes, in step with the queues or at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

from trimtab.history.queues.simulation import ReplayedMessage


def in_step(count: int, weights: Sequence[float], interval_seconds: float) -> list[ReplayedMessage]:
    """Classes in turn: with as many queues as classes and plain round-robin, class i always meets queue i."""
    return [
        ReplayedMessage(number, number * interval_seconds, weights[number % len(weights)])
        for number in range(count)
    ]


def at_random(
    count: int, weights: Sequence[float], interval_seconds: float, seed: int, *, users: int = 0
) -> list[ReplayedMessage]:
    """Each message of a class drawn evenly; of a user drawn evenly, where there are users."""
    chance = random.Random(seed)
    return [
        ReplayedMessage(
            number,
            number * interval_seconds,
            chance.choice(weights),
            chance.randrange(users) if users else None,
        )
        for number in range(count)
    ]

"""Compiled: numbers of a topic on every broker, and what it is worth to bring them within their bounds.

A topic's term of a broker's potential is weight · (distance from the bounds)², of replicas and of leaders
each. Weights are multiples of 2⁻³⁰ and distances whole numbers, so that sums are exact, and a broker's
potential can be kept by additions alone.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.topics import TopicGoals
from trimtab.plan.search.board import NEGLIGIBLE
from trimtab.plan.search.compiled import entry, leaf

LOW, HIGH, WEIGHT = range(3)
SPREAD = 2
"""Column of `worth` that holds what rests on a broker by its topics."""

SMALL = 10.0
"""One replica too many of a topic weighs as so small a part of the mean, where topics are small: a tenth."""

UNIT = 2.0**-30


class TopicTable(NamedTuple):
    """Numbers of topics as a board has them.

    Attributes
    ----------
    counts
        Shape (rows, brokers, 2): replicas and leaders; changed as they move.
    bounds
        Shape (rows, 2, 3): least, most, weight.
    counted
        Shape (brokers, 2): the number is asked to be within its bounds there.
    """

    counts: IntArray
    bounds: FloatArray
    counted: BoolArray


NO_TOPICS = TopicTable(np.zeros((0, 0, 2), np.int32), np.zeros((0, 2, 3)), np.zeros((0, 2), np.bool_))


def topic_table(request: TopicGoals, replicas: IntArray, leader: IntArray, share: float = 1.0) -> TopicTable:
    """The numbers of a placement, with bounds around its own means of `share` of ε."""
    counts = request.counts(replicas, leader)
    bounds = np.empty((len(request.name), 2, 3))
    bounds[:, :, :WEIGHT] = request.bounds(counts, share)
    weight = 1.0 / np.maximum(request.mean(counts), SMALL) ** 2
    bounds[:, :, WEIGHT] = np.maximum(np.rint(weight / UNIT), 1.0) * UNIT
    return TopicTable(counts, bounds, request.counted)


def topic_potential(table: TopicTable) -> FloatArray:
    """Shape (brokers,): the sum of the terms of all topics."""
    found = np.zeros(len(table.counted))
    _weigh(table.counts, table.bounds, table.counted, found)
    return found


def topic_rise(table: TopicTable, t: int, change: IntArray) -> float:
    """Rise of all potentials if a topic's numbers changed by so much, of shape (brokers, 2)."""
    rows = np.flatnonzero(change.any(axis=1))
    low, high, weight = (table.bounds[t, :, column] for column in (LOW, HIGH, WEIGHT))
    before = table.counts[t, rows]
    was, now = (
        (weight * np.maximum(np.maximum(one - high, low - one), 0.0) ** 2 * table.counted[rows]).sum()
        for one in (before, before + change[rows])
    )
    return float(now - was)


@leaf
def topic_term(counts, bounds, counted, t, b, replicas, leaders):
    """A topic's part of a broker's potential, if it had so many replicas and leaders more."""
    total = 0.0
    for what in range(2):
        if counted[b, what]:
            number = counts[t, b, what] + (replicas if what == 0 else leaders)
            off = max(number - bounds[t, what, HIGH], bounds[t, what, LOW] - number, 0.0)
            total += bounds[t, what, WEIGHT] * off * off
    return total


@leaf
def topic_trade(counts, bounds, counted, t, a, b, replicas, leaders):
    """Terms of a topic at `a` and `b` (-1: nobody) before and after `a` hands so many to `b`."""
    before, after = 0.0, 0.0
    if a >= 0:
        before += topic_term(counts, bounds, counted, t, a, 0, 0)
        after += topic_term(counts, bounds, counted, t, a, -replicas, -leaders)
    if b >= 0:
        before += topic_term(counts, bounds, counted, t, b, 0, 0)
        after += topic_term(counts, bounds, counted, t, b, replicas, leaders)
    return before, after


@leaf
def transfer_topic_counts(counts, bounds, counted, worth, t, a, b, replicas, leaders):
    """Let the numbers follow a change, and what rests on both brokers."""
    if a >= 0:
        worth[a, SPREAD] += topic_term(counts, bounds, counted, t, a, -replicas, -leaders) - topic_term(
            counts, bounds, counted, t, a, 0, 0
        )
        counts[t, a, 0] -= replicas
        counts[t, a, 1] -= leaders
    worth[b, SPREAD] += topic_term(counts, bounds, counted, t, b, replicas, leaders) - topic_term(
        counts, bounds, counted, t, b, 0, 0
    )
    counts[t, b, 0] += replicas
    counts[t, b, 1] += leaders


@leaf
def add_topic_keys(counts, bounds, counted, worth, h, keys):
    """Add to each broker's key how little it fits as a partner of `h`, by the topics that are off there.

    Who has few of what `h` has too many of fits, and who has many of what `h` lacks.
    """
    if worth[h, SPREAD] <= NEGLIGIBLE:
        return
    for t in range(len(counts)):
        for what in range(2):
            if not counted[h, what]:
                continue
            mine = counts[t, h, what]
            off = max(mine - bounds[t, what, HIGH], 0.0) - max(bounds[t, what, LOW] - mine, 0.0)
            if off != 0.0:
                for b in range(len(keys)):
                    keys[b] += bounds[t, what, WEIGHT] * off * (counts[t, b, what] - mine)


@entry
def _weigh(counts, bounds, counted, out):
    for t in range(len(counts)):
        for b in range(len(out)):
            out[b] += topic_term(counts, bounds, counted, t, b, 0, 0)

"""Goals per topic: how many of its replicas every broker holds, and how many of its partitions it leads.

All brokers weigh equally. Topics that are excluded stay where they are, and nothing is asked of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from re import compile as compile_pattern
from typing import Any, Final

import numpy as np

from trimtab.model.goals import GoalViolation
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.settings import ReplicasSettings

TOPIC_GOALS: Final = ("topic_replicas", "topic_leaders", "min_leaders_per_topic")

REPLICAS, LEADERS = range(2)
"""What is counted: the last axis of a tally."""

ROUNDING: Final = 1e-9

ANY: Final = 1 << 30
"""A number that nobody reaches: no limit."""


def matched(topics: Iterable[str], patterns: Iterable[str]) -> BoolArray:
    """Shape (topics,): which one of the names or glob patterns covers."""
    matchers = [compile_pattern(translate(pattern)) for pattern in patterns]
    return np.array([any(m.match(name) for m in matchers) for name in topics], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class TopicGoals:
    """The topics that goals are about, with a row each, and what is asked of them.

    Attributes
    ----------
    name
        Length (rows,).
    row
        Shape (partitions,): row of the partition's topic, -1 where nothing is asked of it.
    even
        Shape (rows, 2): its replicas, its leaders are to be even.
    minimum
        Shape (rows,): partitions of it that every broker is to lead, 0 for none.
    counted
        Shape (brokers, 2): replicas count on brokers that may be given some, leaders on those of them that
        may lead.
    epsilon
        Furthest from the mean, as a share of it.
    """

    name: tuple[str, ...]
    row: IntArray
    even: BoolArray
    minimum: IntArray
    counted: BoolArray
    epsilon: float

    @cached_property
    def partitions(self) -> IntArray:
        """Number of partitions of each topic, shape (rows,)."""
        return np.bincount(self.row[self.row >= 0], minlength=len(self.name)).astype(np.int64)

    def counts(self, replicas: IntArray, leader: IntArray) -> IntArray:
        """Shape (rows, brokers, 2): replicas and leaders of every topic on every broker, 32 bits each.

        Parameters
        ----------
        replicas
            Shape (partitions, width): broker indices, -1 in padding.
        leader
            Shape (partitions,): broker index, -1 for none.
        """
        brokers = len(self.counted)
        found = np.zeros((len(self.name), brokers, 2), dtype=np.int32)
        sides = [(REPLICAS, replicas[:, slot]) for slot in range(replicas.shape[1])] + [(LEADERS, leader)]
        for what, holder in sides:
            weighs = (self.row >= 0) & (holder >= 0)
            at = self.row[weighs].astype(np.int64) * brokers + holder[weighs]
            found[:, :, what] += np.bincount(at, minlength=len(self.name) * brokers).reshape(-1, brokers)
        return found

    def band(self, counts: IntArray, share: float = 1.0) -> IntArray:
        """Shape (rows, 2, 2): least and most of replicas and leaders by which a broker counts as even.

        With `share` of ε; the numbers next to the mean are always within.
        """
        mean, reach = self.mean(counts), self.epsilon * share
        low = np.minimum(np.ceil(mean * (1 - reach) - ROUNDING), np.floor(mean))
        high = np.maximum(np.floor(mean * (1 + reach) + ROUNDING), np.ceil(mean))
        sides = np.where(self.even, low, 0), np.where(self.even, high, ANY)
        return np.stack(sides, axis=2).astype(np.int32)

    def bounds(self, counts: IntArray, share: float = 1.0) -> IntArray:
        """The band, and within it the leaders that every broker is to have: what a search aims at.

        Where a topic has too few partitions for that, brokers are to lead what is next below the mean.
        """
        found = self.band(counts, share)
        within = np.minimum(self.minimum, np.floor(self.mean(counts)[:, LEADERS])).astype(np.int32)
        found[:, LEADERS, 0] = np.maximum(found[:, LEADERS, 0], within)
        return found

    def mean(self, counts: IntArray) -> FloatArray:
        """Shape (rows, 2): means over the brokers that are counted; 0 where none is."""
        total = np.where(self.counted[None], counts, 0).sum(axis=1)
        return np.asarray(total / np.maximum(self.counted.sum(axis=0), 1), dtype=np.float64)


def topic_goals(snapshot: Any, settings: ReplicasSettings) -> TopicGoals | None:
    """The topics that the settings' goals are about; None where no goal per topic is asked for.

    A table of topics and brokers is kept for those alone: 8 bytes for each pair.
    """
    if not set(TOPIC_GOALS) & set(settings.goals):
        return None
    parts, brokers = snapshot.partitions, snapshot.brokers
    free = ~matched(parts.topics, settings.excluded_topics)
    named = matched(parts.topics, settings.balanced_topics) & free
    even = np.stack([named & (goal in settings.goals) for goal in TOPIC_GOALS[:2]], axis=1)
    least = np.zeros(len(parts.topics), dtype=np.int32)
    if "min_leaders_per_topic" in settings.goals:
        for pattern, number in settings.min_leaders_per_topic.items():
            least = np.maximum(least, np.where(matched(parts.topics, (pattern,)) & free, np.int32(number), 0))
    rows = np.flatnonzero(even.any(axis=1) | (least > 0))
    row = np.full(len(parts.topics), -1, dtype=np.int32)
    row[rows] = np.arange(len(rows))
    receives = brokers.may_receive & ~np.isin(brokers.id, settings.excluded_brokers_for_replicas)
    closed = (*settings.excluded_brokers_for_leaders, *settings.demote)
    leads = receives & brokers.may_lead & ~np.isin(brokers.id, closed)
    return TopicGoals(
        name=tuple(parts.topics[t] for t in rows.tolist()),
        row=row[parts.topic] if len(parts) else np.zeros(0, dtype=np.int32),
        even=even[rows],
        minimum=least[rows],
        counted=np.stack([receives, leads], axis=1),
        epsilon=settings.count_epsilon,
    )


@dataclass(frozen=True, eq=False)
class TopicCounts:
    """The topics under a placement, held against what is asked of them.

    Attributes
    ----------
    brokers
        Names of the brokers.
    counts
        As `TopicGoals.counts` has it.
    """

    topic_goals: TopicGoals
    goals: tuple[str, ...]
    brokers: tuple[int | str, ...]
    counts: IntArray
    kind: str = "topic"

    def off(self, goal: str) -> IntArray:
        """Shape (rows, brokers): by how much each is above (positive) or below (negative) what is asked."""
        asked, what = self.topic_goals, REPLICAS if goal == "topic_replicas" else LEADERS
        numbers = self.counts[:, :, what]
        if goal == "min_leaders_per_topic":
            away = np.minimum(numbers - asked.minimum[:, None], 0)
        else:
            low, high = (self._band[:, what, side, None] for side in (0, 1))
            away = np.maximum(numbers - high, 0) - np.maximum(low - numbers, 0)
        return np.where(asked.counted[:, what], away, 0)

    @cached_property
    def _band(self) -> IntArray:
        return self.topic_goals.band(self.counts)

    def about(self, goal: str) -> int:
        """How many topics a goal is about."""
        if goal == "min_leaders_per_topic":
            return int((self.topic_goals.minimum > 0).sum())
        return int(self.topic_goals.even[:, TOPIC_GOALS.index(goal)].sum())

    def short(self) -> dict[str, int]:
        """By name, the topics with too few partitions for the leaders asked for, and how many they lack."""
        need = self.topic_goals.minimum * int(self.topic_goals.counted[:, LEADERS].sum())
        lack = need - self.topic_goals.partitions
        return {self.topic_goals.name[row]: int(lack[row]) for row in np.flatnonzero(lack > 0).tolist()}

    @cached_property
    def _violations(self) -> tuple[GoalViolation, ...]:
        found = []
        for goal in self.goals:
            off = self.off(goal)
            what = REPLICAS if goal == "topic_replicas" else LEADERS
            worst = np.abs(off).argmax(axis=1) if len(off) else np.zeros(0, np.int64)
            for row in np.flatnonzero(off.any(axis=1)).tolist():
                broker = int(worst[row])
                number, away = int(self.counts[row, broker, what]), int(off[row, broker])
                brokers = int((off[row] != 0).sum())
                name = self.topic_goals.name[row]
                found.append(
                    GoalViolation(
                        goal, name, self.brokers[broker], "", float(number), float(number - away), brokers
                    )
                )
        return tuple(found)

    def violations(self) -> tuple[GoalViolation, ...]:
        """The topics that miss a goal, each with its worst broker: its number, and the nearest allowed."""
        return self._violations


def topic_numbers(
    snapshot: Any, settings: ReplicasSettings, replicas: IntArray, leader: IntArray
) -> TopicCounts | None:
    """The topics that goals are about under a placement of broker indices; None where no goal is."""
    asked = topic_goals(snapshot, settings)
    if asked is None:
        return None
    goals = tuple(goal for goal in TOPIC_GOALS if goal in settings.goals)
    return TopicCounts(asked, goals, snapshot.row_names, asked.counts(replicas, leader))

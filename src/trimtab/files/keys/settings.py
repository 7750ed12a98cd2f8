"""The section `[keys]` of the settings: what plans of routing tables go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.files.binding import (
    RejectCallback,
    Section,
    check_fractions,
    check_idle_usage,
    check_not_negative,
)


@dataclass(frozen=True)
class KeysSettings:
    """What a routing table is to achieve, and how much may change for it.

    Attributes
    ----------
    strategy
        The planner: `trim`.
    theta
        Highest share of what its consumer can do that arrives in a partition.
    epsilon
        Highest deviation γ of a partition's records a second from their mean, 0 < ε < 1.
    min_utilization
        ε is not asked where partitions get less than this share of what their consumers can do.
    split_above
        A key with more than this share of what one consumer can do is split. Where that is not known, one
        with more than a partition may get by ε.
    merge_below
        A split key goes to one partition again below this share: between the two nothing changes.
    max_split_partitions
        The most partitions that a key is split over; 0: all there are.
    max_groups
        The most key groups that a plan moves.
    max_partitions
        Up to so many partitions a plan adds some where θ cannot be met otherwise; 0: it never does.
    cooldown_seconds
        No partition is added so soon after the last: whoever has the new ones shows what they change first.
    min_placed_share
        Of the records with a key, the share that must lie where the table in force puts them: below it
        producers go by another partitioner, and no plan is made.
    table_location
        Where routing tables are published: `kafka:TOPIC`, a compacted topic, or the path of a file.
    consumer_group
        The consumer group whose load counts, where several read the topic.
    """

    strategy: str = "trim"
    theta: tuple[float, ...] = (0.8,)
    epsilon: tuple[float, ...] = (0.1,)
    min_utilization: float = 0.02
    split_above: float = 0.5
    merge_below: float = 0.25
    max_split_partitions: int = 0
    max_groups: int = 256
    max_partitions: int = 0
    cooldown_seconds: float = 600.0
    min_placed_share: float = 0.9
    table_location: str = "kafka:trimtab-tables"
    consumer_group: str = ""


def _check(settings: KeysSettings, refuse: RejectCallback) -> None:
    check_fractions(settings, refuse)
    check_idle_usage(settings, refuse)
    check_not_negative(
        settings, ("max_split_partitions", "max_groups", "max_partitions", "cooldown_seconds"), refuse
    )
    if not 0 <= settings.min_placed_share <= 1:
        refuse("min_placed_share", settings.min_placed_share, "a share from 0 to 1")
    if not 0 < settings.split_above <= 1:
        refuse("split_above", settings.split_above, "a share above 0, at most 1")
    if not 0 <= settings.merge_below < settings.split_above:
        refuse("merge_below", settings.merge_below, "0 or more, and less than split_above")


SECTION: Final = Section("keys", KeysSettings, ("theta", "epsilon"), ("records",), _check)

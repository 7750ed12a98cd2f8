"""The section `[keys]` of the settings: what plans of routing tables go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from trimtab_common.documents import Count, Fraction, Seconds, Share, SmallShare
from trimtab_common.settings import RejectCallback, Section


@dataclass(frozen=True)
class KeysSettings:
    """Goals and limits of a plan of routing tables.

    Attributes
    ----------
    strategy
        Planner: `trim`.
    theta
        Highest arrival rate of a partition, as a share of its consumer's capacity.
    epsilon
        Highest deviation γ of a partition's records per second from the mean, 0 < ε < 1.
    min_utilization
        Partitions that receive less than this share of their consumers' capacity are not balanced.
    split_above
        Keys above this share of one consumer's capacity are split. If the capacity is unknown: keys above a
        partition's limit by ε.
    merge_below
        Split keys below this share return to one partition. Between `merge_below` and `split_above` nothing
        changes.
    max_split_partitions
        Maximum number of partitions of a split key; 0: all.
    max_groups
        Maximum number of key groups that a plan moves.
    max_partitions
        A plan may add partitions up to this number if θ cannot be met otherwise; 0: never.
    cooldown_seconds
        Minimum time between partition increases.
    min_placed_share
        Minimum share of keyed records that are where the table in force puts them. Below it producers use
        another partitioner, and no plan is made.
    table_location
        Location of the routing tables: `kafka:TOPIC`, a compacted topic, or the path of a file.
    consumer_group
        Consumer group whose load counts, if several read the topic.
    """

    strategy: str = "trim"
    theta: tuple[Share, ...] = (0.8,)
    epsilon: tuple[Fraction, ...] = (0.1,)
    min_utilization: SmallShare = 0.02
    split_above: Share = 0.5
    merge_below: float = 0.25
    max_split_partitions: Count = 0
    max_groups: Count = 256
    max_partitions: Count = 0
    cooldown_seconds: Seconds = 600.0
    min_placed_share: Annotated[float, Meta(ge=0, le=1)] = 0.9
    table_location: str = "kafka:trimtab-tables"
    consumer_group: str = ""


def _check(settings: KeysSettings, refuse: RejectCallback) -> None:
    if not 0 <= settings.merge_below < settings.split_above:
        refuse("merge_below", settings.merge_below, "0 or more, and less than split_above")


SECTION: Final = Section("keys", KeysSettings, ("theta", "epsilon"), ("records",), _check)

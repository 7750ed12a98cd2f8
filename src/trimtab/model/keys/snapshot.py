"""The snapshot of the balancer `keys`: the load of a topic's partitions, key groups and hot keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.model.imbalance import Imbalance, imbalance
from trimtab.model.load import FloatArray
from trimtab.model.snapshot import Quality, SnapshotReference
from trimtab.model.values import Amount
from trimtab_common.documents import Count, Name
from trimtab_keys.core.routing import group_count

RESOURCES: Final = ("records",)
"""What is balanced between partitions: records a second, of what the partition's consumer can do."""


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """One partition.

    Attributes
    ----------
    records_per_second
        That arrive.
    backlog
        Records that the group has not committed.
    record_bytes
        Mean size of key and value.
    served_per_second
        Records committed; None where no group reads the topic.
    isc, isc_literal
        Instant service consumption, repaired and by the printed formula; None where no capacity is known.
    ps_content, ps_load
        Its distance from every partition by what lies there and by load, shape (partitions,); empty where
        there are too many.
    """

    partition: Count
    records_per_second: Amount
    backlog: Count
    record_bytes: Amount
    served_per_second: Amount | None = None
    isc: Amount | None = None
    isc_literal: Amount | None = None
    ps_content: tuple[Amount, ...] = ()
    ps_load: tuple[Amount, ...] = ()

    @property
    def name(self) -> str:
        """As tables call it."""
        return f"partition {self.partition}"


@dataclass(frozen=True, slots=True)
class HotKey:
    """One of the most frequent keys.

    Attributes
    ----------
    key
        As `trimtab.model.keys.naming` writes it, or a keyed hash of it.
    group
        Its key group.
    records_per_second, share
        Of it, and as a share of the topic's.
    partitions
        To which its records go by the table in force.
    consumer
        Share of one consumer's capacity that it takes; None where no capacity is known.
    """

    key: Name
    group: Count
    records_per_second: Amount
    share: Amount
    partitions: tuple[Count, ...]
    consumer: Amount | None = None


@dataclass(frozen=True, slots=True)
class KeyGroupLoad:
    """One key group: where it goes by the table in force, and its records a second, hot keys included."""

    group: Count
    partition: Count
    records_per_second: Amount


@dataclass(frozen=True)
class KeysSnapshot:
    """One topic at a moment.

    Attributes
    ----------
    topic, topic_id
        Its name, and the id that a topic made anew does not have.
    consumers
        The consumer group whose commits count; empty where there is none.
    version
        Of the routing table in force; 0 is the plain hash.
    base
        Partitions that the hash divides by.
    hashed
        Whether hot keys are told by a keyed hash only.
    capacity, consumer_capacity
        Records a second that consumers can do in one partition, and that one consumer can do in all of its
        own; None where none was ever seen at its limit.
    added_seconds
        Since partitions were last added, by whomever; None where earlier readings do not tell.
    """

    reference: SnapshotReference
    quality: Quality
    topic: str
    topic_id: str
    consumers: str
    version: int
    base: int
    hashed: bool
    capacity: float | None = None
    consumer_capacity: float | None = None
    added_seconds: float | None = None
    partitions: tuple[PartitionLoad, ...] = ()
    groups: tuple[KeyGroupLoad, ...] = ()
    keys: tuple[HotKey, ...] = ()

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of `imbalance().usage`."""
        return tuple(one.name for one in self.partitions)

    @property
    def group_number(self) -> int:
        """Key groups that there are."""
        return group_count(self.base)

    @property
    def keyless_share(self) -> float:
        """Of the records read, those without a key; 0 where the reading does not tell."""
        found = dict(self.quality.extra).get("x_keyless_share", 0.0)
        return float(found) if isinstance(found, int | float) else 0.0

    @property
    def placed_share(self) -> float | None:
        """Of the records with a key, those that lie where the table in force puts them.

        None where the reading does not tell: an older one, or without records since that table.
        """
        found = dict(self.quality.extra).get("x_placed_share")
        return float(found) if isinstance(found, int | float) else None

    def imbalance(self, rates: FloatArray | None = None) -> Imbalance:
        """The measures of the records that arrive, or of other rates, shape (partitions,).

        Without a known capacity each partition has all of the load as its capacity: the same for all.
        """
        found = np.array([one.records_per_second for one in self.partitions]) if rates is None else rates
        each = self.capacity or max(1.0, float(found.sum()))
        return imbalance(
            found[:, None], np.full((len(found), 1), each), np.ones(len(found), dtype=np.bool_), RESOURCES
        )

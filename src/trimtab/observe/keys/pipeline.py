"""The pipeline of the balancer `keys`: raw samples of a topic to the load of its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from trimtab.model.keys import RESOURCES
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline, PipelineSettings, UpToAYear
from trimtab.observe.lake.columns import RawSchema, columns, numbers, of_raw
from trimtab_common.documents import Positive

KINDS: Final = ("keyed_topic", "key_partition", "hot_key")
"""The kinds of entity that a row describes, and the columns it fills by that:

- `keyed_topic`: topic, topic_id, consumers, version, base, hashed, and how much was read;
- `key_partition`: partition, offsets, members, and what was read there: records, their bytes, those without a
  key, histograms of key groups and of sizes, and how many came in how many seconds of late;
- `hot_key`: key, key_group, partition, and its records that were read there.

A look at offsets alone fills the first columns of the first two.
"""

KEYS: Final = ("cluster", "tick", "kind", "partition", "key")

COLUMNS: Final = (
    ("cluster", "string"),  # topic@cluster
    ("tick", "timestamp"),
    ("kind", "string"),
    ("partition", "int"),
    ("key", "string"),  # as trimtab.model.keys writes it, or its keyed hash
    ("sampled_at", "timestamp"),
    ("received_at", "timestamp"),
    ("topic", "string"),
    ("topic_id", "string"),
    ("consumers", "string"),
    ("version", "long"),  # of the routing table in force
    ("base", "int"),
    ("hashed", "boolean"),
    ("begin_offset", "long"),
    ("end_offset", "long"),
    ("committed_offset", "long"),
    ("member", "string"),  # of the group, that has the partition
    ("distinct_keys", "long"),
    ("records", "long"),
    ("bytes", "long"),
    ("keyless", "long"),
    ("key_group", "int"),
    ("groups", "longs"),  # records by key group
    ("sizes", "longs"),  # records by size: class n holds those of 2**(n-1) bytes or more, below 2**n
    ("recent_records", "long"),  # that came after the first of those of late,
    ("recent_seconds", "double"),  # in so long
    ("route", "ints"),  # of a hot key: partitions by the table in force
    ("routes", "ints"),  # of a topic: the partition of each key group by the table in force
    ("keyed_records", "long"),  # with a key, since the table in force was published,
    ("placed_records", "long"),  # and of these, in a partition where it puts them
    ("partitioner", "string"),  # the known one that puts most of a sample of keys where they lie
)


_COLUMNS: Final = of_raw(COLUMNS)
FORM: Final = RawSchema(_COLUMNS, KEYS, KINDS, negative=numbers(_COLUMNS, "bigint"))


@dataclass(frozen=True)
class KeysPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `keys`.

    Attributes
    ----------
    max_records
        Number of newest records to read, over all partitions.
    max_keys
        Maximum number of hot keys in the output.
    sample_interval_seconds
        Minimum time between the two samples of offsets from which rates are computed.
    rate_window_seconds
        Window of record timestamps from which rates are computed, with less noise. If these rates differ
        significantly from the rates of the two samples, load has changed and the samples count.
    capacity_window_seconds
        Window in which commits of consumers with a backlog measure a consumer's capacity.
    capacity_per_second
        Capacity of one consumer in records per second, if known; 0: measured by commits.
    hash_keys
        Whether the output has only keyed hashes of keys; the salt is in the environment.
    """

    PLACE: ClassVar[str] = "keys"
    NOT_OF_TABLES: ClassVar[frozenset[str]] = frozenset(
        {"max_records", "max_keys", "sample_interval_seconds", "rate_window_seconds", "hash_keys"}
    )

    max_records: Positive = 200_000
    max_keys: Positive = 20
    sample_interval_seconds: UpToAYear = 10.0
    rate_window_seconds: UpToAYear = 600.0
    capacity_window_seconds: UpToAYear = 600.0
    capacity_per_second: Annotated[float, Meta(ge=0, lt=1e12)] = 0.0
    hash_keys: bool = False

    def needed(self, table: str) -> int:
        """As for every balancer, and as far back as commits tell of capacity."""
        return max(super().needed(table), self.capacity + self.gap)

    @property
    def capacity(self) -> int:
        """How far back commits tell of capacity, microseconds."""
        return round(self.capacity_window_seconds * 1_000_000)


BROKERS: Final = columns(
    "cluster string, tick timestamp, broker string, broker_state string, partition int, elapsed_us bigint, "
    "end_offset bigint, backlog bigint, served_per_second double, records_load double, "
    "records_capacity double, consumer_capacity double, flags int"
)
"""Partitions; the names of the first columns are those that all balancers have."""

PIPELINE: Final = BalancerPipeline(
    name="keys",
    resources=RESOURCES,
    settings=KeysPipelineSettings,
    raw=FORM,
    own_tables={"brokers": BROKERS},
    transformations="trimtab.observe.keys.stages:STAGES",
    snapshots="trimtab.observe.keys.stages:write_newest_snapshots",
)

"""Records of a topic, read by Spark from the topic itself, as raw samples of the balancer `keys`.

A reading is bounded: the newest `max_records` records, up to the end as it was when it began. Records are
counted by partition and key once; the histogram of key groups and the hot keys come out of those counts, so
that the hash is computed once for each distinct key, and no value leaves the brokers but for its length.
Frequent keys are found by Spark's `approx_top_k` over a hash of the key, and counted exactly: no key stands
in the text of a query, which Spark may log.
"""

from __future__ import annotations

import datetime
import hmac
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from trimtab.connect.kafka.groups import ConsumerGroup
from trimtab.connect.kafka.keyed_topic import KeyedTopic, TopicState, keyed_topic
from trimtab.files.keys.settings import SECTION
from trimtab.model.errors import ObserveError, SettingsError
from trimtab.model.keys.naming import HASHED, key_text
from trimtab.model.keys.routing import Route, RoutingTable, group_count
from trimtab.observe.collect.sinks import LakeSink, RowBatch, RowBatchBuilder
from trimtab.observe.keys.pipeline import COLUMNS, KeysPipelineSettings
from trimtab.online.keys.known_hashes import fitting
from trimtab.online.keys.murmur2 import key_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from trimtab.connect.kafka.settings import KafkaConnection
    from trimtab.files.settings import Settings
    from trimtab.observe.lake import Lake

SALT: Final = "TRIMTAB_KEYS_SALT"
SALT_BYTES: Final = 16
SIZE_CLASSES: Final = 32
TRACKED: Final = 10_000
"""Counters of the sketch: a key with more than a ten thousandth of the records is not missed."""
HASH_DIGITS: Final = 16
SAMPLED: Final = 200
"""Distinct keys by which the partitioner of producers is told."""
SAMPLED_BYTES: Final = 64

ProgressCallback = Callable[[str], None]


class OffsetSampling:
    """One look at offsets, and then one reading with another look.

    Parameters
    ----------
    topic
        Connected.
    settings
        Of the balancer's pipeline.
    consumers
        Name of the group whose commits count; empty for the only one.
    lake
        Where samples land, seen from this balancer.
    """

    def __init__(
        self,
        topic: KeyedTopic,
        settings: KeysPipelineSettings,
        consumers: str,
        lake: Lake,
        print_progress: ProgressCallback,
    ) -> None:
        self._topic, self._settings, self._named, self._print_progress = (
            topic,
            settings,
            consumers,
            print_progress,
        )
        self._sink = LakeSink(lake.raw, COLUMNS)
        self._salt = _salt() if settings.hash_keys else None
        self._observed = 0.0

    def sample_offsets(self) -> str:
        """Land the offsets as they are now; the name that samples are filed under."""
        seen, consumers = self._topic.describe(), self._topic.consumers(self._named)
        self._observed = time.monotonic()
        return self._write(seen, consumers, {}, {})

    def read(self, session: SparkSession, options: Mapping[str, str]) -> str:
        """Read the newest records, and land what they say with the offsets of then.

        Parameters
        ----------
        options
            Of Spark's Kafka source: the connection.

        Raises
        ------
        ObserveError
            If the topic is empty.
        """
        seen = self._topic.describe()
        published = self._topic.published(seen.topic_id)
        if published.damaged:
            self._print_progress(
                f"{published.damaged}; goes by the table before, or by the plain hash where there is none"
            )
        count = len(seen.ends)
        table = published.table or RoutingTable(0, min(published.base, count) or count, count)
        begins = newest(seen, self._settings.max_records)
        asked = sum(seen.ends.values()) - sum(begins.values())
        if not asked:
            raise ObserveError(
                f"topic {self._topic.topic} holds no records: send some, or name another with --keys"
            )
        self._print_progress(f"reading the newest {asked:,} records of {self._topic.topic}")
        until = time.time()
        records = _records(session, options, self._topic.topic, begins, seen.ends, until)
        settings = self._settings
        found, hot, sample = counted(
            records, group_count(table.base), settings.max_keys, settings.rate_window_seconds, table.passed
        )
        if (
            time.monotonic() - self._observed + self._settings.sample_interval_seconds
            > self._settings.gap_seconds
        ):
            # Two looks so far apart make no rates: without any, whatever is uneven would seem level.
            self._print_progress(
                f"records took longer to read than pipeline.gap_seconds: looking at {self._topic.topic} again"
            )
            self.sample_offsets()
        wait = self._observed + self._settings.sample_interval_seconds - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        seen, consumers = self._topic.describe(), self._topic.consumers(self._named)
        told: dict[str, Any] = {"version": table.version, "base": table.base}
        told["hashed"] = self._salt is not None
        told["placed_records"], told["keyed_records"] = placed(found, table)
        told["partitioner"] = fitting(sample, count)
        told["records"] = sum(one["records"] for one in found.values())
        told["routes"] = [table.group_route(group).partitions[0] for group in range(group_count(table.base))]
        return self._write(seen, consumers, told, found, [self._hot(one, table) for one in hot])

    def _hot(self, row: Mapping[str, Any], table: RoutingTable) -> dict[str, Any]:
        key = bytes(row["key"])
        text = key_text(key)
        if self._salt is not None:
            text = HASHED + hmac.digest(self._salt, key, "sha256").hex()[:HASH_DIGITS]
        route = table.route(row["key_group"], key).partitions
        return {**row, "key": text, "route": list(route)}

    def _write(
        self,
        observation: TopicState,
        consumers: ConsumerGroup,
        text: Mapping[str, Any],
        found: Mapping[int, Mapping[str, Any]],
        hot: list[dict[str, Any]] | None = None,
    ) -> str:
        now = datetime.datetime.now(datetime.UTC)
        shared = {"consumers": consumers.name or None, "sampled_at": now}
        names = ("partition", "begin_offset", "end_offset", "committed_offset", "member")
        read = (
            "distinct_keys", "records", "bytes", "keyless", "groups", "sizes", "recent_records",
            "recent_seconds",
        )  # fmt: skip
        parts = RowBatchBuilder("key_partition", *names, *read, **shared)
        for number, end in observation.ends.items():
            member = next((one for one, its in consumers.assigned.items() if number in its), None)
            own = found.get(number, {})
            parts.add(
                number, observation.begins[number], end, consumers.committed.get(number), member,
                *(own.get(name) for name in read),
            )  # fmt: skip
        topic = {"topic": self._topic.topic, "topic_id": observation.topic_id, **text}
        batches = [
            RowBatch("keyed_topic", {name: [value] for name, value in topic.items()}, shared),
            parts.batch(),
        ]
        if hot:
            batches.append(RowBatch("hot_key", {name: [one[name] for one in hot] for name in hot[0]}, shared))
        cluster = f"{self._topic.topic}@{observation.cluster}"
        self._sink.write(batches, cluster, now)
        return cluster


def newest(observation: TopicState, most: int) -> dict[int, int]:
    """Offsets from which on a topic holds so many records, the same share of each partition's log.

    One share for all, so that partitions are read in proportion to what they hold; which of their shares
    counts for how much is decided by rates later.
    """
    held = sum(observation.ends.values()) - sum(observation.begins.values())
    part = min(1.0, most / max(1, held))
    return {
        number: end - int((end - observation.begins[number]) * part)
        for number, end in sorted(observation.ends.items())
    }


def _records(
    session: SparkSession,
    options: Mapping[str, str],
    topic: str,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    until: float,
) -> DataFrame:
    """`partition`, `offset`, `key`, `bytes`, and `age_seconds` at an instant, by records' timestamps."""
    from pyspark.sql import functions as F

    def offsets(by_partition: Mapping[int, int]) -> str:
        return json.dumps({topic: {str(number): offset for number, offset in by_partition.items()}})

    # Retention may cut the log while it is read: then there is less to count.
    bounds = {"startingOffsets": offsets(begins), "endingOffsets": offsets(ends), "failOnDataLoss": "false"}
    source = session.read.format("kafka").options(**options, **bounds, subscribe=topic).load()
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    age = F.lit(until) - F.col("timestamp").cast("double")
    bytes_ = size.cast("bigint").alias("bytes")
    return source.select("partition", "offset", "key", bytes_, age.alias("age_seconds"))


def placed(found: Mapping[int, Mapping[str, Any]], table: RoutingTable) -> tuple[int, int]:
    """Records with a key that lie where a table puts them, and all with a key, both since it was published.

    A group of which keys have routes of their own is taken to go to all of theirs.

    Parameters
    ----------
    found
        As `counted` returns it.
    table
        The table in force.
    """
    routes: dict[int, list[Route]] = {}
    for key, route in table.keys.items():
        routes.setdefault(key_group(key, table.base), []).append(route)
    right = whole = 0
    for group in range(group_count(table.base)):
        ways = [table.group_route(group), *routes.get(group, ())]
        places = {place for way in ways for place in (*way.partitions, *way.earlier)}
        for number, own in found.items():
            records = own["current_groups"][group]
            whole += records
            right += records if number in places else 0
    return right, whole


def counted(
    records: DataFrame, groups: int, most: int, recent_seconds: float, passed: Sequence[int] = ()
) -> tuple[dict[int, dict[str, Any]], list[dict[str, Any]], list[tuple[bytes, int]]]:
    """What lies in each partition, and the most frequent keys.

    Parameters
    ----------
    records
        `partition`, `offset`, `key` (bytes, or null), `bytes`, `age_seconds`.
    groups
        Key groups that there are.
    most
        Keys to name.
    recent_seconds
        Records that are older are not recent.
    passed
        Offsets, by partition, below which records were written before the table in force.

    Returns
    -------
    tuple
        By partition `records`, `bytes`, `keyless`, `distinct_keys`, the histograms `groups`, `sizes` and
        `current_groups` (since the table in force), and how many came in the `recent_seconds` since the first
        recent one, that one left out; then `key`, `key_group`, `records` of frequent keys, the most frequent
        first; and up to `SAMPLED` keys since the table in force, each with a partition that it lies in.
    """
    from pyspark.sql import functions as F

    from trimtab.observe.keys.murmur2 import hash_column

    # Size class n: 2**(n-1) bytes or more, below 2**n; 0 for nothing at all.
    size = F.least(F.length(F.regexp_replace(F.bin("bytes"), "^0+", "")), F.lit(SIZE_CLASSES - 1))
    sized = records.withColumn("size", size)
    begins = [F.lit(one) for one in passed]
    before = F.get(F.array(*begins), F.col("partition")) if begins else F.lit(0)
    current = F.coalesce(F.col("offset") >= before, F.lit(True)).cast("bigint")
    recent = F.when(F.col("age_seconds").between(0, recent_seconds), F.col("age_seconds"))
    by_key = sized.groupBy("partition", "key", "size").agg(
        F.count(F.lit(1)).alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum(current).alias("current_records"),
        F.count(recent).alias("recent_records"),
        F.max(recent).alias("recent_seconds"),
    )
    keys = by_key.groupBy("partition", "key").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum("current_records").alias("current_records"),
        F.sum("recent_records").alias("recent_records"),
        F.max("recent_seconds").alias("recent_seconds"),
        F.map_from_entries(F.collect_list(F.struct("size", "records"))).alias("sizes"),
    )
    keys = keys.withColumn("key_group", F.pmod(hash_column(F.col("key")), F.lit(groups)).cast("int"))
    keys = keys.persist()
    try:
        found = _by_partition(keys, groups)
        tops = (
            records.where(F.col("key").isNotNull())
            .select(F.expr(f"approx_top_k(xxhash64(key), {most}, {max(TRACKED, most)})").alias("tops"))
            .collect()
        )
        hashes = [one["item"] for one in tops[0]["tops"] or ()]
        sample = (
            keys.where((F.octet_length("key") <= SAMPLED_BYTES) & (F.col("current_records") > 0))
            .orderBy(F.xxhash64("key"), "partition")
            .limit(SAMPLED)
            .select("key", "partition")
            .collect()
        )
        hot = (
            keys.where(F.xxhash64("key").isin(hashes) & F.col("key").isNotNull())
            .groupBy("key", "key_group")
            .agg(
                F.sum("records").alias("records"),
                F.collect_list(F.struct("partition", "records")).alias("_in"),
            )
            .collect()
        )
    finally:
        keys.unpersist()
    rows: list[dict[str, Any]] = []
    for one in sorted(hot, key=lambda row: (-row["records"], bytes(row["key"])))[:most]:
        for place in sorted(one["_in"]):
            rows.append(
                {
                    "key": one["key"], "key_group": one["key_group"], "partition": place["partition"],
                    "records": place["records"],
                }
            )  # fmt: skip
    return found, rows, [(bytes(one["key"]), one["partition"]) for one in sample]


def _by_partition(keys: DataFrame, groups: int) -> dict[int, dict[str, Any]]:
    from pyspark.sql import functions as F

    found: dict[int, dict[str, Any]] = {}
    rows = keys.groupBy("partition", "key_group").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.count("key").alias("keys"),
        F.sum("current_records").alias("current_records"),
        F.sum("recent_records").alias("recent_records"),
        F.max("recent_seconds").alias("recent_seconds"),
    )
    for row in rows.collect():
        own = found.setdefault(
            row["partition"],
            {"records": 0, "bytes": 0, "keyless": 0, "distinct_keys": 0, "groups": [0] * groups,
             "current_groups": [0] * groups, "sizes": [0] * SIZE_CLASSES, "recent_records": -1,
             "recent_seconds": None},
        )  # fmt: skip
        own["records"] += row["records"]
        own["bytes"] += row["bytes"]
        own["distinct_keys"] += row["keys"]
        own["recent_records"] += row["recent_records"]
        if row["recent_seconds"] is not None:
            own["recent_seconds"] = max(row["recent_seconds"], own["recent_seconds"] or 0.0)
        if row["key_group"] is None:
            own["keyless"] += row["records"]
        else:
            own["groups"][row["key_group"]] += row["records"]
            own["current_groups"][row["key_group"]] += row["current_records"]
    for own in found.values():
        own["recent_records"] = max(0, own["recent_records"])
    sizes = keys.select("partition", F.explode("sizes").alias("size", "records"))
    for row in sizes.groupBy("partition", "size").agg(F.sum("records").alias("records")).collect():
        found[row["partition"]]["sizes"][row["size"]] = row["records"]
    return found


def _salt() -> bytes:
    salt = os.environ.get(SALT, "").encode()
    if len(salt) < SALT_BYTES:
        raise SettingsError(
            f"pipeline.keys.hash_keys is set and the salt in {SALT} has {len(salt)} bytes, expected "
            f"{SALT_BYTES} or more: without a secret salt keys can be guessed"
        )
    return salt


@contextmanager
def open_reading(
    connection: KafkaConnection,
    topic: str,
    settings: Settings,
    pipeline: KeysPipelineSettings,
    lake: Lake,
    print_progress: ProgressCallback,
) -> Iterator[OffsetSampling]:
    """A reading of a topic, on a connection of its own."""
    own = settings.of(SECTION)
    with keyed_topic(connection, topic, own.table_location) as reached:
        yield OffsetSampling(reached, pipeline, own.consumer_group, lake, print_progress)

"""Records of a topic, read by Spark from the topic itself, as raw samples of the balancer `keys`.

A reading is bounded: the newest `max_records` records, up to the end as it was when it began.
"""

from __future__ import annotations

import datetime
import hmac
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trimtab.files.keys.settings import SECTION
from trimtab.model.errors import ObserveError
from trimtab.model.keys import HASHED, key_text
from trimtab.observe.collect.sinks import LakeSink, RowBatch, RowBatchBuilder
from trimtab.observe.keys.pipeline import COLUMNS, KeysPipelineSettings
from trimtab.observe.lake.columns import Row
from trimtab.systems.kafka.keyed_topic import ConsumerGroup, KeyedTopic, TopicState, keyed_topic
from trimtab_common.errors import SettingsError
from trimtab_keys.core.routing import Route, RoutingTable, group_count, key_group, matching_partitioner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.observe.lake.lake import Lake
    from trimtab.systems.kafka.settings import KafkaConnection
    from trimtab_common.settings import Settings

SALT: Final = "TRIMTAB_KEYS_SALT"
SALT_BYTES: Final = 16
HASH_DIGITS: Final = 16

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
        from trimtab.observe.keys.records import counted, topic_records

        until = time.time()
        records = topic_records(session, options, self._topic.topic, begins, seen.ends, until)
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
        told: Row = {"version": table.version, "base": table.base}
        told["hashed"] = self._salt is not None
        told["placed_records"], told["keyed_records"] = placed(found, table)
        told["partitioner"] = matching_partitioner(sample, count)
        told["records"] = sum(one["records"] for one in found.values())
        told["routes"] = [table.group_route(group).partitions[0] for group in range(group_count(table.base))]
        return self._write(seen, consumers, told, found, [self._hot(one, table) for one in hot])

    def _hot(self, row: Row, table: RoutingTable) -> Row:
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
        text: Row,
        found: Mapping[int, Row],
        hot: list[Row] | None = None,
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


def placed(found: Mapping[int, Row], table: RoutingTable) -> tuple[int, int]:
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

"""A reading from records to snapshot and plan: keys that nobody may see, none at all, one too long."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow.parquet as pq
import pytest

from trimtab.files.keys.formats import PLAN_FORMAT as PLANS
from trimtab.files.keys.formats import SNAPSHOT_FORMAT
from trimtab.files.keys.settings import KeysSettings
from trimtab.model.keys import KeysSnapshot
from trimtab.model.plan import Verdict
from trimtab.observe.keys import records as record_counts
from trimtab.observe.keys.pipeline import PIPELINE, KeysPipelineSettings
from trimtab.observe.lake.lake import Lake
from trimtab.observe.spark.expressions import frame_of
from trimtab.observe.steps.batch import run_batch
from trimtab.plan.keys.trim import plan_keys
from trimtab.report.keys import plan_text, status_text
from trimtab.systems.kafka import offset_sampling
from trimtab.systems.kafka.keyed_topic import ConsumerGroup, PublishedRouting, TopicState
from trimtab_keys.core.routing import key_group

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

Records = Sequence[tuple[int, bytes | None]]
"""Partition and key of each."""
ANYWHERE = KeysSettings(min_placed_share=0.0)
"""Of plans for keys that lie where a test put them."""
pytestmark = pytest.mark.spark


class Topic:
    """A topic of two partitions; between the samples all of its records come."""

    topic = "orders"

    def __init__(self, records: Records) -> None:
        self.counts = [sum(place == one for place, _ in records) for one in (0, 1)]
        self.samples = 0

    def describe(self) -> TopicState:
        """A hundred of each that nobody reads, and then those."""
        self.samples += 1
        ends = {place: 100 + (self.samples > 1) * count for place, count in enumerate(self.counts)}
        return TopicState("cluster", "id", {0: 0, 1: 0}, ends)

    def consumers(self, name: str) -> ConsumerGroup:
        """Nobody."""
        return ConsumerGroup()

    def published(self, topic_id: str) -> PublishedRouting:
        """No table."""
        return PublishedRouting()


def read(
    spark: SparkSession, records: Records, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> tuple[KeysSnapshot, list[str]]:
    """The snapshot of a topic with these records, and all that was said on the way."""
    form = "partition int, offset bigint, key binary, bytes bigint, age_seconds double"
    rows = [(place, 100, key, 100, None) for place, key in records]
    monkeypatch.setattr(record_counts, "topic_records", lambda *_: frame_of(spark, rows, form))
    topic: Any = Topic(records)
    lake, told = Lake(folder, PIPELINE), list[str]()
    chosen = KeysPipelineSettings(sample_interval_seconds=0.2, **settings)
    one = offset_sampling.OffsetSampling(topic, chosen, "", lake, told.append)
    one.sample_offsets()
    one.read(spark, {})
    run_batch(spark, lake, chosen, print_progress=told.append)
    return SNAPSHOT_FORMAT.read(lake.newest_snapshot()), told


def test_hashed_keys_are_found_nowhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither raw samples, tables, the snapshot, the plan, nor messages contain keys, only
    their keyed hash.
    """
    salt, key = "a salt of sixteen bytes or more", b"customer-4711"
    monkeypatch.setenv(offset_sampling.SALT, salt)
    records: Records = [(0, key)] * 50 + [(1, b"customer-%d" % one) for one in range(20)]
    found, told = read(spark, records, tmp_path, monkeypatch, hash_keys=True)
    hashed = "hmac:" + hmac.digest(salt.encode(), key, "sha256").hex()[:16]
    assert (found.hashed, found.keys[0].key) == (True, hashed)
    plan = plan_keys(found, ANYWHERE)
    assert {"hashed_keys", "unmet_goal"} & {one.kind for one in plan.problems}
    PLANS.write(plan, tmp_path / "plan.json")
    texts = [*told, plan_text(plan, found), *map(str, status_text(found)), *capfd.readouterr()]
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    for one in files:
        assert b"customer-" not in one.read_bytes(), one
    # Pages may be compressed.
    rows = [str(pq.read_table(one).to_pylist()) for one in files if one.suffix == ".parquet"]
    assert any(hashed in one for one in rows)
    assert not [one for one in (*texts, *rows) if "customer-" in one or salt in one]


def test_a_topic_without_any_key_is_read_and_planned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing to hash, no hot key, nothing to move: status and plan report that there are no keys."""
    found, _ = read(spark, [(0, None)] * 60 + [(1, None)] * 20, tmp_path, monkeypatch)
    assert (found.keys, found.keyless_share) == ((), 1.0)
    assert {one.records_per_second for one in found.groups} == {0.0}
    assert [one.records_per_second > 0 for one in found.partitions] == [True, True]
    assert "80 records read, 0 keys, 100.0% of the records without a key" in "\n".join(
        map(str, status_text(found))
    )
    plan = plan_keys(found, KeysSettings())
    assert plan.moves == ()
    assert "have no key: they go where their producers send them" in plan_text(plan, found)


def test_a_key_of_a_megabyte_is_read_and_abbreviated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is hot, and not split; what people see of it fits on a line."""
    key = b"k" * 2**20
    records: Records = [(0, key)] * 3 + [(1, b"user 1")]
    found, _ = read(spark, records, tmp_path, monkeypatch)
    assert found.keys[0].key == key.decode()
    plan = plan_keys(found, ANYWHERE)
    assert "long_key" in {one.kind for one in plan.problems}
    for text in (plan_text(plan, found), "\n".join(map(str, status_text(found)))):
        assert "k" * 40 + "… (1,048,576 characters)" in text
        assert max(map(len, text.splitlines())) < 1000
    PLANS.write(plan, tmp_path / "plan.json")
    assert (tmp_path / "plan.json").stat().st_size < 100_000


def test_keys_placed_by_another_partitioner_are_reported_and_not_planned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By librdkafka's CRC-32: the share, the partitioner and a key stand in the snapshot and in the plan."""
    keys = [b"user %d" % one for one in range(60)]
    home = {key: key_group(key, 2) % 2 for key in keys}
    hot = next(key for key in keys if crc32(key) % 2 != home[key])
    records: Records = [(crc32(key) % 2, key) for key in keys for _ in range(1 + 40 * (key == hot))]
    share = sum(place == home[key or b""] for place, key in records) / len(records)
    found, _ = read(spark, records, tmp_path, monkeypatch)
    assert found.placed_share == pytest.approx(share)
    plan = plan_keys(found, KeysSettings())
    assert (plan.moves, plan.verdict) == ((), Verdict.INCOMPLETE)
    (problem,) = plan.problems
    assert problem.proof["partitioner"] == "consistent_random"
    lies = f"; key {hot.decode()} lies in partition {crc32(hot) % 2}, not in {home[hot]}"
    assert lies in problem.text
    assert f"{share:.1%} of those with a key lie where the table puts them" in "\n".join(
        map(str, status_text(found))
    )

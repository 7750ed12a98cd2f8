"""The balancer `keys` in Spark: hashes, counts of records, and what consumers can do, worked out by hand."""

from __future__ import annotations

import datetime
import random
from typing import TYPE_CHECKING

import pytest

from trimtab.observe.keys.pipeline import FORM, KeysPipelineSettings
from trimtab.observe.keys.records import SIZE_CLASSES, counted, hash_column
from trimtab.observe.keys.stages import brokers
from trimtab.observe.lake.columns import SampleFlag, ddl
from trimtab.observe.lake.lake import Lake
from trimtab.observe.spark.expressions import frame_of
from trimtab.systems.kafka.keyed_topic import TopicState
from trimtab.systems.kafka.offset_sampling import OffsetSampling, newest
from trimtab_common.errors import SettingsError
from trimtab_keys.core.routing import POSITIVE, murmur2

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime.datetime(2026, 11, 23, 4, tzinfo=datetime.UTC)


@pytest.mark.spark
def test_hashes_are_the_clients(spark: SparkSession) -> None:
    """Equal to the bit for any length and bytes; a missing key has no hash."""
    draw = random.Random(7)
    keys = [draw.randbytes(draw.randrange(40)) for _ in range(400)]
    keys += [b"", b"\x00", b"\xff" * 3, b"\x80\x81\x82\x83", b"a" * 5000]
    rows = frame_of(spark, [(key,) for key in (*keys, None)], "key binary")
    found = rows.select("key", hash_column(rows["key"]).alias("hash")).collect()
    assert {row["hash"] for row in found if row["key"] is None} == {None}
    told = {bytes(row["key"]): row["hash"] for row in found if row["key"] is not None}
    assert told == {key: murmur2(key) & POSITIVE for key in keys}


@pytest.mark.spark
def test_records_are_counted_by_partition_key_and_size(spark: SparkSession) -> None:
    """Two partitions; ann is the most frequent, in both of them; some records have no key."""
    rows = (
        [(0, 10, b"ann", 8, 20.0)] * 5
        + [(1, 10, b"ann", 7, 70.0)] * 4
        + [(0, 9, b"bob", 9, 50.0)] * 3
        + [(0, 10, None, 0, 61.0), (1, 10, None, 2**40, -1.0)]
    )
    form = "partition int, offset bigint, key binary, bytes bigint, age_seconds double"
    # A table was published once all of partition 0 below 10 had taken effect; partition 1 came later.
    found, hot, sample = counted(frame_of(spark, rows, form), 1024, 1, 60.0, (10,))
    group = {key: (murmur2(key) & POSITIVE) % 1024 for key in (b"ann", b"bob")}
    assert [(bytes(one["key"]), one["key_group"], one["partition"], one["records"]) for one in hot] == [
        (b"ann", group[b"ann"], 0, 5), (b"ann", group[b"ann"], 1, 4)
    ]  # fmt: skip
    first, second = found[0], found[1]
    assert (first["records"], first["bytes"], first["keyless"], first["distinct_keys"]) == (9, 67, 1, 2)
    assert (second["records"], second["keyless"], second["distinct_keys"]) == (5, 1, 1)
    # Eight within a minute, the first of them 50 s ago; what is older, or of the future, is not of late.
    assert (first["recent_records"], first["recent_seconds"]) == (7, 50.0)
    assert (second["recent_records"], second["recent_seconds"]) == (0, None)
    assert {at: count for at, count in enumerate(first["groups"]) if count} == {
        group[b"ann"]: 5, group[b"bob"]: 3
    }  # fmt: skip
    assert {at: count for at, count in enumerate(first["current_groups"]) if count} == {group[b"ann"]: 5}
    assert {at: count for at, count in enumerate(second["current_groups"]) if count} == {group[b"ann"]: 4}
    assert sample == [(b"ann", 0), (b"ann", 1)]
    # 8 and 9 bytes are of class 4: 2**3 to 2**4; nothing of class 0; 7 of class 3; the largest of the last.
    assert {at: count for at, count in enumerate(first["sizes"]) if count} == {0: 1, 4: 8}
    assert {at: count for at, count in enumerate(second["sizes"]) if count} == {3: 4, SIZE_CLASSES - 1: 1}


@pytest.mark.spark
def test_capacity_is_the_commit_rate_of_a_busy_consumer(spark: SparkSession) -> None:
    """One has two partitions, and 500 records waiting in one: its capacity is 80 in ten seconds. The other
    kept up, which gives no measurement. Two consumers over three partitions: 8 · 2 / 3 in each.
    """
    offsets = {
        0: ("m1", (1000, 500), (1100, 560)),
        1: ("m1", (100, 100), (120, 120)),
        2: ("m2", (200, 200), (230, 230)),
    }
    names = [name for name, _ in FORM.cleaned]
    rows = []
    for after in (0, 1):
        for partition, (member, *both) in offsets.items():
            end, committed = both[after]
            told = {
                "cluster": "orders@here", "tick": START + datetime.timedelta(seconds=10 * after),
                "kind": "key_partition", "partition": partition, "member": member, "consumers": "billing",
                "begin_offset": 0, "end_offset": end, "committed_offset": committed,
                "accepted": True, "flags": 0,
            }  # fmt: skip
            rows.append(tuple(told.get(name) for name in names))
    cleaned = frame_of(spark, rows, ddl(FORM.cleaned))
    found = {
        (row["tick"], row["partition"]): row for row in brokers(cleaned, KeysPipelineSettings()).collect()
    }
    first, *second = (found[key] for key in sorted(found) if key[1] == 0 or key[0] > min(found)[0])
    assert (first["records_load"], first["consumer_capacity"], first["flags"]) == (None, None, SampleFlag.GAP)
    assert [row["records_load"] for row in second] == [10.0, 2.0, 3.0]
    assert [row["backlog"] for row in second] == [540, 0, 0]
    assert [row["served_per_second"] for row in second] == [6.0, 2.0, 3.0]
    assert {row["consumer_capacity"] for row in second} == {8.0}
    assert [row["records_capacity"] for row in second] == pytest.approx([16 / 3] * 3)


@pytest.mark.spark
def test_timestamps_yield_rates_if_offsets_agree(spark: SparkSession) -> None:
    """Of 120 seconds 1,200 records: 10 a second; in ten seconds chance brings 66 to 134 to some of five.

    That is 3.5 standard deviations, the square root of 3² + 2 ln 5.
    """
    names = [name for name, _ in FORM.cleaned]
    after = {
        0: (66, 1200, 120.0),
        1: (65, 1200, 120.0),
        2: (135, 1200, 120.0),
        3: (90, 0, None),
        4: (90, 80, 8.0),
    }
    rows = []
    for partition, (came, recent, seconds) in after.items():
        for second, (end, told) in enumerate(
            [(1000, {}), (1000 + came, {"recent_records": recent, "recent_seconds": seconds})]
        ):
            row = {
                "cluster": "orders@here", "tick": START + datetime.timedelta(seconds=10 * second),
                "kind": "key_partition", "partition": partition, "begin_offset": 0, "end_offset": end,
                "accepted": True, "flags": 0, **told,
            }  # fmt: skip
            rows.append(tuple(row.get(name) for name in names))
    cleaned = frame_of(spark, rows, ddl(FORM.cleaned))
    made = brokers(cleaned, KeysPipelineSettings()).where("records_load is not null").collect()
    assert {row["partition"]: row["records_load"] for row in made} == {
        0: 10.0,
        1: 6.5,
        2: 13.5,
        3: 9.0,
        4: 9.0,
    }


def test_of_each_partition_the_same_share_is_read() -> None:
    """A tenth of 1,000 and of 100; all of it where that is not too much."""
    seen = TopicState("here", "id", {0: 100, 1: 0}, {0: 1100, 1: 100})
    assert newest(seen, 110) == {0: 1000, 1: 90}
    assert newest(seen, 10_000) == {0: 100, 1: 0}


def test_hashed_keys_need_a_secret_salt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no secret, or a short one, keys could be found by trying."""
    from trimtab.observe.keys.pipeline import PIPELINE

    monkeypatch.setenv("TRIMTAB_KEYS_SALT", "short")
    settings = KeysPipelineSettings(hash_keys=True)
    with pytest.raises(SettingsError, match=r"TRIMTAB_KEYS_SALT has 5 bytes, expected 16 or more"):
        OffsetSampling(None, settings, "", Lake(tmp_path, PIPELINE), print)  # type: ignore[arg-type]

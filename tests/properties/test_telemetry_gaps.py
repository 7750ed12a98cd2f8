"""Any pattern of gaps in the telemetry of a steady load gives that load within 2 %, or no figure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from support.telemetry_stories import START, TICK_SECONDS, Faults, Story, drawn_faults
from synthetic_telemetry import land
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.model.replicas.settings import CPU, NETWORK_IN, NETWORK_OUT
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.steps.batch import run_batch

if TYPE_CHECKING:
    import datetime

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEEDS = range(32)
WITHIN = 0.02
SETTINGS = ReplicasPipelineSettings()


def _stories() -> dict[str, Story]:
    found = {
        f"seed-{seed:02d}": Story(f"seed-{seed:02d}", seed, drawn_faults(seed), metrics=seed % 5 != 4)
        for seed in SEEDS
    }
    even: dict[str, Any] = {"brokers": 3, "topics": 1, "each": 3, "ticks": 16, "even": True}
    gaps = {
        "steady": Faults(),
        "exporter-away": Faults(unscraped={(1, tick) for tick in range(6, 12)}),
        "one-scrape": Faults(unscraped={(1, 8)}),
        "ahead": Faults(ahead={8, 9, 10}),
    }
    found |= {name: Story(name, 1, faults, **even) for name, faults in gaps.items()}
    unread = {("g0", 0, tick) for tick in range(6, 12)}
    for name, faults in {"steady-logs": Faults(), "unread": Faults(unread=unread)}.items():
        found[name] = Story(name, 1, faults, metrics=False, **even)
    return found


STORIES = _stories()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Tables and snapshots of all stories, each a cluster of its own, made as `trimtab pipeline run` does."""
    lake = Lake(tmp_path_factory.mktemp("gaps"), REPLICAS)
    for name, story in STORIES.items():
        land(story.table(), lake.raw, name)
    run_batch(spark, lake, SETTINGS)
    return lake


def _off(found: float, true: float) -> float:
    return abs(found - true) / true if true else abs(found)


def _tick(story: Story, at: datetime.datetime) -> int | None:
    number = (at - START).total_seconds() / TICK_SECONDS
    return round(number) if 0 <= number < story.ticks else None


def test_every_interval_of_a_partition_is_correct_or_missing(lake: Lake) -> None:
    """Rows of `traffic`: what is counted is what producers sent, what is not is what the log gained."""
    wrong, known = [], 0
    for row in lake.table("traffic").to_pylist():
        story, seconds = STORIES[row["cluster"]], (row["elapsed_us"] or 0) / 1e6
        p = story.partitions.index((row["topic"], row["partition"]))
        true = {
            "log_bytes": story.log_bytes[p],
            "read_bytes": story.bytes_out[p],
            "bytes_in": (story.bytes_in if row["counted"] else story.log_bytes)[p],
            "bytes_out": story.bytes_out[p],
        }
        for name, rate in true.items():
            if row[name] is not None:
                known += 1
                if _off(row[name], rate * seconds) > WITHIN:
                    wrong.append((row["cluster"], str(row["tick"]), p, name, row[name], rate * seconds))
    assert not wrong, (len(wrong), wrong[:5], Counter(one[3] for one in wrong))
    # Silence would be right as well: most of what was told must be used.
    assert known > 0.6 * 4 * sum(story.ticks * len(story.partitions) for story in STORIES.values())


def test_every_interval_of_a_broker_is_correct_or_missing(lake: Lake) -> None:
    """Rows of `brokers`, with their own intervals: counters, or what the logs of its partitions gained."""
    wrong, known = [], 0
    for row in lake.table("brokers").to_pylist():
        story, end = STORIES[row["cluster"]], _tick(STORIES[row["cluster"]], row["tick"])
        if row["elapsed_us"] is None or end is None:
            continue
        one, begin = row["broker"] - 1, end - round(row["elapsed_us"] / 1e6 / TICK_SECONDS)
        carried = {name: values[one].sum() for name, values in story.carried(begin, end).items()}
        true = {"cpu_ns": carried["cpu"] * 1e9}
        if row["network_measured"]:
            true |= {
                "leader_bytes_in": carried["in"],
                "bytes_out": carried["out"],
                "follower_bytes_in": carried["followed"] + carried["copied"],
            }
        elif story.leaders[begin] == story.leaders[end] and not story.faults.copies:
            true["bytes_out"] = carried["out"]
        for name, value in true.items():
            if row[name] is not None:
                known += 1
                if _off(row[name], value) > WITHIN:
                    wrong.append((row["cluster"], end, row["broker"], name, row[name], value))
    assert not wrong, (len(wrong), wrong[:5], Counter(one[3] for one in wrong))
    assert known > 0.35 * 4 * sum(story.ticks * len(story.brokers) for story in STORIES.values())


def test_every_snapshot_has_the_steady_load_or_states_the_gaps(lake: Lake) -> None:
    """Loads for plans, before, during and after executions: the number of wrong partitions is at most the
    number reported as without counters or rates.
    """
    for name, story in STORIES.items():
        snapshot = read_snapshot(lake.newest_snapshot(name))
        quality: dict[str, Any] = dict(snapshot.quality.extra)
        assert snapshot.reference.taken_at == story.newest.isoformat().replace("+00:00", "Z"), name
        load = snapshot.partitions.leader_load
        inward = story.bytes_in if story.metrics else story.log_bytes
        off = {
            p
            for p in range(len(story.partitions))
            if _off(load[p, NETWORK_IN], inward[p]) > WITHIN
            or _off(load[p, NETWORK_OUT], story.bytes_out[p]) > WITHIN
        }
        lacking = quality["x_partitions_without_rates"] + quality["x_partitions_estimated"]
        assert len(off) <= lacking, (name, off, quality, load[sorted(off)])
        assert lacking <= len(story.partitions) / 4, (name, lacking)


def test_gaps_lower_the_valid_share_of_a_snapshot(lake: Lake) -> None:
    """The same cluster with a gap of any kind: the same load and model, a lower share of valid samples."""

    def told(name: str) -> tuple[Any, Any]:
        snapshot = read_snapshot(lake.newest_snapshot(name))
        return snapshot, dict(snapshot.quality.extra)

    for steady_name, names in (
        ("steady", ("exporter-away", "one-scrape")),
        ("steady-logs", ("unread",)),
    ):
        steady, of_steady = told(steady_name)
        for name in names:
            gap, of_gap = told(name)
            np.testing.assert_allclose(
                gap.partitions.leader_load, steady.partitions.leader_load, rtol=1e-6, err_msg=name
            )
            np.testing.assert_allclose(
                gap.partitions.follower_load, steady.partitions.follower_load, rtol=1e-6
            )
            np.testing.assert_allclose(gap.brokers.capacity, steady.brokers.capacity)
            assert gap.quality.cpu == steady.quality.cpu
            assert gap.quality.valid_share < steady.quality.valid_share, name
            for key in ("x_nominal_capacity", "x_partitions_without_rates", "x_partitions_estimated"):
                assert of_gap.get(key) == of_steady.get(key)
    missed = {
        row["cluster"]
        for row in lake.table("quality", ["cluster", "kind", "missed"]).to_pylist()
        if row["missed"]
    }
    assert {"exporter-away", "one-scrape", "unread"} <= missed
    assert "steady" not in missed


def test_cpu_of_a_gap_is_the_cpu_of_the_cluster(lake: Lake) -> None:
    """What the model lays at partitions, with the brokers' bases, is what all brokers took."""
    for name, story in STORIES.items():
        if not story.metrics or story.faults.copies or story.faults.transfers:
            continue
        snapshot = read_snapshot(lake.newest_snapshot(name))
        true = story.carried(0, story.ticks - 1)["cpu"].sum() / ((story.ticks - 1) * TICK_SECONDS)
        partitions = snapshot.partitions
        followers = (partitions.replicas >= 0).sum(axis=1) - 1
        found = partitions.leader_load[:, CPU].sum() + (partitions.follower_load[:, CPU] * followers).sum()
        extra: dict[str, Any] = dict(snapshot.extra)
        base = extra.get("x_base_load", {}).get("cpu", {})
        assert _off(found + sum(base.values()), true) <= WITHIN, (name, snapshot.quality.cpu)

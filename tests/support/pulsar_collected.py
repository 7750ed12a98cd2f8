"""Ticks of the Pulsar collector on real brokers under a load, and what is in them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.pulsar_trials import NAMESPACE
from trimtab.lab.sandbox.pulsar.workload import NamespaceLoad, PulsarTopicLoad, PulsarWorkload
from trimtab.observe.collect import sampler
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, PulsarCollectSettings
from trimtab.observe.lake.lake import Lake
from trimtab.systems.pulsar.collector import COLLECTING
from trimtab.systems.pulsar.connection import PulsarConnection

TICKS_MAXIMUM = 100
"""Of a second each: how long a busy machine may take for anything."""
Row = dict[str, Any]


def workload(namespace: str) -> PulsarWorkload:
    """One topic that carries much more than the others, and one that carries nothing."""
    rates = {"hot-7f3a": 60.0, "warm-19c2": 12.0, "warm-b04d": 12.0, "warm-e5aa": 12.0, "idle-52f1": 0.0}
    topics = tuple(PulsarTopicLoad(name, rate, 400, 1) for name, rate in rates.items())
    return PulsarWorkload((NamespaceLoad(namespace, 4, topics),))


def collected(
    connection: PulsarConnection, lake: Lake, enough: Callable[[list[Row]], bool], record: Path | None = None
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows of the first tick that are enough, and what it had to say."""
    settings = CollectSettings(
        interval_seconds=1, timeout_seconds=1, pulsar=PulsarCollectSettings(usage="measured")
    )
    with (
        COLLECTING.open(connection, settings, CapacitySettings()) as collector,
        sampler.lake_sink(lake.raw, COLLECTING.columns) as below,
        COLLECTING.recording(below, record) as landing,
    ):
        for outcome in sampler.collect(collector, landing, 1.0, threading.Event(), TICKS_MAXIMUM):
            assert outcome.problem is None and outcome.sample is not None
            rows = [row for batch in outcome.sample.batches for row in batch.rows()]
            if enough(rows):
                return rows, outcome.sample.problems
    raise AssertionError(f"not enough after {TICKS_MAXIMUM} ticks: {rows}")


def of(rows: list[Row], kind: str) -> list[Row]:
    """Rows of one kind."""
    return [row for row in rows if row["kind"] == kind]


def carried(rows: list[Row]) -> dict[str, float]:
    """Messages per second into each topic, by the last part of its name."""
    return {row["topic"].rpartition("/")[2]: row["msg_rate_in"] for row in of(rows, "pulsar_topic")}


def loads_are_known(rows: list[Row]) -> bool:
    """Whether brokers have counted the load, and forgotten the topics of a namespace that is gone."""
    rates = carried(rows)
    if any(row["topic"].startswith(f"persistent://{NAMESPACE}/") for row in of(rows, "pulsar_topic")):
        return False
    return all(rates.get(one, 0) > 0 for one in ("hot-7f3a", "warm-19c2", "warm-b04d", "warm-e5aa")) and any(
        row["has_stats"] and row.get("msg_rate_in", 0) > 0 for row in of(rows, "pulsar_bundle")
    )

"""Where replicas lie and how large partitions are, held against a reading of one row after the other."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hand_written_tables import lake_with
from trimtab.model.replicas.snapshot import NO_BROKER
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.replicas.placement import SnapshotPlacement, placement_at

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
SETTINGS = ReplicasPipelineSettings(window_seconds=10, slide_seconds=10, gap_seconds=25)
BROKERS, PARTITIONS, TICKS = 4, 3, 5
LAST = TICKS - 1
DIRS = ("/a", "/b")

numbers = st.integers(0, BROKERS - 1)
some = st.lists(numbers, unique=True, max_size=BROKERS)
partitions = st.fixed_dictionaries(
    {
        "replicas": st.lists(numbers, unique=True, min_size=1, max_size=3),
        "in_sync": some,
        "adding": st.none() | some,
        "leader": st.none() | st.integers(0, BROKERS),
    }
)
replicas = st.fixed_dictionaries(
    {
        "tick": st.integers(0, LAST),
        "broker": numbers,
        "partition": st.integers(0, PARTITIONS),
        "log_dir": st.none() | st.sampled_from(DIRS),
        "size_bytes": st.none() | st.integers(0, 9),
        "is_future": st.none() | st.booleans(),
    }
)
dirs = st.fixed_dictionaries(
    {"tick": st.integers(0, LAST), "broker": numbers, "log_dir": st.sampled_from((*DIRS, ""))}
)


def row(kind: str, tick: int, **values: Any) -> dict[str, Any]:
    """A row of `rates` of the topic."""
    at = START + datetime.timedelta(seconds=10 * tick)
    return {"cluster": "c", "tick": at, "kind": kind, "topic": "t", **values}


def placed(rows: list[dict[str, Any]]) -> SnapshotPlacement:
    """The placement at the last tick."""
    members = [{"cluster": "c", "tick": START, "broker": 0, "broker_state": "alive"}]
    with tempfile.TemporaryDirectory() as folder:
        lake = lake_with(Path(folder), {"rates": rows, "brokers": members})
        last = microseconds(START + datetime.timedelta(seconds=10 * LAST))
        return placement_at(SnapshotInputs(lake, lake.manifest(), SETTINGS, "c", last))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(partitions, min_size=1, max_size=PARTITIONS),
    st.lists(replicas, max_size=40),
    st.lists(dirs, max_size=10),
)
def test_the_newest_word_on_each_replica_counts(
    own: list[dict[str, Any]], told: list[dict[str, Any]], described: list[dict[str, Any]]
) -> None:
    """If brokers are missing in a tick: their last samples within the gap count, future replicas and copies
    do not.
    """
    rows = [row("partition", LAST, partition=number, **one) for number, one in enumerate(own)]
    rows += [row("log_dir", **one) for one in described] + [row("replica", **one) for one in told]
    found = placed(rows)

    near = [one for one in sorted(told, key=lambda one: one["tick"]) if one["tick"] >= LAST - 2]
    said = {one["broker"]: one["tick"] for one in sorted(described, key=lambda one: one["tick"])
            if one["log_dir"] and one["tick"] >= LAST - 2}  # fmt: skip
    known = {(one["broker"], one["log_dir"]) for one in described if one["tick"] == said.get(one["broker"])}
    lies: dict[tuple[int, int], str | None] = {}
    weighs: dict[tuple[int, int], int] = {}
    for one in near:
        if one["partition"] >= len(own) or one["is_future"]:
            continue
        key = one["partition"], one["broker"]
        if one["broker"] in own[key[0]]["replicas"]:
            lies[key] = one["log_dir"] if (one["broker"], one["log_dir"]) in known else None
            if one["size_bytes"] is not None and one["broker"] not in (own[key[0]]["adding"] or ()):
                weighs[key] = one["size_bytes"]

    parts, ids = found.partitions, found.brokers.id.tolist()
    for number, one in enumerate(own):
        sizes = [weighs[number, broker] for broker in one["replicas"] if (number, broker) in weighs]
        size = found.size_bytes[number]
        assert (np.isnan(size) and not sizes) or size == max(sizes)
        assert parts.leader[number] == (ids.index(one["leader"]) if one["leader"] in ids else NO_BROKER)
        for column, broker in enumerate(one["replicas"]):
            assert ids[parts.replicas[number, column]] == broker
            assert parts.in_sync[number, column] == (broker in one["in_sync"])
            place = parts.log_dir[number, column]
            path = None if place == NO_BROKER else found.log_dirs.path[place]
            assert path == (lies.get((number, broker)) or None)
            assert place == NO_BROKER or ids[found.log_dirs.broker[place]] == broker
        assert (parts.replicas[number, len(one["replicas"]) :] == NO_BROKER).all()


def test_a_tick_without_partitions_places_none() -> None:
    """Nothing is returned for the requested tick, although another exists."""
    assert len(placed([row("replica", LAST - 1, broker=1, partition=0)]).partitions) == 0


def test_newest_ticks_are_those_of_each_cluster(tmp_path: Path) -> None:
    """From the footers of files with one cluster, from the rows of others, with the same result."""
    ticks = {"a": [0, 3], "b": [1, 2]}
    seen: dict[str, int] = {}
    for names in (["a"], ["b"], ["a", "b"]):
        rows = [{**row("", at), "cluster": name} for name in names for at in ticks[name]]
        rows = [{key: value for key, value in one.items() if key != "kind"} for one in rows]
        lake = lake_with(tmp_path / "-".join(names), {"growth": rows})
        found: dict[str, int] = {}
        write_snapshots(
            lake,
            lake.manifest(),
            SETTINGS,
            "growth",
            lambda moment, _, found=found: found.update({moment.cluster: moment.tick}),  # type: ignore[misc]
        )
        assert set(found) == set(names)
        assert all(seen.setdefault(name, tick) == tick for name, tick in found.items())
    second = microseconds(START)
    assert seen == {name: second + 10_000_000 * max(at) for name, at in ticks.items()}

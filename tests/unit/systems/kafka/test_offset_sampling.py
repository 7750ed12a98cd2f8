"""A reading of a topic: how often offsets are looked at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from trimtab.observe.collect.sinks import LakeSink
from trimtab.observe.keys import records
from trimtab.observe.keys.pipeline import PIPELINE, KeysPipelineSettings
from trimtab.observe.lake.lake import Lake
from trimtab.systems.kafka import offset_sampling
from trimtab.systems.kafka.keyed_topic import ConsumerGroup, PublishedRouting, TopicState
from trimtab_keys.core.routing import Route, RoutingTable, group_count, key_group

if TYPE_CHECKING:
    from pathlib import Path


class Topic:
    """A topic of two partitions into which a record comes with each sample."""

    topic = "orders"
    samples = 0

    def describe(self) -> TopicState:
        """One record more in each."""
        self.samples += 1
        return TopicState("cluster", "id", {0: 0, 1: 0}, {0: self.samples, 1: self.samples})

    def consumers(self, name: str) -> ConsumerGroup:
        """Nobody."""
        return ConsumerGroup()

    def published(self, topic_id: str) -> PublishedRouting:
        """No table."""
        return PublishedRouting()


@pytest.mark.parametrize(("seconds", "samples"), [(100.0, 2), (295.0, 3), (1000.0, 3)])
def test_a_reading_that_takes_too_long_for_a_rate_is_sampled_again(
    seconds: float, samples: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """300 s apart, two samples make no rate: the last two are ten seconds apart then."""
    now = [0.0]
    written: list[float] = []

    def read(*_: Any) -> tuple[dict[int, Any], list[Any], list[Any]]:
        now[0] += seconds
        return {}, [], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(records, "topic_records", lambda *_: None)
    monkeypatch.setattr(records, "counted", read)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(LakeSink, "write", lambda *_: written.append(now[0]))
    told: list[str] = []
    topic: Any = Topic()
    one = offset_sampling.OffsetSampling(
        topic, KeysPipelineSettings(), "", Lake(tmp_path, PIPELINE), told.append
    )
    one.sample_offsets()
    one.read(None, {})  # type: ignore[arg-type]
    assert len(written) == samples
    assert 10 <= written[-1] - written[-2] <= 300
    assert len([text for text in told if "looking at orders again" in text]) == samples - 2


@pytest.mark.parametrize(
    ("published", "head"),
    [
        (PublishedRouting(damaged="table on t: is torn", base=1), (0, 1)),
        (PublishedRouting(damaged="table on t: is torn", base=10**18), (0, 2)),
        (PublishedRouting(damaged="table on t: is torn"), (0, 2)),
        (PublishedRouting(RoutingTable(3, 1, 2), damaged="table on t: is torn"), (3, 1)),
    ],
)
def test_a_torn_table_does_not_stop_sampling(
    published: PublishedRouting, head: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported; the previous table applies, or the plain hash by the fields of the torn text."""
    written: list[Any] = []
    monkeypatch.setattr(records, "topic_records", lambda *_: None)
    monkeypatch.setattr(records, "counted", lambda *_: ({}, [], []))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(LakeSink, "write", lambda _, batches, *__: written.append(batches[0]))
    told: list[str] = []
    topic: Any = Topic()
    topic.published = lambda _: published
    one = offset_sampling.OffsetSampling(
        topic, KeysPipelineSettings(), "", Lake(tmp_path, PIPELINE), told.append
    )
    one.read(None, {})  # type: ignore[arg-type]
    columns = written[-1].columns
    assert (columns["version"], columns["base"]) == ([head[0]], [head[1]])
    assert told[0].startswith("table on t: is torn; goes by the table before")


def test_records_at_the_places_of_the_table_are_counted() -> None:
    """At home, in the route of the group or of one of its keys, and where older records may wait."""
    split = key_group(b"hot", 4)
    home, moved = split % 4, next(group for group in range(8) if group not in (split, split % 4))
    table = RoutingTable(
        3, 4, 4, {moved: Route((3,), (2,))}, {b"hot": Route(((home + 1) % 4, (home + 2) % 4))}
    )
    found = {place: {"current_groups": [0] * group_count(4)} for place in range(4)}
    for place in range(4):
        found[place]["current_groups"][split] = 10
        found[place]["current_groups"][moved] = 100
        found[place]["current_groups"][moved + 8] = 1000
    right, whole = offset_sampling.placed(found, table)
    assert right == 3 * 10 + 2 * 100 + 1 * 1000
    assert whole == 4 * 1110

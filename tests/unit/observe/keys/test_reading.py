"""A reading of a topic: how often offsets are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trimtab.connect.kafka.groups import ConsumersSeen
from trimtab.connect.kafka.keyed_topic import Published, TopicSeen
from trimtab.observe.keys import reading
from trimtab.observe.keys.pipeline import PIPELINE, KeysPipelineSettings
from trimtab.observe.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path


class Topic:
    """A topic of two partitions into which a record comes at each look."""

    topic = "orders"
    looks = 0

    def look(self) -> TopicSeen:
        """One record more in each."""
        self.looks += 1
        return TopicSeen("cluster", "id", {0: 0, 1: 0}, {0: self.looks, 1: self.looks})

    def consumers(self, name: str) -> ConsumersSeen:
        """Nobody."""
        return ConsumersSeen()

    def published(self, topic_id: str) -> Published:
        """No table."""
        return Published()


@pytest.mark.parametrize(("took", "looks"), [(100.0, 2), (295.0, 3), (1000.0, 3)])
def test_a_reading_that_took_too_long_for_a_rate_looks_again(
    took: float, looks: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """300 s apart, two looks make no rate: the last two are ten seconds apart then."""
    now = [0.0]
    landed: list[float] = []

    def read(*_: Any) -> tuple[dict[int, Any], list[Any]]:
        now[0] += took
        return {}, []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(reading, "_records", lambda *_: None)
    monkeypatch.setattr(reading, "counted", read)
    monkeypatch.setattr(reading.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(reading.time, "sleep", sleep)
    monkeypatch.setattr(reading.LakeLanding, "land", lambda *_: landed.append(now[0]))
    told: list[str] = []
    topic: Any = Topic()
    one = reading.Reading(topic, KeysPipelineSettings(), "", Lake(tmp_path, PIPELINE), told.append)
    one.look()
    one.read(None, {})  # type: ignore[arg-type]
    assert len(landed) == looks
    assert 10 <= landed[-1] - landed[-2] <= 300
    assert len([text for text in told if "looking at orders again" in text]) == looks - 2

"""All levels of a lake at once, without Spark: which streams and batches are begun, and how they end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from trimtab.model.errors import ObserveError
from trimtab.observe import levels_together
from trimtab.observe.lake import Lake
from trimtab.observe.levels_together import levels_with_samples, run_batches, run_streams
from trimtab.observe.settings import PipelineSettings
from trimtab.observe.stream import Source

if TYPE_CHECKING:
    from pathlib import Path

ANY: Any = None


def landed(lake: Lake, level: str) -> None:
    """A day with a file."""
    day = lake.of_level(level).raw / "date=2026-11-21"
    day.mkdir(parents=True)
    (day / "one.parquet").touch()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> dict[str, threading.Event]:
    """Streams that do nothing until they are told to stop, by level."""
    found: dict[str, threading.Event] = {}

    def idle(session: object, lake: Lake, *arguments: Any) -> None:
        stop, say = arguments[-2], arguments[-1]
        say("begun")
        found[lake.level] = stop
        assert stop.wait(60)

    monkeypatch.setattr(levels_together, "run_stream", idle)
    monkeypatch.setattr(levels_together, "LOOK_EVERY_SECONDS", 0.01)
    return found


def test_each_level_with_samples_has_its_stream(tmp_path: Path, begun: dict[str, threading.Event]) -> None:
    """Pulsar's samples begin to arrive while Kafka's stream is running; Ctrl-C ends both."""
    lake, stop, told = Lake(tmp_path), threading.Event(), []

    def say(line: str) -> None:
        told.append(line)
        if line == "begun":
            landed(lake, "bundles")
        else:
            stop.set()

    landed(lake, "replicas")
    run_streams(ANY, lake, PipelineSettings(), Source(), stop=stop, say=say)
    assert told == ["begun", "bundles: begun"]
    assert all(ended.is_set() for ended in begun.values())


def test_a_stream_that_fails_ends_the_other(
    tmp_path: Path, begun: dict[str, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of what was asked for is not done quietly."""
    lake = Lake(tmp_path)
    idle = levels_together.run_stream

    def failing(session: Any, view: Lake, *arguments: Any) -> None:
        if view.level == "bundles":
            raise ObserveError("the disk is full")
        idle(session, view, *arguments)

    monkeypatch.setattr(levels_together, "run_stream", failing)
    for level in ("replicas", "bundles"):
        landed(lake, level)
    with pytest.raises(ObserveError, match="the disk is full"):
        run_streams(ANY, lake, PipelineSettings(), Source())
    assert all(ended.is_set() for ended in begun.values())


def test_a_batch_takes_the_levels_that_have_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake without Pulsar's samples is not even asked for them."""
    lake, done = Lake(tmp_path), []
    monkeypatch.setattr(
        levels_together, "run_batch", lambda session, view, *_: done.append(view.level) or view.level
    )
    landed(lake, "replicas")
    assert levels_with_samples(lake) == ["replicas"]
    assert run_batches(ANY, lake, PipelineSettings()) == {"replicas": "replicas"}
    landed(lake, "bundles")
    run_batches(ANY, lake, PipelineSettings())
    assert done == ["replicas", "replicas", "bundles"]

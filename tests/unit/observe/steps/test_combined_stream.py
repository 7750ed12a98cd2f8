"""All balancers of a lake at once, without Spark: which streams and batches are begun, and how they end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from support.local_paths import local
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.steps import batch, stream
from trimtab.observe.steps.batch import lakes_with_samples, run_batches
from trimtab.observe.steps.stream import StreamSource, run_streams

if TYPE_CHECKING:
    from pathlib import Path

ANY: Any = None
SETTINGS: Any = {level.name: level.settings() for level in (REPLICAS, BUNDLES)}


def views(path: Path) -> list[Lake]:
    """The lake in a folder, seen from both balancers."""
    return [Lake(path, level) for level in (REPLICAS, BUNDLES)]


def landed(lake: Lake) -> None:
    """A day with a file."""
    day = local(lake.raw) / "date=2026-11-21"
    day.mkdir(parents=True)
    (day / "one.parquet").touch()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> dict[str, threading.Event]:
    """Streams that do nothing until they are told to stop, by balancer."""
    found: dict[str, threading.Event] = {}

    def idle(session: object, lake: Lake, *arguments: Any) -> None:
        stop, say = arguments[4:6]
        say("begun")
        found[lake.balancer.name] = stop
        assert stop.wait(60)

    monkeypatch.setattr(stream, "run_stream", idle)
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.01)
    return found


def test_each_balancer_with_samples_has_its_stream(tmp_path: Path, begun: dict[str, threading.Event]) -> None:
    """Pulsar's samples begin to arrive while Kafka's stream is running; Ctrl-C ends both."""
    lakes, stop, told = views(tmp_path), threading.Event(), []

    def say(line: str) -> None:
        told.append(line)
        if line == "begun":
            landed(lakes[1])
        else:
            stop.set()

    landed(lakes[0])
    run_streams(ANY, lakes, SETTINGS, StreamSource(), stop=stop, print_progress=say)
    assert told == ["begun", "bundles: begun"]
    assert all(ended.is_set() for ended in begun.values())


def test_a_stream_that_fails_ends_the_other(
    tmp_path: Path, begun: dict[str, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that can be met only in part is an error."""
    lakes = views(tmp_path)
    idle = stream.run_stream

    def failing(session: Any, view: Lake, *arguments: Any) -> None:
        if view.balancer is BUNDLES:
            raise ObserveError("the disk is full")
        idle(session, view, *arguments)

    monkeypatch.setattr(stream, "run_stream", failing)
    for lake in lakes:
        landed(lake)
    with pytest.raises(ObserveError, match="the disk is full"):
        run_streams(ANY, lakes, SETTINGS, StreamSource())
    assert all(ended.is_set() for ended in begun.values())


def test_a_batch_includes_the_balancers_that_have_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake without Pulsar's samples is not searched for them."""
    lakes, done = views(tmp_path), []
    monkeypatch.setattr(
        batch,
        "run_batch",
        lambda session, view, *_: done.append(view.balancer.name) or view.balancer.name,
    )
    landed(lakes[0])
    assert lakes_with_samples(lakes) == lakes[:1]
    assert dict[str, Any](run_batches(ANY, lakes, SETTINGS)) == {"replicas": "replicas"}
    landed(lakes[1])
    run_batches(ANY, lakes, SETTINGS)
    assert done == ["replicas", "replicas", "bundles"]

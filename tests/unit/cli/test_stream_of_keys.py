"""`trimtab pipeline stream --keys`: the topic is read anew at every trigger, until somebody ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab import jars
from trimtab.cli import pipeline
from trimtab.cli.app import main
from trimtab.systems.kafka import offset_sampling


class Told(threading.Event):
    """What happened, in its order; ends by itself after so many readings."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.log, self.most, self.waited = list[str](), most, list[float]()

    def sample_offsets(self) -> None:
        """Of a reading."""
        self.log.append("sample")

    def read(self, session: object, options: dict[str, str]) -> None:
        """Of a reading."""
        self.log.append(f"read {options['kafka.bootstrap.servers']}")

    def stop(self) -> None:
        """Of Spark."""
        self.log.append("stop")

    def wait(self, timeout: float | None = None) -> bool:
        """As if the trigger were there."""
        self.waited.append(timeout or 0.0)
        return self.log.count("tables of keys") >= self.most


def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str, most: int = 3) -> Told:
    """What came of the command; Kafka and Spark are stand-ins."""
    told = Told(most)

    @contextmanager
    def opened(connection: object, topic: str, *_: object) -> Iterator[Told]:
        told.log.append(f"open {topic}")
        yield told
        told.log.append("close")

    def built(session: object, lakes: list[Any], *_: object, **__: object) -> dict[str, Any]:
        told.log += [f"tables of {one.balancer.name}" for one in lakes]
        return {one.balancer.name: SimpleNamespace(snapshots=("s",), samples=5) for one in lakes}

    monkeypatch.setattr(offset_sampling, "open_reading", opened)
    monkeypatch.setattr(jars, "spark_kafka_jars", lambda say: ())
    monkeypatch.setattr(pipeline, "lake_session", lambda *_: told)
    monkeypatch.setattr(pipeline, "run_batches", built)
    monkeypatch.setattr(pipeline, "stop_on_signals", lambda: told)
    monkeypatch.setattr(pipeline, "_show_runs", lambda *_, **__: None)
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *words, "--keys=orders", "--cluster=kafka://b1:9092", f"--lake={tmp_path}"])
    assert ended.value.code in (0, None)
    return told


def test_a_stream_reads_the_topic_at_every_trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sample of offsets before Spark starts, then readings, of its own tables alone; all is closed in the
    end.
    """
    told = typed(tmp_path, monkeypatch, "stream", "--trigger=30s")
    assert told.log == [
        "open orders", "sample", *["read b1:9092", "tables of keys"] * 3, "stop", "close"
    ]  # fmt: skip
    assert all(29 < one <= 30 for one in told.waited), "what a reading takes is part of the trigger"


@pytest.mark.parametrize("words", [("stream", "--once"), ("run",)])
def test_one_reading_suffices_if_only_one_is_requested(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run, and of a stream that is to end by itself."""
    told = typed(tmp_path, monkeypatch, *words)
    assert told.log == ["open orders", "sample", "read b1:9092", "tables of keys", "stop", "close"]

"""Collectors of boxes: they read the file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.observe.balls.raw import COLUMNS
from trimtab.observe.collect.sampler import RequestError, SystemSampler, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.collect.sinks import RowBatchBuilder
from trimtab.systems.boxes.settings import BoxesConnection


class BoxesCollector:
    """A collector of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sample(self) -> TickSample:
        """All boxes and balls."""
        begun = time.perf_counter()
        try:
            found = json.loads(self._path.read_text())
        except OSError as error:
            raise RequestError(f"{self._path}: {error}") from None
        boxes, balls = (
            RowBatchBuilder("box", "box", "capacity"),
            RowBatchBuilder("ball", "ball", "box", "weight"),
        )
        for name, capacity in found["boxes"].items():
            boxes.add(name, capacity)
        for name, ball in found["balls"].items():
            balls.add(name, ball["box"], ball["weight"])
        number = len(found["boxes"])
        return TickSample(
            found["cluster"],
            (boxes.batch(), balls.batch()),
            number,
            number,
            0,
            0,
            0,
            (),
            time.perf_counter() - begun,
        )


@contextmanager
def open_collector(
    connection: BoxesConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[BoxesCollector]:
    """A collector of the file."""
    yield BoxesCollector(connection.path)


SAMPLER = SystemSampler(COLUMNS, open_collector)

"""All levels of a lake at once: a batch after the other, or a live stream beside the other."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from trimtab.observe.lake import LEVELS
from trimtab.observe.pipeline import Run, run_batch
from trimtab.observe.stream import run_stream

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from trimtab.observe.lake import Lake
    from trimtab.observe.settings import PipelineSettings
    from trimtab.observe.stream import Source

    Say = Callable[[str], None]

LOOK_EVERY_SECONDS = 2.0
"""How often it is seen whether samples of another level have begun to arrive."""


def levels_with_samples(
    lake: Lake, since: datetime.datetime | None = None, until: datetime.datetime | None = None
) -> list[str]:
    """The levels that have raw files, of the days of a period if they have some there."""
    known = [level for level in LEVELS if lake.of_level(level).has_samples]
    if since is None and until is None:
        return known
    days = (None if since is None else since.date(), None if until is None else until.date())
    return [level for level in known if lake.of_level(level).raw_files(*days)] or known


def run_batches(
    session: SparkSession,
    lake: Lake,
    settings: PipelineSettings,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    say: Say = lambda _: None,
) -> dict[str, Run]:
    """`run_batch` of every level that has samples.

    Parameters
    ----------
    session, lake, settings, since, until, say
        As for `run_batch`; the lake is seen from any level.

    Returns
    -------
    dict
        By level.

    Raises
    ------
    ObserveError
        As `run_batch`.
    """
    levels = levels_with_samples(lake, since, until) or [lake.level]
    return {
        level: run_batch(
            session, lake.of_level(level), settings, since, until, _named(say, level, len(levels) > 1)
        )
        for level in levels
    }


def run_streams(
    session: SparkSession,
    lake: Lake,
    settings: PipelineSettings,
    source: Source,
    trigger_seconds: float = 10.0,
    once: bool = False,
    stop: threading.Event | None = None,
    say: Say = lambda _: None,
) -> None:
    """`run_stream` of every level that has samples, and of one that gets some later.

    Parameters
    ----------
    session, lake, settings, source, trigger_seconds, once, stop, say
        As for `run_stream`; the source is the lake's files.

    Raises
    ------
    ObserveError
        As `run_stream`; if one level's stream fails, the others end too.
    """
    asked = stop or threading.Event()
    ended = threading.Event()
    running: dict[str, Future[None]] = {}

    def start(level: str, workers: ThreadPoolExecutor) -> None:
        told = _named(say, level, level != LEVELS[0])
        view = lake.of_level(level)
        running[level] = workers.submit(
            run_stream, session, view, settings, source, trigger_seconds, once, ended, told
        )

    with ThreadPoolExecutor(len(LEVELS)) as workers:
        try:
            while True:
                for level in levels_with_samples(lake) or ([] if running else [lake.level]):
                    if level not in running:
                        start(level, workers)
                wait(running.values(), LOOK_EVERY_SECONDS, FIRST_COMPLETED)
                over = [one for one in running.values() if one.done()]
                if asked.is_set() or (once and len(over) == len(running)):
                    break
                if any(one.exception() is not None or not once for one in over):
                    break
        finally:
            ended.set()
    for one in running.values():
        one.result()


def _named(say: Say, level: str, wanted: bool) -> Say:
    return (lambda line: say(f"{level}: {line}")) if wanted else say

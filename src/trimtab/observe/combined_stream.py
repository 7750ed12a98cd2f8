"""All balancers of a lake at once: a batch after the other, or a live stream beside the other."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from trimtab.observe.pipeline import PipelineRun, ProgressCallback, run_batch
from trimtab.observe.settings import LakeSettings
from trimtab.observe.stream import run_stream

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from trimtab.observe.lake import Lake
    from trimtab.observe.settings import PipelineSettings
    from trimtab.observe.stream import StreamSource

POLL_SECONDS = 2.0
"""Time between two looks for samples of another balancer."""


def lakes_with_samples(
    lakes: Sequence[Lake], since: datetime.datetime | None = None, until: datetime.datetime | None = None
) -> list[Lake]:
    """The balancers from which one lake is seen that have raw files, of the days of a period if any has."""
    known = [lake for lake in lakes if lake.has_samples]
    if since is None and until is None:
        return known
    days = (None if since is None else since.date(), None if until is None else until.date())
    return [lake for lake in known if lake.raw_files(*days)] or known


def run_batches(
    session: SparkSession,
    lakes: Sequence[Lake],
    settings: Mapping[str, PipelineSettings],
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    print_progress: ProgressCallback = lambda _: None,
) -> dict[str, PipelineRun]:
    """`run_batch` of every balancer that has samples.

    Parameters
    ----------
    lakes
        One lake, seen from each balancer; the first is spoken of where there are no samples at all.
    settings
        By the name of the balancer, as is what is returned.
    session, since, until, print_progress
        As for `run_batch`, as are errors.
    """
    chosen = lakes_with_samples(lakes, since, until) or lakes[:1]
    return {
        name: run_batch(
            session,
            lake,
            settings[name],
            since,
            until,
            _named(print_progress, lake) if len(chosen) > 1 else print_progress,
        )
        for name, lake in ((lake.balancer.name, lake) for lake in chosen)
    }


def run_streams(
    session: SparkSession,
    lakes: Sequence[Lake],
    settings: Mapping[str, PipelineSettings],
    source: StreamSource,
    trigger_seconds: float = 10.0,
    once: bool = False,
    stop: threading.Event | None = None,
    print_progress: ProgressCallback = lambda _: None,
    ages: LakeSettings = LakeSettings(),  # noqa: B008 - frozen
) -> None:
    """`run_stream` of every balancer that has samples, and of one that gets some later.

    Parameters
    ----------
    lakes, settings
        As for `run_batches`.
    session, source, trigger_seconds, once, stop, print_progress, ages
        As for `run_stream`; the source is the lake's files.

    Raises
    ------
    ObserveError
        As `run_stream`; if one balancer's stream fails, the others end too.
    """
    asked = stop or threading.Event()
    ended = threading.Event()
    running: dict[str, Future[None]] = {}

    def start(lake: Lake, workers: ThreadPoolExecutor) -> None:
        own = settings[lake.balancer.name]
        told = _named(print_progress, lake) if lake.balancer.place else print_progress
        running[lake.balancer.name] = workers.submit(
            run_stream, session, lake, own, source, trigger_seconds, once, ended, told, ages
        )

    with ThreadPoolExecutor(len(lakes)) as workers:
        try:
            while True:
                for lake in lakes_with_samples(lakes) or ([] if running else lakes[:1]):
                    if lake.balancer.name not in running:
                        start(lake, workers)
                wait(running.values(), POLL_SECONDS, FIRST_COMPLETED)
                over = [one for one in running.values() if one.done()]
                if asked.is_set() or (once and len(over) == len(running)):
                    break
                if any(one.exception() is not None or not once for one in over):
                    break
        finally:
            ended.set()
    for one in running.values():
        one.result()


def _named(print_progress: ProgressCallback, lake: Lake) -> ProgressCallback:
    return lambda line: print_progress(f"{lake.balancer.name}: {line}")

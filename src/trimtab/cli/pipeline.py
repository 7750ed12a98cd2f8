"""The pipeline over history and live, for every balancer that has samples."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow.compute as pc
import typer

from trimtab.balancers import BALANCERS, DEFAULT_BALANCER, Balancer, balancer_named
from trimtab.balancers.settings import pipeline_table
from trimtab.balancers.systems import spark_settings
from trimtab.cli.collect import topic_of
from trimtab.cli.context import CommandContext
from trimtab.cli.metrics import stream_metrics
from trimtab.cli.status import stop_on_signals
from trimtab.files.head import duration, instant
from trimtab.files.machine import use_one_heap
from trimtab.files.store import Location, reach
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.balancer_pipeline import LakeSettings, PipelineSettings, settings_of
from trimtab.observe.lake.lake import Lake
from trimtab.observe.spark.session import lake_session, stream_settings
from trimtab.observe.steps.batch import PipelineRun, batch_settings, lakes_with_samples, run_batches
from trimtab.observe.steps.stream import BatchCallback, BatchResult, StreamSource, run_stream, run_streams
from trimtab.report.formats import print_json, print_progress
from trimtab_common.settings import Settings

Period = tuple[datetime.datetime | None, datetime.datetime | None]


def run(
    since: str | None, until: str | None, window: float | None, context: CommandContext, *, as_json: bool
) -> None:
    """Body of `trimtab pipeline run`: process the history once."""
    found = context.read()
    chosen, spark = _settings(found, window), spark_settings(found)
    period = instant("--since", since), instant("--until", until)
    lakes = _lakes(context.lake)
    if reads := _direct_source(context):
        done = _read(*reads, context, found, chosen, lakes, period)
        _show_runs(done, lakes, period, as_json=as_json)
        return
    if not lakes_with_samples(list(lakes.values())):
        # Before Spark starts: nobody should wait ten seconds to be told this.
        raise ObserveError(
            f"lake {context.lake} holds no raw samples: run `trimtab collect` first, or name another --lake"
        )
    spark = batch_settings(spark, list(lakes.values()), *period)
    session = lake_session(spark, context.lake, print_progress)
    try:
        done = run_batches(session, list(lakes.values()), chosen, *period, print_progress=print_progress)
    finally:
        session.stop()
    _print_snapshots(done)
    _show_runs(done, lakes, period, as_json=as_json)
    if any(one.unreadable_files for one in done.values()):
        raise typer.Exit(1)


def stream(
    source: str,
    balancer: str | None,
    trigger: str,
    most: int | None,
    window: float | None,
    context: CommandContext,
    *,
    metrics: str | None,
    once: bool,
    as_json: bool,
) -> None:
    """Body of `trimtab pipeline stream`: process new samples until stopped."""
    chosen_level = DEFAULT_BALANCER if balancer is None else balancer_named(balancer, "--balancer")
    found = context.read()
    chosen, spark = _settings(found, window), spark_settings(found)
    ages = found.section("lake", LakeSettings)
    seconds = duration("--trigger", trigger)
    with stream_metrics(metrics) as count:
        if reads := _direct_source(context):
            lakes, period = _lakes(context.lake), (None, None)
            done = _read(
                *reads, context, found, chosen, lakes, period, stop_on_signals(), seconds, once, count
            )
            _show_runs(done, lakes, period, as_json=as_json)
            return
        origin, jars = _source(source, found, context, most)
        stop = stop_on_signals()
        lakes = _lakes(context.lake)
        # A topic is not looked into before Spark starts.
        samples = 0 if origin.topic else _first_samples(context.lake, lakes, stop, wait=not once)
        if not stop.is_set():
            use_one_heap()
            session = lake_session(stream_settings(spark, samples), context.lake, print_progress, jars)
            run = (origin, seconds, once, stop, print_progress, ages, count)
            try:
                # A topic holds the samples of one balancer; a lake's files lie apart.
                if origin.topic is None:
                    run_streams(session, list(lakes.values()), chosen, *run)
                else:
                    name = chosen_level.name
                    run_stream(session, lakes[name], chosen[name], *run)
            finally:
                session.stop()
    if as_json:
        published = {name: one.manifest().version for name, one in lakes.items()}
        versions = {name: version for name, version in published.items() if version}
        print_json({"lake": str(context.lake), "manifests": versions})


POLL_SECONDS = 1.0
"""Time between two looks for the first samples of a lake."""


def _first_samples(place: Location, lakes: dict[str, Lake], stop: threading.Event, *, wait: bool) -> int:
    """Samples of the newest tick, for which Spark waits: its heap and its compiler depend on them."""
    is_reported = False
    while True:
        newest = [found for lake in lakes.values() if (found := lake.newest_samples()) is not None]
        if newest or not wait or stop.is_set():
            return max(newest, default=0)
        if not is_reported:
            print_progress(f"lake {place} holds no samples yet: Spark starts with the first ones")
            is_reported = True
        stop.wait(POLL_SECONDS)


def _direct_source(context: CommandContext) -> tuple[Balancer, str] | None:
    """The balancer whose samples Spark is to read out of its system, and what is to be read there."""
    for level in BALANCERS.values():
        if (
            level.direct_source_option is not None
            and (name := context.option_values.get(level.direct_source_option.name)) is not None
        ):
            return level, str(name)
    return None


def _read(
    balancer: Balancer,
    name: str,
    context: CommandContext,
    found: Settings,
    chosen: dict[str, PipelineSettings],
    lakes: dict[str, Lake],
    period: Period,
    stop: threading.Event | None = None,
    seconds: float = 0.0,
    once: bool = True,
    count: BatchCallback = lambda _: None,
) -> dict[str, PipelineRun]:
    """Read samples out of a system, and build the balancer's tables of them, once or until it is stopped."""
    from trimtab.jars import spark_kafka_jars
    from trimtab.systems.kafka.settings import spark_options

    assert balancer.read_directly is not None
    connection, lake = context.connection(balancer.system, found), lakes[balancer.name]
    with balancer.read_directly()(
        connection, name, found, chosen[balancer.name], lake, print_progress
    ) as reading:
        # The first look comes before Spark starts, which takes as long as a look's distance from the next.
        reading.sample_offsets()
        session = lake_session(
            spark_settings(found), context.lake, print_progress, tuple(spark_kafka_jars(print_progress))
        )
        try:
            while True:
                begun = time.monotonic()
                reading.read(session, spark_options(connection))
                done = run_batches(session, [lake], chosen, *period, print_progress=print_progress)
                entries = lake.manifest().tables.get("cleaned", ())
                newest = max((entry.last for entry in entries), default=None)
                for name, one in done.items():
                    count(BatchResult(name, one.samples, 0, newest, time.monotonic() - begun))
                _print_snapshots(done)
                if once or stop is None or stop.wait(max(0.0, begun + seconds - time.monotonic())):
                    return done
        finally:
            session.stop()


def _lakes(lake: Location) -> dict[str, Lake]:
    """One lake, seen from each balancer, by the balancer's name."""
    reach(lake)
    return {level.name: Lake(lake, level.pipeline()) for level in BALANCERS.values()}


def _settings(found: Settings, window: float | None) -> dict[str, PipelineSettings]:
    """The settings of each balancer's pipeline."""
    pipelines = [level.pipeline() for level in BALANCERS.values()]
    return settings_of(found.section("pipeline", pipeline_table()), pipelines, window)


def _source(
    text: str, settings: Settings, context: CommandContext, most: int | None
) -> tuple[StreamSource, tuple[Path, ...]]:
    """The source that `--source` names, and the jars that Spark needs for it."""
    found = topic_of("--source", text, context, settings)
    if found is None:
        return StreamSource(max_per_batch=most), ()
    from trimtab.jars import spark_kafka_jars
    from trimtab.systems.kafka.settings import spark_options

    connection, topic = found
    return StreamSource(topic, spark_options(connection), most), tuple(spark_kafka_jars(print_progress))


def _print_snapshots(done: Mapping[str, PipelineRun]) -> None:
    for one in done.values():
        for path in one.snapshots:
            print_progress(f"snapshot {path}")


def _show_runs(
    done: Mapping[str, PipelineRun], lakes: Mapping[str, Lake], period: Period, *, as_json: bool
) -> None:
    """Print the faults of the samples; as JSON, all figures of each balancer's run."""
    documents: dict[str, object] = {}
    for name, one in done.items():
        faults = _faults(lakes[name], *period)
        documents[name] = {
            "files": one.files,
            "samples": one.samples,
            "ticks": one.ticks,
            "unreadable_files": [str(path) for path in one.unreadable_files],
            "rows": one.rows,
            "snapshots": [str(path) for path in one.snapshots],
            "flagged": faults,
        }
        if not as_json:
            told = ", ".join(f"{fault} {count:,}" for fault, count in faults.items())
            print_progress(f"flagged: {told or 'nothing'}")
    if as_json:
        print_json({"balancers": documents})


def _faults(lake: Lake, since: datetime.datetime | None, until: datetime.datetime | None) -> dict[str, int]:
    """The number of faulty samples of a period, by the kind of fault."""
    counts = lake.table("quality", None, since, until)
    others = ("cluster", "tick", "kind", "entities", "accepted")
    found = {name: pc.sum(counts[name]).as_py() for name in counts.column_names if name not in others}
    return {name: count for name, count in found.items() if count}

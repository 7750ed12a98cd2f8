"""The pipeline over history and live, for every level that has samples."""

from __future__ import annotations

import datetime
import threading
import time
from pathlib import Path

import pyarrow.compute as pc
import typer

from trimtab.cli.bodies.watching import stop_on_signals
from trimtab.cli.bodies.where import Where
from trimtab.files.head import duration, instant
from trimtab.files.settings import Settings
from trimtab.files.store import Place, reach
from trimtab.levels import FIRST, LEVELS, Level, level_named
from trimtab.levels.settings import pipeline_table
from trimtab.levels.spark import spark_settings
from trimtab.levels.systems import KAFKA
from trimtab.model.errors import ObserveError, SettingsError
from trimtab.observe.lake import Lake
from trimtab.observe.level_pipeline import settings_of
from trimtab.observe.levels_together import lakes_with_samples, run_batches, run_streams
from trimtab.observe.settings import LakeSettings, PipelineSettings
from trimtab.observe.spark_address import lake_session
from trimtab.observe.stream import Source, run_stream
from trimtab.report.saying import say


def run(since: str | None, until: str | None, window: float | None, where: Where) -> None:
    """`trimtab pipeline run`."""
    found = where.read()
    chosen, spark = _settings(found, window), spark_settings(found)
    period = instant("--since", since), instant("--until", until)
    lakes = _lakes(where.lake)
    if reads := _asked_to_read(where):
        _read(*reads, where, found, chosen, lakes, period)
        return
    if not lakes_with_samples(list(lakes.values())):
        # Before Spark starts: nobody should wait ten seconds to be told this.
        raise ObserveError(
            f"lake {where.lake} holds no raw samples: run `trimtab collect` first, or name another --lake"
        )
    session = lake_session(spark, where.lake, say)
    try:
        done = run_batches(session, list(lakes.values()), chosen, *period, say=say)
    finally:
        session.stop()
    for name, one in done.items():
        for path in one.snapshots:
            say(f"snapshot {path}")
        _tell_quality(lakes[name], *period)
    if any(one.unreadable_files for one in done.values()):
        raise typer.Exit(1)


def stream(
    source: str,
    level: str | None,
    trigger: str,
    most: int | None,
    window: float | None,
    where: Where,
    *,
    once: bool,
) -> None:
    """`trimtab pipeline stream`."""
    chosen_level = FIRST if level is None else level_named(level, "--level")
    found = where.read()
    chosen, spark = _settings(found, window), spark_settings(found)
    ages = found.section("lake", LakeSettings)
    seconds = duration("--trigger", trigger)
    if reads := _asked_to_read(where):
        _read(
            *reads, where, found, chosen, _lakes(where.lake), (None, None), stop_on_signals(), seconds, once
        )
        return
    origin, jars = _source(source, found, where, most)
    stop = stop_on_signals()
    lakes = _lakes(where.lake)
    session = lake_session(spark, where.lake, say, jars)
    try:
        # A topic holds the samples of one level; a lake's files lie apart.
        if origin.topic is None:
            run_streams(session, list(lakes.values()), chosen, origin, seconds, once, stop, say, ages)
        else:
            name = chosen_level.name
            run_stream(session, lakes[name], chosen[name], origin, seconds, once, stop, say, ages)
    finally:
        session.stop()


def _asked_to_read(where: Where) -> tuple[Level, str] | None:
    """The level whose samples Spark is to read out of its system, and what is to be read there."""
    for level in LEVELS.values():
        if level.reads is not None and (name := where.given.get(level.reads.name)) is not None:
            return level, str(name)
    return None


def _read(
    level: Level,
    name: str,
    where: Where,
    found: Settings,
    chosen: dict[str, PipelineSettings],
    lakes: dict[str, Lake],
    period: tuple[datetime.datetime | None, datetime.datetime | None],
    stop: threading.Event | None = None,
    seconds: float = 0.0,
    once: bool = True,
) -> None:
    """Read samples out of a system, and build the level's tables of them, once or until it is stopped."""
    from trimtab.jars.fetch import spark_kafka_jars
    from trimtab.observe.stream import spark_options

    assert level.reading is not None
    connection, lake = where.connection(level.system, found), lakes[level.name]
    with level.reading()(connection, name, found, chosen[level.name], lake, say) as reading:
        # The first look comes before Spark starts, which takes as long as a look's distance from the next.
        reading.look()
        session = lake_session(spark_settings(found), where.lake, say, tuple(spark_kafka_jars(say)))
        try:
            while True:
                begun = time.monotonic()
                reading.read(session, spark_options(connection))
                done = run_batches(session, [lake], chosen, *period, say=say)
                for path in done[level.name].snapshots:
                    say(f"snapshot {path}")
                if once or stop is None or stop.wait(max(0.0, begun + seconds - time.monotonic())):
                    break
        finally:
            session.stop()
    _tell_quality(lake, *period)


def _lakes(lake: Place) -> dict[str, Lake]:
    """One lake, seen from each level, by the level's name."""
    reach(lake)
    return {level.name: Lake(lake, level.pipeline()) for level in LEVELS.values()}


def _settings(found: Settings, window: float | None) -> dict[str, PipelineSettings]:
    """The settings of each level's pipeline."""
    pipelines = [level.pipeline() for level in LEVELS.values()]
    return settings_of(found.section("pipeline", pipeline_table()), pipelines, window)


def _source(text: str, settings: Settings, where: Where, most: int | None) -> tuple[Source, tuple[Path, ...]]:
    """The source that `--from` names, and the jars that Spark needs for it."""
    target, _, topic = text.partition(":")
    if (target, bool(topic)) not in (("lake", False), ("kafka", True)):
        raise SettingsError(f"--from is {text!r}: write lake, or kafka:TOPIC")
    if not topic:
        return Source(most_per_batch=most), ()
    from trimtab.jars.fetch import spark_kafka_jars
    from trimtab.observe.stream import spark_options

    options = spark_options(where.connection(KAFKA, settings))
    return Source(topic, options, most), tuple(spark_kafka_jars(say))


def _tell_quality(lake: Lake, since: datetime.datetime | None, until: datetime.datetime | None) -> None:
    """Say what was wrong with the samples of a period, if anything."""
    counts = lake.table("quality", None, since, until)
    names = [
        name
        for name in counts.column_names
        if name not in ("cluster", "tick", "kind", "entities", "accepted")
    ]
    wrong = {name: pc.sum(counts[name]).as_py() or 0 for name in names}
    told = ", ".join(f"{name} {count:,}" for name, count in wrong.items() if count)
    say(f"flagged: {told}" if told else "flagged: nothing")

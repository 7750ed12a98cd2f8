"""`trimtab pipeline`: raw samples into tables and snapshots, over history or live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.cli.options import (
    BOOTSTRAP,
    LAKE,
    SET,
    SETTINGS,
    instant,
    kafka_connection,
    lake_path,
    read_settings,
)
from trimtab.cli.pipeline_truth import truth
from trimtab.cli.stopping import stop_on_signals
from trimtab.model.errors import InputError, SettingsError

if TYPE_CHECKING:
    from trimtab.files.settings import Settings
    from trimtab.observe.settings import PipelineSettings
    from trimtab.observe.stream import Source

app = typer.Typer(no_args_is_help=True)
app.command()(truth)

MASTER = typer.Option("local[*]", "--master", help="Spark's master; local[*] runs here.")
WINDOW = typer.Option(None, "--window", help="Length of a window in seconds; its slide follows.")
HEAVY = typer.Option(False, "--heavy", help="Start slower, run faster: for hours of many partitions.")


@app.command()
def run(
    since: str | None = typer.Option(None, "--since", help="First tick, as 2026-11-21T05:00 (UTC)."),
    until: str | None = typer.Option(None, "--until", help="Ticks before this one."),
    window: float | None = WINDOW,
    lake: Path | None = LAKE,
    master: str = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Build the tables anew from raw samples, over all history or a part, and write the newest snapshots.

    Every level that has samples in the lake gets its tables: Kafka's replicas, Pulsar's bundles.
    """
    from trimtab.observe.lake import Lake
    from trimtab.observe.levels_together import levels_with_samples, run_batches
    from trimtab.observe.session import SessionSettings, spark_session

    chosen = _pipeline_settings(read_settings(settings, overrides), window)
    period = instant("--since", since), instant("--until", until)
    where = Lake(lake_path(lake))
    if not levels_with_samples(where):
        # Before Spark starts: nobody should wait ten seconds to be told this.
        _no_samples(where.path)
    session = spark_session(SessionSettings(master=master, short=not heavy))
    try:
        done = run_batches(session, where, chosen, *period, say=_say)
    finally:
        session.stop()
    for level, one in done.items():
        for path in one.snapshots:
            _say(f"snapshot {path}")
        _tell_quality(where.of_level(level))
    if any(one.unreadable_files for one in done.values()):
        raise typer.Exit(1)


@app.command()
def stream(
    source: str = typer.Option("lake", "--from", help="lake, or kafka:TOPIC."),
    level: str = typer.Option(
        "replicas", "--level", help="Whose samples a topic holds: replicas or bundles. A lake's tell it."
    ),
    trigger: str = typer.Option("10s", "--trigger", help="Shortest distance of two micro-batches."),
    once: bool = typer.Option(False, "--once", help="End when everything there is has been worked in."),
    most: int | None = typer.Option(None, "--most", min=1, help="Files or records per micro-batch at most."),
    window: float | None = WINDOW,
    lake: Path | None = LAKE,
    bootstrap: str | None = BOOTSTRAP,
    master: str = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Keep tables and snapshots up to date with what arrives, exactly once; end with Ctrl-C."""
    from trimtab.observe.lake import LEVELS, Lake
    from trimtab.observe.levels_together import run_streams
    from trimtab.observe.session import SessionSettings, spark_session
    from trimtab.observe.stream import run_stream

    if level not in LEVELS:
        raise SettingsError(f"--level is {level!r}: write {' or '.join(LEVELS)}")
    found = read_settings(settings, overrides)
    chosen = _pipeline_settings(found, window)
    seconds = _seconds("--trigger", trigger)
    origin, jars = _source(source, found, bootstrap, most)
    stop = stop_on_signals()
    session = spark_session(SessionSettings(master=master, short=not heavy, jars=jars))
    # A topic holds the samples of one level; a lake's files lie apart.
    run = run_streams if origin.topic is None else run_stream
    try:
        run(session, Lake(lake_path(lake), level), chosen, origin, seconds, once, stop, _say)
    finally:
        session.stop()


@app.command()
def compact(lake: Path | None = LAKE) -> None:
    """Join small files of the tables into large ones, and remove what no table needs; starts no Spark."""
    from trimtab.observe.compact import compacted, differences
    from trimtab.observe.lake import LEVELS, Lake
    from trimtab.observe.manifest import publish_manifest
    from trimtab.observe.tables import sweep

    compacted_tables = swept = 0
    for level in LEVELS:
        where = Lake(lake_path(lake), level)
        if level != LEVELS[0] and not where.tables.is_dir():
            continue
        with where.writing():
            before = where.manifest()
            after = compacted(where, before)
            changed = differences(before, after)
            for one in changed:
                _say(f"{level}: {one.table}: {one.before} folders became {one.after}")
            if changed:
                after = publish_manifest(where.tables, after)
            compacted_tables += len(changed)
            swept += sweep(where, after)
    _say(f"{compacted_tables} tables compacted, {swept} old folders removed")


def _pipeline_settings(found: Settings, window: float | None) -> PipelineSettings:
    from dataclasses import replace

    from trimtab.observe.settings import PipelineSettings

    given = found.table("pipeline")
    of_bundles = given.get("bundles")
    for section, table, own in (("pipeline", given, "replicas"), ("pipeline.bundles", of_bundles, "bundles")):
        for name in ("theta", "epsilon"):
            if isinstance(table, dict) and name in table:
                raise SettingsError(f"{section}.{name} is no setting of its own: set {own}.{name}")
    chosen = found.section("pipeline", PipelineSettings)
    bundles = replace(chosen.bundles, theta=found.bundles.theta, epsilon=found.bundles.epsilon)
    chosen = replace(chosen, theta=found.replicas.theta, epsilon=found.replicas.epsilon, bundles=bundles)
    if window is None:
        return chosen
    slide = window if chosen.slide_seconds == chosen.window_seconds else chosen.slide_seconds
    return replace(chosen, window_seconds=window, slide_seconds=slide)


def _source(
    text: str, settings: Settings, bootstrap: str | None, most: int | None
) -> tuple[Source, tuple[Path, ...]]:
    from trimtab.observe.stream import Source

    target, _, topic = text.partition(":")
    if (target, bool(topic)) not in (("lake", False), ("kafka", True)):
        raise SettingsError(f"--from is {text!r}: write lake, or kafka:TOPIC")
    if not topic:
        return Source(most_per_batch=most), ()
    from trimtab.observe.kafka_options import spark_options
    from trimtab.sandbox.jars import spark_kafka_jars

    options = spark_options(kafka_connection(settings, bootstrap))
    return Source(topic, options, most), tuple(spark_kafka_jars(_say))


def _seconds(option: str, text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    try:
        seconds = float(number) * units[text[len(number) :].strip() or "s"]
    except (ValueError, KeyError):
        raise InputError(f"{option} is {text!r}: write seconds, as 10s") from None
    if not 0 < seconds <= 86_400:
        raise InputError(f"{option} is {text!r}: write more than 0 seconds, a day at most")
    return seconds


def _tell_quality(lake: Any) -> None:
    """Say what was wrong with the samples, if anything."""
    import pyarrow.compute as pc

    counts = lake.table("quality")
    names = [
        name
        for name in counts.column_names
        if name not in ("cluster", "tick", "kind", "entities", "accepted")
    ]
    wrong = {name: pc.sum(counts[name]).as_py() or 0 for name in names}
    told = ", ".join(f"{name} {count:,}" for name, count in wrong.items() if count)
    _say(f"flagged: {told}" if told else "flagged: nothing")


def _no_samples(path: Path) -> None:
    from trimtab.model.errors import ObserveError

    raise ObserveError(
        f"lake {path} holds no raw samples: run `trimtab collect` first, or name another --lake"
    )


def _say(line: str) -> None:
    print(f"trimtab: {line}", file=sys.stderr, flush=True)

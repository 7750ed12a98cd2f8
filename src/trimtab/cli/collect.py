"""`trimtab collect`: sample a cluster into the lake, tick after tick."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.cli.options import (
    BOOTSTRAP,
    LAKE,
    PULSAR_ADMIN,
    SET,
    SETTINGS,
    is_pulsar,
    kafka_connection,
    lake_path,
    pulsar_connection,
    read_settings,
)
from trimtab.cli.stopping import stop_on_signals
from trimtab.model.errors import SettingsError

if TYPE_CHECKING:
    from trimtab.files.settings import Settings
    from trimtab.observe.collect.landing import Landing
    from trimtab.observe.collect.run import Collected
    from trimtab.observe.collect.settings import CollectSettings

app = typer.Typer()


@app.command()
def collect(
    bootstrap: str | None = BOOTSTRAP,
    pulsar_admin: str | None = PULSAR_ADMIN,
    interval: float | None = typer.Option(None, "--interval", help="Seconds between two ticks; default 30."),
    ticks: int | None = typer.Option(None, "--ticks", min=1, help="End after so many ticks; default: never."),
    to: str = typer.Option(
        "lake", "--to", help="lake, or kafka:TOPIC for a topic of the Kafka cluster of the settings."
    ),
    record: Path | None = typer.Option(
        None, "--record", help="Pulsar: also add load reports to this file, for trimtab replay bundles."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Sample a cluster from outside, no agent needed. Stop it with Ctrl-C.

    Of Kafka: placement, sizes, offsets, groups, and metrics where the brokers have an exporter. Of Pulsar
    (--pulsar-admin, or pulsar.admin in the settings): load reports, bundles and their owners, topics,
    policies.
    """
    from trimtab.observe.collect import run
    from trimtab.observe.collect.settings import CollectSettings

    if interval is not None:
        overrides = [*overrides, f"collect.interval_seconds={interval}"]
    found = read_settings(settings, overrides)
    how = found.section("collect", CollectSettings)
    pulsar = is_pulsar(found, bootstrap, pulsar_admin)
    if record is not None and not pulsar:
        raise SettingsError(
            "--record keeps load reports of Pulsar, and a Kafka cluster is named: leave it out, or name a "
            "Pulsar cluster with --pulsar-admin"
        )
    target, _, topic = to.partition(":")
    if (target, bool(topic)) not in (("lake", False), ("kafka", True)):
        raise SettingsError(f"--to is {to!r}: write lake, or kafka:TOPIC")
    stop = stop_on_signals()
    landed = lost = 0
    with (
        _collector(found, how, bootstrap, pulsar_admin, pulsar=pulsar) as collector,
        _landing(found, how, lake, topic, bootstrap, pulsar=pulsar) as (below, where),
        run.recording(below, record) as landing,
    ):
        _say(f"a tick every {how.interval_seconds:g} s into {where}; end with Ctrl-C")
        if record is not None:
            _say(f"load reports are recorded in {record}")
        if not pulsar and how.prometheus is None:
            _say("no metrics endpoint is set (collect.prometheus): no CPU, three resources remain")
        known: frozenset[str] = frozenset()
        for outcome in run.collect(collector, landing, how.interval_seconds, stop, ticks):
            known = _tell(outcome, known)
            landed, lost = landed + (outcome.problem is None), lost + (outcome.problem is not None)
    _say(f"{landed} ticks landed" + (f", {lost} lost" if lost else ""))
    if ticks is not None and lost:
        raise typer.Exit(1)


@contextmanager
def _collector(
    found: Settings, how: CollectSettings, bootstrap: str | None, admin: str | None, *, pulsar: bool
) -> Iterator[Any]:
    """A collector of the cluster that is meant."""
    from trimtab.observe.collect import run
    from trimtab.observe.collect.capacity import CapacitySettings

    capacity = found.section("capacity", CapacitySettings)
    opened: Any = (
        run.open_pulsar_collector(pulsar_connection(found, admin), how, capacity)
        if pulsar
        else run.open_collector(kafka_connection(found, bootstrap), how, capacity)
    )
    with opened as collector:
        yield collector


@contextmanager
def _landing(
    found: Settings,
    how: CollectSettings,
    lake: Path | None,
    topic: str,
    bootstrap: str | None,
    *,
    pulsar: bool,
) -> Iterator[tuple[Landing, str]]:
    """Where samples go, and how that is called."""
    from trimtab.observe import raw, raw_bundles
    from trimtab.observe.collect import run
    from trimtab.observe.lake import Lake

    if topic:
        with run.topic_landing(kafka_connection(found, bootstrap), topic, how) as landing:
            yield landing, f"kafka:{topic}"
        return
    folder = Lake(lake_path(lake), "bundles" if pulsar else "replicas").raw
    columns = raw_bundles.COLUMNS if pulsar else raw.COLUMNS
    with run.lake_landing(folder, columns) as landing:
        yield landing, str(folder)


def _tell(outcome: Collected, known: frozenset[str]) -> frozenset[str]:
    """One line for the tick, and one for each problem that is new or over; returns the problems of now."""
    sample = outcome.sample
    at = f"{outcome.tick:%H:%M:%S}"
    if outcome.missed:
        _say(f"{at} {outcome.missed} ticks missed: one took longer than the interval, or the machine slept")
    if sample is not None:
        metrics = f", {sample.scraped} of {sample.endpoints} endpoints" if sample.endpoints else ""
        dropped = f", {sample.dropped_values} unusable values dropped" if sample.dropped_values else ""
        milliseconds = (sample.seconds + outcome.landing_seconds) * 1000
        _say(
            f"{at} {sample.answered} of {sample.brokers} brokers{metrics}, {sample.rows} rows, "
            f"{milliseconds:.0f} ms{dropped}"
        )
    if outcome.problem is not None:
        _say(f"{at} tick lost: {outcome.problem}")
    if sample is None:
        return known
    now = frozenset(sample.problems)
    for problem in sample.problems:
        if problem not in known:
            _say(f"{at} {problem}")
    for problem in sorted(known - now):
        _say(f"{at} over: {problem}")
    return now


def _say(line: str) -> None:
    print(f"trimtab: {line}", file=sys.stderr, flush=True)

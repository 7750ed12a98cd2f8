"""`trimtab collect`: sample a cluster into the lake, tick after tick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.cli.options import BOOTSTRAP, LAKE, SET, SETTINGS, kafka_connection, lake_path, read_settings
from trimtab.cli.stopping import stop_on_signals
from trimtab.model.errors import SettingsError

if TYPE_CHECKING:
    from trimtab.observe.collect.run import Collected

app = typer.Typer()


@app.command()
def collect(
    bootstrap: str | None = BOOTSTRAP,
    interval: float | None = typer.Option(None, "--interval", help="Seconds between two ticks; default 30."),
    ticks: int | None = typer.Option(None, "--ticks", min=1, help="End after so many ticks; default: never."),
    to: str = typer.Option("lake", "--to", help="lake, or kafka:TOPIC for a topic of the same cluster."),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Sample a Kafka cluster from outside, no agent needed: placement, sizes, offsets, groups, and metrics
    where the brokers have an exporter. Stop it with Ctrl-C.
    """
    from trimtab.observe.collect import run
    from trimtab.observe.collect.capacity import CapacitySettings
    from trimtab.observe.collect.settings import CollectSettings
    from trimtab.observe.lake import Lake

    if interval is not None:
        overrides = [*overrides, f"collect.interval_seconds={interval}"]
    found = read_settings(settings, overrides)
    how = found.section("collect", CollectSettings)
    capacity = found.section("capacity", CapacitySettings)
    connection = kafka_connection(found, bootstrap)
    target, _, topic = to.partition(":")
    if (target, bool(topic)) not in (("lake", False), ("kafka", True)):
        raise SettingsError(f"--to is {to!r}: write lake, or kafka:TOPIC")
    raw = Lake(lake_path(lake)).raw
    stop = stop_on_signals()
    landed = lost = 0
    with run.open_collector(connection, how, capacity) as collector:
        where: Any = run.topic_landing(connection, topic, how) if topic else run.lake_landing(raw)
        with where as landing:
            _say(f"a tick every {how.interval_seconds:g} s into {to if topic else raw}; end with Ctrl-C")
            if how.prometheus is None:
                _say("no metrics endpoint is set (collect.prometheus): no CPU, three resources remain")
            known: frozenset[str] = frozenset()
            for outcome in run.collect(collector, landing, how.interval_seconds, stop, ticks):
                known = _tell(outcome, known)
                landed, lost = landed + (outcome.problem is None), lost + (outcome.problem is not None)
    _say(f"{landed} ticks landed" + (f", {lost} lost" if lost else ""))
    if ticks is not None and lost:
        raise typer.Exit(1)


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

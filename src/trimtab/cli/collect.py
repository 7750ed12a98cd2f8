"""Samples of a cluster at regular intervals, for a lake or for `trimtab measure --live`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from trimtab.balancers import BALANCERS, System, systems
from trimtab.balancers.clusters import cluster_named, only_cluster
from trimtab.balancers.systems import KAFKA
from trimtab.cli.context import CommandContext
from trimtab.cli.metrics import collect_metrics
from trimtab.cli.status import stop_on_signals
from trimtab.files.store import reach
from trimtab.observe.collect import sampler
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.collect.sinks import SampleSink
from trimtab.observe.lake.lake import Lake
from trimtab.report.formats import print_json, print_progress
from trimtab_common.errors import SettingsError
from trimtab_common.settings import Settings


def collect(
    context: CommandContext,
    *,
    to: str,
    record: Path | None,
    ticks: int | None,
    metrics: str | None,
    as_json: bool,
) -> None:
    """Body of `trimtab collect`: sample once for each tick."""
    found = context.read()
    how = found.section("collect", CollectSettings)
    capacity = found.section("capacity", CapacitySettings)
    cluster = context.only(found)
    system = cluster.system
    collecting = system.collecting()
    if record is not None and collecting.recorder is None:
        recorded = next(one for one in systems() if one.collecting().recorder is not None)
        raise SettingsError(
            f"--record keeps load reports of {recorded.title}, and a {system.title} cluster is named: leave "
            f"it out, or name a {recorded.title} cluster ({recorded.address.example})"
        )
    topic = topic_of("--sink", to, context, found)
    if topic is None:
        reach(context.lake)
    stop = stop_on_signals()
    landed = lost = 0
    with (
        collect_metrics(metrics) as count,
        collecting.open(cluster.connection(), how, capacity) as collector,
        _sink(system, context, how, topic) as (below, place),
        collecting.recording(below, record) as landing,
    ):
        print_progress(f"a tick every {how.interval_seconds:g} s into {place}; end with Ctrl-C")
        if record is not None:
            print_progress(f"load reports are recorded in {record}")
        for remark in collecting.warnings(how):
            print_progress(remark)
        known: frozenset[str] = frozenset()
        for outcome in sampler.collect(collector, landing, how.interval_seconds, stop, ticks):
            count(outcome)
            known = print_tick(outcome, known, target_kind(system))
            landed, lost = landed + (outcome.problem is None), lost + (outcome.problem is not None)
    if as_json:
        problems = sorted(known)
        print_json({"sink": place, "written_ticks": landed, "lost_ticks": lost, "problems": problems})
    else:
        print_progress(f"{landed} ticks landed" + (f", {lost} lost" if lost else ""))
    if ticks is not None and lost:
        raise typer.Exit(1)


@contextmanager
def _sink(
    system: System, context: CommandContext, how: CollectSettings, topic: tuple[Any, str] | None
) -> Iterator[tuple[SampleSink, str]]:
    """The place where samples go, and its name: a topic, or the lake of the first level on the system."""
    if topic is not None:
        from trimtab.systems.kafka.topic_sink import topic_sink

        with topic_sink(*topic, how) as landing:
            yield landing, f"kafka:{topic[1]}"
        return
    level = next(one for one in BALANCERS.values() if one.system is system)
    folder = Lake(context.lake, level.pipeline()).raw
    with sampler.lake_sink(folder, system.collecting().columns) as landing:
        yield landing, str(folder)


def topic_of(flag: str, text: str, context: CommandContext, settings: Settings) -> tuple[Any, str] | None:
    """The connection and the topic that an option names; None for the lake.

    Raises
    ------
    SettingsError
        If it names neither, or no Kafka cluster.
    """
    target, _, rest = text.partition(":")
    if (target, bool(rest)) not in (("lake", False), ("kafka", True)):
        raise SettingsError(f"{flag} is {text!r}: write lake, kafka:TOPIC or kafka:CLUSTER/TOPIC")
    if not rest:
        return None
    name, _, topic = rest.rpartition("/")
    chosen = context.chosen(settings)
    if name:
        cluster = cluster_named(settings, name, flag)
    elif chosen is not None and chosen.system == KAFKA:
        cluster = chosen
    else:
        cluster = only_cluster(settings, KAFKA, f"{flag} kafka:CLUSTER/{topic}, CLUSTER being")
    if cluster.system != KAFKA:
        raise SettingsError(f"{flag} is {text!r}: {name} is a {cluster.system.title} cluster, not Kafka")
    return cluster.connection(), topic


def target_kind(system: System) -> str:
    """What carries load on a system, as its first level calls it."""
    return next(one.target_kind for one in BALANCERS.values() if one.system is system)


def print_tick(outcome: sampler.TickResult, known: frozenset[str], carrier: str) -> frozenset[str]:
    """One line for the tick, and one for each problem that is new or over; returns the problems of now."""
    sample = outcome.sample
    at = f"{outcome.tick:%H:%M:%S}"
    if outcome.missed:
        print_progress(
            f"{at} {outcome.missed} ticks missed: one took longer than the interval, or the machine slept"
        )
    if sample is not None:
        metrics = f", {sample.scraped} of {sample.endpoints} endpoints" if sample.endpoints else ""
        dropped = f", {sample.dropped_values} unusable values dropped" if sample.dropped_values else ""
        milliseconds = (sample.seconds + outcome.write_seconds) * 1000
        print_progress(
            f"{at} {sample.answered} of {sample.brokers} {carrier}s{metrics}, {sample.rows} rows, "
            f"{milliseconds:.0f} ms{dropped}"
        )
    if outcome.problem is not None:
        print_progress(f"{at} tick lost: {outcome.problem}")
    if sample is None:
        return known
    now = frozenset(sample.problems)
    for problem in sample.problems:
        if problem not in known:
            print_progress(f"{at} {problem}")
    for problem in sorted(known - now):
        print_progress(f"{at} over: {problem}")
    return now

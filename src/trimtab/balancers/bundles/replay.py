"""`replay`: what was asked, the way through a recording, and what is shown in the end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from trimtab.balancers.balancer import OptionValues
from trimtab.balancers.planning import recording_option, show
from trimtab.balancers.settings import read_settings
from trimtab.balancers.systems import spark_overrides, spark_settings
from trimtab.files.bundles.decisions import check_new_folder, decision_file, decision_line
from trimtab.files.bundles.policies import read_policies
from trimtab.files.bundles.recording import NO_SETTINGS, read_scenarios
from trimtab.files.head import instant
from trimtab.files.machine import lake_place
from trimtab.history.bundles.effect import (
    MEASURED_PAUSE_SECONDS,
    MetricSpec,
    StrategyComparison,
    compare,
    metric_spec,
    progress_text,
    side_by_side,
)
from trimtab.history.bundles.recording import (
    FileReportRecording,
    LakeReportRecording,
    OwnershipChangeCounter,
    ReportRecording,
    TickRange,
)
from trimtab.history.bundles.replay import ShedderScenario, StrategyRequest, replay, strategy_requests
from trimtab.history.bundles.spark import read_state, write_state
from trimtab.model.bundles.reports import ReportTick
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import DEFAULT_VARIANT, make_options
from trimtab.report.bundles.replay import ReplayProgress, draw_replay, replay_document, replay_text
from trimtab.report.charts import UNMOVED
from trimtab.report.formats import counted, print_progress, warn
from trimtab_common.errors import SettingsError


def replayed(values: OptionValues) -> int:
    """Replay recorded load through strategies, and show or write what they decide. See `Replay`."""
    simulated = values["mode"] == "simulated"
    recording = _recording(values)
    listed = (NO_SETTINGS, {}) if values["scenarios"] is None else read_scenarios(values["scenarios"])
    strategies = values["strategy"]
    if values["scenarios"] is None and not strategies:
        strategies = ["ThresholdShedder"]
    chosen, common = strategy_requests(strategies, values["placement"], values["set"], listed)
    rules = values["pulsar_version"] or listed[0].variant or DEFAULT_VARIANT
    drawn = values["seed"] if values["seed"] is not None else listed[0].seed or 0
    chosen = {name: one.settled(rules, drawn, world_answers=simulated) for name, one in chosen.items()}
    laid_down = None if values["policies"] is None else read_policies(values["policies"])
    java = values["tie_order"] == "java"
    replayed = {
        name: one.scenario(java_order=java, world_answers=simulated, laid_down=laid_down)
        for name, one in chosen.items()
    }
    shown = values["json"] or values["chart"] is not None or values["pause"] is not None
    several, out = len(chosen) > 1, values["out"]
    _check_together(values, listed=shown, simulated=simulated, several=several)
    pause = MEASURED_PAUSE_SECONDS if values["pause"] is None else values["pause"]
    measured_by = metric_spec(make_options(common, rules), pause)
    if values["spark"]:
        comparison = _on_spark(recording, replayed, measured_by, out, values)
        if simulated:
            _show(comparison, chosen, recording, values)
        else:
            for name, effect in comparison.effects.items():
                _count(name, int(effect.unloads.sum()), effect.splits)
    elif simulated and (shown or several):
        _show(_compared(recording, replayed, measured_by, out), chosen, recording, values)
    elif several:
        _decided(recording, replayed, out)
    else:
        ((name, only),) = chosen.items()
        _alone(recording, replayed[name], only.names, out, values["state_file"])
    return 0


def _recording(values: OptionValues) -> ReportRecording:
    """The recording in files, or that of the lake."""
    reports = recording_option(values, "reports", "a recording", "a recording in files")
    period = TickRange(instant("--since", values["since"]), instant("--until", values["until"]))
    if reports is not None:
        return FileReportRecording(reports, period)
    return LakeReportRecording(lake_place(values["lake"]), values["cluster"], period)


def _check_together(values: OptionValues, *, listed: bool, simulated: bool, several: bool) -> None:
    """Refuse options that make no sense together."""
    if listed and not simulated:
        raise SettingsError(
            "--json, --chart and --pause are about what unloads do to the load, which a recording alone "
            "cannot tell; add --mode simulated"
        )
    if values["state_file"] is not None and (listed or several or values["spark"]):
        raise SettingsError(
            "--state-file holds the memory of one strategy and no figures; leave it out, or replay one "
            "strategy "
            "without --json, --chart, --pause and --spark"
        )
    if values["spark"] and not simulated and values["out"] is None:
        raise SettingsError(
            "--spark prints no decisions: name a folder for them with --out, or have what they do to the "
            "load shown with --mode simulated"
        )


def _alone(
    recording: ReportRecording, scenario: ShedderScenario, names: str, out: Path | None, state: Path | None
) -> None:
    """One strategy, a line a tick."""
    begun = read_state(scenario, names, state) if state is not None and state.exists() else None
    reached = begun
    ticks = unloads = 0
    splits: set[str] = set()
    with _ticks(recording, quiet=out is None) as recorded, decision_file(out) as write:
        for tick, decision, state_after in replay(recorded, scenario, begun):
            reached = state_after
            write(decision_line(tick.at, decision.unloads, decision.destinations, decision.facts))
            ticks += 1
            unloads += sum(map(len, decision.unloads.values()))
            splits.update(decision.splits)
    if state is not None and reached is not None:
        write_state(reached, scenario, names, state)
    _count(names, unloads, splits, f"{counted(ticks, 'tick')}, ")


def _decided(recording: ReportRecording, scenarios: dict[str, ShedderScenario], out: Path | None) -> None:
    """Several strategies over the recording as it is: only their decisions can differ."""
    unloads = dict.fromkeys(scenarios, 0)
    splits: dict[str, set[str]] = {name: set() for name in scenarios}
    with _ticks(recording, quiet=out is None) as recorded, decision_file(out) as write:
        for _, decided in side_by_side(recorded, scenarios):
            for name, (seen, one) in decided.items():
                write(decision_line(seen.at, one.unloads, one.destinations, one.facts, strategy=name))
                unloads[name] += sum(map(len, one.unloads.values()))
                splits[name].update(one.splits)
    for name, number in unloads.items():
        _count(name, number, splits[name])


def _count(name: str, unloads: int, splits: Collection[str], first: str = "") -> None:
    """The number of unloads that a strategy wanted, and of bundles that Pulsar would split beside it."""
    more = f", {counted(len(splits), 'bundle')} to be split" if splits else ""
    print_progress(f"{first}{counted(unloads, 'unload')} by {name}{more}")


def _compared(
    recording: ReportRecording,
    scenarios: dict[str, ShedderScenario],
    measured_by: MetricSpec,
    out: Path | None,
) -> StrategyComparison:
    """Each strategy in its own world; decisions go to `out`, if there is one."""
    decisions = contextlib.nullcontext() if out is None else decision_file(out)
    with _ticks(recording) as recorded, decisions as write:

        def print_row(name: str, observation: ReportTick, one: ShedDecision) -> None:
            if write is not None:
                write(decision_line(observation.at, one.unloads, one.destinations, one.facts, strategy=name))

        return compare(recorded, scenarios, measured_by, print_row)


def _on_spark(
    recording: ReportRecording,
    scenarios: dict[str, ShedderScenario],
    measured_by: MetricSpec,
    out: Path | None,
    values: OptionValues,
) -> StrategyComparison:
    """A Spark task for each strategy, and one for the recording as it is; decisions go into a folder."""
    from trimtab.history.bundles.spark import replay_on_spark
    from trimtab.observe.spark.session import spark_session

    # Before Spark starts: nobody should wait ten seconds to be told this.
    recording.check()
    check_new_folder(out)
    settings = read_settings(values["settings"], spark_overrides(values), os.environ)
    session = spark_session(spark_settings(settings), print_progress=print_progress)
    try:
        with ReplayProgress() as progress:
            return replay_on_spark(
                session,
                recording,
                scenarios,
                measured_by,
                out,
                lambda statuses: progress.on_spark(statuses, len(scenarios) + 1),
                warn,
            )
    finally:
        session.stop()


@contextlib.contextmanager
def _ticks(recording: ReportRecording, *, quiet: bool = False) -> Iterator[Iterator[ReportTick]]:
    """The ticks of a recording, while their reader says how far it is; quiet where decisions are printed."""
    seen = OwnershipChangeCounter()
    if quiet:
        yield seen.watched(recording.ticks())
    else:
        with ReplayProgress() as progress:
            yield progress_text(seen.watched(recording.ticks()), progress.local)
    for sentence in seen.summary():
        warn(sentence)


def _show(
    comparison: StrategyComparison,
    chosen: Mapping[str, StrategyRequest],
    recording: ReportRecording,
    values: OptionValues,
) -> None:
    how = {name: dataclasses.asdict(one) for name, one in chosen.items()}
    show(
        values,
        lambda folder, stem: draw_replay(comparison, folder, stem, f"Strategies on {recording.name}"),
        lambda: replay_document(comparison, how),
        lambda: replay_text(comparison),
    )


def figures(
    recording: Path,
    strategies: Sequence[str],
    *,
    options: Mapping[str, object] | None = None,
    placement: str | None = None,
    variant: str = DEFAULT_VARIANT,
    seed: int = 0,
) -> dict[str, dict[str, float | None]]:
    """Figures of strategies on a recording, in a world where load goes where its bundle goes.

    Parameters
    ----------
    recording
        A file of load reports (`trimtab/pulsar-reports/1`), or a folder of them.
    strategies
        `STRATEGY`, or `NAME=STRATEGY` where one is to appear twice.
    options
        Pulsar's own, for all of them.
    placement
        Chooses where unloaded bundles go; None for Pulsar's default.
    variant, seed
        Whose rules, and of all that is drawn.

    Returns
    -------
    dict
        By the strategy's name, the recording as it is first: the figures of `trimtab replay bundles --json`
        that are one number, and how many bundles came back to a broker that they had left.

    Raises
    ------
    TrimtabError
        If the recording, a strategy, a placement or an option is wrong.
    """
    words = [f"{name}={value}" for name, value in (options or {}).items()]
    chosen, common = strategy_requests(strategies, [] if placement is None else [placement], words)
    scenarios = {
        name: one.settled(variant, seed, world_answers=True).scenario(java_order=True, world_answers=True)
        for name, one in chosen.items()
    }
    found = compare(
        FileReportRecording(recording).ticks(), scenarios, metric_spec(make_options(common, variant))
    )
    document = replay_document(found, {name: {} for name in scenarios})
    rows = {UNMOVED: document["unmoved"], **{one["name"]: one for one in document["strategies"]}}
    return {
        name: {
            **{key: value for key, value in row.items() if value is None or isinstance(value, int | float)},
            "came_back": len(row["oscillations"]),
        }
        for name, row in rows.items()
    }

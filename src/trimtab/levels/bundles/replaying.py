"""`replay`: what was asked, the way through a recording, and what is shown in the end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.files.bundles.decisions import check_new_folder, decision_file, decision_line
from trimtab.files.bundles.policies import read_policies
from trimtab.files.bundles.scenario_file import NOTHING_SAID, read_scenarios
from trimtab.files.head import instant
from trimtab.files.places import lake_place
from trimtab.history.bundles.compare import Comparison, compare, side_by_side, telling
from trimtab.history.bundles.effect import MEASURED_PAUSE_SECONDS, Ruler, ruler
from trimtab.history.bundles.hand_overs import HandOvers
from trimtab.history.bundles.recording import FileRecording, LakeRecording, Period, Recording
from trimtab.history.bundles.replay import Scenario, replay
from trimtab.history.bundles.saved import read_state, write_state
from trimtab.history.bundles.scenarios import Asked, asked
from trimtab.levels.replays import Draw, file_asked, show
from trimtab.levels.settings import read_settings
from trimtab.levels.spark import spark_settings, spark_words
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.errors import SettingsError
from trimtab.plan.pulsar.decision import Decision
from trimtab.plan.pulsar.options import DEFAULT_VARIANT, make_options
from trimtab.report.bundles.replay_progress import ReplayProgress
from trimtab.report.bundles.replay_text import UNMOVED, replay_document, replay_text
from trimtab.report.formats import counted
from trimtab.report.saying import say, warn


def replayed(given: Mapping[str, Any]) -> int:
    """Replay recorded load through strategies, and show or write what they decide.

    Parameters
    ----------
    given
        The value of every option, by its name.

    Returns
    -------
    int
        Exit code.

    Raises
    ------
    SettingsError
        If options contradict one another, or a strategy, a placement or an option is not known.
    TrimtabError
        If a file does not hold what it should, or cannot be written.
    """
    simulated = given["world"] == "simulated"
    recording = _recording(given)
    listed = (NOTHING_SAID, {}) if given["scenarios"] is None else read_scenarios(given["scenarios"])
    strategies = given["strategy"]
    if given["scenarios"] is None and not strategies:
        strategies = ["ThresholdShedder"]
    chosen, common = asked(strategies, given["placement"], given["set"], listed)
    rules = given["variant"] or listed[0].variant or DEFAULT_VARIANT
    drawn = given["seed"] if given["seed"] is not None else listed[0].seed or 0
    chosen = {name: one.settled(rules, drawn, world_answers=simulated) for name, one in chosen.items()}
    laid_down = None if given["policies"] is None else read_policies(given["policies"])
    java = given["order"] == "java"
    replayed = {
        name: one.scenario(java_order=java, world_answers=simulated, laid_down=laid_down)
        for name, one in chosen.items()
    }
    shown = given["json"] or given["chart"] is not None or given["pause"] is not None
    several, out = len(chosen) > 1, given["out"]
    _check_together(given, shown=shown, simulated=simulated, several=several)
    pause = MEASURED_PAUSE_SECONDS if given["pause"] is None else given["pause"]
    measured_by = ruler(make_options(common, rules), pause)
    if given["spark"]:
        comparison = _on_spark(recording, replayed, measured_by, out, given)
        if simulated:
            _show(comparison, chosen, recording, given)
        else:
            for name, effect in comparison.effects.items():
                _count(name, int(effect.unloads.sum()), effect.splits)
    elif simulated and (shown or several):
        _show(_compared(recording, replayed, measured_by, out), chosen, recording, given)
    elif several:
        _decided(recording, replayed, out)
    else:
        ((name, only),) = chosen.items()
        _alone(recording, replayed[name], only.names, out, given["state"])
    return 0


def _recording(given: Mapping[str, Any]) -> Recording:
    """The recording in files, or that of the lake."""
    reports = file_asked(given, "reports", "a recording", "a recording in files")
    period = Period(instant("--since", given["since"]), instant("--until", given["until"]))
    if reports is not None:
        return FileRecording(reports, period)
    return LakeRecording(lake_place(given["lake"]), given["cluster"], period)


def _check_together(given: Mapping[str, Any], *, shown: bool, simulated: bool, several: bool) -> None:
    """Refuse options that make no sense together."""
    if shown and not simulated:
        raise SettingsError(
            "--json, --chart and --pause are about what unloads do to the load, which a recording alone "
            "cannot tell; add --world simulated"
        )
    if given["state"] is not None and (shown or several or given["spark"]):
        raise SettingsError(
            "--state holds the memory of one strategy and no figures; leave it out, or replay one strategy "
            "without --json, --chart, --pause and --spark"
        )
    if given["spark"] and not simulated and given["out"] is None:
        raise SettingsError(
            "--spark prints no decisions: name a folder for them with --out, or have what they do to the "
            "load shown with --world simulated"
        )


def _alone(
    recording: Recording, scenario: Scenario, names: str, out: Path | None, state: Path | None
) -> None:
    """One strategy, a line a tick."""
    begun = read_state(scenario, names, state) if state is not None and state.exists() else None
    reached = begun
    ticks = unloads = 0
    splits: set[str] = set()
    with _ticks(recording, quiet=out is None) as recorded, decision_file(out) as write:
        for tick, decision, state_after in replay(recorded, scenario, begun):
            reached = state_after
            write(decision_line(tick.at, decision.unloads, decision.destinations, decision.why))
            ticks += 1
            unloads += sum(map(len, decision.unloads.values()))
            splits.update(decision.splits)
    if state is not None and reached is not None:
        write_state(reached, scenario, names, state)
    _count(names, unloads, splits, f"{counted(ticks, 'tick')}, ")


def _decided(recording: Recording, scenarios: dict[str, Scenario], out: Path | None) -> None:
    """Several strategies over the recording as it is: only their decisions can differ."""
    unloads = dict.fromkeys(scenarios, 0)
    splits: dict[str, set[str]] = {name: set() for name in scenarios}
    with _ticks(recording, quiet=out is None) as recorded, decision_file(out) as write:
        for _, decided in side_by_side(recorded, scenarios):
            for name, (seen, one) in decided.items():
                write(decision_line(seen.at, one.unloads, one.destinations, one.why, strategy=name))
                unloads[name] += sum(map(len, one.unloads.values()))
                splits[name].update(one.splits)
    for name, number in unloads.items():
        _count(name, number, splits[name])


def _count(name: str, unloads: int, splits: Collection[str], first: str = "") -> None:
    """The number of unloads that a strategy wanted, and of bundles that Pulsar would split beside it."""
    more = f", {counted(len(splits), 'bundle')} to be split" if splits else ""
    say(f"{first}{counted(unloads, 'unload')} by {name}{more}")


def _compared(
    recording: Recording, scenarios: dict[str, Scenario], measured_by: Ruler, out: Path | None
) -> Comparison:
    """Each strategy in its own world; decisions go to `out`, if there is one."""
    decisions = contextlib.nullcontext() if out is None else decision_file(out)
    with _ticks(recording) as recorded, decisions as write:

        def told(name: str, seen: ReportTick, one: Decision) -> None:
            if write is not None:
                write(decision_line(seen.at, one.unloads, one.destinations, one.why, strategy=name))

        return compare(recorded, scenarios, measured_by, told)


def _on_spark(
    recording: Recording,
    scenarios: dict[str, Scenario],
    measured_by: Ruler,
    out: Path | None,
    given: Mapping[str, Any],
) -> Comparison:
    """A Spark task for each strategy, and one for the recording as it is; decisions go into a folder."""
    from trimtab.history.bundles.spark import replay_on_spark
    from trimtab.observe.session import spark_session

    # Before Spark starts: nobody should wait ten seconds to be told this.
    recording.check()
    check_new_folder(out)
    settings = read_settings(given["settings"], spark_words(given), os.environ)
    session = spark_session(spark_settings(settings), say=say)
    try:
        with ReplayProgress() as progress:
            return replay_on_spark(
                session,
                recording,
                scenarios,
                measured_by,
                out,
                lambda standings: progress.on_spark(standings, len(scenarios) + 1),
                warn,
            )
    finally:
        session.stop()


@contextlib.contextmanager
def _ticks(recording: Recording, *, quiet: bool = False) -> Iterator[Iterator[ReportTick]]:
    """The ticks of a recording, while their reader says how far it is; quiet where decisions are printed."""
    seen = HandOvers()
    if quiet:
        yield seen.watched(recording.ticks())
    else:
        with ReplayProgress() as progress:
            yield telling(seen.watched(recording.ticks()), progress.local)
    for sentence in seen.told():
        warn(sentence)


def _show(
    comparison: Comparison, chosen: Mapping[str, Asked], recording: Recording, given: Mapping[str, Any]
) -> None:
    def draw() -> Draw:
        from trimtab.report.bundles.replay_chart import draw_replay

        return lambda folder, stem: draw_replay(comparison, folder, stem, f"Strategies on {recording.name}")

    how = {name: dataclasses.asdict(one) for name, one in chosen.items()}
    show(given, draw, lambda: replay_document(comparison, how), lambda: replay_text(comparison))


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
    chosen, common = asked(strategies, [] if placement is None else [placement], words)
    scenarios = {
        name: one.settled(variant, seed, world_answers=True).scenario(java_order=True, world_answers=True)
        for name, one in chosen.items()
    }
    found = compare(FileRecording(recording).ticks(), scenarios, ruler(make_options(common, variant)))
    document = replay_document(found, {name: {} for name in scenarios})
    rows = {UNMOVED: document["unmoved"], **{one["name"]: one for one in document["strategies"]}}
    return {
        name: {
            **{key: value for key, value in row.items() if value is None or isinstance(value, int | float)},
            "came_back": len(row["oscillations"]),
        }
        for name, row in rows.items()
    }

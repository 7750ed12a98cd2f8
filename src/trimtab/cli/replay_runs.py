"""The ways in which `trimtab replay bundles` goes through a recording, and what it shows in the end."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from trimtab.cli.replay_scenarios import Asked
    from trimtab.history.bundles.compare import Comparison
    from trimtab.history.bundles.effect import Ruler
    from trimtab.history.bundles.recording import Recording
    from trimtab.history.bundles.replay import Scenario
    from trimtab.model.bundles import ReportTick
    from trimtab.plan.bundles.decision import Decision


def alone(recording: Recording, scenario: Scenario, names: str, out: Path | None, state: Path | None) -> None:
    """One strategy, a line a tick."""
    from trimtab.files.decisions import DecisionFile, decision_line
    from trimtab.history.bundles.replay import replay
    from trimtab.history.bundles.saved import read_state, write_state

    begun = read_state(scenario, names, state) if state is not None and state.exists() else None
    reached = begun
    ticks = unloads = 0
    with _ticks(recording, quiet=out is None) as recorded, DecisionFile(out) as file:
        for tick, decision, reached in replay(recorded, scenario, begun):  # noqa: B007
            file.write(decision_line(tick.at, decision.unloads, decision.destinations, decision.why))
            ticks += 1
            unloads += sum(map(len, decision.unloads.values()))
    if state is not None and reached is not None:
        write_state(reached, scenario, names, state)
    counted = f"{ticks} tick{'s' * (ticks != 1)}, {unloads} unload{'s' * (unloads != 1)}"
    print(f"trimtab: {counted} by {names}", file=sys.stderr)


def decided(recording: Recording, scenarios: dict[str, Scenario], out: Path | None) -> None:
    """Several strategies over the recording as it is: only their decisions can differ."""
    from trimtab.files.decisions import DecisionFile, decision_line
    from trimtab.history.bundles.compare import side_by_side

    unloads = dict.fromkeys(scenarios, 0)
    with _ticks(recording, quiet=out is None) as recorded, DecisionFile(out) as file:
        for _, decided in side_by_side(recorded, scenarios):
            for name, (seen, one) in decided.items():
                file.write(decision_line(seen.at, one.unloads, one.destinations, one.why, strategy=name))
                unloads[name] += sum(map(len, one.unloads.values()))
    count(unloads)


def count(unloads: Mapping[str, int]) -> None:
    """How many unloads each strategy wanted."""
    for name, number in unloads.items():
        print(f"trimtab: {number} unload{'s' * (number != 1)} by {name}", file=sys.stderr)


def compared(
    recording: Recording, scenarios: dict[str, Scenario], measured_by: Ruler, out: Path | None
) -> Comparison:
    """Each strategy in its own world; decisions go to `out`, if there is one."""
    from trimtab.files.decisions import DecisionFile, decision_line
    from trimtab.history.bundles.compare import compare

    if out is None:
        with _ticks(recording) as recorded:
            return compare(recorded, scenarios, measured_by)
    with _ticks(recording) as recorded, DecisionFile(out) as file:

        def told(name: str, seen: ReportTick, one: Decision) -> None:
            file.write(decision_line(seen.at, one.unloads, one.destinations, one.why, strategy=name))

        return compare(recorded, scenarios, measured_by, told)


def on_spark(
    recording: Recording, scenarios: dict[str, Scenario], measured_by: Ruler, out: Path | None, master: str
) -> Comparison:
    """A Spark task for each strategy, and one for the recording as it is; decisions go into a folder."""
    from trimtab.cli.replay_progress import ReplayProgress
    from trimtab.files.decision_folder import check_new_folder
    from trimtab.history.bundles.spark import replay_on_spark
    from trimtab.observe.session import SessionSettings, spark_session

    # Before Spark starts: nobody should wait ten seconds to be told this.
    recording.check()
    check_new_folder(out)
    session = spark_session(SessionSettings(master=master, short=True))
    try:
        with ReplayProgress() as progress:
            return replay_on_spark(
                session,
                recording,
                scenarios,
                measured_by,
                out,
                lambda standings: progress.on_spark(standings, len(scenarios) + 1),
                _warn,
            )
    finally:
        session.stop()


@contextlib.contextmanager
def _ticks(recording: Recording, *, quiet: bool = False) -> Iterator[Iterator[ReportTick]]:
    """The ticks of a recording, while their reader says how far it is; quiet where decisions are printed."""
    from trimtab.cli.replay_progress import ReplayProgress
    from trimtab.history.bundles.hand_overs import HandOvers
    from trimtab.history.bundles.scenario_run import telling

    seen = HandOvers()
    if quiet:
        yield seen.watched(recording.ticks())
    else:
        with ReplayProgress() as progress:
            yield telling(seen.watched(recording.ticks()), progress.local)
    for sentence in seen.told():
        _warn(sentence)


def _warn(sentence: str) -> None:
    print(f"trimtab: warning: {sentence}", file=sys.stderr)


def show(
    comparison: Comparison,
    chosen: dict[str, Asked],
    recording: Recording,
    *,
    as_json: bool,
    chart: Path | None,
) -> None:
    """The picture first, so that nothing is said of one that could not be written."""
    import json

    from trimtab.report.replay_text import replay_document, replay_text

    if chart is not None:
        from trimtab.files.atomic import writing
        from trimtab.report.replay_chart import draw_replay

        with writing(chart):
            name = chart.stem if chart.suffix in (".svg", ".png") else chart.name
            drawn = draw_replay(comparison, chart.parent, name, f"Strategies on {recording.name}")
        print(f"trimtab: drew {' and '.join(map(str, drawn))}", file=sys.stderr)
    if as_json:
        how = {name: dataclasses.asdict(one) for name, one in chosen.items()}
        typer.echo(json.dumps(replay_document(comparison, how), ensure_ascii=False, indent=1))
        return
    from rich.console import Console

    from trimtab.cli.options import table_width

    console = Console(highlight=False, width=table_width())
    for part in replay_text(comparison):
        console.print(part, soft_wrap=isinstance(part, str))

"""The three ways in which `trimtab replay bundles` goes through a recording, and what it shows in the end."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.cli.replay_scenarios import Asked
    from trimtab.history.bundles.compare import Comparison
    from trimtab.history.bundles.effect import Ruler
    from trimtab.history.bundles.replay import Scenario
    from trimtab.model.bundles import ReportTick
    from trimtab.plan.bundles.decision import Decision


def alone(reports: Path, scenario: Scenario, names: str, out: Path | None, state: Path | None) -> None:
    """One strategy, a line a tick."""
    from trimtab.files.decisions import DecisionFile, decision_line
    from trimtab.files.pulsar_recording import read_recording
    from trimtab.history.bundles.replay import replay
    from trimtab.history.bundles.saved import read_state, write_state

    begun = read_state(scenario, names, state) if state is not None and state.exists() else None
    reached = begun
    ticks = unloads = 0
    with DecisionFile(out) as file:
        for tick, decision, reached in replay(read_recording(reports), scenario, begun):  # noqa: B007
            file.write(decision_line(tick.at, decision.unloads, decision.destinations, decision.why))
            ticks += 1
            unloads += sum(map(len, decision.unloads.values()))
    if state is not None and reached is not None:
        write_state(reached, scenario, names, state)
    counted = f"{ticks} tick{'s' * (ticks != 1)}, {unloads} unload{'s' * (unloads != 1)}"
    print(f"trimtab: {counted} by {names}", file=sys.stderr)


def decided(reports: Path, scenarios: dict[str, Scenario], out: Path | None) -> None:
    """Several strategies over the recording as it is: only their decisions can differ."""
    from trimtab.files.decisions import DecisionFile, decision_line
    from trimtab.files.pulsar_recording import read_recording
    from trimtab.history.bundles.compare import side_by_side

    unloads = dict.fromkeys(scenarios, 0)
    with DecisionFile(out) as file:
        for _, decided in side_by_side(read_recording(reports), scenarios):
            for name, (seen, one) in decided.items():
                file.write(decision_line(seen.at, one.unloads, one.destinations, one.why, strategy=name))
                unloads[name] += sum(map(len, one.unloads.values()))
    for name, number in unloads.items():
        print(f"trimtab: {number} unload{'s' * (number != 1)} by {name}", file=sys.stderr)


def compared(
    reports: Path, scenarios: dict[str, Scenario], measured_by: Ruler, out: Path | None
) -> Comparison:
    """Each strategy in its own world; decisions go to `out`, if there is one."""
    from trimtab.files.decisions import DecisionFile, decision_line
    from trimtab.files.pulsar_recording import read_recording
    from trimtab.history.bundles.compare import compare

    if out is None:
        return compare(read_recording(reports), scenarios, measured_by)
    with DecisionFile(out) as file:

        def told(name: str, seen: ReportTick, one: Decision) -> None:
            file.write(decision_line(seen.at, one.unloads, one.destinations, one.why, strategy=name))

        return compare(read_recording(reports), scenarios, measured_by, told)


def show(
    comparison: Comparison, chosen: dict[str, Asked], reports: Path, *, as_json: bool, chart: Path | None
) -> None:
    """The picture first, so that nothing is said of one that could not be written."""
    import json

    from trimtab.report.replay_text import replay_document, replay_text

    if chart is not None:
        from trimtab.files.atomic import writing
        from trimtab.report.replay_chart import draw_replay

        with writing(chart):
            name = chart.stem if chart.suffix in (".svg", ".png") else chart.name
            drawn = draw_replay(comparison, chart.parent, name, f"Strategies on {reports.name}")
        print(f"trimtab: drew {' and '.join(map(str, drawn))}", file=sys.stderr)
    if as_json:
        how = {name: dataclasses.asdict(one) for name, one in chosen.items()}
        typer.echo(json.dumps(replay_document(comparison, how), ensure_ascii=False, indent=1))
        return
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for part in replay_text(comparison):
        console.print(part, soft_wrap=isinstance(part, str))

"""`trimtab replay bundles`: what a strategy would have done over recorded load."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

import typer

app = typer.Typer(
    help="Run recorded load through a strategy, to see what it would have done.", no_args_is_help=True
)


class Answers(StrEnum):
    """What follows an unload."""

    RECORDED = "recorded"
    SIMULATED = "simulated"


class Order(StrEnum):
    """Which of two equals comes first."""

    JAVA = "java"
    FILE = "file"


@app.callback()
def _group() -> None:
    """Run recorded load through a strategy, to see what it would have done."""


@app.command()
def bundles(
    reports: Path = typer.Option(
        ..., "--reports", help="Recorded load reports (trimtab/pulsar-reports/1), plain or gzip."
    ),
    strategy: str = typer.Option(
        "ThresholdShedder", "--strategy", help="A shedding strategy by its name in Pulsar."
    ),
    placement: str | None = typer.Option(
        None, "--placement", help="A placement strategy, for shedders that name no destination."
    ),
    overrides: list[str] = typer.Option(
        [], "--set", help="One option of Pulsar's, as loadBalancerX=value; may be repeated."
    ),
    variant: str = typer.Option(
        "pulsar-4.2", "--variant", help="Whose rules and defaults: pulsar-4.2, pulsar-4.0 or article."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Of all that is drawn."),
    world: Answers = typer.Option(
        Answers.RECORDED,
        "--world",
        help="recorded: every tick as the file has it; simulated: load goes where its bundle goes.",
    ),
    order: Order = typer.Option(
        Order.JAVA,
        "--order",
        help="Which of equal brokers or bundles is first: as in Java's hash maps (Pulsar), or in the file.",
    ),
    out: Path | None = typer.Option(
        None, "--out", help="File for the decisions, a line a tick; by default standard output."
    ),
    state: Path | None = typer.Option(
        None, "--state", help="File to go on from, if it is there, and to leave the state in at the end."
    ),
) -> None:
    """Replay recorded load reports of Pulsar's brokers through a strategy: one decision a tick.

    Exit code 2: the recording, the strategy or an option is wrong; nothing is written then but what went to
    standard output before.
    """
    from trimtab.files.decisions import DecisionFile, decision_line
    from trimtab.files.pulsar_reports import read_reports
    from trimtab.history.bundles.replay import Scenario, replay
    from trimtab.history.bundles.saved import read_state, write_state
    from trimtab.plan.bundles.options import make_options
    from trimtab.plan.bundles.strategies import placer, shedder

    scenario = Scenario(
        shedder(strategy),
        make_options(_given(overrides), variant),
        seed,
        None if placement is None else placer(placement),
        java_order=order is Order.JAVA,
        world_answers=world is Answers.SIMULATED,
    )
    names = strategy if placement is None else f"{strategy} and {placement}"
    begun = read_state(scenario, names, state) if state is not None and state.exists() else None
    reached = begun
    ticks = unloads = 0
    with DecisionFile(out) as file:
        for tick, decision, reached in replay(read_reports(reports), scenario, begun):  # noqa: B007
            file.write(decision_line(tick.at, decision.unloads, decision.destinations, decision.why))
            ticks += 1
            unloads += sum(map(len, decision.unloads.values()))
    if state is not None and reached is not None:
        write_state(reached, scenario, names, state)
    counted = f"{ticks} tick{'s' * (ticks != 1)}, {unloads} unload{'s' * (unloads != 1)}"
    print(f"trimtab: {counted} by {names}", file=sys.stderr)


def _given(overrides: list[str]) -> dict[str, str]:
    """Options by name, from `name=value`."""
    from trimtab.model.errors import SettingsError

    given = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"--set {override!r} is not name=value; write --set loadBalancerX=value")
        given[name.strip()] = value.strip()
    return given

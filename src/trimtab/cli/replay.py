"""`trimtab replay bundles`: what a strategy would have done over recorded load."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from trimtab.cli.replay_runs import alone, compared, decided, show
from trimtab.cli.replay_scenarios import asked

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
    strategies: list[str] = typer.Option(
        ["ThresholdShedder"],
        "--strategy",
        help="A shedding strategy by its name in Pulsar, or NAME=STRATEGY; may be repeated.",
    ),
    placements: list[str] = typer.Option(
        [],
        "--placement",
        help="A placement strategy, for shedders that name no destination; NAME=PLACEMENT is for one.",
    ),
    overrides: list[str] = typer.Option(
        [],
        "--set",
        help="One option of Pulsar's, as loadBalancerX=value for all or NAME.loadBalancerX=value for one "
        "strategy; may be repeated.",
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
    as_json: bool = typer.Option(
        False, "--json", help="Print what each strategy did to the cluster as one JSON document."
    ),
    chart: Path | None = typer.Option(
        None, "--chart", help="Draw imbalance over time into this file, as .svg and as .png."
    ),
    pause: float | None = typer.Option(
        None,
        "--pause",
        min=0,
        help="Seconds that an unload interrupts its bundle's traffic; by default what was measured.",
    ),
) -> None:
    """Replay recorded load reports of Pulsar's brokers through strategies: one decision a tick.

    Several strategies in the simulated world, or one with --json, --chart or --pause: what each did to the
    cluster is shown side by side, and the decisions go to --out alone, where each line names its strategy.

    Exit code 2: the recording, a strategy or an option is wrong; nothing is written then but what went to
    standard output before.
    """
    from trimtab.model.errors import SettingsError
    from trimtab.plan.bundles.options import make_options

    chosen, common = asked(strategies, placements, overrides)
    simulated = world is Answers.SIMULATED
    scenarios = {
        name: one.scenario(variant, seed, java_order=order is Order.JAVA, world_answers=simulated)
        for name, one in chosen.items()
    }
    shown = as_json or chart is not None or pause is not None
    if shown and not simulated:
        raise SettingsError(
            "--json, --chart and --pause are about what unloads do to the load, which a recording alone "
            "cannot tell; add --world simulated"
        )
    if state is not None and (shown or len(chosen) > 1):
        raise SettingsError(
            "--state holds the memory of one strategy and no figures; leave it out, or replay one strategy "
            "without --json, --chart and --pause"
        )
    if simulated and (shown or len(chosen) > 1):
        from trimtab.history.bundles.effect import MEASURED_PAUSE_SECONDS, ruler

        measured_by = ruler(make_options(common, variant), MEASURED_PAUSE_SECONDS if pause is None else pause)
        comparison = compared(reports, scenarios, measured_by, out)
        show(comparison, chosen, reports, as_json=as_json, chart=chart)
    elif len(chosen) > 1:
        decided(reports, scenarios, out)
    else:
        ((name, only),) = chosen.items()
        alone(reports, scenarios[name], only.names, out, state)

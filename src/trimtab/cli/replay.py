"""`trimtab replay bundles`: what a strategy would have done over recorded load."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trimtab.cli.options import CLUSTER, instant, lake_path
from trimtab.cli.replay_runs import alone, compared, count, decided, on_spark, show
from trimtab.cli.replay_scenarios import asked
from trimtab.model.errors import SettingsError

if TYPE_CHECKING:
    from trimtab.history.bundles.recording import Recording

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
    reports: Path | None = typer.Option(
        None,
        "--reports",
        help="Recorded load reports (trimtab/pulsar-reports/1), plain or gzip, or a folder of such files.",
    ),
    lake: Path | None = typer.Option(
        None, "--lake", help="Folder of telemetry to take the reports from, in place of --reports."
    ),
    cluster: str | None = CLUSTER,
    since: str | None = typer.Option(None, "--since", help="First tick, as 2026-11-21T05:00 (UTC)."),
    until: str | None = typer.Option(None, "--until", help="Ticks before this one."),
    strategies: list[str] = typer.Option(
        [],
        "--strategy",
        help="A shedding strategy by its name in Pulsar, or NAME=STRATEGY; may be repeated. By default "
        "ThresholdShedder.",
    ),
    placements: list[str] = typer.Option(
        [],
        "--placement",
        help="A placement strategy, for shedders that name no destination; NAME=PLACEMENT is for one. In the "
        "simulated world by default Pulsar's own.",
    ),
    scenarios: Path | None = typer.Option(
        None, "--scenarios", help="TOML file of strategies with their settings, for many of them."
    ),
    overrides: list[str] = typer.Option(
        [],
        "--set",
        help="One option of Pulsar's, as loadBalancerX=value for all or NAME.loadBalancerX=value for one "
        "strategy; may be repeated.",
    ),
    policies: Path | None = typer.Option(
        None,
        "--policies",
        help="JSON file of the cluster's isolation policies, failure domains, anti-affinity groups and "
        "resource quotas (trimtab/pulsar-policies/1); by default there are none.",
    ),
    variant: str | None = typer.Option(
        None,
        "--variant",
        help="Whose rules and defaults: pulsar-4.2, pulsar-4.0 or article; by default the first.",
    ),
    seed: int | None = typer.Option(None, "--seed", min=0, help="Of all that is drawn; by default 0."),
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
        None,
        "--out",
        help="File for the decisions, a line a tick; by default standard output. With --spark a new folder, "
        "a file for each strategy.",
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
    spark: bool = typer.Option(
        False, "--spark", help="Run as a Spark job, a task for each strategy: for long recordings."
    ),
    master: str = typer.Option("local[*]", "--master", help="Spark's master; local[*] runs here."),
) -> None:
    """Replay recorded load reports of Pulsar's brokers through strategies: one decision a tick.

    Several strategies in the simulated world, or one with --json, --chart or --pause: what each did to the
    cluster is shown side by side, and the decisions go to --out alone, where each line names its strategy.

    Exit code 2: the recording, a strategy or an option is wrong; nothing is written then but what went to
    standard output before.
    """
    from trimtab.files.pulsar_policies import read_policies
    from trimtab.files.scenario_file import NOTHING_SAID, read_scenarios
    from trimtab.history.bundles.effect import MEASURED_PAUSE_SECONDS, ruler
    from trimtab.plan.bundles.options import DEFAULT_VARIANT, make_options

    simulated = world is Answers.SIMULATED
    recording = _recording(reports, lake, cluster, since, until)
    listed = (NOTHING_SAID, {}) if scenarios is None else read_scenarios(scenarios)
    if scenarios is None and not strategies:
        strategies = ["ThresholdShedder"]
    chosen, common = asked(strategies, placements, overrides, listed)
    rules = variant or listed[0].variant or DEFAULT_VARIANT
    drawn = seed if seed is not None else listed[0].seed or 0
    chosen = {name: one.settled(rules, drawn, world_answers=simulated) for name, one in chosen.items()}
    laid_down = None if policies is None else read_policies(policies)
    replayed = {
        name: one.scenario(java_order=order is Order.JAVA, world_answers=simulated, laid_down=laid_down)
        for name, one in chosen.items()
    }
    shown = as_json or chart is not None or pause is not None
    _check_together(
        shown=shown, simulated=simulated, spark=spark, out=out, state=state, several=len(chosen) > 1
    )
    measured_by = ruler(make_options(common, rules), MEASURED_PAUSE_SECONDS if pause is None else pause)
    if spark:
        comparison = on_spark(recording, replayed, measured_by, out, master)
        if simulated:
            show(comparison, chosen, recording, as_json=as_json, chart=chart)
        else:
            count({name: int(effect.unloads.sum()) for name, effect in comparison.effects.items()})
    elif simulated and (shown or len(chosen) > 1):
        comparison = compared(recording, replayed, measured_by, out)
        show(comparison, chosen, recording, as_json=as_json, chart=chart)
    elif len(chosen) > 1:
        decided(recording, replayed, out)
    else:
        ((name, only),) = chosen.items()
        alone(recording, replayed[name], only.names, out, state)


def _recording(
    reports: Path | None, lake: Path | None, cluster: str | None, since: str | None, until: str | None
) -> Recording:
    """Files or the lake."""
    from trimtab.history.bundles.recording import FileRecording, LakeRecording, Period

    period = Period(instant("--since", since), instant("--until", until))
    if reports is not None and (lake is not None or cluster is not None):
        raise SettingsError("--reports is a recording in files, --lake and --cluster are not: name one")
    if reports is not None:
        return FileRecording(reports, period)
    if lake is None and cluster is None:
        raise SettingsError("nothing to replay: name a recording by --reports, or a lake by --lake")
    return LakeRecording(lake_path(lake), cluster, period)


def _check_together(
    *, shown: bool, simulated: bool, spark: bool, out: Path | None, state: Path | None, several: bool
) -> None:
    """Refuse what makes no sense together."""
    if shown and not simulated:
        raise SettingsError(
            "--json, --chart and --pause are about what unloads do to the load, which a recording alone "
            "cannot tell; add --world simulated"
        )
    if state is not None and (shown or several or spark):
        raise SettingsError(
            "--state holds the memory of one strategy and no figures; leave it out, or replay one strategy "
            "without --json, --chart, --pause and --spark"
        )
    if spark and not simulated and out is None:
        raise SettingsError(
            "--spark prints no decisions: name a folder for them with --out, or have what they do to the "
            "load shown with --world simulated"
        )

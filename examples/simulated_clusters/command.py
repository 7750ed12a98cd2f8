"""`trimtab simulate bundles|recording|weeks`: simulated Pulsar clusters, and recordings to replay."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from trimtab.report.formats import print_progress

app = typer.Typer(
    add_completion=False,
    help="Simulate clusters: scenarios in virtual time, and recordings to replay.",
    no_args_is_help=True,
)


class DestinationChoice(StrEnum):
    """The order of two things."""

    FIRST = "first"
    LOOKUP = "lookup"


@app.command()
def bundles(
    scenarios: list[str] = typer.Option(
        [],
        "--scenario",
        help="broker-joins, owner-dies, broker-overloaded, hot-bundle or hot-topic; repeatable. Default: "
        "all.",
    ),
    strategies: list[str] = typer.Option(
        [], "--strategy", help="Shedding strategy by name; repeatable. Default: all of Pulsar's."
    ),
    destination: DestinationChoice = typer.Option(
        DestinationChoice.FIRST,
        "--destination",
        help="first: chosen before the unload, as in Pulsar 4; lookup: chosen by the next lookup, as in "
        "the article.",
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of random choices."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as one JSON document."),
) -> None:
    """Run scenarios in a simulated Pulsar with each strategy: a broker joins, dies, or is overloaded.

    In virtual time minutes take seconds. Exit code 2: unknown scenario or strategy.
    """
    import json

    from simulated_clusters.scenarios import (
        SCENARIOS,
        played,
        scenario_document,
        scenario_text,
        strategies_named,
    )

    found = played(
        scenarios or list(SCENARIOS),
        strategies_named(strategies),
        destination_first=destination is DestinationChoice.FIRST,
        seed=seed,
    )
    if as_json:
        typer.echo(json.dumps(scenario_document(found), ensure_ascii=False, indent=1))
        return
    from trimtab.report.tables import print_wide

    print_wide(scenario_text(found))


@app.command()
def recording(
    out: Path = typer.Option(..., "--out", help="Output file; compressed if its name ends with .gz."),
    brokers: int = typer.Option(20, "--brokers", help="Number of brokers at the start; one joins, one dies."),
    bundle_count: int = typer.Option(500, "--bundles", help="Number of bundles."),
    ticks: int = typer.Option(1440, "--ticks", help="Number of reports of each broker, one per minute."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of random choices."),
) -> None:
    """Write a recording of load reports of a simulated Pulsar, to replay.

    A bundle is hot for an hour, an idle broker joins at half-time, and another dies in the last quarter. The
    same options give the same recording. Exit code 2: invalid numbers, or the file cannot be written.
    """
    from simulated_clusters.recordings import RecordedCluster, record

    record(RecordedCluster(brokers=brokers, bundles=bundle_count, ticks=ticks, seed=seed), out)
    size = out.stat().st_size
    print_progress(f"wrote {ticks:,} ticks into {out} ({size:,} bytes)")


@app.command()
def weeks(
    out: Path = typer.Option(..., "--out", help="Output folder (trimtab/replicas-recording/1)."),
    long: int = typer.Option(2, "--weeks", help="Number of weeks."),
    brokers: int = typer.Option(12, "--brokers", help="Number of brokers; two share a rack."),
    topics: int = typer.Option(60, "--topics", help="Number of topics; large ones have several partitions."),
    step: float = typer.Option(15.0, "--step", help="Minutes per window; a divisor of an hour."),
    growth: float = typer.Option(0.0, "--growth", help="Growth of the load per week; 0.05 is 5 %."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of random choices."),
) -> None:
    """Write weeks of loads of a simulated Kafka cluster, for `trimtab replay replicas`.

    Topics have a daily and a weekly cycle, noise and bursts. The same options give the same recording. Exit
    code 2: invalid numbers, or a file cannot be written.
    """
    from simulated_clusters.weeks import SimulatedWeeks
    from trimtab_common.files import writing

    made = SimulatedWeeks(
        weeks=long, step_seconds=step * 60, brokers=brokers, topics=topics, growth=growth, seed=seed
    )
    with writing(out):
        windows = made.write(out)
    print_progress(f"wrote {windows:,} windows into {out}")

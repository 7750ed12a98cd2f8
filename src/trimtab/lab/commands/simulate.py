"""`trimtab simulate bundles|recording|weeks`: Pulsar in virtual time, and recordings of made-up clusters."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from trimtab.report.progress import print_progress

app = typer.Typer(
    help="Made-up clusters: scenarios in virtual time, and recordings to replay.", no_args_is_help=True
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
        help="broker-joins, owner-dies, broker-overloaded, hot-bundle or hot-topic; may be repeated; by "
        "default all.",
    ),
    strategies: list[str] = typer.Option(
        [], "--strategy", help="A shedding strategy by name; may be repeated; by default all of Pulsar's."
    ),
    destination: DestinationChoice = typer.Option(
        DestinationChoice.FIRST,
        "--destination",
        help="first: chosen before the unload, as in Pulsar 4; lookup: by the next lookup, as the article "
        "tells it.",
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Of all chance."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as one JSON document."),
) -> None:
    """Run scenarios in a simulated Pulsar under each strategy: a broker joins, dies, or is too full.

    Virtual time: minutes take seconds. Exit code 2: a scenario or a strategy is not known.
    """
    import json

    from trimtab.lab.simulate.pulsar.catalogue import SCENARIOS, played, strategies_named
    from trimtab.lab.simulate.pulsar.scenario_text import scenario_document, scenario_text

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
    out: Path = typer.Option(..., "--out", help="File to write; compressed if its name ends with .gz."),
    brokers: int = typer.Option(20, "--brokers", help="How many at the beginning; one joins, one dies."),
    bundle_count: int = typer.Option(500, "--bundles", help="How many."),
    ticks: int = typer.Option(1440, "--ticks", help="How many reports of each broker, a minute apart."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of all chance."),
) -> None:
    """Write a recording of load reports of a made-up Pulsar, to replay.

    A bundle is hot for an hour, an idle broker joins at half-time, and another dies in the last quarter. The
    same numbers give the same recording. Exit code 2: they cannot be recorded, or the file not be written.
    """
    from trimtab.lab.simulate.pulsar.recordings import RecordedCluster, record

    record(RecordedCluster(brokers=brokers, bundles=bundle_count, ticks=ticks, seed=seed), out)
    size = out.stat().st_size
    print_progress(f"wrote {ticks:,} ticks into {out} ({size:,} bytes)")


@app.command()
def weeks(
    out: Path = typer.Option(..., "--out", help="Folder to write (trimtab/replicas-recording/1)."),
    long: int = typer.Option(2, "--weeks", help="How many."),
    brokers: int = typer.Option(12, "--brokers", help="How many; two of them share a rack."),
    topics: int = typer.Option(60, "--topics", help="How many; big ones have several partitions."),
    step: float = typer.Option(15.0, "--step", help="Minutes a window; they divide an hour."),
    growth: float = typer.Option(0.0, "--growth", help="Growth of the load a week; 0.05 is 5 %."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of all chance."),
) -> None:
    """Write weeks of loads of a made-up Kafka cluster, for `trimtab replay replicas`.

    Topics have a daily and a weekly cycle, noise and bursts. The same numbers give the same recording. Exit
    code 2: they cannot be, or a file cannot be written.
    """
    from trimtab.files.atomic import writing
    from trimtab.lab.simulate.weeks import SimulatedWeeks

    made = SimulatedWeeks(
        weeks=long, step_seconds=step * 60, brokers=brokers, topics=topics, growth=growth, seed=seed
    )
    with writing(out):
        windows = made.write(out)
    print_progress(f"wrote {windows:,} windows into {out}")

"""`trimtab pipeline`: compute tables and snapshots from raw samples, once or continuously."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.balancers import LazyImport, spark
from trimtab.cli.options import (
    BALANCER,
    CLUSTER,
    JSON,
    LAKE,
    LAKE_CLUSTER,
    SET,
    SETTINGS,
    command_context,
    lake_path,
    reading_options,
    with_options,
)

if TYPE_CHECKING:
    from trimtab_common.settings import Overrides

app = typer.Typer(no_args_is_help=True)

MASTER = typer.Option(None, spark.MASTER.flag, help=spark.MASTER.help)
WINDOW = typer.Option(None, "--window", help="Length of a window in seconds; also sets its slide.")
HEAVY = typer.Option(False, spark.HEAVY.flag, help=spark.HEAVY.help)


def run(
    since: str | None = typer.Option(None, "--since", help="First tick, like 2026-11-21T05:00 (UTC)."),
    until: str | None = typer.Option(None, "--until", help="End of the ticks, exclusive."),
    window: float | None = WINDOW,
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    master: str | None = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Rebuild the tables from raw samples, of all history or a part, and write the newest snapshots.

    Builds the tables of every balancer with samples in the lake. With --keys Spark first reads the records of
    a topic, and only the tables of that balancer are built.
    """
    from trimtab.cli.bodies import pipeline as body

    where = command_context(lake, settings, _spark(overrides, master, heavy), cluster, values)
    body.run(since, until, window, where)


app.command()(with_options(run, reading_options()))


def stream(
    source: str = typer.Option(
        "lake", "--source", help="Source: lake, or a topic of Kafka: kafka:TOPIC, or kafka:CLUSTER/TOPIC."
    ),
    balancer: str | None = BALANCER,
    trigger: str = typer.Option("10s", "--trigger", help="Minimum time between two micro-batches."),
    once: bool = typer.Option(False, "--once", help="End when all existing samples are processed."),
    most: int | None = typer.Option(
        None,
        "--max-per-batch",
        min=1,
        help="Maximum number of files or records per micro-batch (default for a topic: 500000).",
    ),
    window: float | None = WINDOW,
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    master: str | None = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Update tables and snapshots with new samples, exactly once, until Ctrl-C.

    A topic holds the samples of one balancer (--balancer; default: the first); the files of a lake name
    theirs. With --keys the records of a topic are read at each trigger.
    """
    from trimtab.cli.bodies import pipeline as body

    where = command_context(lake, settings, _spark(overrides, master, heavy), cluster, values)
    body.stream(source, balancer, trigger, most, window, where, once=once)


app.command()(with_options(stream, reading_options()))


def _spark(overrides: list[str], master: str | None, heavy: bool) -> Overrides:
    """The overrides, after those that options about Spark are a short way to write."""
    return [*spark.spark_overrides({"master": master, "large_job": heavy}), *overrides]


@app.command()
def compact(
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the files to remove and to merge; change nothing."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Merge small files of raw samples and tables, and remove data beyond the retention ([lake]); no Spark.

    A stream does the same at intervals.
    """
    from trimtab.cli.bodies import lake as body

    body.compact(command_context(lake, settings, overrides), dry_run=dry_run)


@app.command()
def export(
    delta: str = typer.Option(..., "--delta", help="Folder or address for the Delta tables."),
    balancer: str | None = BALANCER,
    lake: Path | None = LAKE,
) -> None:
    """Write the tables as Delta tables, consistent with one another; a later export writes only changes.

    Needs the extra `delta`; no Spark.
    """
    from trimtab.cli.bodies import lake as body

    body.export_tables(delta, balancer, lake_path(lake))


@app.command()
def accuracy(
    folder: Path = typer.Argument(
        ..., help="Folder of *.truth.jsonl written by `trimtab sandbox kafka load`."
    ),
    cluster: str | None = LAKE_CLUSTER,
    lake: Path | None = LAKE,
    as_json: bool = JSON,
    figure: Path | None = typer.Option(
        None, "--figure", help="Draw measured against true figures, SVG or PNG."
    ),
) -> None:
    """Compare the tables of every partition and broker with the actual load of a load generator."""
    # By name: the lab stands above the command line.
    accuracy: LazyImport[Callable[..., None]] = LazyImport(
        "trimtab.lab.sandbox.kafka.accuracy:print_accuracy"
    )
    accuracy()(folder, cluster, lake_path(lake), as_json, figure)

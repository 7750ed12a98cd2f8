"""`trimtab pipeline`: raw samples into tables and snapshots, over history or live."""

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
    SET,
    SETTINGS,
    command_context,
    connection_options,
    lake_path,
    reading_options,
    with_options,
)

if TYPE_CHECKING:
    from trimtab.files.settings import Overrides

app = typer.Typer(no_args_is_help=True)

MASTER = typer.Option(None, spark.MASTER.flag, help=spark.MASTER.help)
WINDOW = typer.Option(None, "--window", help="Length of a window in seconds; its slide follows.")
HEAVY = typer.Option(False, spark.HEAVY.flag, help=spark.HEAVY.help)


def run(
    since: str | None = typer.Option(None, "--since", help="First tick, as 2026-11-21T05:00 (UTC)."),
    until: str | None = typer.Option(None, "--until", help="Ticks before this one."),
    window: float | None = WINDOW,
    lake: Path | None = LAKE,
    master: str | None = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Build the tables anew from raw samples, over all history or a part, and write the newest snapshots.

    Every balancer that has samples in the lake gets its tables. With --keys Spark first reads the records of
    a topic themselves, and only that level's tables are built.
    """
    from trimtab.cli.bodies import pipeline as body

    where = command_context(lake, settings, _spark(overrides, master, heavy), values)
    body.run(since, until, window, where)


_BOOTSTRAP = [one for one in connection_options() if one.name == "bootstrap"]
app.command()(with_options(run, [*reading_options(), *_BOOTSTRAP]))


def stream(
    source: str = typer.Option("lake", "--source", help="lake, or kafka:TOPIC."),
    balancer: str | None = BALANCER,
    trigger: str = typer.Option("10s", "--trigger", help="Shortest distance of two micro-batches."),
    once: bool = typer.Option(False, "--once", help="End when everything there is has been worked in."),
    most: int | None = typer.Option(
        None,
        "--max-per-batch",
        min=1,
        help="Files or records per micro-batch at most (a topic's: by default 500000).",
    ),
    window: float | None = WINDOW,
    lake: Path | None = LAKE,
    master: str | None = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Keep tables and snapshots up to date with what arrives, exactly once; end with Ctrl-C.

    A topic holds the samples of one balancer (--balancer; else of the first); a lake's files tell theirs.
    With --keys the records of a topic themselves are read at each trigger.
    """
    from trimtab.cli.bodies import pipeline as body

    where = command_context(lake, settings, _spark(overrides, master, heavy), values)
    body.stream(source, balancer, trigger, most, window, where, once=once)


app.command()(with_options(stream, [*reading_options(), *_BOOTSTRAP]))


def _spark(overrides: list[str], master: str | None, heavy: bool) -> Overrides:
    """The overrides, after those that options about Spark are a short way to write."""
    return [*spark.spark_overrides({"master": master, "large_job": heavy}), *overrides]


@app.command()
def compact(
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Show what would go and be joined; change nothing."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Join small files of raw samples and tables into large ones, remove what is too old ([lake]); no Spark.

    A stream does the same now and then.
    """
    from trimtab.cli.bodies import lake as body

    body.compact(command_context(lake, settings, overrides, {}), dry_run=dry_run)


@app.command()
def export(
    delta: str = typer.Option(..., "--delta", help="Folder or address below which Delta tables are written."),
    balancer: str | None = BALANCER,
    lake: Path | None = LAKE,
) -> None:
    """Write the tables as Delta tables, all of one moment; a later export writes only what has changed.

    No Spark; needs the extra `delta`.
    """
    from trimtab.cli.bodies import lake as body

    body.export_tables(delta, balancer, lake_path(lake))


@app.command()
def accuracy(
    folder: Path = typer.Argument(
        ..., help="Folder of *.truth.jsonl that `trimtab sandbox kafka load` wrote."
    ),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    as_json: bool = JSON,
    figure: Path | None = typer.Option(None, "--figure", help="Draw found against true, SVG or PNG."),
) -> None:
    """Hold what the tables say of every partition and broker against what a load generator really did."""
    # By name: the lab stands above the command line.
    accuracy: LazyImport[Callable[..., None]] = LazyImport(
        "trimtab.lab.sandbox.kafka.accuracy:print_accuracy"
    )
    accuracy()(folder, cluster, lake_path(lake), as_json, figure)

"""`trimtab measure`: compare samples from before and after an execution."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import CLUSTER, JSON, LAKE, SET, SETTINGS, command_context

app = typer.Typer()


def measure(
    execution: int | None = typer.Argument(None, help="Id of the execution; default: the newest."),
    ticks: int = typer.Option(
        10,
        "--ticks",
        min=1,
        help="Maximum number of samples of each side: the nearest before, the newest after.",
    ),
    plot: Path | None = typer.Option(
        None, "--plot", help="Draw before and after to this file, .png or .svg."
    ),
    live: bool = typer.Option(
        False,
        "--live",
        help="Sample the cluster now, for --duration, instead of reading later samples from the lake.",
    ),
    long: str = typer.Option("60s", "--duration", help="Duration of --live."),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Compare the load before an execution, as predicted by its plan, and as measured after it.

    Reads the lake: first collect samples after the execution and run the pipeline. With --live it takes the
    later samples itself, from the cluster that the settings or an option name. The last line is the result.
    Exit code 0: every goal holds, under a comparable load; 1: otherwise, or too few samples.
    """
    from trimtab.cli.bodies import measure as body

    where = command_context(lake, settings, overrides, cluster)
    body.measure(execution, ticks, plot, long if live else None, where, as_json=as_json)


app.command()(measure)

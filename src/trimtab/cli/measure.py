"""`trimtab measure`: whether an execution helped, from samples of before and after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.cli.options import JSON, LAKE, SET, SETTINGS, command_context, connection_options, with_options

app = typer.Typer()


def measure(
    execution: int | None = typer.Argument(None, help="Which execution; by default the newest."),
    ticks: int = typer.Option(
        10, "--ticks", min=1, help="Samples of each side, at most: the nearest before, the newest after."
    ),
    plot: Path | None = typer.Option(
        None, "--plot", help="Draw before and after into this file, .png or .svg."
    ),
    live: bool = typer.Option(
        False,
        "--live",
        help="Take fresh samples of the cluster, for --duration, in place of the lake's from after.",
    ),
    long: str = typer.Option("60s", "--duration", help="How long fresh samples are taken."),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
    *,
    values: dict[str, Any],
) -> None:
    """Say whether an execution helped: load before it, as its plan predicted it, and as measured after it.

    Reads the lake: collect samples after the execution, run the pipeline, then this. Or give --live, and it
    takes those from after itself, from the cluster that the settings or an option name. The last line says
    what is true. Exit code 0: every goal holds, under a load like that of before; 1: not so, or too few
    samples.
    """
    from trimtab.cli.bodies import measure as body

    where = command_context(lake, settings, overrides, values)
    body.measure(execution, ticks, plot, long if live else None, where, as_json=as_json)


app.command()(with_options(measure, connection_options()))

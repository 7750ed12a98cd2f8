"""`trimtab measure`: whether an execution helped, from samples of before and after it."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import JSON, LAKE, SET, SETTINGS, where_of

app = typer.Typer()


@app.command()
def measure(
    execution: int | None = typer.Argument(None, help="Which execution; by default the newest."),
    ticks: int = typer.Option(
        10, "--ticks", min=1, help="Samples of each side, at most: the nearest before, the newest after."
    ),
    plot: Path | None = typer.Option(
        None, "--plot", help="Draw before and after into this file, .png or .svg."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Say whether an execution helped: load before it, as its plan predicted it, and as measured after it.

    Reads the lake: collect samples after the execution, run the pipeline, then this. The last line says what
    is true. Exit code 0: every goal holds, under a load like that of before; 1: not so, or too few samples.
    """
    from trimtab.cli.bodies import measure as body

    body.measure(execution, ticks, plot, where_of(lake, settings, overrides, {}), as_json=as_json)

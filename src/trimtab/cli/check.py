"""`trimtab check`: whether everything that later commands need is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.cli.options import JSON, LAKE, SET, SETTINGS, command_context, connection_options, with_options

app = typer.Typer()


def check(
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
    *,
    values: dict[str, Any],
) -> None:
    """See whether everything that later commands need is there, and what to do about the rest.

    Settings of all sections, folders, Java and Spark; of each cluster that is named: addresses, rights,
    metrics endpoints, capacities; and how old the lake is. Changes nothing. Exit code 0: all is fine; 1:
    something is missing, and plans can be made without it; 2: something is broken.
    """
    from trimtab.cli.bodies import check as body

    body.check(command_context(lake, settings, overrides, values), as_json=as_json)


app.command()(with_options(check, connection_options()))

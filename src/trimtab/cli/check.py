"""`trimtab check`: check the prerequisites of the other commands."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import CLUSTER, JSON, LAKE, SET, SETTINGS, command_context

app = typer.Typer()


def check(
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Check the prerequisites of the other commands; each check prints OK or how to fix it.

    Checks all sections of the settings, folders, Java and Spark; addresses, rights, metrics endpoints and
    capacities of each named cluster; and the age of the lake. Changes nothing. Exit code 0: no problem; 1:
    something is missing, and plans can be made without it; 2: something is broken.
    """
    from trimtab.cli.bodies import check as body

    body.check(command_context(lake, settings, overrides, cluster), as_json=as_json)


app.command()(check)

"""`trimtab apply PLAN`: execute a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.balancers import BALANCERS
from trimtab.cli.options import CLUSTER, JSON, LAKE, SET, SETTINGS, command_context, with_options

app = typer.Typer()


def apply(
    plan: Path = typer.Argument(help="Plan file (trimtab/plan/1)."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the steps and change nothing."),
    rebase: bool = typer.Option(
        False, "--skip-changed", help="Leave out moves that no longer fit the cluster."
    ),
    back: bool = typer.Option(
        False, "--revert", help="Revert the plan: restore the previous routes of keys."
    ),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
    *,
    values: dict[str, Any],
) -> None:
    """Execute a plan in batches; temporary settings are always restored.

    The cluster must be of the plan's system. Ctrl-C once stops
    (steps in flight finish), twice cancels (copies are rolled back; unloads cannot be). A killed execution
    can be resumed. Exit code 0: finished; 1: steps are left, or the plan was rejected; 2: invalid input.
    """
    from trimtab.cli.bodies import apply as body

    where = command_context(lake, settings, overrides, cluster, values)
    body.apply(plan, where, yes=yes, dry_run=dry_run, rebase=rebase, back=back, as_json=as_json)


# Levels may share an option: it is offered once.
_own = {option.name: option for level in BALANCERS.values() for option in level.apply_options}.values()
app.command()(with_options(apply, _own))

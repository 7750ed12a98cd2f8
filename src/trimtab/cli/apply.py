"""`trimtab apply PLAN`: carry a plan out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.balancers import BALANCERS
from trimtab.cli.options import JSON, LAKE, SET, SETTINGS, command_context, connection_options, with_options

app = typer.Typer()


def apply(
    plan: Path = typer.Argument(help="A plan file (trimtab/plan/1)."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would happen, change nothing."),
    rebase: bool = typer.Option(
        False, "--skip-changed", help="Leave out what has changed since the plan was made."
    ),
    back: bool = typer.Option(
        False, "--revert", help="Take the plan back: routes of keys as they were before it."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
    *,
    values: dict[str, Any],
) -> None:
    """Carry a plan out, safely: batch after batch, with all that was changed on the way given back.

    On a cluster of the system that the plan is for: Kafka (--bootstrap) or Pulsar (--pulsar-admin). Ctrl-C
    once stops (what is in flight finishes), twice cancels (copies are rolled back; an unload cannot be). It
    can be killed and resumed. Exit code 0: finished; 1: something was left, or refused; 2: bad input.
    """
    from trimtab.cli.bodies import apply as body

    where = command_context(lake, settings, overrides, values)
    body.apply(plan, where, yes=yes, dry_run=dry_run, rebase=rebase, back=back, as_json=as_json)


# Levels may share an option: it is offered once.
_own = {option.name: option for level in BALANCERS.values() for option in level.apply_options}.values()
app.command()(with_options(apply, [*_own, *connection_options()]))

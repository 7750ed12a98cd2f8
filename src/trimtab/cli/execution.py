"""`trimtab execution list|show|resume|stop|cancel`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from trimtab.cli.options import JSON, LAKE, SET, SETTINGS, command_context, connection_options, with_options

app = typer.Typer(help="See, resume, stop and cancel what apply has begun.", no_args_is_help=True)

ID = typer.Argument(None, help="Which execution; by default the newest.")


@app.command("list")
def list_executions(as_json: bool = JSON) -> None:
    """List all executions of this state folder, newest first."""
    from trimtab.cli.bodies import execution as body

    body.list_executions(as_json=as_json)


@app.command()
def show(execution: int | None = ID, as_json: bool = JSON) -> None:
    """Show one execution: its steps, how far each is, and the last of its log."""
    from trimtab.cli.bodies import execution as body

    body.show(execution, as_json=as_json)


def _on_a_cluster(name: str, story: str) -> Callable[..., None]:
    def command(
        execution: int | None = ID,
        lake: Path | None = LAKE,
        settings: Path | None = SETTINGS,
        overrides: list[str] = SET,
        as_json: bool = JSON,
        *,
        values: dict[str, Any],
    ) -> None:
        from trimtab.cli.bodies import execution as body

        where = command_context(lake, settings, overrides, values)
        body.REQUESTS[name](execution, where, as_json=as_json)

    command.__doc__ = story
    return with_options(command, connection_options())


_STORIES = {
    "resume": "Go on with an execution that was interrupted, stopped or cancelled.",
    "stop": "Begin nothing more: what is in flight finishes, the rest can be resumed later.",
    "cancel": """Roll back what is in flight and leave the cluster clean; what is done stays done.

    An unload of a Pulsar bundle cannot be rolled back: what is under way gets an owner, the rest is left.
    """,
}
for _name, _story in _STORIES.items():
    app.command(_name)(_on_a_cluster(_name, _story))

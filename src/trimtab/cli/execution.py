"""`trimtab execution list|show|resume|stop|cancel`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from trimtab.cli.options import CLUSTER, JSON, LAKE, SET, SETTINGS, command_context

app = typer.Typer(help="List, show, resume, stop and cancel executions.", no_args_is_help=True)

ID = typer.Argument(None, help="Id of the execution; default: the newest.")


@app.command("list")
def list_executions(as_json: bool = JSON) -> None:
    """List all executions of the state folder, newest first."""
    from trimtab.cli.bodies import execution as body

    body.list_executions(as_json=as_json)


@app.command()
def show(execution: int | None = ID, as_json: bool = JSON) -> None:
    """Show one execution: its steps, their progress, and the end of its log."""
    from trimtab.cli.bodies import execution as body

    body.show(execution, as_json=as_json)


def _on_a_cluster(name: str, story: str) -> Callable[..., None]:
    def command(
        execution: int | None = ID,
        cluster: str | None = CLUSTER,
        lake: Path | None = LAKE,
        settings: Path | None = SETTINGS,
        overrides: list[str] = SET,
        as_json: bool = JSON,
    ) -> None:
        from trimtab.cli.bodies import execution as body

        where = command_context(lake, settings, overrides, cluster)
        body.REQUESTS[name](execution, where, as_json=as_json)

    command.__doc__ = story
    return command


_STORIES = {
    "resume": "Resume an interrupted, stopped or cancelled execution.",
    "stop": "Stop an execution: steps in flight finish, the others can be resumed later.",
    "cancel": """Cancel an execution: steps in flight are rolled back, completed steps stay.

              Unloads of Pulsar bundles cannot be rolled back: bundles in transit get an owner, the others
              stay. No throttle, reassignment or lease remains.
              """,
}
for _name, _story in _STORIES.items():
    app.command(_name)(_on_a_cluster(_name, _story))

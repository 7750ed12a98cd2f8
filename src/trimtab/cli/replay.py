"""Recorded load through strategies: `trimtab replay`, a command for each balancer that can."""

from __future__ import annotations

from typing import Any

import typer

from trimtab.balancers import BALANCERS, Balancer
from trimtab.cli.options import with_options

app = typer.Typer(
    help="Run recorded load through a strategy, to see what it would have done.", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    """Run recorded load through a strategy, to see what it would have done."""


def _command(balancer: Balancer) -> Any:
    def replay(*, values: dict[str, Any]) -> None:
        assert balancer.replay is not None
        raise typer.Exit(balancer.replay()(values))

    replay.__doc__ = f"""Replay recorded load of {balancer.system.title} through strategies, to compare them.

    {balancer.replay_help}

    Exit code 2: the recording, a strategy or an option is wrong; nothing is written then but what went to
    standard output before.
    """
    return with_options(replay, () if balancer.replay_options is None else balancer.replay_options())


for _level in BALANCERS.values():
    if _level.replay is not None:
        app.command(_level.name)(_command(_level))

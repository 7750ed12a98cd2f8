"""`trimtab replay`: replay recorded load with strategies, one command per balancer."""

from __future__ import annotations

from typing import Any

import typer

from trimtab.balancers import BALANCERS, Balancer
from trimtab.cli.options import with_options

app = typer.Typer(help="Replay recorded load with strategies and compare them.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Replay recorded load with strategies and compare them."""


def _command(balancer: Balancer) -> Any:
    def replay(*, values: dict[str, Any]) -> None:
        assert balancer.replay is not None
        raise typer.Exit(balancer.replay()(values))

    replay.__doc__ = f"""Replay recorded load of {balancer.system.title} with strategies and compare them.

    {balancer.replay_help}

    Exit code 2: the recording, a strategy or an option is invalid; nothing further is written.
    """
    return with_options(replay, () if balancer.replay_options is None else balancer.replay_options())


for _level in BALANCERS.values():
    if _level.replay is not None:
        app.command(_level.name)(_command(_level))

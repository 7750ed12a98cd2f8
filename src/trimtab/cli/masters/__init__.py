"""`trimtab masters node`: one node of a store of groups, as a service manager runs it."""

from pathlib import Path

import typer

app = typer.Typer(
    help="Processes of a store of many groups, whose masters hold leases.", no_args_is_help=True
)


@app.callback()
def _masters() -> None:
    """Processes of a store of many groups, whose masters hold leases."""


@app.command()
def node(
    config: Path = typer.Option(
        ..., "--config", metavar="FILE", help="The node's configuration (trimtab/masters-node/1)."
    ),
) -> None:
    """Run one node until it is stopped; what it has acknowledged outlives any end, kill -9 included."""
    from trimtab.dataplane.masters.process import run_node

    run_node(config)

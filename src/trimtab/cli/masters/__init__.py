"""`trimtab masters`: one node of a store of groups, as a service manager runs it, and its preferred map."""

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


@app.command()
def publish(
    map_file: Path = typer.Argument(..., metavar="MAP", help="The map (trimtab/preferred-map/1)."),
    paxos: Path = typer.Option(
        ..., "--paxos", metavar="FILE", help="Configuration of any node of the store."
    ),
) -> None:
    """Publish a preferred map where the nodes read theirs, if none has been published meanwhile."""
    from trimtab.connect.paxos.nodes import PaxosNodes
    from trimtab.connect.paxos.settings import PaxosConnection

    nodes = PaxosNodes(PaxosConnection(paxos))
    typer.echo(f"version {nodes.publish_file(map_file)} of the map of store {nodes.cluster} is published")

"""`trimtab masters`: run one node of a store of groups, and publish its preferred map."""

from pathlib import Path

import typer

from trimtab.balancers.systems import PAXOS
from trimtab.cli.commands import CLUSTER, SET, SETTINGS, command_context

app = typer.Typer(
    add_completion=False,
    help="Run a node of a store of replicated groups, and publish preferred maps.",
    no_args_is_help=True,
)


@app.callback()
def _masters() -> None:
    """Run a node of a store of replicated groups, and publish preferred maps."""


@app.command()
def node(
    config: Path = typer.Option(
        ..., "--config", metavar="FILE", help="Configuration of the node (trimtab/masters-node/1)."
    ),
) -> None:
    """Run one node until it is stopped. Acknowledged messages survive any crash, including kill -9."""
    from trimtab_store.node.process import run_node

    run_node(config)


@app.command()
def publish(
    map_file: Path = typer.Argument(..., metavar="MAP", help="Preferred map (trimtab/preferred-map/1)."),
    cluster: str | None = CLUSTER,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Publish a preferred map to the nodes' source, unless another was published meanwhile."""
    from trimtab.systems.paxos.client import PaxosNodes

    context = command_context(None, settings, overrides, cluster)
    nodes = PaxosNodes(context.connection(PAXOS, context.read()))
    typer.echo(f"version {nodes.publish_file(map_file)} of the map of store {nodes.cluster} is published")

"""Commands of `trimtab sandbox masters`."""

from __future__ import annotations

import typer

from trimtab.report.formats import print_progress

NAME = typer.Option("masters", "--name", help="Name of the sandbox, if there are several.")
NODE = typer.Argument(..., min=0, help="Number of the node, from 0.")


def load(
    name: str = NAME,
    seed: int = typer.Option(5, "--seed", help="Seed of the times of messages."),
    rate: float = typer.Option(200.0, "--rate", min=0.1, max=20_000.0, help="Total messages per second."),
    size: int = typer.Option(128, "--size", min=0, max=65_536, help="Bytes per message."),
    seconds: float = typer.Option(0.0, "--seconds", min=0.0, help="Duration; 0: until Ctrl-C."),
) -> None:
    """Send to a topic of every group and read it until stopped; then check every message."""
    from trimtab.lab.sandbox.masters import system
    from trimtab.lab.sandbox.masters.state import MastersSandboxState
    from trimtab.lab.sandbox.names import require_named

    text, held = system.load(
        require_named(name, MastersSandboxState), seed, rate, seconds or None, size, print_progress
    )
    typer.echo(text)
    if not held:
        raise typer.Exit(1)


def kill(node: int = NODE, name: str = NAME) -> None:
    """Kill a node with -9."""
    from trimtab.lab.sandbox.masters import system
    from trimtab.lab.sandbox.masters.state import MastersSandboxState
    from trimtab.lab.sandbox.names import require_named

    typer.echo(system.kill(require_named(name, MastersSandboxState, runs=False), node))


def restart(node: int = NODE, name: str = NAME) -> None:
    """Restart a killed node."""
    from trimtab.lab.sandbox.masters import system
    from trimtab.lab.sandbox.masters.state import MastersSandboxState
    from trimtab.lab.sandbox.names import require_named

    typer.echo(system.restart(require_named(name, MastersSandboxState, runs=False), node))


def move(
    group: int = typer.Argument(..., min=0, help="Number of the group, from 0."),
    node: int = NODE,
    name: str = NAME,
) -> None:
    """Transfer the mastership of a group to a node, by a new version of the map."""
    from trimtab.lab.sandbox.masters import system
    from trimtab.lab.sandbox.masters.state import MastersSandboxState
    from trimtab.lab.sandbox.names import require_named

    typer.echo(system.move(require_named(name, MastersSandboxState, runs=False), group, node))

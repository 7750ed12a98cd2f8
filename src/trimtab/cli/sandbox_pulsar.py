"""`trimtab sandbox pulsar up|down|status|skew|load`."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.sandbox_words import command, load_text, next_steps, say, stopped_text

pulsar = typer.Typer(help="Three Pulsar brokers with what they stand on.", no_args_is_help=True)

NAME = typer.Option("pulsar", "--name", help="Which sandbox, where there are several.")
SEED = typer.Option(5, "--seed", help="Draws the rates of the load.")
RATE = typer.Option(
    900.0, "--rate", min=1.0, max=20_000.0, help="Messages per second that producers send in all."
)


@pulsar.command()
def up(
    name: str = NAME,
    brokers: int = typer.Option(3, "--brokers", min=1, max=30, help="How many brokers."),
    version: str = typer.Option("4.2.4", "--version", help="Pulsar's version: 4.2.4 or 4.0.7."),
    load_manager: str = typer.Option(
        "modular", "--load-manager", help="Pulsar's own balancing: modular or extensible."
    ),
    secured: bool = typer.Option(False, "--secured", help="Let clients in only with a token over TLS."),
    cpus: float = typer.Option(
        0.0,
        "--cpus",
        min=0.0,
        help="Processors that each broker may use, in a control group of its own, so that it reports its own "
        "CPU (needs root); 0: no groups.",
    ),
    port: int = typer.Option(
        0,
        "--port",
        min=0,
        max=65_000,
        help="Brokers listen on this port and the next ones, two each; 0: any.",
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="One of Pulsar's own settings, for all brokers; repeatable."
    ),
) -> None:
    """Start the brokers; they go on when this command ends."""
    from trimtab.sandbox.pulsar.configuration import parse_settings
    from trimtab.sandbox.pulsar.named import describe, start_named

    state, fresh = start_named(
        name,
        brokers=brokers,
        first_port=port or None,
        version=version,
        load_manager=load_manager,
        secured=secured,
        cpus_per_broker=cpus or None,
        settings=parse_settings(settings),
        say=say,
    )
    typer.echo(describe(state))
    if fresh:
        typer.echo("\n" + next_steps("pulsar", name, "create namespaces whose bundles are uneven"))


@pulsar.command()
def down(name: str = NAME) -> None:
    """Stop the brokers and delete their data."""
    from trimtab.sandbox.names import stop_named
    from trimtab.sandbox.pulsar.state import PulsarState

    stopped = stop_named(name, PulsarState, say)
    typer.echo(stopped_text(name, stopped=stopped))


@pulsar.command()
def status(name: str = NAME) -> None:
    """Show the brokers, which of them serve, and how many bundles each has."""
    from trimtab.sandbox.names import running_named
    from trimtab.sandbox.pulsar.named import describe
    from trimtab.sandbox.pulsar.state import PulsarState

    state = running_named(name, PulsarState)
    if state is None:
        typer.echo(f"no sandbox {name} is running: start one with trimtab sandbox pulsar up")
        raise typer.Exit(1)
    typer.echo(describe(state))


@pulsar.command()
def skew(
    name: str = NAME,
    seed: int = SEED,
    rate: float = RATE,
    place: bool = typer.Option(
        True, help="Put most of the load on the first broker, half as much on the next, and so on."
    ),
    remove: bool = typer.Option(False, "--remove", help="Remove the namespaces instead."),
) -> None:
    """Create namespaces whose bundles carry uneven loads, and spread them unevenly over the brokers."""
    from trimtab.connect.pulsar import PulsarAdmin
    from trimtab.sandbox.names import require_named
    from trimtab.sandbox.pulsar.namespaces import create_namespaces, delete_namespaces
    from trimtab.sandbox.pulsar.placing import place_unevenly
    from trimtab.sandbox.pulsar.state import PulsarState
    from trimtab.sandbox.pulsar.workload import skewed

    state = require_named(name, PulsarState)
    workload = skewed(seed, rate)
    with PulsarAdmin(state.connection) as admin:
        if remove:
            delete_namespaces(admin, workload)
            typer.echo(f"{len(workload.namespaces)} namespaces removed")
            return
        create_namespaces(admin, workload)
        if place:
            place_unevenly(
                admin, workload, [node.broker_id for node in state.brokers if node.id in state.alive]
            )
    topics = sum(len(namespace.topics) for namespace in workload.namespaces)
    bundles = sum(namespace.bundles for namespace in workload.namespaces)
    typer.echo(
        f"{topics} topics in {bundles} bundles of {len(workload.namespaces)} namespaces created; now load "
        f"them: {command('pulsar', name, 'load')}"
    )


@pulsar.command()
def load(
    name: str = NAME,
    seed: int = SEED,
    rate: float = RATE,
    seconds: float = typer.Option(0.0, "--seconds", min=0.0, help="How long; 0: until Ctrl-C."),
    workload: Path | None = typer.Option(
        None, "--workload", help="A workload file instead of --seed and --rate."
    ),
    truth: Path | None = typer.Option(
        None, "--truth", help="Keep what each client did, per second, in this folder."
    ),
) -> None:
    """Produce to the skewed topics and consume from them until stopped."""
    from trimtab.sandbox.names import require_named
    from trimtab.sandbox.pulsar.load_run import run_load
    from trimtab.sandbox.pulsar.state import PulsarState
    from trimtab.sandbox.pulsar.workload import read_workload, skewed

    state = require_named(name, PulsarState)
    chosen = read_workload(workload) if workload else skewed(seed, rate)
    done = run_load(state, chosen, seconds or None, truth, say)
    typer.echo(load_text(done, "messages"))

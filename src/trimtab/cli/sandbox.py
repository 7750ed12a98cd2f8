"""`trimtab sandbox kafka up|down|status|load|skew`, and `trimtab sandbox pulsar`."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.sandbox_pulsar import pulsar
from trimtab.cli.sandbox_words import command, load_text, next_steps, say, stopped_text

app = typer.Typer(help="A real cluster on this machine, for trying and testing.", no_args_is_help=True)
kafka = typer.Typer(help="Six Kafka brokers on three declared hosts.", no_args_is_help=True)
app.add_typer(kafka, name="kafka")
app.add_typer(pulsar, name="pulsar")

NAME = typer.Option("kafka", "--name", help="Which sandbox, where there are several.")
SEED = typer.Option(5, "--seed", help="Draws the rates, readers and sizes of the load.")
RATE = typer.Option(
    8.0, "--rate", min=0.1, max=100.0, help="Megabytes per second that producers send in all."
)


@kafka.command()
def up(
    name: str = NAME,
    brokers: int = typer.Option(6, "--brokers", min=1, max=30, help="How many brokers."),
    port: int = typer.Option(
        0, "--port", min=0, max=65_000, help="Brokers listen on this port and the next ones; 0: any."
    ),
    scram: bool = typer.Option(False, "--scram", help="Let clients in only by SCRAM-SHA-512 over TLS."),
    metrics: bool = typer.Option(True, help="Give each broker a Prometheus endpoint."),
) -> None:
    """Start the brokers; they go on when this command ends."""
    from trimtab.sandbox.kafka.named import describe, start_named

    state, fresh = start_named(
        name, brokers=brokers, first_port=port or None, scram=scram, prometheus=metrics, say=say
    )
    typer.echo(describe(state))
    if fresh:
        typer.echo("\n" + next_steps("kafka", name, "create topics whose load is uneven"))


@kafka.command()
def down(name: str = NAME) -> None:
    """Stop the brokers and delete their data."""
    from trimtab.sandbox.kafka.state import KafkaState
    from trimtab.sandbox.names import stop_named

    stopped = stop_named(name, KafkaState, say)
    typer.echo(stopped_text(name, stopped=stopped))


@kafka.command()
def status(name: str = NAME) -> None:
    """Show the brokers, and which of them serve."""
    from trimtab.sandbox.kafka.named import describe
    from trimtab.sandbox.kafka.state import KafkaState
    from trimtab.sandbox.names import running_named

    state = running_named(name, KafkaState)
    if state is None:
        typer.echo(f"no sandbox {name} is running: start one with trimtab sandbox kafka up")
        raise typer.Exit(1)
    typer.echo(describe(state))


@kafka.command()
def skew(
    name: str = NAME,
    seed: int = SEED,
    rate: float = RATE,
    placement: str = typer.Option(
        "controller",
        "--placement",
        help="Who places replicas: controller (Kafka itself), kafka-2 or paper (formulas), or a file.",
    ),
    record: Path | None = typer.Option(None, "--record", help="Write the placement to this file."),
    remove: bool = typer.Option(False, "--remove", help="Remove the topics instead."),
) -> None:
    """Create topics whose load comes out uneven, and fill the archives among them."""
    from trimtab.connect.kafka import admin_client
    from trimtab.sandbox.kafka.placement import choose_placement, record_placement
    from trimtab.sandbox.kafka.state import KafkaState
    from trimtab.sandbox.kafka.topics import create_topics, delete_topics
    from trimtab.sandbox.kafka.workload import skewed
    from trimtab.sandbox.names import require_named

    state = require_named(name, KafkaState)
    workload = skewed(seed, rate * 1e6, len(state.brokers))
    topics = [topic.name for topic in workload.topics]
    if remove:
        delete_topics(state.connection, topics)
        typer.echo(f"{len(topics)} topics removed")
        return
    racks = {node.id: node.rack for node in state.brokers if node.id in state.alive}
    chosen = choose_placement(placement, workload, racks, seed)
    create_topics(state.connection, workload, chosen, say)
    if record is not None:
        admin = admin_client(state.connection)
        record.write_text(record_placement(admin, topics).to_json(), encoding="utf-8")
        admin.close()
    partitions = sum(topic.partitions for topic in workload.topics)
    typer.echo(
        f"{len(topics)} topics with {partitions} partitions created; now load them: "
        f"{command('kafka', name, 'load')}"
    )


@kafka.command()
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
    from trimtab.sandbox.kafka.load_run import run_load
    from trimtab.sandbox.kafka.state import KafkaState
    from trimtab.sandbox.kafka.workload import read_workload, skewed
    from trimtab.sandbox.names import require_named

    state = require_named(name, KafkaState)
    chosen = read_workload(workload) if workload else skewed(seed, rate * 1e6, len(state.brokers))
    done = run_load(state, chosen, seconds or None, truth, say)
    typer.echo(load_text(done, "records"))

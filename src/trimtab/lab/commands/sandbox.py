"""`trimtab sandbox kafka|pulsar|queues|masters up|down|status|load`, and commands that one of them has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from trimtab.lab.commands import sandbox_masters
from trimtab.report.progress import print_progress

app = typer.Typer(help="A real cluster on this machine, for trying and testing.", no_args_is_help=True)

NAME = "Which sandbox, where there are several."
KAFKA_NAME, PULSAR_NAME, QUEUES_NAME = (
    typer.Option(name, "--name", help=NAME) for name in ("kafka", "pulsar", "queues")
)
KAFKA_SEED = typer.Option(5, "--seed", help="Draws the rates, readers and sizes of the load.")
PULSAR_SEED = typer.Option(5, "--seed", help="Draws the rates of the load.")
KAFKA_RATE = typer.Option(
    8.0, "--rate", min=0.1, max=100.0, help="Megabytes per second that producers send in all."
)
PULSAR_RATE = typer.Option(
    900.0, "--rate", min=1.0, max=20_000.0, help="Messages per second that producers send in all."
)
BROKERS = "How many brokers."
LOAD_SECONDS = typer.Option(0.0, "--seconds", min=0.0, help="How long; 0: until Ctrl-C.")
WORKLOAD = typer.Option(None, "--workload", help="A workload file instead of --seed and --rate.")
TRUTH = typer.Option(None, "--truth", help="Keep what each client did, per second, in this folder.")
WORKER = typer.Argument(..., min=1, help="The number of the worker, from 1.")


def up_kafka(
    name: str = KAFKA_NAME,
    brokers: int = typer.Option(6, "--brokers", min=1, max=30, help=BROKERS),
    port: int = typer.Option(
        0, "--port", min=0, max=65_000, help="Brokers listen on this port and the next ones; 0: any."
    ),
    scram: bool = typer.Option(False, "--scram", help="Let clients in only by SCRAM-SHA-512 over TLS."),
    metrics: bool = typer.Option(True, help="Give each broker a Prometheus endpoint."),
    hosts: int = typer.Option(
        3, "--hosts", min=1, max=30, help="Declare so many hosts for them, h1, h2 and so on, each a rack."
    ),
    log_dirs: int = typer.Option(2, "--log-dirs", min=1, max=8, help="Log dirs of each broker."),
) -> None:
    """Start the brokers; they go on when this command ends."""
    _up(
        "kafka",
        name,
        brokers=brokers,
        first_port=port or None,
        scram=scram,
        prometheus=metrics,
        hosts=hosts,
        log_dirs=log_dirs,
    )


def up_pulsar(
    name: str = PULSAR_NAME,
    brokers: int = typer.Option(3, "--brokers", min=1, max=30, help=BROKERS),
    version: str = typer.Option("4.2.4", "--version", help="Pulsar's version: 4.2.4 or 4.0.7."),
    load_manager: str = typer.Option(
        "modular", "--load-manager", help="Pulsar's own balancing: modular or extensible."
    ),
    secured: bool = typer.Option(False, "--secure", help="Let clients in only with a token over TLS."),
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
    _up(
        "pulsar",
        name,
        brokers=brokers,
        first_port=port or None,
        version=version,
        load_manager=load_manager,
        secured=secured,
        cpus_per_broker=cpus or None,
        settings=settings,
    )


def skew_kafka(
    name: str = KAFKA_NAME,
    seed: int = KAFKA_SEED,
    rate: float = KAFKA_RATE,
    placement: str = typer.Option(
        "controller",
        "--placement",
        help="Who places replicas: controller (Kafka itself), kafka-2 or paper (formulas), or a file.",
    ),
    record: Path | None = typer.Option(None, "--record", help="Write the placement to this file."),
    remove: bool = typer.Option(False, "--remove", help="Remove the topics instead."),
) -> None:
    """Create topics whose load comes out uneven, and fill the archives among them."""
    _skew("kafka", name, seed, rate, remove, seed=seed, placement=placement, record=record)


def skew_pulsar(
    name: str = PULSAR_NAME,
    seed: int = PULSAR_SEED,
    rate: float = PULSAR_RATE,
    place: bool = typer.Option(
        True, help="Put most of the load on the first broker, half as much on the next, and so on."
    ),
    remove: bool = typer.Option(False, "--remove", help="Remove the namespaces instead."),
) -> None:
    """Create namespaces whose bundles carry uneven loads, and spread them unevenly over the brokers."""
    _skew("pulsar", name, seed, rate, remove, place=place)


def load_kafka(
    name: str = KAFKA_NAME,
    seed: int = KAFKA_SEED,
    rate: float = KAFKA_RATE,
    seconds: float = LOAD_SECONDS,
    workload: Path | None = WORKLOAD,
    truth: Path | None = TRUTH,
    keys: str | None = typer.Option(
        None,
        "--keys",
        help="Records with keys on one topic instead: zipf:EXPONENT or zipf:EXPONENT:KEYS, like zipf:1.2.",
    ),
    topic: str = typer.Option(
        "orders", "--topic", help="Of --keys: the topic; made with four partitions if it is not there."
    ),
    records: float = typer.Option(
        110.0, "--records", min=1.0, max=5000.0, help="Of --keys: records per second in all."
    ),
    consumer_rate: float = typer.Option(
        50.0, "--consumer-rate", min=1.0, help="Of --keys: what each of four consumers can do per second."
    ),
) -> None:
    """Produce to the skewed topics and consume from them until stopped; then look for every record.

    With --keys two producers that follow routing tables send to one topic, and four consumers that can do so
    much and no more let each key's records take effect in order; then every record is checked.
    """
    if keys is None:
        _load("kafka", name, seed, rate, seconds, workload, truth)
        return
    from trimtab.history.keys.zipf import parsed
    from trimtab.lab.sandbox.kafka.state import KafkaSandboxState
    from trimtab.lab.sandbox.keys.checking import KeysViolation
    from trimtab.lab.sandbox.keys.load import KeyedLoad, run_keyed_load
    from trimtab.lab.sandbox.names import require_named

    load = KeyedLoad(topic, parsed(keys), rate=records, consumer_rate=consumer_rate)
    try:
        typer.echo(
            run_keyed_load(require_named(name, KafkaSandboxState), load, seconds or None, print_progress)
        )
    except KeysViolation as error:
        typer.echo(f"this failed: {error}")
        raise typer.Exit(1) from None


def load_pulsar(
    name: str = PULSAR_NAME,
    seed: int = PULSAR_SEED,
    rate: float = PULSAR_RATE,
    seconds: float = LOAD_SECONDS,
    workload: Path | None = WORKLOAD,
    truth: Path | None = TRUTH,
) -> None:
    """Produce to the skewed topics and consume from them until stopped; then look for every record."""
    _load("pulsar", name, seed, rate, seconds, workload, truth)


def up_queues(
    name: str = QUEUES_NAME,
    workers: int = typer.Option(4, "--workers", min=1, max=60, help="How many workers, a queue each."),
    port: int = typer.Option(0, "--port", min=0, max=65_000, help="The server listens on this port; 0: any."),
) -> None:
    """Start the server and the workers; they go on when this command ends."""
    _up("queues", name, workers=workers, first_port=port or None)


def load_queues(
    name: str = QUEUES_NAME,
    seed: int = typer.Option(5, "--seed", help="Draws when messages come, and of which class."),
    rate: float = typer.Option(
        0.0, "--rate", min=0.0, help="Messages per second; 0: as many as keep workers busy 80% of the time."
    ),
    seconds: float = typer.Option(0.0, "--seconds", min=0.0, help="How long; 0: until Ctrl-C."),
    slow: bool = typer.Option(False, "--slow", help="Votes take three times as long."),
) -> None:
    """Send short votes and long reports, all declared alike, until stopped; then wait until all are done."""
    from trimtab.lab.sandbox.names import require_named
    from trimtab.lab.sandbox.queues.state import QueuesSandboxState
    from trimtab.lab.sandbox.queues.system import load

    state = require_named(name, QueuesSandboxState)
    typer.echo(load(state, seed, rate or None, seconds or None, slow, print_progress))


def kill_queues(worker: int = WORKER, name: str = QUEUES_NAME) -> None:
    """Kill a worker with -9."""
    from trimtab.lab.sandbox.names import require_named
    from trimtab.lab.sandbox.queues.state import QueuesSandboxState
    from trimtab.lab.sandbox.queues.system import kill

    typer.echo(kill(require_named(name, QueuesSandboxState), worker))


def restart_queues(worker: int = WORKER, name: str = QUEUES_NAME) -> None:
    """Start a worker again that was killed."""
    from trimtab.lab.sandbox.names import require_named
    from trimtab.lab.sandbox.queues.state import QueuesSandboxState
    from trimtab.lab.sandbox.queues.system import restart

    typer.echo(restart(require_named(name, QueuesSandboxState), worker))


def up_masters(
    name: str = sandbox_masters.NAME,
    nodes: int = typer.Option(
        3, "--nodes", min=1, max=20, help="How many nodes; up to five, all of them voters, if embedded."
    ),
    groups: int = typer.Option(12, "--groups", min=1, max=200, help="How many groups."),
    lease: float = typer.Option(
        10.0, "--lease", min=1.0, max=600.0, help="Seconds that a mastership lasts unless it is renewed."
    ),
    engine: str = typer.Option(
        "embedded",
        "--engine",
        help="What chooses the entries of logs: embedded (the nodes themselves), or etcd, of which three "
        "members are started too.",
    ),
    port: int = typer.Option(
        0, "--port", min=0, max=65_000, help="Nodes listen on this port and the next ones; 0: any."
    ),
    secret: bool = typer.Option(
        False, "--secret", help="Let nodes and clients prove that they know a secret."
    ),
    map_in_store: bool = typer.Option(
        False, "--map-in-store", help="Publish the preferred map in the store itself, not in a file."
    ),
) -> None:
    """Start the nodes, and wait until every group has a master; they go on when this command ends."""
    _up(
        "masters",
        name,
        nodes=nodes,
        groups=groups,
        lease_seconds=lease,
        engine=engine,
        first_port=port or None,
        secret=secret,
        map_in_store=map_in_store,
    )


def _up(system: str, name: str, **options: Any) -> None:
    from trimtab.lab.sandbox.names import start_named
    from trimtab.lab.sandbox.systems import command, system_of

    row = system_of(system)
    state, fresh = start_named(
        name,
        row.state,
        lambda folder: row.start(**options, folder=folder, print_progress=print_progress),
        print_progress,
    )
    typer.echo(row.describe(state))
    if fresh:
        tried = (*row.steps, ("down", "stop it and delete its data"))
        steps = [(command(system, name, verb), what) for verb, what in tried]
        width = max(len(line) for line, _ in steps)
        lines = "\n".join(f"  {line:{width}}  {what}" for line, what in steps)
        typer.echo(f"\nWhat to try next:\n{lines}")


def _skew(system: str, name: str, draw: int, rate: float, remove: bool, **options: Any) -> None:
    from trimtab.lab.sandbox.names import require_named
    from trimtab.lab.sandbox.systems import command, system_of

    row = system_of(system)
    state = require_named(name, row.state)
    done = row.skew(
        state, row.skewed(state, draw, rate), remove=remove, print_progress=print_progress, **options
    )
    typer.echo(done if remove else f"{done}; now load them: {command(system, name, 'load')}")


def _add(system: str, story: str, up: Callable[..., None], status: str) -> typer.Typer:
    """Add the commands of a system, one of its own, and two that are alike for all.

    Parameters
    ----------
    story, status
        Help of the group, and of its `status`.
    up
        The command with options of the system.
    """
    group = typer.Typer(help=story, no_args_is_help=True)
    app.add_typer(group, name=system)
    of_name = typer.Option(system, "--name", help=NAME)
    group.command("up")(up)

    @group.command()
    def down(name: str = of_name) -> None:
        """Stop all of its processes and delete its data."""
        from trimtab.lab.sandbox.names import stop_named
        from trimtab.lab.sandbox.systems import system_of

        stopped = stop_named(name, system_of(system).state, print_progress)
        told = f"the sandbox {name} is stopped and its data deleted"
        typer.echo(told if stopped else f"no sandbox {name} is running")

    @group.command("status", help=status)
    def show(name: str = of_name) -> None:
        from trimtab.lab.sandbox.names import known_named
        from trimtab.lab.sandbox.systems import system_of

        row = system_of(system)
        state = known_named(name, row.state)
        if state is None:
            typer.echo(f"no sandbox {name} is running: start one with trimtab sandbox {system} up")
            raise typer.Exit(1)
        typer.echo(row.describe(state))

    return group


def _load(
    system: str,
    name: str,
    seed: int,
    rate: float,
    seconds: float,
    workload: Path | None,
    truth: Path | None,
) -> None:
    from trimtab.lab.sandbox.load import failures_text, run_load
    from trimtab.lab.sandbox.names import require_named
    from trimtab.lab.sandbox.systems import system_of

    row = system_of(system)
    state = require_named(name, row.state)
    chosen = row.read_workload(workload) if workload else row.skewed(state, seed, rate)
    present = row.present_topics(state, chosen)
    done, log = run_load(state, state.connection, chosen, present, seconds or None, truth, print_progress)
    late = f", {done.late_records} late by over a second" if done.late_records else ""
    typer.echo(
        f"{done.produced_records} of {done.planned_records} {row.records} produced in "
        f"{done.seconds:.0f} s ({done.produced_bytes / 1e6:.0f} MB; {done.consumed_bytes / 1e6:.0f} MB "
        f"consumed){late}; {failures_text(done)}"
    )
    typer.echo(log.text(row.records) if log else "nothing was read back")
    if log and not log.ok:
        raise typer.Exit(1)


_kafka = _add(
    "kafka",
    "Six Kafka brokers on three declared hosts.",
    up_kafka,
    "Show the brokers, and which of them serve.",
)
_kafka.command("skew")(skew_kafka)
_kafka.command("load")(load_kafka)
_pulsar = _add(
    "pulsar",
    "Three Pulsar brokers with what they stand on.",
    up_pulsar,
    "Show the brokers, which of them serve, and how many bundles each has.",
)
_pulsar.command("skew")(skew_pulsar)
_pulsar.command("load")(load_pulsar)
_queues = _add(
    "queues",
    "A server of queues (Valkey) with four workers.",
    up_queues,
    "Show the processes, and which queue each worker has.",
)
_queues.command("load")(load_queues)
_queues.command("kill")(kill_queues)
_queues.command("restart")(restart_queues)
_masters = _add(
    "masters",
    "A store of many groups on three nodes, which are masters by leases.",
    up_masters,
    "Show the nodes, and who is master of each group.",
)
_masters.command("load")(sandbox_masters.load)
_masters.command("kill")(sandbox_masters.kill)
_masters.command("restart")(sandbox_masters.restart)
_masters.command("move")(sandbox_masters.move)

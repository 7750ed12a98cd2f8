"""`trimtab sandbox kafka|pulsar|queues|masters up|down|status|load`, and commands of single systems."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.report.formats import print_json, print_progress

if TYPE_CHECKING:
    from trimtab.lab.sandbox.state import SandboxState

JSON = typer.Option(False, "--json", help="Print one JSON document instead of text.")
MASTERS_NAME = typer.Option("masters", "--name", help="Name of the sandbox, if there are several.")
NODE = typer.Argument(..., min=0, help="Number of the node, from 0.")


def load_masters(
    name: str = MASTERS_NAME,
    seed: int = typer.Option(5, "--seed", help="Seed of the times of messages."),
    rate: float = typer.Option(200.0, "--rate", min=0.1, max=20_000.0, help="Total messages per second."),
    size: int = typer.Option(128, "--size", min=0, max=65_536, help="Bytes per message."),
    seconds: float = typer.Option(0.0, "--seconds", min=0.0, help="Duration; 0: until Ctrl-C."),
) -> None:
    """Send to a topic of every group and read it until stopped; then check every message."""
    text, held = _act("masters", name, "load", seed, rate, seconds or None, size, print_progress)
    typer.echo(text)
    if not held:
        raise typer.Exit(1)


def kill_masters(node: int = NODE, name: str = MASTERS_NAME) -> None:
    """Kill a node with -9."""
    typer.echo(_act("masters", name, "kill", node, runs=False))


def restart_masters(node: int = NODE, name: str = MASTERS_NAME) -> None:
    """Restart a node that was killed."""
    typer.echo(_act("masters", name, "restart", node, runs=False))


def move_masters(
    group: int = typer.Argument(..., min=0, help="Number of the group, from 0."),
    node: int = NODE,
    name: str = MASTERS_NAME,
) -> None:
    """Transfer the mastership of a group to a node, by a new version of the map."""
    typer.echo(_act("masters", name, "move", group, node, runs=False))


app = typer.Typer(
    add_completion=False, help="Run a real cluster on this machine, to try and test.", no_args_is_help=True
)

NAME = "Name of the sandbox, if there are several."
KAFKA_NAME, PULSAR_NAME, QUEUES_NAME = (
    typer.Option(name, "--name", help=NAME) for name in ("kafka", "pulsar", "queues")
)
KAFKA_SEED = typer.Option(5, "--seed", help="Seed of the rates, consumers and sizes of the load.")
PULSAR_SEED = typer.Option(5, "--seed", help="Seed of the rates of the load.")
KAFKA_RATE = typer.Option(8.0, "--rate", min=0.1, max=100.0, help="Megabytes per second of all producers.")
PULSAR_RATE = typer.Option(
    900.0, "--rate", min=1.0, max=20_000.0, help="Messages per second of all producers."
)
BROKERS = "Number of brokers."
LOAD_SECONDS = typer.Option(0.0, "--seconds", min=0.0, help="Duration; 0: until Ctrl-C.")
WORKLOAD = typer.Option(None, "--workload", help="Workload file instead of --seed and --rate.")
TRUTH = typer.Option(None, "--truth", help="Write the actual load of each client per second to this folder.")
WORKER = typer.Argument(..., min=1, help="Number of the worker, from 1.")


def up_kafka(
    name: str = KAFKA_NAME,
    brokers: int = typer.Option(6, "--brokers", min=1, max=30, help=BROKERS),
    port: int = typer.Option(
        0, "--port", min=0, max=65_000, help="Brokers listen on this port and the next ones; 0: any."
    ),
    scram: bool = typer.Option(False, "--scram", help="Require SCRAM-SHA-512 over TLS."),
    metrics: bool = typer.Option(True, help="Give each broker a Prometheus endpoint."),
    hosts: int = typer.Option(
        3, "--hosts", min=1, max=30, help="Number of declared hosts, h1, h2 and so on, each a rack."
    ),
    log_dirs: int = typer.Option(2, "--log-dirs", min=1, max=8, help="Number of log dirs of each broker."),
    as_json: bool = JSON,
) -> None:
    """Start the brokers; they run on when this command ends."""
    _up(
        "kafka",
        name,
        as_json=as_json,
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
    secured: bool = typer.Option(False, "--secure", help="Require a token over TLS."),
    cpus: float = typer.Option(
        0.0,
        "--cpus",
        min=0.0,
        help="CPU limit of each broker by its own control group, so that it reports its own CPU (needs "
        "root); 0: no groups.",
    ),
    port: int = typer.Option(
        0,
        "--port",
        min=0,
        max=65_000,
        help="Brokers listen on this port and the next ones, two each; 0: any.",
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Pulsar setting for all brokers; repeatable."
    ),
    as_json: bool = JSON,
) -> None:
    """Start the brokers; they run on when this command ends."""
    _up(
        "pulsar",
        name,
        as_json=as_json,
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
        help="Placement of replicas: controller (by Kafka), kafka-2 or paper (formulas), or a file.",
    ),
    record: Path | None = typer.Option(None, "--record", help="Write the placement to this file."),
    remove: bool = typer.Option(False, "--remove", help="Remove the topics instead."),
) -> None:
    """Create topics with uneven load, and fill the archive topics."""
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
    """Create namespaces with unevenly loaded bundles, and spread them unevenly over the brokers."""
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
        help="Keyed records on one topic instead: zipf:EXPONENT or zipf:EXPONENT:KEYS, like zipf:1.2.",
    ),
    topic: str = typer.Option(
        "orders", "--topic", help="With --keys: the topic; created with four partitions if missing."
    ),
    records: float = typer.Option(
        110.0, "--records", min=1.0, max=5000.0, help="With --keys: total records per second."
    ),
    consumer_rate: float = typer.Option(
        50.0,
        "--consumer-rate",
        min=1.0,
        help="With --keys: capacity of each of four consumers in records per second.",
    ),
) -> None:
    """Produce to the skewed topics and consume from them until stopped; then check every record.

    With --keys two producers that follow routing tables send to one topic. Four consumers of limited capacity
    process each key's records in order. Then every record is checked.
    """
    if keys is None:
        _load("kafka", name, seed, rate, seconds, workload, truth)
        return
    from trimtab.history.keys.simulation import parse_zipf
    from trimtab.lab.sandbox.kafka.state import KafkaSandboxState
    from trimtab.lab.sandbox.keys.load import KeyedLoad, KeysViolation, run_keyed_load
    from trimtab.lab.sandbox.systems import require_named

    load = KeyedLoad(topic, parse_zipf(keys), rate=records, consumer_rate=consumer_rate)
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
    """Produce to the skewed topics and consume from them until stopped; then check every record."""
    _load("pulsar", name, seed, rate, seconds, workload, truth)


def up_queues(
    name: str = QUEUES_NAME,
    workers: int = typer.Option(4, "--workers", min=1, max=60, help="Number of workers, one queue each."),
    port: int = typer.Option(0, "--port", min=0, max=65_000, help="Port of the server; 0: any."),
    as_json: bool = JSON,
) -> None:
    """Start the server and the workers; they run on when this command ends."""
    _up("queues", name, as_json=as_json, workers=workers, first_port=port or None)


def load_queues(
    name: str = QUEUES_NAME,
    seed: int = typer.Option(5, "--seed", help="Seed of the times and classes of messages."),
    rate: float = typer.Option(
        0.0, "--rate", min=0.0, help="Messages per second; 0: workers are busy 80% of the time."
    ),
    seconds: float = typer.Option(0.0, "--seconds", min=0.0, help="Duration; 0: until Ctrl-C."),
    slow: bool = typer.Option(False, "--slow", help="Votes take three times as long."),
) -> None:
    """Send short votes and long reports with the same declared weight until stopped; then wait until all are
    processed.
    """
    typer.echo(_act("queues", name, "load", seed, rate or None, seconds or None, slow, print_progress))


def kill_queues(worker: int = WORKER, name: str = QUEUES_NAME) -> None:
    """Kill a worker with -9."""
    typer.echo(_act("queues", name, "kill", worker))


def restart_queues(worker: int = WORKER, name: str = QUEUES_NAME) -> None:
    """Restart a worker that was killed."""
    typer.echo(_act("queues", name, "restart", worker))


def up_masters(
    name: str = MASTERS_NAME,
    nodes: int = typer.Option(
        3,
        "--nodes",
        min=1,
        max=20,
        help="Number of nodes; with engine embedded at most five, all of them voters.",
    ),
    groups: int = typer.Option(12, "--groups", min=1, max=200, help="Number of groups."),
    lease: float = typer.Option(10.0, "--lease", min=1.0, max=600.0, help="Seconds of a mastership's lease."),
    engine: str = typer.Option(
        "embedded",
        "--engine",
        help="Engine of the logs: embedded (the nodes), or etcd (three members are started too).",
    ),
    port: int = typer.Option(
        0, "--port", min=0, max=65_000, help="Nodes listen on this port and the next ones; 0: any."
    ),
    secret: bool = typer.Option(False, "--secret", help="Require a shared secret of nodes and clients."),
    map_in_store: bool = typer.Option(
        False, "--map-in-store", help="Publish the preferred map in the store, not in a file."
    ),
    as_json: bool = JSON,
) -> None:
    """Start the nodes, and wait until every group has a master; they run on when this command ends."""
    _up(
        "masters",
        name,
        as_json=as_json,
        nodes=nodes,
        groups=groups,
        lease_seconds=lease,
        engine=engine,
        first_port=port or None,
        secret=secret,
        map_in_store=map_in_store,
    )


def _act(system: str, name: str, verb: str, *arguments: Any, runs: bool = True) -> Any:
    """Run a command of a single system; `runs` as for `require_named`."""
    from trimtab.lab.sandbox.systems import require_named, system_of

    row = system_of(system)
    return row.verbs[verb](require_named(name, row.state, runs=runs), *arguments)


def _up(system: str, name: str, *, as_json: bool, **options: Any) -> None:
    from trimtab.lab.sandbox.systems import command, start_named, system_of

    row = system_of(system)
    state, fresh = start_named(
        name,
        row.state,
        lambda folder: row.start(**options, folder=folder, print_progress=print_progress),
        print_progress,
    )
    if as_json:
        return print_json(_document(system, name, state))
    typer.echo(row.describe(state))
    if fresh:
        tried = (*row.steps, ("down", "stop it and delete its data"))
        steps = [(command(system, name, verb), what) for verb, what in tried]
        width = max(len(line) for line, _ in steps)
        lines = "\n".join(f"  {line:{width}}  {what}" for line, what in steps)
        typer.echo(f"\nWhat to try next:\n{lines}")


def _document(system: str, name: str, state: SandboxState | None) -> dict[str, object]:
    """A sandbox as JSON values, without its secrets."""
    from trimtab.lab.sandbox.systems import system_of

    if state is None:
        return {"system": system, "name": name, "running": False}
    return {
        "system": system,
        "name": name,
        "running": True,
        "cluster_id": state.cluster_id,
        "folder": str(state.folder),
        "text": system_of(system).describe(state).splitlines(),
        "processes": [
            {"node": node, "pid": one.pid, "alive": node in state.alive}
            for node, one in state.processes.items()
        ],
    }


def _skew(system: str, name: str, draw: int, rate: float, remove: bool, **options: Any) -> None:
    from trimtab.lab.sandbox.systems import command, require_named, system_of

    row = system_of(system)
    state = require_named(name, row.state)
    done = row.skew(
        state, row.skewed(state, draw, rate), remove=remove, print_progress=print_progress, **options
    )
    typer.echo(done if remove else f"{done}; now load them: {command(system, name, 'load')}")


def _add(system: str, story: str, up: Callable[..., None], status: str) -> typer.Typer:
    """Add the commands `up`, `down` and `status` of a system.

    Parameters
    ----------
    story, status
        Help of the group, and of its `status`.
    up
        The command with options of the system.
    """
    group = typer.Typer(add_completion=False, help=story, no_args_is_help=True)
    app.add_typer(group, name=system)
    of_name = typer.Option(system, "--name", help=NAME)
    group.command("up")(up)

    @group.command()
    def down(name: str = of_name, as_json: bool = JSON) -> None:
        """Stop all processes and delete the data."""
        from trimtab.lab.sandbox.systems import stop_named, system_of

        stopped = stop_named(name, system_of(system).state, print_progress)
        if as_json:
            return print_json({"system": system, "name": name, "stopped": stopped})
        told = f"the sandbox {name} is stopped and its data deleted"
        typer.echo(told if stopped else f"no sandbox {name} is running")

    @group.command("status", help=status)
    def show(name: str = of_name, as_json: bool = JSON) -> None:
        from trimtab.lab.sandbox.systems import known_named, system_of

        row = system_of(system)
        state = known_named(name, row.state)
        if as_json:
            print_json(_document(system, name, state))
            raise typer.Exit(0 if state is not None else 1)
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
    from trimtab.lab.sandbox.systems import require_named, system_of

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
    "Show the brokers and their state.",
)
_kafka.command("skew")(skew_kafka)
_kafka.command("load")(load_kafka)
_pulsar = _add(
    "pulsar",
    "Three Pulsar brokers with a bookie and a metadata store.",
    up_pulsar,
    "Show the brokers, their state, and their numbers of bundles.",
)
_pulsar.command("skew")(skew_pulsar)
_pulsar.command("load")(load_pulsar)
_queues = _add(
    "queues",
    "A queue server (Valkey) with four workers.",
    up_queues,
    "Show the processes and each worker's queue.",
)
_queues.command("load")(load_queues)
_queues.command("kill")(kill_queues)
_queues.command("restart")(restart_queues)
_masters = _add(
    "masters",
    "A store of replicated groups on three nodes, with masters by leases.",
    up_masters,
    "Show the nodes and the master of each group.",
)
_masters.command("load")(load_masters)
_masters.command("kill")(kill_masters)
_masters.command("restart")(restart_masters)
_masters.command("move")(move_masters)

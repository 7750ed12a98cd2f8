"""A real Pulsar cluster on this machine: brokers, a bookie and a metadata store."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from trimtab.jars import ProgressCallback, exclusive_lock, ignore_progress, scratch_sibling
from trimtab.lab.sandbox.cluster import Sandbox, make_certificate, not_serving, place_for
from trimtab.lab.sandbox.processes import end, running
from trimtab.lab.sandbox.pulsar.runtime import (
    DEFAULT_VERSION,
    LOAD_MANAGERS,
    PulsarRuntime,
    command_of,
    lock_of,
    prepare_runtime,
    set_up_cluster,
    write_node_files,
)
from trimtab.lab.sandbox.pulsar.state import (
    PulsarNode,
    PulsarSandboxState,
    declare_nodes,
    with_control_groups,
)
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.connection import PulsarConnection

DONE = "archived"
# A process writes its archive when it ends, on a busy machine for half a minute.
END_TIMEOUT_SECONDS = 120.0


def record_archives(
    runtime: PulsarRuntime,
    bring_up: Callable[[PulsarSandboxState, PulsarRuntime], Sandbox[PulsarSandboxState, PulsarNode, str]],
    print_progress: ProgressCallback,
) -> None:
    """Make the archives of a runtime unless they are there.

    Parameters
    ----------
    runtime
        Whose folder in the cache gets them.
    bring_up
        Starts a declared cluster and waits until it serves.
    print_progress
        Takes lines of progress.
    """
    folder = runtime.folder
    if (folder / DONE).exists():
        return
    with exclusive_lock(folder.with_name(f"{folder.name}.lock")):
        if (folder / DONE).exists():
            return
        print_progress("preparing Pulsar for fast starts (once)")
        with scratch_sibling(folder) as scratch:
            recorded = scratch / "archives"
            recorded.mkdir()
            state = declare_nodes(
                1,
                scratch / "sandbox",
                first_port=None,
                has_bed=runtime.has_bed,
                version=runtime.version,
                load_manager="modular",
                secured=False,
            )
            sandbox = bring_up(state, replace(runtime, recorded=recorded))
            try:
                # Brokers first: what they stand on must outlive them, or they would not end in order.
                for node in reversed(sandbox.state.nodes):
                    end([sandbox.state.processes[node.id]], END_TIMEOUT_SECONDS)
            finally:
                sandbox.stop()
            for archive in recorded.glob("*.jsa"):
                archive.replace(folder / archive.name)
        (folder / DONE).touch()


# Measured: 280-300 MB resident per broker under load, 210 MB for what they stand on.
MEMORY_PER_BROKER_MB, MEMORY_BELOW_MB = 320, 300


class PulsarSandbox(Sandbox[PulsarSandboxState, PulsarNode, str]):
    """A running Pulsar cluster.

    Brokers are named as Pulsar names them, `127.0.0.1:PORT` with the port of their admin API.
    """

    noun, ready_seconds = "broker", 120.0

    def __init__(self, state: PulsarSandboxState, runtime: PulsarRuntime) -> None:
        super().__init__(state)
        self._runtime = runtime

    @classmethod
    def start(
        cls,
        brokers: int = 3,
        *,
        version: str = DEFAULT_VERSION,
        load_manager: str = "modular",
        secured: bool = False,
        cpus_per_broker: float | None = None,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        first_port: int | None = None,
        detached: bool = False,
        print_progress: ProgressCallback = ignore_progress,
    ) -> PulsarSandbox:
        """Start a cluster and wait until every broker of it serves.

        Parameters
        ----------
        brokers
            How many.
        version
            Of Pulsar; one of `trimtab.lab.sandbox.pulsar.runtime.VERSIONS`.
        load_manager
            `modular` or `extensible`.
        secured
            Whether clients must come with a token over TLS, to the admin API and to the binary protocol;
            `connection` has both.
        cpus_per_broker
            Give each broker a control group that may use so many processors, so that the CPU in its load
            reports is its own; where that is not permitted, `state.without_control_groups` says why. None for
            no groups: then every broker reports the CPU of the whole machine.
        settings
            Pulsar's own names, added to the configuration of every broker.
        first_port
            Brokers listen on this port and those after it, two each; by default on any free ones.
        folder, detached, print_progress
            As in `Sandbox`.

        Raises
        ------
        SandboxError
            If Java, jars, memory, disk or ports are lacking, or a process ends before it is ready.
        """
        if not 1 <= brokers <= 30:
            raise SandboxError(f"{brokers} brokers cannot be started: choose 1 to 30")
        if load_manager not in LOAD_MANAGERS:
            raise SandboxError(
                f"there is no load manager {load_manager}: choose {' or '.join(LOAD_MANAGERS)}"
            )
        if cpus_per_broker is not None and not 0.05 <= cpus_per_broker <= 1024:
            few = "few" if cpus_per_broker < 1 else "many"
            raise SandboxError(
                f"{cpus_per_broker:g} processors for each broker are too {few}: choose 0.05 to 1024"
            )
        jars = lock_of(version)
        memory_mb = MEMORY_BELOW_MB + brokers * MEMORY_PER_BROKER_MB
        folder = place_for(f"{brokers} Pulsar brokers and what they stand on", memory_mb, folder)
        runtime = prepare_runtime(version, jars, print_progress)
        record_archives(runtime, cls._bring_up, print_progress)
        state = declare_nodes(
            brokers,
            folder,
            first_port=first_port,
            has_bed=runtime.has_bed,
            version=version,
            load_manager=load_manager,
            secured=secured,
        )
        return cls._bring_up(
            state,
            runtime,
            cpus_per_broker=cpus_per_broker,
            settings=settings,
            detached=detached,
            print_progress=print_progress,
        )

    @classmethod
    def _bring_up(
        cls,
        state: PulsarSandboxState,
        runtime: PulsarRuntime,
        *,
        cpus_per_broker: float | None = None,
        settings: Mapping[str, str] | None = None,
        detached: bool = False,
        print_progress: ProgressCallback = ignore_progress,
    ) -> PulsarSandbox:
        sandbox = cls(state, runtime)
        with sandbox._starting(detached=detached):
            sandbox._prepare(cpus_per_broker, settings or {})
            print_progress("starting the metadata store and the bookie")
            sandbox._start_below(outlive=detached)
            print_progress(f"starting {len(state.brokers)} brokers")
            for node in sandbox.state.brokers:
                sandbox._spawn(node, outlive=detached)
        return sandbox

    @property
    def connection(self) -> PulsarConnection:
        """The connection of a client to the cluster: admin API and binary protocol."""
        return self.state.connection

    @property
    def service_url(self) -> str:
        """The address for clients of the binary protocol: all declared brokers."""
        return self.state.service_url

    @property
    def web_urls(self) -> dict[str, str]:
        """The admin API of each declared broker, by Pulsar's broker id; dead ones are in it as well."""
        return self.state.web_urls

    @property
    def brokers(self) -> tuple[str, ...]:
        """The declared brokers, as Pulsar names them, in the order of their start."""
        return tuple(node.broker_id for node in self.state.brokers)

    def terminate(self, broker: str) -> None:
        """Ask a broker to leave (SIGTERM): it hands its bundles over and ends; does not wait for it."""
        self._dismiss(broker).signal(signal.SIGTERM)

    def is_running(self, broker: str) -> bool:
        """True while a broker's process runs."""
        return running(self._process(broker))

    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """Wait until every broker that was started, and not killed or terminated since, is healthy.

        Raises
        ------
        SandboxError
            If one ends instead, or time is up.
        """
        waiting = [key for key, _ in self._expected()]
        connection = replace(self.connection, timeout_seconds=10.0)
        with PulsarAdmin(connection) as admin, ThreadPoolExecutor(len(waiting) or 1) as threads:

            def missing() -> str:
                nonlocal waiting
                healthy = threads.map(lambda broker: _is_healthy(admin, broker), waiting)
                waiting = [broker for broker, serving in zip(waiting, healthy, strict=True) if not serving]
                return not_serving(waiting)

            self._wait(missing, timeout_seconds)

    @property
    def _declared(self) -> dict[str, PulsarNode]:
        return {node.broker_id: node for node in self.state.brokers}

    def _nodes(self) -> Collection[PulsarNode]:
        return self.state.nodes

    def _title(self, node: PulsarNode) -> str:
        return f"Pulsar's {node.role.replace('-', ' ')} {node.id}"

    def _command(self, node: PulsarNode) -> list[str]:
        return command_of(self._runtime, self.state, node)

    def _prepare(self, cpus_per_broker: float | None, settings: Mapping[str, str]) -> None:
        if self.state.security is not None:
            make_certificate(self._runtime.java, self.state.folder, self.state.security.store_password)
        if cpus_per_broker is not None:
            self._save(with_control_groups(self.state, cpus_per_broker))
        write_node_files(self.state, settings)

    def _start_below(self, *, outlive: bool) -> None:
        """Start the metadata store and the bookie; each depends on the one before."""
        for node in self.state.nodes:
            if node.role != "broker":
                self._spawn(node, outlive=outlive)
                self._wait_until_listening(node)
            if node.role == "metadata-store":
                set_up_cluster(self._runtime, self.state, node)

    def _wait_until_listening(self, node: PulsarNode) -> None:
        deadline = time.monotonic() + self.ready_seconds
        while True:
            self.require_running()
            with socket.socket() as probe:
                probe.settimeout(1.0)
                if probe.connect_ex(("127.0.0.1", node.port)) == 0:
                    return
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"the {node.role} does not listen after {self.ready_seconds:g} s: try again"
                )
            time.sleep(0.05)


def _is_healthy(admin: PulsarAdmin, broker: str) -> bool:
    """By the broker's own check: it writes a message to a topic and reads it back.

    `brokers/ready` would not do: it passes while there is no bookie to write to.
    """
    try:
        return admin.is_healthy(broker)
    except PulsarAdminError:
        return False

"""A real Kafka cluster on this machine: brokers on declared hosts and racks, and a controller apart.

The controller has a node of its own so that all brokers idle alike and their CPU compares.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.connect.kafka import admin_client
from trimtab.connect.settings import KafkaConnection
from trimtab.model.errors import ConnectError, SandboxError
from trimtab.sandbox.certificates import make_certificate
from trimtab.sandbox.cluster import Sandbox
from trimtab.sandbox.kafka.declare import CONTROLLER_ID, declare
from trimtab.sandbox.kafka.properties import format_folders, server_properties
from trimtab.sandbox.kafka.runtime import KafkaRuntime, prepare, write_node_files
from trimtab.sandbox.kafka.state import KafkaState, Node
from trimtab.sandbox.maven import Say, say_nothing
from trimtab.sandbox.node_log import why_ended
from trimtab.sandbox.processes import Process, kill, running
from trimtab.sandbox.room import require_room
from trimtab.sandbox.state import sandboxes_folder
from trimtab.sandbox.teardown import sweep

# Java starts compete for two cores: half a second apart they are all up sooner than at once.
STAGGER_SECONDS = 0.5
READY_SECONDS = 90.0
# Measured: 130-165 MB resident per node once it serves.
MEMORY_PER_NODE_MB = 180


class KafkaSandbox(Sandbox[KafkaState]):
    """A running sandbox cluster; leaving its `with` block stops it and deletes its data.

    Attributes
    ----------
    state
        Nodes, ports and processes, as `sandbox.json` in the sandbox's folder has them.
    """

    def __init__(self, state: KafkaState, runtime: KafkaRuntime) -> None:
        super().__init__(state)
        self._runtime = runtime

    @classmethod
    def start(
        cls,
        brokers: int = 6,
        *,
        absent: tuple[int, ...] = (),
        scram: bool = False,
        prometheus: bool = True,
        properties: Mapping[str, str] | None = None,
        folder: Path | None = None,
        first_port: int | None = None,
        detached: bool = False,
        say: Say = say_nothing,
    ) -> KafkaSandbox:
        """Start a cluster and wait until every broker of it serves.

        Parameters
        ----------
        brokers
            How many are declared, ids from 1; spread over three hosts h1-h3, a rack r1-r3 each.
        absent
            Brokers that are declared but not started; `restart` brings them in later, new and empty.
        scram
            Whether clients must come as a SCRAM-SHA-512 user over TLS.
        prometheus
            Whether each broker carries a metrics endpoint (costs a second of start-up).
        properties
            Kafka's own names, added to the server.properties of every node.
        folder
            Where it lives; by default a new folder that no other sandbox uses.
        first_port
            Brokers listen on this port and those after it; by default on any free ones.
        detached
            Whether it outlives this process.
        say
            Takes lines of progress.

        Raises
        ------
        SandboxError
            If Java, jars, memory, disk or ports are lacking, or a node ends before it is ready; nothing is
            left running then.
        """
        if not 1 <= brokers <= 90:
            raise SandboxError(f"{brokers} brokers cannot be started: choose 1 to 90")
        sweep()
        folder = folder or sandboxes_folder() / f"run-{os.getpid()}-{secrets.token_hex(3)}"
        nodes = brokers + 1 - len(absent)
        require_room(f"{nodes} Kafka nodes", nodes * MEMORY_PER_NODE_MB, folder)
        runtime = prepare(say)
        state = declare(brokers, folder, first_port, scram, prometheus)
        sandbox = cls(state, runtime)
        try:
            sandbox._format(dict(properties or {}))
            say(f"starting {brokers - len(absent)} brokers and a controller")
            for node in state.nodes:
                if node.id not in absent:
                    sandbox._spawn(node, outlive=detached)
                    time.sleep(STAGGER_SECONDS)
            sandbox.wait_until_serving()
            if detached:
                sandbox._save(replace(sandbox.state, owner=None))
        except BaseException:
            sandbox.stop()
            raise
        return sandbox

    @property
    def bootstrap(self) -> str:
        """Comma-separated addresses of the started brokers."""
        return self.state.bootstrap

    @property
    def connection(self) -> KafkaConnection:
        """How a client reaches the cluster."""
        return self.state.connection

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The declared brokers, by id."""
        return self.state.brokers

    @property
    def hosts(self) -> dict[int, str]:
        """The declared host of each broker."""
        return {node.id: node.host for node in self.brokers}

    @property
    def prometheus_endpoints(self) -> dict[int, str]:
        """The metrics address of each broker that has one."""
        return {
            node.id: f"http://127.0.0.1:{node.prometheus_port}/metrics"
            for node in self.brokers
            if node.prometheus_port is not None
        }

    def cpu_seconds(self) -> dict[int, float]:
        """Processor time that each living broker has used since its start, by broker id."""
        used = {
            node.id: self.state.processes[node.id].cpu_seconds()
            for node in self.brokers
            if node.id in self.state.processes
        }
        return {node: seconds for node, seconds in used.items() if seconds is not None}

    def kill(self, node: int) -> None:
        """Kill a node with -9; Kafka notices when its session ends, about six seconds later."""
        kill([self._process(node)])

    def restart(self, node: int) -> None:
        """Start a declared node that does not run, on its old folder and port; does not wait for it."""
        declared = {known.id: known for known in self.state.nodes}
        if node not in declared:
            raise SandboxError(f"node {node} is not declared in this sandbox: it has {sorted(declared)}")
        if node in self.state.alive:
            raise SandboxError(f"node {node} runs already: kill it first")
        self._spawn(declared[node], outlive=self.state.owner is None)

    def kill_controller(self) -> None:
        """Kill the controller node with -9."""
        self.kill(CONTROLLER_ID)

    def start_controller(self) -> None:
        """Start the controller node again."""
        self.restart(CONTROLLER_ID)

    def wait_until_serving(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Wait until every broker that was started is registered and unfenced.

        Raises
        ------
        SandboxError
            If one ends instead, or time is up.
        """
        expected = {node.id for node in self.brokers if node.id in self.state.processes}
        deadline = time.monotonic() + timeout_seconds
        missing = expected
        with contextlib.ExitStack() as closing:
            admin = None
            while missing:
                self._require_running(expected | {CONTROLLER_ID})
                if time.monotonic() > deadline:
                    raise SandboxError(
                        f"brokers {sorted(missing)} do not serve after {timeout_seconds:g} s: close what "
                        "else keeps the processors busy, or start fewer brokers"
                    )
                time.sleep(0.1)
                if admin is None:
                    with contextlib.suppress(ConnectError):
                        admin = admin_client(replace(self.connection, timeout_seconds=2.0))
                        closing.callback(admin.close)
                else:
                    missing = expected - serving_brokers(admin)

    def _process(self, node: int) -> Process:
        try:
            return self.state.processes[node]
        except KeyError:
            raise SandboxError(
                f"node {node} was not started here: started are {sorted(self.state.processes)}"
            ) from None

    def _format(self, overrides: dict[str, str]) -> None:
        state = self.state
        state.folder.mkdir(parents=True)
        state.write()
        if state.security:
            make_certificate(self._runtime.java, state.folder, state.security.password)
        controllers = {node.id: node.port for node in state.nodes if node.role == "controller"}
        copies = min(3, len(state.brokers))
        checkpoint = self._runtime.checkpoint
        for node in state.nodes:
            text = server_properties(node, state.folder, controllers, copies, state.security, overrides)
            if state.security and node.role == "controller":
                checkpoint = self._runtime.checkpoint_with_user(text, state.security)
            format_folders(node, state.folder, state.cluster_id, checkpoint)
            write_node_files(state.folder, node, text)

    def _spawn(self, node: Node, *, outlive: bool) -> None:
        home = self.state.folder / f"node-{node.id}"
        command = self._runtime.command(home, node.prometheus_port)
        self._spawn_process(node.id, command, home, outlive=outlive)

    def _require_running(self, nodes: set[int]) -> None:
        for node in nodes:
            if not running(self.state.processes[node]):
                raise SandboxError(
                    why_ended(f"Kafka node {node}", self.state.folder / f"node-{node}" / "out.log")
                )


def serving_brokers(admin: Any) -> set[int]:
    """Brokers that are registered and unfenced; none while the cluster does not answer."""
    try:
        cluster = admin.describe_cluster()
    except Exception:
        # While brokers come up the client meets every error there is; the caller's deadline ends the wait.
        return set()
    return {broker["broker_id"] for broker in cluster["brokers"] if not broker["is_fenced"]}

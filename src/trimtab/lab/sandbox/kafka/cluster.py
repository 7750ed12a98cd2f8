"""A real Kafka cluster on this machine: brokers on declared hosts and racks, and a separate controller.

The controller has a node of its own so that all brokers idle alike and their CPU compares.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.jars import ProgressCallback, ignore_progress
from trimtab.lab.sandbox.cluster import Sandbox, make_certificate, not_serving, place_for
from trimtab.lab.sandbox.kafka.runtime import (
    KafkaRuntime,
    format_folders,
    prepare_runtime,
    server_properties,
    write_node_files,
)
from trimtab.lab.sandbox.kafka.state import HOSTS, KafkaNode, KafkaSandboxState, declare_nodes
from trimtab.model.errors import SandboxError
from trimtab.systems.kafka.client import admin_client
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_common.errors import ConnectError

# Java starts compete for two cores: half a second apart they are all up sooner than at once.
STAGGER_SECONDS = 0.5
# Measured: 130-165 MB resident per node once it serves.
MEMORY_PER_NODE_MB = 180


class KafkaSandbox(Sandbox[KafkaSandboxState, KafkaNode, int]):
    """A running Kafka cluster; nodes go by Kafka's node ids."""

    noun, ready_seconds = "node", 90.0

    def __init__(self, state: KafkaSandboxState, runtime: KafkaRuntime) -> None:
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
        hosts: int = HOSTS,
        log_dirs: int = 2,
        detached: bool = False,
        print_progress: ProgressCallback = ignore_progress,
    ) -> KafkaSandbox:
        """Start a cluster and wait until every broker of it serves.

        Parameters
        ----------
        brokers
            How many are declared, ids from 1.
        absent
            Brokers that are declared but not started; `restart` brings them in later, new and empty.
        scram
            Whether clients must come as a SCRAM-SHA-512 user over TLS.
        prometheus
            Whether each broker carries a metrics endpoint (costs a second of start-up).
        properties
            Kafka's own names, added to the server.properties of every node.
        first_port
            Brokers listen on this port and those after it; by default on any free ones.
        hosts
            How many hosts the brokers are declared on, in equal shares: h1, h2 and so on, a rack r1, r2 each.
        log_dirs
            How many each broker has; they share this machine's disk.
        folder, detached, print_progress
            As in `Sandbox`.

        Raises
        ------
        SandboxError
            If Java, jars, memory, disk or ports are lacking, or a node ends before it is ready.
        """
        if not 1 <= brokers <= 90:
            raise SandboxError(f"{brokers} brokers cannot be started: choose 1 to 90")
        if hosts < 1 or log_dirs < 1:
            raise SandboxError(f"{hosts} hosts with {log_dirs} log dirs a broker: choose 1 or more of each")
        nodes = brokers + 1 - len(absent)
        folder = place_for(f"{nodes} Kafka nodes", nodes * MEMORY_PER_NODE_MB, folder)
        runtime = prepare_runtime(print_progress)
        sandbox = cls(declare_nodes(brokers, folder, first_port, scram, prometheus, hosts, log_dirs), runtime)
        with sandbox._starting(detached=detached):
            sandbox._format(dict(properties or {}))
            print_progress(f"starting {brokers - len(absent)} brokers and a controller")
            for node in sandbox.state.nodes:
                if node.id not in absent:
                    sandbox._spawn(node, outlive=detached)
                    time.sleep(STAGGER_SECONDS)
        return sandbox

    @property
    def bootstrap(self) -> str:
        """Comma-separated addresses of the started brokers."""
        return self.state.bootstrap

    @property
    def connection(self) -> KafkaConnection:
        """The connection of a client to the cluster."""
        return self.state.connection

    @property
    def brokers(self) -> tuple[KafkaNode, ...]:
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

    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """Wait until every broker that was started, and not killed since, is registered and unfenced.

        Raises
        ------
        SandboxError
            If one ends instead, or time is up.
        """
        expected = {key for key, _ in self._expected()}
        admin: Any = None
        with contextlib.ExitStack() as closing:

            def missing() -> str:
                nonlocal admin
                if admin is None:
                    with contextlib.suppress(ConnectError):
                        admin = admin_client(replace(self.connection, timeout_seconds=2.0))
                        closing.callback(admin.close)
                waiting = expected - serving_brokers(admin) if admin is not None else expected
                return not_serving(sorted(waiting))

            self._wait(missing, timeout_seconds)

    @property
    def _declared(self) -> dict[int, KafkaNode]:
        return {node.id: node for node in self.state.nodes}

    def _title(self, node: KafkaNode) -> str:
        return f"Kafka node {node.id}"

    def _command(self, node: KafkaNode) -> list[str]:
        return self._runtime.command(self.state.node_folder(node.id), node.prometheus_port)

    def _format(self, overrides: dict[str, str]) -> None:
        state = self.state
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


def serving_brokers(admin: Any) -> set[int]:
    """Brokers that are registered and unfenced; none while the cluster does not answer."""
    try:
        cluster = admin.describe_cluster()
    except Exception:
        # While brokers come up the client meets every error there is; the caller's deadline ends the wait.
        return set()
    return {broker["broker_id"] for broker in cluster["brokers"] if not broker["is_fenced"]}

"""The processes of a Pulsar sandbox: the files that each of them reads, and its command line."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping

from trimtab.lab.sandbox.cgroups import NodeCgroup
from trimtab.lab.sandbox.node_log import LOGGING
from trimtab.lab.sandbox.pulsar.configuration import (
    bookie_configuration,
    broker_configuration,
    metadata_store_configuration,
    setup_arguments,
)
from trimtab.lab.sandbox.pulsar.declare import metadata_port
from trimtab.lab.sandbox.pulsar.runtime import PulsarRuntime
from trimtab.lab.sandbox.pulsar.security import security_settings
from trimtab.lab.sandbox.pulsar.state import PulsarNode, PulsarSandboxState
from trimtab.model.errors import SandboxError


def write_node_files(state: PulsarSandboxState, settings: Mapping[str, str]) -> None:
    """Write every file that a process of the sandbox reads; `settings` go to all brokers."""
    metadata = metadata_port(state)
    loopback = "lo" if "lo" in (name for _, name in socket.if_nameindex()) else "lo0"
    for node in state.nodes:
        home = state.node_folder(node.id)
        home.mkdir()
        (home / "log4j2.properties").write_text(LOGGING)
        if node.role in ("bed", "bookie"):
            text = bookie_configuration(home, node.port, metadata, loopback)
            (home / "bookkeeper.conf").write_text(text)
        if node.role in ("bed", "metadata-store"):
            (home / "metadata").mkdir()
            (home / "zoo.cfg").write_text(metadata_store_configuration(home, metadata))
        if node.role == "broker":
            security = security_settings(state.security, state.folder) if state.security else {}
            text = broker_configuration(node, metadata, state.load_manager, security, settings)
            (home / "broker.conf").write_text(text)
            (home / "broker.conf").chmod(0o600)


def command_of(runtime: PulsarRuntime, state: PulsarSandboxState, node: PulsarNode) -> list[str]:
    """The command line of a node, in its control group where it has one."""
    command = runtime.command(node.role, state.node_folder(node.id), _arguments(state, node))
    return NodeCgroup(node.control_group).entering(command) if node.control_group else command


def set_up_cluster(runtime: PulsarRuntime, state: PulsarSandboxState, store: PulsarNode) -> None:
    """Write a cluster's first entries into a metadata store that runs by itself.

    Raises
    ------
    SandboxError
        If Pulsar's own set-up fails.
    """
    home = state.node_folder(store.id)
    answer = subprocess.run(
        runtime.command(
            "setup", home, setup_arguments(store.port, state.brokers[0], secured=state.security is not None)
        ),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        lines = (answer.stdout + answer.stderr).strip().splitlines() or ["no reason given"]
        raise SandboxError(f"Pulsar cannot set up its cluster: {lines[-1]}")


def _arguments(state: PulsarSandboxState, node: PulsarNode) -> list[str]:
    home = state.node_folder(node.id)
    match node.role:
        case "bed":
            metadata = metadata_port(state)
            setup = setup_arguments(metadata, state.brokers[0], secured=state.security is not None)
            return [str(home / "metadata"), str(metadata), str(home / "bookkeeper.conf"), *setup]
        case "metadata-store":
            return [str(home / "zoo.cfg")]
        case "bookie":
            return ["--conf", str(home / "bookkeeper.conf")]
        case _:
            return ["--broker-conf", str(home / "broker.conf")]

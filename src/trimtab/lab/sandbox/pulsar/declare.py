"""The processes of a Pulsar sandbox before any of them is started: roles, ports, control groups."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from trimtab.lab.sandbox.cgroups import make_control_group, remove
from trimtab.lab.sandbox.ports import free_ports, require_free
from trimtab.lab.sandbox.processes import this_process
from trimtab.lab.sandbox.pulsar.security import new_security
from trimtab.lab.sandbox.pulsar.state import PulsarNode, PulsarSandboxState
from trimtab.model.errors import SandboxError

BED_ID, METADATA_STORE_ID, BOOKIE_ID = 100, 101, 102


def declare(
    brokers: int,
    folder: Path,
    *,
    first_port: int | None,
    has_bed: bool,
    version: str,
    load_manager: str,
    secured: bool,
) -> PulsarSandboxState:
    """A sandbox of which nothing runs yet.

    Parameters
    ----------
    brokers
        Their number; ids from 1.
    folder
        Where it will live.
    first_port
        The first broker's web port; its port for clients is the next, and so on; None for any free ones.
    has_bed
        Whether metadata store and bookie share a process.
    version, load_manager
        Of the brokers.
    secured
        Whether clients must come with a token over TLS.

    Raises
    ------
    SandboxError
        If a port asked for is in use.
    """
    fixed = list(range(first_port, first_port + 2 * brokers)) if first_port is not None else []
    for port in fixed:
        require_free(port)
    chosen = free_ports(2 + (0 if fixed else 2 * brokers), without=fixed)
    metadata, bookie = chosen[:2]
    ports = fixed or chosen[2:]
    if has_bed:
        below = [PulsarNode(BED_ID, "bed", bookie, metadata)]
    else:
        below = [
            PulsarNode(METADATA_STORE_ID, "metadata-store", metadata),
            PulsarNode(BOOKIE_ID, "bookie", bookie),
        ]
    serving = [
        PulsarNode(index + 1, "broker", ports[2 * index + 1], ports[2 * index]) for index in range(brokers)
    ]
    return PulsarSandboxState(
        folder=folder,
        cluster_id=secrets.token_hex(8),
        owner=this_process(),
        version=version,
        load_manager=load_manager,
        nodes=(*below, *serving),
        security=new_security() if secured else None,
    )


def metadata_port(state: PulsarSandboxState) -> int:
    """The port of the metadata store."""
    for node in state.nodes:
        if node.role == "bed" and node.web_port is not None:
            return node.web_port
        if node.role == "metadata-store":
            return node.port
    raise SandboxError(
        f"the sandbox {state.folder.name} has no metadata store: delete the folder {state.folder}"
    )


def with_control_groups(state: PulsarSandboxState, cpus: float) -> PulsarSandboxState:
    """The same sandbox with a control group for each broker, or with the reason why there are none."""
    made: list[Path] = []
    nodes = []
    try:
        for node in state.nodes:
            if node.role == "broker":
                group = make_control_group(f"trimtab-{state.cluster_id}-{node.id}", cpus)
                made += group.folders
                node = replace(node, control_group=group.folders)
            nodes.append(node)
    except SandboxError as error:
        remove(made)
        return replace(state, without_control_groups=str(error))
    return replace(state, nodes=tuple(nodes), control_groups=tuple(made))

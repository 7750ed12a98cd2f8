"""The nodes of a sandbox before any of them is started: ids, hosts, racks and ports."""

from __future__ import annotations

import secrets
from pathlib import Path

from trimtab.lab.sandbox.kafka.properties import new_id
from trimtab.lab.sandbox.kafka.state import KafkaNode, KafkaSandboxState, ScramSecurity
from trimtab.lab.sandbox.ports import free_ports, require_free
from trimtab.lab.sandbox.processes import this_process

CONTROLLER_ID = 100
HOSTS = 3


def declare(
    brokers: int,
    folder: Path,
    first_port: int | None,
    scram: bool,
    prometheus: bool,
    hosts: int = HOSTS,
    log_dirs: int = 2,
) -> KafkaSandboxState:
    """A sandbox of which nothing runs yet.

    Parameters
    ----------
    brokers
        Their number; ids from 1, in equal shares on the hosts h1, h2 and so on, each of them a rack.
    folder
        Where it will live.
    first_port
        Of the brokers, or None for any free ones.
    scram, prometheus
        Whether clients must come by SCRAM over TLS, and whether brokers get a metrics port.
    hosts, log_dirs
        How many hosts are declared, and log dirs of each broker.

    Raises
    ------
    SandboxError
        If a port asked for is in use.
    """
    fixed = range(first_port, first_port + brokers) if first_port is not None else range(0)
    for port in fixed:
        require_free(port)
    ports = iter(free_ports(2 * brokers + 1, without=fixed))
    nodes = [KafkaNode(CONTROLLER_ID, "controller", "h0", "r0", next(ports))]
    for index in range(brokers):
        place = index * hosts // brokers + 1 if brokers >= hosts else index + 1
        client, metrics = next(ports), next(ports)
        port = fixed[index] if fixed else client
        endpoint = metrics if prometheus else None
        nodes.append(KafkaNode(index + 1, "broker", f"h{place}", f"r{place}", port, endpoint, log_dirs))
    return KafkaSandboxState(
        folder=folder,
        cluster_id=new_id(),
        owner=this_process(),
        nodes=tuple(nodes),
        security=ScramSecurity("trimtab", secrets.token_urlsafe(18)) if scram else None,
    )

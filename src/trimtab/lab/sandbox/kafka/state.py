"""The state of a Kafka sandbox: nodes on declared hosts and racks, ports, and connections."""

from __future__ import annotations

import base64
import secrets
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from trimtab.lab.sandbox.processes import free_ports, require_free, this_process
from trimtab.lab.sandbox.state import SandboxState
from trimtab.systems.kafka.settings import KafkaConnection


@dataclass(frozen=True)
class KafkaNode:
    """One declared Kafka node.

    Parameters
    ----------
    id
        Kafka's node id.
    role
        `broker` or `controller`.
    host, rack
        Declared; every node really runs on this machine.
    port
        Of the client listener of a broker, of the controller listener of a controller.
    prometheus_port
        Of the metrics endpoint, None without agent.
    log_dirs
        How many it has.
    """

    id: int
    role: str
    host: str
    rack: str
    port: int
    prometheus_port: int | None = None
    log_dirs: int = 2


@dataclass(frozen=True)
class ScramSecurity:
    """The SCRAM user; clients trust the certificate `ca.pem` in the sandbox's folder."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class KafkaSandboxState(SandboxState):
    """A Kafka sandbox.

    Parameters
    ----------
    nodes
        All declared nodes, started or not; controllers first.
    security
        None for a plain cluster.
    """

    system: ClassVar[str] = "kafka"

    nodes: tuple[KafkaNode, ...]
    security: ScramSecurity | None = None

    @property
    def brokers(self) -> tuple[KafkaNode, ...]:
        """The declared brokers, by id."""
        return tuple(node for node in self.nodes if node.role == "broker")

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers that were started: `host:port,host:port`."""
        started = [node for node in self.brokers if node.id in self.processes]
        return ",".join(f"127.0.0.1:{node.port}" for node in started or self.brokers)

    @property
    def connection(self) -> KafkaConnection:
        """The connection of a client to the sandbox."""
        addresses = tuple(self.bootstrap.split(","))
        if self.security is None:
            return KafkaConnection(addresses)
        return KafkaConnection(
            addresses,
            security_protocol="SASL_SSL",
            tls_ca=self.folder / "ca.pem",
            sasl_mechanism="SCRAM-SHA-512",
            user=self.security.user,
            password=self.security.password,
        )


CONTROLLER_ID = 100
HOSTS = 3


def declare_nodes(
    brokers: int,
    folder: Path,
    first_port: int | None,
    scram: bool,
    prometheus: bool,
    hosts: int = HOSTS,
    log_dirs: int = 2,
) -> KafkaSandboxState:
    """Declare a sandbox; no process runs yet.

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


def new_id() -> str:
    """A random identifier in Kafka's form: 22 characters, the first is not a minus sign."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text

"""A Kafka sandbox as its file describes it: nodes, ports, and how clients get in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

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
    """SCRAM over TLS: who may enter; the certificate to trust is `ca.pem` in the sandbox's folder."""

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

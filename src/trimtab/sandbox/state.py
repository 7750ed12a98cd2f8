"""What a running sandbox is: a folder with `sandbox.json`, readable from any other process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from trimtab.connect.settings import KafkaConnection
from trimtab.files.places import state_folder
from trimtab.model.errors import SandboxError
from trimtab.sandbox.processes import Process

FORMAT = "trimtab/sandbox/1"
FILE = "sandbox.json"


@dataclass(frozen=True)
class Node:
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
    """

    id: int
    role: str
    host: str
    rack: str
    port: int
    prometheus_port: int | None = None


@dataclass(frozen=True)
class Security:
    """SCRAM over TLS: who may enter; the certificate to trust is `ca.pem` in the sandbox's folder."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class SandboxState:
    """A sandbox as its file describes it.

    Parameters
    ----------
    folder
        Everything of the sandbox lies below it.
    owner
        The process with which the sandbox ends; None once it is detached.
    nodes
        All declared nodes, started or not; controllers first.
    processes
        What was started last for each node id, alive or not.
    security
        None for a plain cluster.
    """

    folder: Path
    cluster_id: str
    owner: Process | None
    nodes: tuple[Node, ...]
    processes: dict[int, Process] = field(default_factory=dict)
    security: Security | None = None

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The declared brokers, by id."""
        return tuple(node for node in self.nodes if node.role == "broker")

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers that were started, as `--bootstrap` takes them."""
        started = [node for node in self.brokers if node.id in self.processes]
        return ",".join(f"127.0.0.1:{node.port}" for node in started or self.brokers)

    @property
    def connection(self) -> KafkaConnection:
        """How a client reaches the sandbox."""
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

    @property
    def alive(self) -> dict[int, Process]:
        """The nodes that run, by id."""
        return {node: process for node, process in self.processes.items() if process.alive}

    @property
    def stale(self) -> bool:
        """Whether nothing of it runs, or its owner ended without stopping it."""
        return not self.alive or (self.owner is not None and not self.owner.alive)

    def with_process(self, node: int, process: Process) -> SandboxState:
        """The same sandbox with one node started anew."""
        return replace(self, processes={**self.processes, node: process})

    def write(self) -> None:
        """Save the state in one step; readable by its owner only, since it may hold a password."""
        document = asdict(self) | {"format": FORMAT, "folder": str(self.folder)}
        scratch = self.folder / f".{FILE}.{os.getpid()}"
        with open(
            os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self.folder / FILE)


def sandboxes_folder() -> Path:
    """Where the folders of all sandboxes lie."""
    return state_folder() / "sandbox"


def read_state(folder: Path) -> SandboxState | None:
    """The sandbox of a folder, or None where there is none.

    Raises
    ------
    SandboxError
        If the file is there but not one of ours.
    """
    file = folder / FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r} instead of {FORMAT!r}")
        return SandboxState(
            folder=folder,
            cluster_id=document["cluster_id"],
            owner=_process(document["owner"]),
            nodes=tuple(Node(**node) for node in document["nodes"]),
            processes={int(node): Process(**process) for node, process in document["processes"].items()},
            security=Security(**document["security"]) if document["security"] else None,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SandboxError(
            f"{file} is not a sandbox of this trimtab ({error}): delete the folder {folder}"
        ) from error


def _process(document: dict[str, object] | None) -> Process | None:
    return Process(**document) if document else None  # type: ignore[arg-type]

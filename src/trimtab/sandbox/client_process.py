"""What is common to client processes, whatever system they talk to."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, since it may hold a password."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set, so that a client can finish its tick."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped

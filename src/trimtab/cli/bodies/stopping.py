"""Commands that run until they are asked to end: the first request lets the work in hand finish."""

from __future__ import annotations

import signal
import threading


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set: what is in hand is finished, nothing is begun; twice kills."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop

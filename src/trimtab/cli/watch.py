"""Signals and progress of long commands: the first signal lets the work in hand finish."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable

LINE_SECONDS = 5.0
"""Minimum time between two lines of progress where no terminal rewrites a line."""


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set: what is in hand is finished, nothing is begun; twice kills."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop


def handled_signals(handle: Callable[[int, int], None]) -> Callable[[], None]:
    """Handle SIGINT and SIGTERM; returns a function that restores the previous handlers.

    Parameters
    ----------
    handle
        Receives the number of the signal, and the number of signals so far.
    """
    count = 0

    def received(number: int, _: object) -> None:
        nonlocal count
        count += 1
        handle(number, count)

    previous = {number: signal.signal(number, received) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    return restore


class ProgressLine:
    """One line that is rewritten on a terminal, or a line now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._printed_at = 0.0
        self._last = ""

    def show(self, line: str) -> None:
        """Show a line, unless one was shown a moment ago."""
        now = time.monotonic()
        if line == self._last or now - self._printed_at < (0.1 if self._terminal else LINE_SECONDS):
            return
        self._printed_at, self._last = now, line
        sys.stderr.write(f"\r\033[K{line}" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def print_line(self, line: str) -> None:
        """Print a line that later updates do not overwrite."""
        sys.stderr.write(f"\r\033[K{line}\n" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the line of progress as it is and begin a new one."""
        if self._terminal and self._last:
            sys.stderr.write("\n")
            sys.stderr.flush()

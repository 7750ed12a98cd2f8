"""Work under signals: the first one lets what is in hand finish; an execution also shows its progress."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from trimtab.act.control import Runner
from trimtab.act.execution.state import AnyExecution

StateT = TypeVar("StateT", bound=AnyExecution)

LINE_SECONDS = 5.0
"""How often a line of progress is written where there is no terminal to rewrite it on."""


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set: what is in hand is finished, nothing is begun; twice kills."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop


def run_watched(
    make: Callable[[Callable[[StateT], None]], Runner[StateT]],
    line: Callable[[StateT], str],
    *,
    cancelling: str,
) -> StateT:
    """Run to the end with progress on standard error.

    Ctrl-C once or SIGTERM stops (what is in flight finishes), Ctrl-C twice cancels (it is rolled back, where
    the balancer can do that).

    Parameters
    ----------
    make
        The runner, to be told whom to tell its states.
    line
        A state in one line.
    cancelling
        What a cancel does, for people.
    """
    screen = _ProgressLine()
    runner = make(lambda state: screen.show(line(state)))
    asked = 0

    def interrupted(number: int, frame: Any) -> None:
        nonlocal asked
        asked += 1
        if number == signal.SIGTERM or asked == 1:
            runner.stop()
            screen.print_line("stopping: what is in flight will finish; Ctrl-C again cancels instead")
        elif asked == 2:
            runner.cancel()
            screen.print_line(f"cancelling: {cancelling}")
        else:
            screen.print_line("still cleaning up; it can be killed and resumed later, too")

    previous = {number: signal.signal(number, interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return runner.run()
    finally:
        screen.close()
        for number, handler in previous.items():
            signal.signal(number, handler)


class _ProgressLine:
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

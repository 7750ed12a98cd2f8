"""Progress of a long replay, on standard error: one line that changes, or a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.history.bundles.spark import TaskProgress

BETWEEN_SECONDS = 15.0
"""Between two lines where standard error is no terminal."""


class ReplayProgress:
    """Says how far it has come; on a terminal, nothing of it is left in the end."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._started = self._logged = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def local(self, ticks: int, at: float) -> None:
        """So many ticks have passed, the last of them of this time."""
        pace = ticks / max(time.monotonic() - self._started, 1e-9)
        self._print_progress(f"{_reached(ticks, at)}, {pace:,.0f} ticks a second")

    def on_spark(self, statuses: Mapping[str, TaskProgress], tasks: int) -> None:
        """Of so many tasks these have begun."""
        ended = sum(one.ended for one in statuses.values())
        at_work = [
            f"{name} at {_reached(one.ticks, one.at)}" for name, one in statuses.items() if not one.ended
        ]
        self._print_progress("; ".join([f"{ended} of {tasks} replays ended", *at_work]))

    def _print_progress(self, text: str) -> None:
        if self._live:
            import shutil

            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text[:room]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._logged >= BETWEEN_SECONDS:
            self._logged = time.monotonic()
            print(f"trimtab: {text}", file=sys.stderr, flush=True)


def _reached(ticks: int, at: float) -> str:
    from trimtab.files.head import time_text

    return f"tick {ticks:,} ({time_text(at)})"

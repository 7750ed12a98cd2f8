"""Lines on standard error, of which strangers cannot cause more than a few."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

MAX_LINES: Final = 10
SECONDS: Final = 60.0


class RateLimitedLogger:
    """At most so many lines in so many seconds; the next one says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since, self._reported, self._left_out = clock, float("-inf"), 0, 0

    def log(self, line: str) -> None:
        """Write a line, or count it."""
        now = self._clock()
        if now - self._since >= SECONDS:
            if self._left_out:
                line += f" ({self._left_out:,} such lines were left out before)"
            self._since, self._reported, self._left_out = now, 0, 0
        if self._reported >= MAX_LINES:
            self._left_out += 1
            return
        self._reported += 1
        print(line, file=sys.stderr, flush=True)

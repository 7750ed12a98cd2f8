"""Ctrl-C, a closed terminal and a polite kill all end in the same orderly way."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoInterrupted(BaseException):
    """Somebody asked the process to end; `exit_code` is what shells expect then."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """Within the block the first signal raises `DemoInterrupted`; further ones do not disturb the clearing
    up.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def interrupt(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise DemoInterrupted(number)

    for number in SIGNALS:
        # What a shell switched off (nohup) stays off.
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

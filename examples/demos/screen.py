"""The screen of a long run: numbered steps with the time, and a line that changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from trimtab.report.formats import fitted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EVERY_SECONDS = 5.0
"""Progress is a new line this often on streams whose lines cannot be rewritten (a pipe, a log)."""
SIDE_BY_SIDE = 118
"""Columns that two panels need."""


class DemoOutput:
    """Numbered steps on a stream.

    Parameters
    ----------
    stream
        Where to write.
    steps
        How many there will be.
    """

    def __init__(self, stream: TextIO, steps: int) -> None:
        self.stream = stream
        self._steps = steps
        self._step = 0
        self._started = time.monotonic()
        self._rewrites = stream.isatty()
        self._width = 0
        self._reported = 0.0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """Begin the next step."""
        self._step += 1
        self._clear()
        minutes, seconds = divmod(int(self.seconds), 60)
        self._write(f"\n[{minutes}:{seconds:02d}] {self._step}/{self._steps}  {text}\n")
        self._reported = time.monotonic()

    def print_lines(self, text: str = "") -> None:
        """Lines under the step."""
        self._clear()
        for line in text.splitlines() or [""]:
            self._write(f"            {line}".rstrip() + "\n")

    def wide(self, text: str) -> None:
        """Lines that need the whole width, with room around them."""
        self._clear()
        lines = fitted(text.rstrip("\n"), self.stream, margin=2).split("\n")
        self._write("\n" + "".join(f"  {line}".rstrip() + "\n" for line in lines) + "\n")

    def table(self, table: Table) -> None:
        """A table that needs the whole width, with room around it."""
        from rich.padding import Padding

        self._clear()
        self.console.print(Padding(table, (1, 0, 1, 2), expand=False))

    @property
    def console(self) -> Console:
        """A console; nothing is broken into lines where nobody knows the width (a pipe, a log)."""
        from rich.console import Console

        width = None if self.stream.isatty() else SIDE_BY_SIDE
        return Console(file=self.stream, highlight=False, width=width)

    def progress(self, text: str, *, last: bool = False) -> None:
        """Progress of the step; the line before is overwritten where that can be done."""
        if self._rewrites:
            line = f"            {text}"
            self.stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
            self.stream.flush()
            if last:
                self.stream.write("\n")
                self._width = 0
        elif last or time.monotonic() - self._reported >= EVERY_SECONDS:
            self.print_lines(text)
            self._reported = time.monotonic()

    def counted(self, done: int, of: int, why_not: str = "") -> None:
        """Progress as a number of a number, and why the last one does not count."""
        remark = f", once more: {why_not}" if why_not else ""
        self.progress(f"{bar(done / of)} {done} of {of}{remark}", last=done == of)

    def _clear(self) -> None:
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def bar(done: float, width: int = 24) -> str:
    """A bar for a share from 0 to 1."""
    full = round(min(1.0, max(0.0, done)) * width)
    return "█" * full + "░" * (width - full)

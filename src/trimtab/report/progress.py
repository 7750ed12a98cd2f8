"""Lines on standard error: progress and warnings, in trimtab's name."""

from __future__ import annotations

import sys


def print_progress(line: str) -> None:
    """One line of progress."""
    print(f"trimtab: {line}", file=sys.stderr, flush=True)


def warn(line: str) -> None:
    """One line that an operator should not miss."""
    print_progress(f"warning: {line}")


def announce_compilation() -> None:
    """Say once that the planner is being compiled, if it is: that takes long, and only the first time."""
    if "numba" not in sys.modules:
        return
    from numba.core import event

    class Announcement(event.Listener):
        announced = False

        def on_start(self, event: object) -> None:
            if not self.announced:
                self.announced = True
                print_progress("compiling the planner for this machine, once; later runs start at full speed")

        def on_end(self, event: object) -> None:
            pass

    event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]

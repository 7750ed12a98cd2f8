"""Says that a planner is being compiled, which takes long and happens once."""

from __future__ import annotations

import sys


def announce_compilation() -> None:
    """Say once that the planner is being compiled, if it is: that takes long, and only the first time."""
    from numba.core import event

    class Announcement(event.Listener):
        said = False

        def on_start(self, event: object) -> None:
            if not self.said:
                self.said = True
                print(
                    "trimtab: compiling the planner for this machine, once; later runs start at full speed",
                    file=sys.stderr,
                    flush=True,
                )

        def on_end(self, event: object) -> None:
            pass

    event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]

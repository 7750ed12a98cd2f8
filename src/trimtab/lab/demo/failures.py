"""Failed records by cause, and by what was going on: a move, or a machine without breath."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.lab.demo.machine import MachineLog
    from trimtab.lab.sandbox.truth import TruthTick

STRETCH_SECONDS = 10.0
MACHINE = "while this machine had no breath"
MOVE = "while the plan was carried out"
BOTH = "while the plan was carried out on a machine without breath"
NEITHER = "while neither machine nor move tell why"


def failures(
    ticks: Iterable[TruthTick], moving: tuple[float, float] | None, machine: MachineLog
) -> dict[str, dict[str, int]]:
    """Counts of failed records (and polls) by circumstance and by the name of their error.

    Parameters
    ----------
    ticks
        What the load's clients wrote down.
    moving
        Begin and end of the execution, seconds since the epoch; None without one.
    machine
        Its log. A tick belongs to a machine without breath if that lacked for a stretch between the sending
        of the first record that failed in it and its end, or if clients came to send more than a second late
        then.
    """
    known = list(ticks)
    late = [(tick.at, tick.at + tick.seconds) for tick in known if tick.late_records]
    found: dict[str, Counter[str]] = {}
    for tick in known:
        if not tick.causes:
            continue
        begin = min(tick.at, tick.waited_since or tick.at)
        end = tick.at + tick.seconds
        moved = moving is not None and begin <= moving[1] and moving[0] <= end
        starved = _starved(machine, begin, end) or any(a < end and begin < b for a, b in late)
        where = (BOTH if starved else MOVE) if moved else MACHINE if starved else NEITHER
        found.setdefault(where, Counter()).update(tick.causes)
    return {where: dict(causes.most_common()) for where, causes in found.items()}


def _starved(machine: MachineLog, begin: float, end: float) -> bool:
    """Looked at in stretches: a record may have waited for two minutes, through a pause of ten seconds."""
    pieces = max(1, round((end - begin) / STRETCH_SECONDS))
    length = (end - begin) / pieces
    return any(
        machine.between(begin + piece * length, begin + (piece + 1) * length).lacking
        for piece in range(pieces)
    )


def failures_lines(found: dict[str, dict[str, int]]) -> list[str]:
    """A line for each circumstance."""
    return [
        f"failed {where}: " + ", ".join(f"{count:,} {cause}" for cause, count in causes.items())
        for where, causes in found.items()
    ]

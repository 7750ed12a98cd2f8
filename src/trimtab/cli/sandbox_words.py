"""What the sandbox commands of both systems say alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.sandbox.clients import LoadSummary


def say(line: str) -> None:
    """A line of progress."""
    print(f"trimtab: {line}", file=sys.stderr, flush=True)


def stopped_text(name: str, *, stopped: bool) -> str:
    """What `down` did."""
    return (
        f"the sandbox {name} is stopped and its data deleted" if stopped else f"no sandbox {name} is running"
    )


def load_text(done: LoadSummary, what: str) -> str:
    """What a load did; `what` is the system's word for records."""
    late = f", {done.late_records} late by over a second" if done.late_records else ""
    return (
        f"{done.produced_records} of {done.planned_records} {what} produced in {done.seconds:.0f} s "
        f"({done.produced_bytes / 1e6:.0f} MB; {done.consumed_bytes / 1e6:.0f} MB consumed){late}; "
        f"{done.errors} errors"
    )


def command(system: str, name: str, verb: str) -> str:
    """The command line for a sandbox, which has its system's name if it was given no other."""
    return f"trimtab sandbox {system} {verb}" + ("" if name == system else f" --name {name}")


def next_steps(system: str, name: str, skew: str) -> str:
    """What to try after `up`; `skew` says what that command creates."""
    steps = [
        (command(system, name, "skew"), skew),
        (command(system, name, "load"), "produce and consume, until Ctrl-C"),
        (command(system, name, "down"), "stop it and delete its data"),
    ]
    width = max(len(line) for line, _ in steps)
    return "What to try next:\n" + "\n".join(f"  {line:{width}}  {what}" for line, what in steps)

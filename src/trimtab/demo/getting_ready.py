"""What both demos wait for before they measure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trimtab.sandbox.processes import running

if TYPE_CHECKING:
    from trimtab.demo.screen import Screen
    from trimtab.demo.turn import Pipeline
    from trimtab.sandbox.clients import Clients
    from trimtab.sandbox.processes import Process


def wait_until_ready(
    screen: Screen, load: Clients, pipeline: Pipeline, planner: Process, begun: float, seconds: float
) -> None:
    """Wait until brokers are warm, Spark has started, and the planner is compiled.

    Parameters
    ----------
    load
        Must go on meanwhile.
    begun, seconds
        Since when (monotonic) and how long brokers warm up.

    Raises
    ------
    SandboxError
        If a client of the load has ended.
    """
    while waited_for := _not_ready(pipeline, planner, seconds - (time.monotonic() - begun)):
        load.require_running()
        screen.progress(f"{time.monotonic() - begun:.0f} s: {waited_for}")
        time.sleep(0.1)
    screen.progress(f"warmed up in {time.monotonic() - begun:.0f} s", last=True)


def _not_ready(pipeline: Pipeline, planner: Process, seconds: float) -> str:
    """What is still being waited for; empty when all is there."""
    busy = [
        "brokers warm up" if seconds > 0 else "",
        "" if pipeline.started else "Spark starts",
        "the planner is compiled (once on this machine)" if running(planner) else "",
    ]
    return ", ".join(filter(None, busy))

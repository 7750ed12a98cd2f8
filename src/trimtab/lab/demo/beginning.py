"""The beginning of the demo: a cluster under load, watched, with Spark and the planner ready."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trimtab.lab.demo.machine import MachineLog
from trimtab.lab.demo.turn import DemoPipeline
from trimtab.lab.demo.warm_up import begin_warm_up
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.lab.sandbox.processes import end, running

if TYPE_CHECKING:
    import contextlib

    from trimtab.lab.demo.part import Demo, PlanT, ReceiptT, SandboxT, SnapshotT
    from trimtab.lab.demo.sampling import SampledSandbox
    from trimtab.lab.demo.screen import DemoOutput
    from trimtab.lab.sandbox.processes import SandboxProcess


def begin(
    stack: contextlib.ExitStack, screen: DemoOutput, demo: Demo[SandboxT, SnapshotT, PlanT, ReceiptT]
) -> tuple[SampledSandbox[SandboxT], DemoPipeline, MachineLog]:
    """Cluster, topics, clients; Spark and the planner get ready while the brokers warm up."""
    screen.step(f"Start a real {demo.texts.system} cluster: {demo.texts.cluster}")
    planner = begin_warm_up(demo.balancer)
    stack.callback(end, [planner], 0.0)
    sandbox = demo.start(screen)
    stack.enter_context(sandbox)
    screen.step(
        f"Create topics where {demo.texts.system} itself puts them, and let producers and consumers work"
    )
    demo.create_topics(screen, sandbox)
    folder = sandbox.state.folder
    load = stack.enter_context(SandboxLoad.start(sandbox.state.connection, demo.workload, folder / "load"))
    screen.print_lines(demo.load_text())
    pipeline = DemoPipeline(folder / "spark", demo.pipeline_settings())
    stack.callback(pipeline.close)
    begun = time.monotonic()
    world = stack.enter_context(demo.sampled(sandbox, load))
    machine = stack.enter_context(MachineLog().running())
    _wait_until_ready(screen, load, pipeline, planner, begun, demo.times.warm_up_seconds)
    return world, pipeline, machine


def _wait_until_ready(
    screen: DemoOutput,
    load: SandboxLoad,
    pipeline: DemoPipeline,
    planner: SandboxProcess,
    started: float,
    seconds: float,
) -> None:
    """Wait until brokers are warm, Spark has started, and the planner is compiled.

    Parameters
    ----------
    load
        Must go on meanwhile.
    started, seconds
        Since when (monotonic) and how long brokers warm up.

    Raises
    ------
    SandboxError
        If a client of the load has ended.
    """
    while waited_for := _not_ready(pipeline, planner, seconds - (time.monotonic() - started)):
        load.require_running()
        screen.progress(f"{time.monotonic() - started:.0f} s: {waited_for}")
        time.sleep(0.1)
    screen.progress(f"warmed up in {time.monotonic() - started:.0f} s", last=True)


def _not_ready(pipeline: DemoPipeline, planner: SandboxProcess, seconds: float) -> str:
    """The parts that are still being waited for; empty when all is there."""
    busy = [
        "brokers warm up" if seconds > 0 else "",
        "" if pipeline.started else "Spark starts",
        "the planner is compiled (once on this machine)" if running(planner) else "",
    ]
    return ", ".join(filter(None, busy))

"""The experiment's cluster: the recorded load on a recorded placement, sampled every eight seconds."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from demos.replicas import balanced_capacity, watched
from demos.sampling import SampledSandbox as World
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.placement import SandboxPlacement
from trimtab.lab.sandbox.kafka.runtime import LOAD_DRIVEN_CPU
from trimtab.lab.sandbox.kafka.topics import PROMPT_RETENTION, preload_topics
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE

INTERVAL_SECONDS = 8.0
CPU_CORES = 0.24
"""Declared for each broker, so that the default placement's busiest one comes near or above θ."""
DISK_SHARE = 0.88
"""Of twice the mean broker's data: level disks are 57 % full, and the default passes θ somewhere."""
PROPERTIES = {**LOAD_DRIVEN_CPU, **PROMPT_RETENTION}


def say(line: str) -> None:
    """A line of progress."""
    print(f"  {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def loaded_cluster(
    workload: KafkaWorkload,
    placement: SandboxPlacement,
    *,
    interval_seconds: float = INTERVAL_SECONDS,
    absent: tuple[int, ...] = (),
    disks: tuple[float, ...] = (1.0,) * 6,
    prepare: Callable[[KafkaSandbox], None] = lambda _: None,
) -> Iterator[World]:
    """Six brokers and a controller with the load running on them, stopped and deleted afterwards.

    Parameters
    ----------
    workload
        The load.
    placement
        Where its replicas go.
    absent
        Brokers that are declared but not started yet.
    disks
        Size of each broker's disk, as a multiple of the usual one.
    prepare
        Done to the empty cluster.
    """
    with KafkaSandbox.start(6, absent=absent, properties=PROPERTIES, print_progress=say) as sandbox:
        truth = sandbox.state.folder / "load"
        prepare(sandbox)
        preload_topics(sandbox.connection, workload, placement, say)
        capacity = balanced_capacity(workload, len(sandbox.brokers), CPU_CORES)
        disk_bytes = usual_disk_bytes(workload)
        own = {
            str(node.id): {"disk_bytes": size * disk_bytes}
            for node, size in zip(sandbox.brokers, disks, strict=True)
        }
        capacity = replace(capacity, brokers=own)
        with (
            SandboxLoad.start(sandbox.connection, workload, truth) as load,
            watched(
                sandbox,
                load,
                Lake(sandbox.state.folder / "lake", PIPELINE),
                interval_seconds,
                capacity,
                truth,
            ) as world,
        ):
            yield world


def usual_disk_bytes(workload: KafkaWorkload, brokers: int = 6) -> float:
    """The disk of a broker, declared."""
    return DISK_SHARE * (balanced_capacity(workload, brokers, CPU_CORES).disk_bytes or 0.0)


def scratch(world: World) -> Path:
    """Where Spark may spill."""
    folder = world.sandbox.state.folder / "spark"
    folder.mkdir(exist_ok=True)
    return folder

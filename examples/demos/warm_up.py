"""Compile planners before they are needed: `python examples/demos/warm_up.py [replicas] [bundles]`.

Compiled code is cached, so that this takes a minute or two on a new machine and seconds from then on. `spark`
is the archive from which Spark starts; `requests` compiles what only other settings of `replicas` need, for
the tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from trimtab.balancers import BALANCERS, warm_up_planner
from trimtab.lab.sandbox.processes import SandboxProcess, spawn
from trimtab.model.replicas.settings import DEFAULT_GOALS, ReplicasSettings


def begin_warm_up(balancer: str) -> SandboxProcess:
    """Warm a balancer's planner up in a process of its own, which ends with us."""
    command = [sys.executable, __file__, balancer]
    return spawn(command, Path.cwd(), Path(os.devnull), outlive=False)


def warm_up_requests() -> None:
    """Plans of topics, replication factors, brokers that are emptied, and hosts of several brokers."""
    from trimtab.plan.replicas.trim import warm_up

    warm_up(
        (
            ReplicasSettings(goals=(*DEFAULT_GOALS, "topic_replicas", "topic_leaders")),
            ReplicasSettings(replication_factor={"t": 3}),
            ReplicasSettings(drain=(1,)),
            ReplicasSettings(demote=(1, 2, 3)),
        )
    )
    warm_up((ReplicasSettings(goals=(*DEFAULT_GOALS, "host_load")),), hosts=("a", "b", "b"))


def warm_up_spark() -> None:
    """An archive of Spark's classes, for all that start it from now on."""
    from trimtab.observe.spark.session import make_archive

    make_archive()


WARM_UPS: dict[str, Callable[[], None]] = {
    **{name: partial(warm_up_planner, name) for name, one in BALANCERS.items() if one.warm_up is not None},
    "requests": warm_up_requests,
    "spark": warm_up_spark,
}

if __name__ == "__main__":
    for asked in sys.argv[1:] or WARM_UPS:
        WARM_UPS[asked]()

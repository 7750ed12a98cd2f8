"""The systems that sandboxes run, a row each, for the commands that are alike for all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from trimtab.lab.sandbox.client_task import WorkloadPlan
from trimtab.lab.sandbox.state import State

Workload = TypeVar("Workload", bound=WorkloadPlan)


@dataclass(frozen=True)
class SandboxSystem(Generic[State]):
    """One system.

    Parameters
    ----------
    state
        Of its sandboxes.
    start
        Starts one that outlives this process, by options of its own, `folder` and `say`.
    describe
        A sandbox as a few lines for its user.
    steps
        What to try next: a command of the sandbox, and its purpose.
    """

    state: type[State]
    start: Callable[..., State]
    describe: Callable[[State], str]
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BrokerSystem(SandboxSystem[State], Generic[State, Workload]):
    """A system of brokers, with a load of topics.

    Parameters
    ----------
    skewed
        The load by a seed and the rate that its command takes.
    read_workload
        The load of a file.
    skew
        Creates what the load needs, by options of its own; returns a line on what it did.
    present_topics
        Those topics of a load that exist.
    records
        Its word for records.
    """

    skewed: Callable[[State, int, float], Workload]
    read_workload: Callable[[Path], Workload]
    skew: Callable[..., str]
    present_topics: Callable[[State, Workload], Collection[str]]
    records: str


SYSTEMS: Final = {
    "kafka": "trimtab.lab.sandbox.kafka.system:KAFKA",
    "pulsar": "trimtab.lab.sandbox.pulsar.system:PULSAR",
    "queues": "trimtab.lab.sandbox.queues.system:QUEUES",
    "masters": "trimtab.lab.sandbox.masters.system:MASTERS",
}


def system_of(name: str) -> Any:
    """The system of a name, a `SandboxSystem`, imported now."""
    module, _, value = SYSTEMS[name].partition(":")
    found: SandboxSystem[Any] = getattr(import_module(module), value)
    return found


def command(system: str, name: str, verb: str) -> str:
    """The command line for a sandbox, which has its system's name if it was given no other."""
    return f"trimtab sandbox {system} {verb}" + ("" if name == system else f" --name {name}")

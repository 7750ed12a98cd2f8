"""The systems of sandboxes, and sandboxes by name: start, find and stop."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from trimtab.jars import ProgressCallback, exclusive_lock
from trimtab.lab.sandbox.clients import WorkloadPlan
from trimtab.lab.sandbox.state import State, read_state, sandboxes_folder, stop_sandbox
from trimtab.model.errors import SandboxError

Workload = TypeVar("Workload", bound=WorkloadPlan)


@dataclass(frozen=True)
class SandboxSystem(Generic[State]):
    """One system.

    Parameters
    ----------
    state
        Of its sandboxes.
    start
        Starts one that outlives this process, by the options of its `Sandbox.start`.
    describe
        A sandbox as a few lines for its user.
    steps
        What to try next: a command of the sandbox, and its purpose.
    verbs
        Commands of this system alone, by name: each takes the state, and options of its own.
    """

    state: type[State]
    start: Callable[..., State]
    describe: Callable[[State], str]
    steps: tuple[tuple[str, str], ...]
    verbs: Mapping[str, Callable[..., Any]] = field(default_factory=dict, kw_only=True)


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
    """The command line for a sandbox; `--name` is omitted for the default name."""
    return f"trimtab sandbox {system} {verb}" + ("" if name == system else f" --name {name}")


def start_named(
    name: str, kind: type[State], start: Callable[[Path], State], print_progress: ProgressCallback
) -> tuple[State, bool]:
    """The running sandbox of a name, started now unless it runs already; and whether it was started now.

    Parameters
    ----------
    name
        Of the sandbox.
    kind
        The state of its system.
    start
        Starts one in a folder, detached.
    print_progress
        Takes lines of progress.

    Raises
    ------
    SandboxError
        If the name cannot be one or is that of another system's sandbox, and as `start`.
    """
    with _turn(name):
        state = running_named(name, kind)
        if state is not None:
            print_progress(f"the sandbox {name} is running already; its own settings hold")
            return state, False
        leftover = read_state(_folder(name), kind)
        if leftover is not None:
            print_progress(f"clearing away the sandbox {name}, which ended without being stopped")
            stop_sandbox(leftover)
        return start(_folder(name)), True


def stop_named(name: str, kind: type[State], print_progress: ProgressCallback) -> bool:
    """Stop a sandbox and delete its data; False when there was none."""
    with _turn(name):
        state = read_state(_folder(name), kind)
        if state is None:
            return False
        print_progress(f"stopping {len(state.alive)} processes")
        stop_sandbox(state)
        return True


def running_named(name: str, kind: type[State]) -> State | None:
    """The sandbox of a name if it runs."""
    state = read_state(_folder(name), kind)
    return None if state is None or state.stale else state


def known_named(name: str, kind: type[State]) -> State | None:
    """The sandbox of a name if it runs, or if its processes can be started again on their data."""
    state = read_state(_folder(name), kind)
    return None if state is None or state.left or not (state.alive or kind.restarts) else state


def require_named(name: str, kind: type[State], *, runs: bool = True) -> State:
    """The sandbox of a name.

    Parameters
    ----------
    runs
        Whether one of its processes must run; else as `known_named`.

    Raises
    ------
    SandboxError
        If there is none.
    """
    state = known_named(name, kind)
    if state is None:
        raise SandboxError(f"no sandbox {name} is running: start one with trimtab sandbox {kind.system} up")
    if runs and not state.alive:
        again = command(kind.system, name, "restart 0")
        raise SandboxError(f"no process of the sandbox {name} runs: start one again with {again}")
    return state


def _folder(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", name) or name.startswith("run-"):
        raise SandboxError(f"{name!r} cannot name a sandbox: use letters, digits, dots and dashes")
    return sandboxes_folder() / name


@contextmanager
def _turn(name: str) -> Iterator[None]:
    """Allow one command at a time to start or stop a sandbox."""
    with exclusive_lock(_folder(name).with_name(f"{name}.lock")):
        yield

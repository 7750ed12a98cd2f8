"""Sandboxes with a name, which outlive the command that started them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.jars.fetch import ProgressCallback, exclusive_lock
from trimtab.lab.sandbox.state import State, read_state, sandboxes_folder
from trimtab.lab.sandbox.systems import command
from trimtab.lab.sandbox.teardown import stop
from trimtab.model.errors import SandboxError


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
            stop(leftover)
        return start(_folder(name)), True


def stop_named(name: str, kind: type[State], print_progress: ProgressCallback) -> bool:
    """Stop a sandbox and delete its data; False when there was none."""
    with _turn(name):
        state = read_state(_folder(name), kind)
        if state is None:
            return False
        print_progress(f"stopping {len(state.alive)} processes")
        stop(state)
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
    """Starting and stopping one sandbox is done by one command at a time."""
    with exclusive_lock(_folder(name).with_name(f"{name}.lock")):
        yield

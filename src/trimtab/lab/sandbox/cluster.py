"""A running sandbox, whatever system it is of: its state on disk, its processes, its end."""

from __future__ import annotations

import os
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from trimtab.lab.sandbox.node_log import exit_reason
from trimtab.lab.sandbox.processes import SandboxProcess, kill, running, spawn, wait_for_starts
from trimtab.lab.sandbox.requirements import require_resources
from trimtab.lab.sandbox.state import State, sandboxes_folder
from trimtab.lab.sandbox.teardown import stop, sweep
from trimtab.model.errors import SandboxError


class SandboxNode(Protocol):
    """One declared process of a cluster."""

    @property
    def id(self) -> int:
        """Its number within the sandbox, which its folder is named after."""
        ...

    @property
    def role(self) -> str:
        """Its role, such as `broker`."""
        ...


NodeT = TypeVar("NodeT", bound=SandboxNode)
Key = TypeVar("Key", int, str)


class Sandbox(Generic[State, NodeT, Key]):
    """A running sandbox cluster; leaving its `with` block stops it and deletes its data.

    Attributes
    ----------
    state
        Nodes, ports and processes, as `sandbox.json` in the sandbox's folder has them.
    """

    noun: ClassVar[str]
    ready_seconds: ClassVar[float]

    def __init__(self, state: State) -> None:
        self.state = state
        self._dismissed: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    @abstractmethod
    def _declared(self) -> dict[Key, NodeT]:
        """The nodes that can be killed and started again, by the system's own name for them."""

    @abstractmethod
    def _command(self, node: NodeT) -> list[str]:
        """The command line of a node."""

    @abstractmethod
    def _title(self, node: NodeT) -> str:
        """A node as errors name it."""

    @abstractmethod
    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """Wait until every broker that was started, and not killed since, serves.

        Raises
        ------
        SandboxError
            If one ends instead, or time is up.
        """

    def cpu_seconds(self) -> dict[Key, float]:
        """Processor time that each living broker has used since its start."""
        used = {
            key: self.state.processes[node.id].cpu_seconds()
            for key, node in self._declared.items()
            if node.role == "broker" and node.id in self.state.processes
        }
        return {key: seconds for key, seconds in used.items() if seconds is not None}

    def kill(self, key: Key) -> None:
        """Kill a node with -9; the others notice when its session ends, some seconds later."""
        kill([self._dismiss(key)])

    def restart(self, key: Key) -> None:
        """Start a declared node that does not run, on its old folder and ports; does not wait for it."""
        node = self._node(key)
        if node.id in self.state.alive:
            raise SandboxError(f"{self.noun} {key} runs already: kill it first")
        self._dismissed.discard(node.id)
        self._spawn(node, outlive=self.state.owner is None)

    def stop(self) -> None:
        """Stop everything and delete the sandbox's data; may be called again."""
        wait_for_starts()
        stop(self.state)

    def _node(self, key: Key) -> NodeT:
        known = self._declared
        if key not in known:
            raise SandboxError(
                f"{self.noun} {key} is not declared in this sandbox: it has {', '.join(map(str, known))}"
            )
        return known[key]

    def _process(self, key: Key) -> SandboxProcess:
        node = self._node(key)
        try:
            return self.state.processes[node.id]
        except KeyError:
            raise SandboxError(f"{self.noun} {key} was not started here: start it first") from None

    def _dismiss(self, key: Key) -> SandboxProcess:
        """The process of a node that is to end: that it does is no fault from now on."""
        process = self._process(key)
        self._dismissed.add(self._node(key).id)
        return process

    def _spawn(self, node: NodeT, *, outlive: bool) -> None:
        """Start a node's process in its folder; without `outlive` it dies with ours."""
        home = self.state.node_folder(node.id)

        def keep(process: SandboxProcess) -> None:
            self._save(self.state.with_process(node.id, process))

        spawn(self._command(node), home, home / "out.log", outlive=outlive, keep=keep)

    def _save(self, state: State) -> None:
        self.state = state
        state.write()

    @contextmanager
    def _starting(self, *, detached: bool) -> Iterator[None]:
        """Around the start of all nodes: the folder is made, they serve at the end, or nothing is left."""
        try:
            self.state.folder.mkdir(parents=True)
            self.state.write()
            yield
            self.wait_until_serving()
            if detached:
                self._save(replace(self.state, owner=None))
        except BaseException:
            self.stop()
            raise

    def _expected(self) -> list[tuple[Key, NodeT]]:
        """Brokers that were started and not killed since."""
        started = self.state.processes.keys() - self._dismissed
        known = self._declared.items()
        return [(key, node) for key, node in known if node.role == "broker" and node.id in started]

    def _wait(self, missing: Callable[[], Collection[Key]], timeout_seconds: float | None) -> None:
        """Wait until no broker is missing; errors as in `wait_until_serving`."""
        patience = self.ready_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + patience
        while waiting := missing():
            self._require_running()
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"brokers {', '.join(map(str, waiting))} do not serve after {patience:g} s: close what "
                    "else keeps the processors busy, or start fewer brokers"
                )
            time.sleep(0.1)

    @abstractmethod
    def _nodes(self) -> Collection[NodeT]:
        """All declared nodes, those below the brokers too."""

    def _require_running(self) -> None:
        for node in self._nodes():
            process = self.state.processes.get(node.id)
            if process is not None and node.id not in self._dismissed and not running(process):
                raise SandboxError(
                    exit_reason(self._title(node), self.state.node_folder(node.id) / "out.log")
                )


def place_for(what: str, memory_mb: int, folder: Path | None) -> Path:
    """A folder for a new sandbox, by default one that no other uses, on a machine that has room for it.

    Leftovers of sandboxes whose owners ended without stopping them are cleared away. Errors as in
    `require_resources`, which takes `what` and `memory_mb`.
    """
    sweep()
    folder = folder or sandboxes_folder() / f"run-{os.getpid()}-{secrets.token_hex(3)}"
    require_resources(what, memory_mb, folder)
    return folder

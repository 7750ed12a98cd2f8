"""A running sandbox, whatever system it is of: its state on disk, its processes, its end."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Generic, Self

from trimtab.sandbox.processes import spawn
from trimtab.sandbox.state import State
from trimtab.sandbox.teardown import stop


class Sandbox(Generic[State]):
    """A running sandbox cluster; leaving its `with` block stops it and deletes its data.

    Attributes
    ----------
    state
        Nodes, ports and processes, as `sandbox.json` in the sandbox's folder has them.
    """

    def __init__(self, state: State) -> None:
        self.state = state

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop everything and delete the sandbox's data; may be called again."""
        stop(self.state)

    def _spawn_process(self, node: int, command: list[str], home: Path, *, outlive: bool) -> None:
        """Start a node's process in its folder; without `outlive` it dies with ours."""
        process = spawn(command, home, home / "out.log", outlive=outlive)
        self._save(self.state.with_process(node, process))

    def _save(self, state: State) -> None:
        self.state = state
        state.write()

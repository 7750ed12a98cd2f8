"""What a journal needs of a level: its steps and states as plain JSON values, and back."""

from collections.abc import Collection
from typing import Any, Protocol

from trimtab.act.execution.state import AnyExecution, AnyRecord


class Codec(Protocol):
    """One level's steps and states as JSON; a module of functions will do."""

    @property
    def PROGRESS(self) -> Collection[str]:
        """Fields of a record that change at every look; they alone are not worth a write."""
        ...

    def step_to_json(self, step: Any, /) -> dict[str, Any]:
        """A step, all of it."""
        ...

    def record_to_json(self, record: Any, /) -> dict[str, Any]:
        """How far a step is, without the step."""
        ...

    def record_from_json(self, step: dict[str, Any], record: dict[str, Any], /) -> AnyRecord:
        """The inverse of `step_to_json` and `record_to_json`."""
        ...

    def head_to_json(self, state: Any, /) -> dict[str, Any]:
        """What is to be kept of a state besides its steps."""
        ...

    def state_from_json(self, head: dict[str, Any], records: Any, /) -> AnyExecution:
        """The state that a journal holds; its next event must be `Resumed`."""
        ...

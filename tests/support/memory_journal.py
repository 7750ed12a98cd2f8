"""A journal in memory; what is written goes through JSON, so a crash loses what JSON loses."""

import json
from typing import Any

from trimtab.act.execution.state import Execution
from trimtab.act.journal import Journal
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.state import ReplicasExecutionState

CODEC = EXECUTOR.codec


class MemoryJournal(Journal):
    """Keeps the last state written, as text."""

    def __init__(self, state: ReplicasExecutionState) -> None:
        self.writes = 0
        self.requests: list[tuple[str, str]] = []
        self._text = _text(state)

    def write(
        self,
        execution: int,
        before: Execution[Any, Any],
        after: Execution[Any, Any],
        event: str,
        order: str,
    ) -> bool:
        """See `trimtab.act.journal.Journal.write`."""
        assert isinstance(after, ReplicasExecutionState)
        self._text = _text(after)
        self.writes += 1
        return True

    def pop_requests(self, execution: int) -> list[tuple[str, str]]:
        """See `trimtab.act.journal.Journal.pop_requests`."""
        taken, self.requests = self.requests, []
        return taken

    def state(self, execution: int = 1) -> ReplicasExecutionState:
        """As a new process reads it."""
        document = json.loads(self._text)
        records = tuple(CODEC.record_from_json(s, r) for s, r in document["records"])
        state = CODEC.state_from_json(document["head"], records)
        assert isinstance(state, ReplicasExecutionState)
        return state


def _text(state: ReplicasExecutionState) -> str:
    records = [[CODEC.step_to_json(r), CODEC.record_to_json(r)] for r in state.records]
    return json.dumps({"head": CODEC.head_to_json(state), "records": records})

"""Steps and states as plain JSON values for the journal: fields of the balancer's own types, by msgspec."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from trimtab.act.execution.state import AnyExecution, AnyRecord
from trimtab.model.errors import ActError

BALANCER = "balancer"
"""Key of an execution's head; executions written before there was a second level have none."""


@dataclass(frozen=True)
class StateCodec:
    """One balancer's steps and states as JSON, and back.

    Attributes
    ----------
    state, record
        The balancer's types.
    progress
        Fields of a record that change at every look; they alone are not worth a write.
    """

    state: type[AnyExecution]
    record: type[Any]
    progress: frozenset[str] = frozenset()

    def step_to_json(self, record: AnyRecord) -> dict[str, Any]:
        """A step, all of it."""
        return dict(_plain(record.step))

    def record_to_json(self, record: AnyRecord) -> dict[str, Any]:
        """The progress of a step, without the step."""
        names = (one.name for one in fields(self.record) if one.name != "step")
        return {name: _plain(getattr(record, name)) for name in names}

    def record_from_json(self, step: Mapping[str, Any], record: Mapping[str, Any]) -> AnyRecord:
        """The inverse of `step_to_json` and `record_to_json`."""
        read: AnyRecord = msgspec.convert({**record, "step": step}, self.record)
        return read

    def head_to_json(self, state: AnyExecution) -> dict[str, Any]:
        """The kept part of a state without its steps, and its level."""
        names = (one.name for one in fields(self.state.persisted_type) if one.name != "records")
        return {BALANCER: state.balancer} | {name: _plain(getattr(state, name)) for name in names}

    def state_from_json(self, head: Mapping[str, Any], records: tuple[AnyRecord, ...]) -> AnyExecution:
        """The state that a journal holds; its next event must be `Resumed`."""
        kept = msgspec.convert(head, self.state.persisted_type)
        return self.state.of(replace(kept, records=records), now=0.0)

    def must_write(self, old: AnyRecord, new: AnyRecord) -> bool:
        """True if more has changed of a record than its progress."""
        before, after = self.record_to_json(old), self.record_to_json(new)
        return any(before[name] != after[name] for name in before if name not in self.progress)


@dataclass(frozen=True)
class StateCodecs:
    """The codecs of all balancers that a journal may hold.

    Attributes
    ----------
    by_balancer
        Balancer -> its codec.
    unnamed
        Balancer of the executions that name none.
    """

    by_balancer: Mapping[str, StateCodec]
    unnamed: str

    def of(self, balancer: str) -> StateCodec:
        """The codec of a balancer.

        Raises
        ------
        ActError
            If this trimtab knows no such balancer.
        """
        if balancer not in self.by_balancer:
            raise ActError(
                f"the execution is of balancer {balancer}, this trimtab carries out "
                f"{', '.join(self.by_balancer)}: "
                "use the trimtab that began it"
            )
        return self.by_balancer[balancer]


def _plain(value: object) -> Any:
    # In order, so that equal sets are equal text.
    return msgspec.to_builtins(value, order="deterministic")

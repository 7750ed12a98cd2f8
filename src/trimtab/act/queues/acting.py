"""The level `queues` as those who carry plans out see it: a plan held against what is published."""

from __future__ import annotations

from typing import Final

from trimtab.act.acting import Acting, Comparison, Entry, Prepared, beginning, steps_left
from trimtab.act.execution.codec import Codec
from trimtab.act.execution.published import standing
from trimtab.act.queues.machine import QueuesMachine
from trimtab.act.queues.settings import PublishSettings
from trimtab.act.queues.state import (
    PublishingState,
    PublishRecord,
    PublishStep,
    QueuesPort,
    Seen,
    Table,
    Value,
)
from trimtab.model.errors import ActError
from trimtab.model.queues.plan import PublicationOutcome, QueuesPlan, QueuesReceipt


def look(port: QueuesPort, plan: QueuesPlan) -> tuple[str, Seen]:
    """See what is published, of the set of queues that the plan is for."""
    seen = port.observe()
    if plan.snapshot.cluster != seen.name:
        raise ActError(
            f"the plan is for queues {plan.snapshot.cluster!r}, and the settings name {seen.name!r}: "
            "correct redis.name, or apply another plan"
        )
    return seen.cluster, seen


def prepare(plan: QueuesPlan, seen: Seen, rebase: bool) -> Prepared:
    """What is left of a plan; one whose weights were published before is a way back, whatever came since."""
    after = {f"{one.kind}/{one.name}": one.after for one in plan.assignments}
    before = {f"{one.kind}/{one.name}": one.before for one in plan.assignments}
    wanted: dict[str, Value | None] = dict(after)
    back = seen.version != plan.version and any(
        _weights(table) == _weights(after)
        for version, table in seen.history.items()
        if version != seen.version
    )
    if back:
        wanted |= {key: None for key in _weights(seen.table) if key not in after}
    now = seen.table
    stand = {key: standing(now.get(key), before.get(key), value, back) for key, value in wanted.items()}
    changed = tuple(
        f"{key} is {now.get(key, 'not published')} by now (version {seen.version}), "
        f"and was {before.get(key) or 'not published'} when the plan was made (version {plan.version})"
        for key, how in stand.items()
        if how == "changed"
    )
    comparison = Comparison(stand, changed)
    comparison.refuse_if_changed("weights and settings have been published anew", rebase=rebase)
    orders = {f"{move.kind}/{move.name}": move.order for move in plan.moves}
    to_do = [key for key, how in stand.items() if how == "to do"]
    steps = tuple(
        PublishStep(number, key, wanted[key], orders.get(key, 0)) for number, key in enumerate(to_do, 1)
    )
    return Prepared(plan, seen.cluster, seen, comparison, steps)


def _weights(table: Table) -> dict[str, Value]:
    return {key: value for key, value in table.items() if key.startswith("weight/")}


def warnings(port: QueuesPort, prepared: Prepared, settings: PublishSettings, expected: object) -> list[str]:
    """A way back is said to be one."""
    newer = prepared.seen.version - prepared.plan.version
    if newer > 0 and prepared.steps and not prepared.comparison.differences:
        return [
            f"version {prepared.seen.version} is published, and the plan was made at version "
            f"{prepared.plan.version}: it takes back what came since"
        ]
    return []


def receipt(entry: Entry, state: PublishingState, sense: object) -> QueuesReceipt:
    """The receipt: what is published, under which version."""
    outcomes = tuple(
        PublicationOutcome(
            kind="publish",
            moves=(one.step.order,) if one.step.order else (),
            name=one.step.key,
            after=one.step.after,
            version=state.version or None,
            **one.told(),
        )
        for one in state.records
    )
    return QueuesReceipt(outcomes=outcomes, **entry.receipt_fields(state))


ACTING: Final[Acting[QueuesPort, QueuesPlan, PublishSettings, PublishingState]] = Acting(
    codec=Codec(PublishingState, PublishRecord),
    settings=PublishSettings,
    look=look,
    prepare=prepare,
    forecast=steps_left,
    warnings=warnings,
    new_execution=beginning(PublishingState, PublishRecord),
    machine=QueuesMachine,
    receipt=receipt,
)

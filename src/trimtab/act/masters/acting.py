"""The level `masters` as those who carry plans out see it: a plan held against who is master now."""

from __future__ import annotations

from typing import Final

from trimtab.act.acting import Acting, Comparison, Entry, Prepared, beginning, steps_left
from trimtab.act.execution.codec import Codec
from trimtab.act.execution.published import standing
from trimtab.act.masters.machine import MastersMachine
from trimtab.act.masters.settings import TakeoverSettings
from trimtab.act.masters.state import MastersPort, Seen, TakeoverRecord, TakeoverState, TakeoverStep
from trimtab.model.errors import ActError
from trimtab.model.masters.plan import MastersPlan, MastersReceipt, TakeoverOutcome


def look(port: MastersPort, plan: MastersPlan) -> tuple[str, Seen]:
    """See who is master of the groups that the plan moves."""
    seen = port.observe([move.group for move in plan.moves])
    if seen.name and plan.snapshot.cluster != seen.name:
        raise ActError(
            f"the plan is for {plan.snapshot.cluster!r}, and the connection leads to {seen.name!r}: name the "
            "other cluster, or apply another plan"
        )
    return seen.cluster, seen


def prepare(plan: MastersPlan, seen: Seen, rebase: bool) -> Prepared:
    """What is left of a plan: masterships that are where it found them, and not where it wants them."""
    stand: dict[str, str] = {}
    changed = []
    for move in plan.moves:
        now = seen.masters.get(move.group)
        how = standing(now, move.source, move.target)
        if how == "changed" and now is None and move.group in seen.masters:
            how = "to do"  # nobody is master: what the plan wants is as good as ever
        stand[move.group] = how
        if how == "changed":
            who = f"node {now}" if move.group in seen.masters else "not there any more"
            changed.append(f"{move.group} is led by {who}, and was by node {move.source} in the plan")
    comparison = Comparison(stand, tuple(changed))
    comparison.refuse_if_changed("masterships have changed", rebase=rebase)
    to_do = [move for move in plan.moves if stand[move.group] == "to do"]
    steps = tuple(
        TakeoverStep(number, move.group, move.source, move.target, move.order)
        for number, move in enumerate(to_do, 1)
    )
    return Prepared(plan, seen.cluster, seen, comparison, steps)


def warnings(
    port: MastersPort, prepared: Prepared, settings: TakeoverSettings, expected: object
) -> list[str]:
    """Takeovers that would have to wait are told beforehand."""
    seen, found = prepared.seen, []
    for step in prepared.steps:
        if step.target not in seen.able.get(step.group, frozenset()):
            why = seen.hindered.get(step.group, f"node {step.target} is down or behind")
            found.append(f"{step.group}: {why} now; it is waited for, {settings.broker_grace_seconds:g} s")
    return found


def receipt(entry: Entry, state: TakeoverState, sense: object) -> MastersReceipt:
    """The receipt: which mastership went where."""
    outcomes = tuple(
        TakeoverOutcome(
            kind="takeover",
            moves=(one.step.order,),
            group=one.step.group,
            target=one.step.target,
            **one.told(),
        )
        for one in state.records
    )
    return MastersReceipt(outcomes=outcomes, **entry.receipt_fields(state))


ACTING: Final[Acting[MastersPort, MastersPlan, TakeoverSettings, TakeoverState]] = Acting(
    codec=Codec(TakeoverState, TakeoverRecord),
    settings=TakeoverSettings,
    look=look,
    prepare=prepare,
    forecast=steps_left,
    warnings=warnings,
    new_execution=beginning(TakeoverState, TakeoverRecord),
    machine=MastersMachine,
    receipt=receipt,
)

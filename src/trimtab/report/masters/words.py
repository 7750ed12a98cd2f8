"""The words of the level `masters`: nodes, groups, and takeovers with what clients feel of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.masters.plan import MastersPlan, Takeover
from trimtab.model.masters.snapshot import NOBODY, RESOURCES, MastersSnapshot
from trimtab.report.execution_text import comparison_lines, progress_line, text_of_receipt
from trimtab.report.formats import counted, duration_text
from trimtab.report.glance_text import document_of_glance, text_of_glance
from trimtab.report.plan_text import load_lines, move_lines, prediction_lines, text_of_plan
from trimtab.report.words import Words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.act.acting import Prepared
    from trimtab.act.masters.settings import TakeoverSettings
    from trimtab.act.masters.state import TakeoverState, TakeoverStep
    from trimtab.model.masters.plan import MastersReceipt, TakeoverOutcome
    from trimtab.observe.collect.paxos.glance import MastersGlance

NODE: Final = "node"
TAKEOVER: Final = "takeover"
"""The nouns of this level for what has load, and for what a plan does one by one."""
GOALS: Final = {
    "nobody": "has no master",
    "dead": "its master does not answer",
    "drain": "its node is being emptied",
    "epsilon": "evens loads",
    "order": "makes room in a swap",
}


def plan_text(plan: MastersPlan, snapshot: MastersSnapshot | None = None, *, all_moves: bool = False) -> str:
    """A plan of this level, with the load of its snapshot where that is at hand."""
    seen = None if snapshot is None else snapshot.as_asked(plan.settings)
    return text_of_plan(
        plan,
        () if seen is None else _load(seen),
        _cost(plan),
        _bound(plan),
        _prediction(plan, seen),
        move_lines(
            plan.moves,
            purpose=lambda move: GOALS.get(move.reason.goal, move.reason.goal),
            together=_together,
            cells=_cells,
            all_moves=all_moves,
            noun=TAKEOVER,
        ),
        TAKEOVER,
    )


def _load(snapshot: MastersSnapshot) -> Iterator[str]:
    reference, groups = snapshot.reference, snapshot.groups
    masters = Counter(snapshot.masters)
    wrong = sum(one.ideal not in (NOBODY, one.master) for one in groups)
    idle = [
        name
        for name, sums in zip(
            RESOURCES,
            map(sum, zip(*((g.queries_per_second, g.bytes_per_second) for g in groups), strict=True)),
            strict=False,
        )
        if not sums
    ]
    head = [
        f"{reference.cluster} at {reference.taken_at}: {counted(len(snapshot.nodes), NODE)}, "
        f"{counted(len(groups), 'group')}, {masters[NOBODY]} without a master, {wrong} whose master is not "
        f"the ideal one of version {snapshot.version}"
    ]
    if idle:
        head.append(f"of {' and '.join(idle)} nothing is told: every group counts the same there")
    texts = {
        NODE: [one.node for one in snapshot.nodes],
        "": ["" if one.state == "alive" else str(one.state) for one in snapshot.nodes],
    }
    counts = {
        "masters": [str(masters[place]) for place in range(len(snapshot.nodes))],
        "weight": [f"{one.weight:g}" for one in snapshot.nodes],
    }
    yield from load_lines(head, snapshot.imbalance(), texts, counts, nominal=RESOURCES, carrier=NODE)


def _prediction(plan: MastersPlan, snapshot: MastersSnapshot | None) -> list[str]:
    nodes = None if snapshot is None else int(snapshot.in_service.sum())
    asked = plan.settings.get("epsilon")
    limits = asked if isinstance(asked, dict) else {}
    goal = ", ".join(f"{name} {limit:.0%}" for name, limit in limits.items())
    lines = prediction_lines(plan, RESOURCES, nodes, nominal=())
    return [*lines, f"  goal: a worst deviation of at most {goal}"] if goal else lines


def _together(moves: Any) -> str:
    pause = sum(move.pause_seconds or 0.0 for move in moves)
    rate = sum(move.queries_per_second for move in moves)
    told = f"{rate:,.0f} queries/s" if rate else "no queries told"
    return f"{told}, {_pause(pause)}" if pause else told


def _pause(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms without a master"


def _cost(plan: MastersPlan) -> str:
    pause = plan.cost.pause_seconds
    felt = f", {_pause(pause)} in all, one group after the other" if pause else ""
    return f"{counted(plan.cost.takeovers, TAKEOVER)}{felt}; no data moves"


def _bound(plan: MastersPlan) -> str:
    least = plan.bound.takeovers
    return f"any plan needs {counted(least, TAKEOVER)} or more ({plan.bound.proof})" if least else ""


def _cells(move: Takeover) -> tuple[str, str, str]:
    source = "nobody" if move.source is None else f"node {move.source}"
    price = "" if move.pause_seconds is None else f"{move.pause_seconds * 1000:.0f} ms"
    return move.group, f"{source} → node {move.target}", price


def _change(move: Takeover) -> str:
    return f"{move.group}: node {move.source} → node {move.target}"


def forecast_text(
    prepared: Prepared, steps: tuple[TakeoverStep, ...], settings: TakeoverSettings, every: bool
) -> str:
    """Every takeover that will be asked for, and what of the plan is left out."""
    lines = [f"  {_step(step)}" for step in steps] or ["  nothing to do"]
    if steps:
        lines.append(
            f"  in all {counted(len(steps), TAKEOVER)}, up to {settings.masters.at_once} asked for at once"
        )
    compared = prepared.comparison
    lines += comparison_lines(compared.standing, compared.differences, "takeovers are done already")
    return "\n".join(lines)


def progress_of_execution() -> Callable[[TakeoverState], str]:
    """States in lines."""
    from trimtab.act.execution.state import Progress

    def line(state: TakeoverState) -> str:
        active = [str(one.step) for one in state.active]
        return progress_line(
            Progress(**state.progress()), [f"under way: {', '.join(active)}"] if active else []
        )

    return line


def _step(step: TakeoverStep) -> str:
    source = "nobody" if step.source is None else f"node {step.source}"
    return f"{step.group}: {source} → node {step.target}"


def receipt_text(receipt: MastersReceipt) -> str:
    """Which masterships went where, and what was left."""
    return text_of_receipt(receipt, "masters", [f"  {_spent(receipt)}"], _outcome, "left, none in flight")


def _outcome(outcome: TakeoverOutcome) -> str:
    return f"{outcome.group} to node {outcome.target}"


def _spent(receipt: MastersReceipt) -> str:
    return f"{counted(len(receipt.done), TAKEOVER)} in {duration_text(receipt.seconds)}"


def glance_text(glance: MastersGlance, every: bool = False) -> Iterator[RenderableType]:
    """One moment: of how many groups each node is master."""
    without = sum(master < 0 for master in glance.masters)
    yield from text_of_glance(
        glance,
        f"{counted(len(glance.masters), 'group')}, {without} without a master, map {glance.version}",
        [one.name + ("" if one.alive else " (no answer)") for one in glance.brokers],
        {"masters": 1, "slots behind": 1},
        _remarks(glance),
        every=every,
        carrier=NODE,
        source="the nodes",
    )


def _remarks(glance: MastersGlance) -> Iterator[str]:
    if glance.wrong:
        yield (
            f"[yellow]![/] {counted(glance.wrong, 'group')} with another master than the map names: nodes "
            "put that right one by one, where the ideal one is alive"
        )


def glance_document(glance: MastersGlance) -> dict[str, Any]:
    """The same as plain JSON values."""
    facts = {
        "version": glance.version,
        "masters": [None if one < 0 else one for one in glance.masters],
        "ideal": [None if one < 0 else one for one in glance.ideal],
    }
    brokers = [{"id": one.node, "address": one.address, "alive": one.alive} for one in glance.brokers]
    document = document_of_glance(glance, "masters", facts, brokers, ("masters", "lag_entries"))
    return {**document, "source": "nodes"}


WORDS: Final = Words(
    plan_text=plan_text,
    cost=_cost,
    change=_change,
    forecast_text=forecast_text,
    progress_line=progress_of_execution,
    step=_step,
    receipt_text=receipt_text,
    spent_text=_spent,
    cancels="leaves masterships where they are; what was asked for may still come",
    cancelling="begins nothing more; what was asked for comes, or is given up after its time",
    glance_text=glance_text,
    glance_document=glance_document,
)

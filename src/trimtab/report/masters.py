"""The texts of the balancer `masters`: nodes, groups, transfers, and pauses for clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.model.masters import NO_MASTER, RESOURCES, MastershipTransfer, MastersPlan, MastersSnapshot
from trimtab.report.formats import counted, duration_text
from trimtab.report.plan_text import load_lines, move_lines, prediction_lines, text_of_plan
from trimtab.report.renderer import forecast_of_steps, progress_line, text_of_receipt
from trimtab.report.status_text import live_status_document, live_status_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.act.executor import PreparedPlan
    from trimtab.act.masters import MastersExecutionState, TransferSettings, TransferStep
    from trimtab.model.masters import MastersReceipt, TransferOutcome
    from trimtab.systems.paxos.port import MastersStatus


CANCEL_EFFECT: Final = "leaves masterships where they are; requested transfers may still happen"
"""The effect of `cancel` on steps in flight."""
CANCELLING: Final = "requests no further transfer; requested ones happen or time out"
"""The effect of a running `cancel`."""

NODE: Final = "node"
TRANSFER: Final = "transfer"
"""The nouns of this balancer for a carrier of load, and for a move of a plan."""
GOALS: Final = {
    "nobody": "has no master",
    "dead": "its master does not answer",
    "drain": "its node is being emptied",
    "epsilon": "evens loads",
    "order": "makes room in a swap",
}


def plan_text(plan: MastersPlan, snapshot: MastersSnapshot | None = None, *, all_moves: bool = False) -> str:
    """The text of a plan, with the load of its snapshot if that is given."""
    seen = None if snapshot is None else snapshot.with_overrides(plan.settings)
    return text_of_plan(
        plan,
        () if seen is None else _load(seen),
        plan_cost(plan),
        _bound(plan),
        _prediction(plan, seen),
        move_lines(
            plan.moves,
            purpose=lambda move: GOALS.get(move.reason.goal, move.reason.goal),
            together=_together,
            cells=_cells,
            all_moves=all_moves,
            noun=TRANSFER,
        ),
        TRANSFER,
    )


def _load(snapshot: MastersSnapshot) -> Iterator[str]:
    reference, groups = snapshot.reference, snapshot.groups
    masters = Counter(snapshot.masters)
    wrong = sum(one.preferred not in (NO_MASTER, one.master) for one in groups)
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
        f"{counted(len(groups), 'group')}, {masters[NO_MASTER]} without a master, {wrong} whose master is "
        "not "
        f"the preferred one of version {snapshot.version}"
    ]
    if idle:
        head.append(f"no load is known for {' and '.join(idle)}: every group counts the same")
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


def _together(moves: Sequence[MastershipTransfer]) -> str:
    pause = sum(move.pause_seconds or 0.0 for move in moves)
    rate = sum(move.queries_per_second for move in moves)
    told = f"{rate:,.0f} queries/s" if rate else "no queries told"
    return f"{told}, {_pause(pause)}" if pause else told


def _pause(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms without a master"


def plan_cost(plan: MastersPlan) -> str:
    """The cost of a plan in a sentence."""
    pause = plan.cost.pause_seconds
    felt = f", {_pause(pause)} in all, one group after the other" if pause else ""
    return f"{counted(plan.cost.transfers, TRANSFER)}{felt}; no data moves"


def _bound(plan: MastersPlan) -> str:
    least = plan.bound.transfers
    return f"any plan needs {counted(least, TRANSFER)} or more ({plan.bound.proof})" if least else ""


def _cells(move: MastershipTransfer) -> tuple[str, str, str]:
    source = "nobody" if move.source is None else f"node {move.source}"
    price = "" if move.pause_seconds is None else f"{move.pause_seconds * 1000:.0f} ms"
    return move.group, f"{source} → node {move.target}", price


def move_text(move: MastershipTransfer) -> str:
    """The change of a move in a line."""
    return f"{move.group}: node {move.source} → node {move.target}"


def forecast_text(
    prepared: PreparedPlan, steps: tuple[TransferStep, ...], settings: TransferSettings, every: bool
) -> str:
    """Every transfer that will be requested, and those of the plan that are left out."""
    at_once = settings.masters.max_in_flight
    total = f"in all {counted(len(steps), TRANSFER)}, up to {at_once} requested at once"
    return forecast_of_steps(prepared, steps, step_text, total, "transfers are done already")


def progress_reporter() -> Callable[[MastersExecutionState], str]:
    """A function from states to lines of progress."""
    from trimtab.act.execution.state import ExecutionProgress

    def line(state: MastersExecutionState) -> str:
        active = [str(one.step) for one in state.active]
        return progress_line(
            ExecutionProgress(**state.progress()), [f"under way: {', '.join(active)}"] if active else []
        )

    return line


def step_text(step: TransferStep) -> str:
    """A step in a line."""
    source = "nobody" if step.source is None else f"node {step.source}"
    return f"{step.group}: {source} → node {step.target}"


def receipt_text(receipt: MastersReceipt) -> str:
    """The transfers done, and the steps left."""
    return text_of_receipt(receipt, "masters", [f"  {spent_text(receipt)}"], _outcome, "left, none in flight")


def _outcome(outcome: TransferOutcome) -> str:
    return f"{outcome.group} to node {outcome.target}"


def spent_text(receipt: MastersReceipt) -> str:
    """The cost of an execution in a sentence."""
    return f"{counted(len(receipt.done), TRANSFER)} in {duration_text(receipt.seconds)}"


def status_text(status: MastersStatus, every: bool = False) -> Iterator[RenderableType]:
    """The current number of masterships of each node."""
    without = sum(master < 0 for master in status.masters)
    yield from live_status_text(
        status,
        f"{counted(len(status.masters), 'group')}, {without} without a master, map {status.version}",
        [one.name + ("" if one.alive else " (no answer)") for one in status.brokers],
        {"masters": 1, "slots behind": 1},
        _notes(status),
        every=every,
        carrier=NODE,
        source="the nodes",
    )


def _notes(status: MastersStatus) -> Iterator[str]:
    if status.misplaced_groups:
        yield (
            f"[yellow]![/] {counted(status.misplaced_groups, 'group')} with another master than the map "
            "names: nodes "
            "put that right one by one, where the preferred one is alive"
        )


def status_document(status: MastersStatus) -> dict[str, object]:
    """The same figures as plain JSON values."""
    facts = {
        "version": status.version,
        "masters": [None if one < 0 else one for one in status.masters],
        "preferred": [None if one < 0 else one for one in status.preferred],
    }
    brokers = [{"id": one.node, "address": one.address, "alive": one.alive} for one in status.brokers]
    document = live_status_document(status, "masters", facts, brokers, ("masters", "max_lag_entries"))
    return {**document, "source": "nodes"}

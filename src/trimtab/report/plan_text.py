"""A plan for people, on a terminal: where the load is, what moves and why, the price, and the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trimtab.model.imbalance import sigma_threshold
from trimtab.model.load import RESOURCES
from trimtab.model.plan import MoveKind, Plan, Verdict
from trimtab.report.before_after import bytes_text, drop_text
from trimtab.report.names import NAMES
from trimtab.report.plan_parts import VERDICTS, counted, one_limit, problem_lines, table_lines

if TYPE_CHECKING:
    from trimtab.model.plan import Move
    from trimtab.model.replicas import ReplicasSnapshot

BROKERS_SHOWN = 12
GROUPS_SHOWN = 12
MOVES_SHOWN = 5


def plan_text(plan: Plan, snapshot: ReplicasSnapshot | None = None, *, all_moves: bool = False) -> str:
    """The whole text, lines parted by line breaks.

    Parameters
    ----------
    plan
        What to tell.
    snapshot
        What it was made from; without it, where the load is cannot be told.
    all_moves
        Whether to list every move; else the first of each group, and how many more.
    """
    lines: list[str] = []
    if snapshot is not None:
        lines += [*load_lines(snapshot), ""]
    lines += [*_headline(plan), ""]
    lines += [*_before_after(plan, snapshot)]
    if plan.moves:
        lines += ["", *_moves(plan, all_moves)]
    if plan.problems:
        lines += ["", *problem_lines(plan.problems)]
    return "\n".join(lines) + "\n"


def load_lines(snapshot: ReplicasSnapshot) -> list[str]:
    """Usage of the brokers, and how far each is from the mean; the furthest ones where there are many."""
    import numpy as np

    brokers, partitions = snapshot.brokers, snapshot.partitions
    measured = snapshot.imbalance()
    replicas = np.bincount(partitions.replicas[partitions.replicas >= 0], minlength=len(brokers))
    leaders = np.bincount(partitions.leader[partitions.leader >= 0], minlength=len(brokers))
    worst = np.abs(measured.deviation).max(axis=1)
    shown = np.sort(np.argsort(-worst, kind="stable")[:BROKERS_SHOWN])
    signed = np.where(
        measured.mean > 0, measured.usage / np.where(measured.mean > 0, measured.mean, 1) - 1, 0
    )
    rows = [["broker", "host", "state", *(NAMES[name] for name in RESOURCES), "leaders", "replicas"]]
    for index in shown.tolist():
        cells = [
            f"{measured.usage[index, r]:.0%} ({_signed(float(signed[index, r]))})"
            if measured.counted[index, r]
            else "–"
            for r in range(len(RESOURCES))
        ]
        state = _state_name(int(brokers.state[index]))
        rows.append(
            [
                *(str(brokers.id[index]), brokers.host[index], state, *cells),
                *(str(leaders[index]), str(replicas[index])),
            ]
        )
    mean = [f"{value:.0%}" if np.isfinite(value) else "–" for value in measured.mean.tolist()]
    rows.append(["mean", "", "", *mean, "", ""])
    reference = snapshot.reference
    head = (
        f"{reference.cluster} at {reference.taken_at}: {len(brokers)} brokers, "
        f"{len(partitions)} partitions, {int(replicas.sum())} replicas"
    )
    quality = snapshot.quality
    lines = [head]
    if quality.valid_share < 1 or quality.cpu != "measured":
        lines.append(f"samples: {quality.valid_share:.0%} valid; CPU signal: {quality.cpu}")
    more = "" if len(shown) == len(brokers) else f", the {len(shown)} furthest from it"
    return [
        *lines,
        "",
        f"Load of the brokers, and distance from the mean{more}:",
        *table_lines(rows, align="lllrrrrrr"),
    ]


def _headline(plan: Plan) -> Iterator[str]:
    yield f"Plan by {plan.strategy}: {VERDICTS[plan.verdict]}"
    if not plan.moves:
        return
    cost = plan.cost
    parts = [f"{counted(cost.replica_moves, 'replica')} to copy ({bytes_text(cost.bytes)})"]
    parts.append(f"{counted(cost.leader_moves, 'leader role')} to hand over")
    if cost.log_dir_moves:
        parts.append(f"{counted(cost.log_dir_moves, 'replica')} to another log dir of its broker")
    yield f"cost: {', '.join(parts)}"
    if plan.bound.bytes:
        bound, ratio = bytes_text(plan.bound.bytes), cost.bytes / plan.bound.bytes
        if plan.verdict is Verdict.LEVELLED:
            yield f"bound: any plan copies {bound} or more; this one {ratio:.2f} times it"
        elif cost.bytes > plan.bound.bytes:
            yield f"bound: to meet every goal, any plan copies {bound} or more; this one {ratio:.2f} times it"
        else:
            # Held down to the plan's own cost, so the ratio would flatter.
            yield "bound: to meet every goal, if possible at all, takes more bytes than this plan copies"
    elif cost.bytes:
        yield f"bound: none above 0 B ({plan.bound.proof})"


def _before_after(plan: Plan, snapshot: ReplicasSnapshot | None) -> list[str]:
    before, after = plan.predicted.before, plan.predicted.after
    rows = [["resource", "peak", "after", "worst deviation", "after", "σ", "after", "drop"]]
    for name in RESOURCES:
        if name not in before.sigma or name not in after.sigma:
            rows.append([NAMES[name], *["–"] * 7])
            continue
        rows.append(
            [
                NAMES[name],
                f"{before.peak_usage.get(name, 0):.1%}",
                f"{after.peak_usage.get(name, 0):.1%}",
                f"{before.worst_deviation.get(name, 0):.1%}",
                f"{after.worst_deviation.get(name, 0):.1%}",
                f"{before.sigma[name]:.4f}",
                f"{after.sigma[name]:.4f}",
                drop_text(before.sigma[name], after.sigma[name]),
            ]
        )
    theta, epsilon = one_limit(plan, "theta"), one_limit(plan, "epsilon")
    if theta is not None and epsilon is not None:
        number = 0 if snapshot is None else int(snapshot.brokers.in_service.sum())
        eta = f"{sigma_threshold(epsilon, number):.4f}" if number else ""
        rows.append(["goal", "", f"{theta:.1%}", "", f"{epsilon:.1%}", "", eta, ""])
    return ["Predicted:", *table_lines(rows, align="lrrrrrrr")]


def _moves(plan: Plan, all_moves: bool) -> Iterator[str]:
    groups: dict[tuple[str, str | None, int], list[Move]] = {}
    for move in plan.moves:
        groups.setdefault((move.reason.goal, move.reason.resource, move.reason.broker), []).append(move)
    yield f"{counted(len(plan.moves), 'move')}, by what they are for, with their order of execution:"
    for number, ((goal, resource, broker), moves) in enumerate(groups.items()):
        if number == GROUPS_SHOWN and not all_moves:
            rest = list(groups.values())[number:]
            yield (
                f"  ... and {counted(sum(map(len, rest)), 'move')} for "
                f"{counted(len(rest), 'more reason')}; --all-moves lists them"
            )
            return
        copied = sum(move.bytes for move in moves)
        subject = f"{goal} of {NAMES[resource]}" if resource in NAMES else goal
        yield f"  {subject}, broker {broker}: {counted(len(moves), 'move')}, {bytes_text(copied)}"
        shown = moves if all_moves else moves[:MOVES_SHOWN]
        yield from (
            f"    {line}" for line in table_lines([_move_cells(move) for move in shown], align="rlllrl")
        )
        if len(shown) < len(moves):
            yield f"    ... and {len(moves) - len(shown)} more"


def _move_cells(move: Move) -> list[str]:
    source = "nobody" if move.source is None else str(move.source)
    if move.kind is MoveKind.LOG_DIR:
        path = f"{move.source_dir or '?'} → {move.target_dir or '?'} on {move.target}"
    else:
        path = f"{source} → {move.target}"
    what = f"{move.topic}-{move.partition}"
    size = bytes_text(move.bytes) if move.bytes else ""
    return [str(move.order), str(move.kind), what, path, size, move.reason.text]


def _state_name(state: int) -> str:
    from trimtab.model.replicas import BrokerState

    return BrokerState(state).name.lower()


def _signed(fraction: float) -> str:
    text = f"{fraction:+.0%}"
    return "±0%" if text in ("+0%", "-0%") else text

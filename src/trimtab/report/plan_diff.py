"""What two plans do differently, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.report.before_after import bytes_text

if TYPE_CHECKING:
    from trimtab.model.plan import Move, Plan


def plan_diff(first: Plan, second: Plan) -> str:
    """Lines with `-` for what only the first does, `+` for what only the second does; empty if none.

    Order and reasons of moves are not compared: two plans that end alike at the same price do the same.
    """
    lines = []
    for name, one, other in (
        ("snapshot", first.snapshot.sha256, second.snapshot.sha256),
        ("strategy", first.strategy, second.strategy),
        ("verdict", first.verdict, second.verdict),
        ("settings", first.settings, second.settings),
        ("cost", _cost(first), _cost(second)),
    ):
        if one != other:
            lines += [f"- {name}: {one}", f"+ {name}: {other}"]
    ours, theirs = ({_step(move): move for move in plan.moves} for plan in (first, second))
    only = [(step, "-") for step in ours if step not in theirs]
    only += [(step, "+") for step in theirs if step not in ours]
    lines += [f"{sign} {_line(step)}" for step, sign in sorted(only, key=lambda row: (row[0][:2], row[1]))]
    return "".join(f"{line}\n" for line in lines)


def _step(move: Move) -> tuple[str, int, str, int, int, str]:
    source = -1 if move.source is None else move.source
    return move.topic, move.partition, str(move.kind), source, move.target, move.target_dir or ""


def _line(step: tuple[str, int, str, int, int, str]) -> str:
    topic, partition, kind, source, target, log_dir = step
    place = f" {log_dir}" if log_dir else ""
    return f"{topic}-{partition}: {kind} {'nobody' if source < 0 else source} → {target}{place}"


def _cost(plan: Plan) -> str:
    return (
        f"{bytes_text(plan.cost.bytes)}, {plan.cost.replica_moves} replicas, {plan.cost.leader_moves} leaders"
    )

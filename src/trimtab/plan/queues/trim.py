"""A plan of the balancer `queues`: weights to publish, and the predicted actions of the scheduler."""

from __future__ import annotations

import numpy as np

from trimtab.model.goals import goal_status
from trimtab.model.plan import Prediction, Problem, Verdict, settings_document
from trimtab.model.queues.plan import (
    Publication,
    PublicationAssignment,
    PublicationBound,
    PublicationCost,
    PublicationKind,
    QueuesPlan,
)
from trimtab.model.queues.snapshot import RESOURCES, QueuesSnapshot
from trimtab.plan.queues.learning import publications
from trimtab.plan.queues.scheduler import current_orders
from trimtab_queues.format.settings import QueuesSettings


def plan_queues(snapshot: QueuesSnapshot, settings: QueuesSettings) -> QueuesPlan:
    """Make the plan. It publishes weights and settings; the scheduler moves messages, every second.

    `predicted` has the work in the queues, before and after the predicted actions of the scheduler.
    """
    moves = publications(snapshot, settings)
    forecasts, orders, work = current_orders(snapshot, settings)
    before, after = snapshot.imbalance(), snapshot.imbalance(np.array(work))
    breaches = goal_status(snapshot, settings).violations
    problems = tuple(
        Problem(
            "unmet_goal",
            f"{breach.broker}: work {abs(breach.value):.1%} against {breach.goal} {breach.limit:.1%}: "
            "balance scheduling works on it, and weights that are nearer to the truth help it",
            resource="work",
        )
        for breach in breaches
    )
    kinds = [move.kind for move in moves]
    return QueuesPlan(
        balancer="queues",
        strategy="trim",
        seed=0,
        settings=settings_document(settings, RESOURCES),
        snapshot=snapshot.reference,
        verdict=_verdict(bool(moves or orders), problems),
        moves=moves,
        predicted=Prediction(before.measures(), after.measures()),
        problems=problems,
        version=snapshot.version,
        assignments=_assignments(snapshot, moves),
        cost=PublicationCost(kinds.count(PublicationKind.WEIGHT), kinds.count(PublicationKind.SETTING)),
        bound=PublicationBound(0, "publishing moves no message and interrupts nobody"),
        queues=forecasts,
        orders=orders,
    )


def _verdict(any_change: bool, problems: tuple[Problem, ...]) -> Verdict:
    if problems:
        return Verdict.IMPROVED if any_change else Verdict.INCOMPLETE
    return Verdict.BALANCED


def _assignments(
    snapshot: QueuesSnapshot, moves: tuple[Publication, ...]
) -> tuple[PublicationAssignment, ...]:
    """All published values after the moves: unchanged weights and changes."""
    changed = {(move.kind, move.name): move for move in moves}
    stays = {(PublicationKind.WEIGHT, name): value for name, value in snapshot.weights.items()}
    return tuple(
        PublicationAssignment(
            kind,
            name,
            changed[kind, name].before if (kind, name) in changed else stays[kind, name],
            changed[kind, name].after if (kind, name) in changed else stays[kind, name],
        )
        for kind, name in sorted({*stays, *changed})
    )

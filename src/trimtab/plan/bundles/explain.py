"""Converts the numeric reason of a step to a `BundleReason` with its text."""

from collections.abc import Callable

from trimtab.model.bundles.plan import BundleReason
from trimtab.model.bundles.snapshot import RESOURCES, UNITS, BundlesSnapshot, namespace_of
from trimtab.model.load import IntArray, resource_name
from trimtab.plan.bundles.confinement import policy_text
from trimtab.plan.bundles.problem import BundlesProblem
from trimtab.plan.bundles.splitting import SplitPoint, UnplaceableLoad
from trimtab.plan.bundles.steps import DRAIN_GOAL, UNOWNED_GOAL
from trimtab.plan.search.limits import UsageLimits
from trimtab.plan.search.reasons import (
    ROOM_GOAL,
    THETA_GOAL,
    StepReasons,
    UnitScale,
    change,
    from_average,
    limit_text,
    rejections,
)

RULES = ("by policy or service", "left within the grace time", "for passing a limit")
"""Texts of the rules that reject destinations, in the order of their codes in `steps`."""


UNEVEN = {
    "cpu": "uses {} CPU than",
    "message_rate": "serves {} messages than",
    "bandwidth_in": "receives {} than",
    "bandwidth_out": "sends {} than",
}
"""Verbs of the texts "more or less than the average", by resource."""


def narrator(
    problem: BundlesProblem, order: IntArray, place: IntArray, reasons: StepReasons, limits: UsageLimits
) -> Callable[[int], BundleReason]:
    """A function from the number of a step to its reason; everything it needs is looked up once.

    A reason says what is wrong and what the step does, then the figures before and after it.

    Parameters
    ----------
    limits
        Limits of the goals themselves, around the mean at the end of the plan.
    """
    names = problem.snapshot.brokers.name
    sessions = problem.snapshot.bundles.sessions[order].tolist()
    source, target = problem.arrays.initial[order].tolist(), place[order].tolist()
    goal, column, broker = reasons.goal.tolist(), reasons.column.tolist(), reasons.broker.tolist()
    measure, other, rejected = reasons.measure.tolist(), reasons.other.tolist(), reasons.rejected.tolist()
    brokers = len(names)
    several = len(problem.snapshot.views) > 1

    def others(k: int) -> str:
        choices = brokers - (2 if source[k] >= 0 else 1)
        return rejections(choices, rejected[k], RULES)

    def moved(k: int, relieved: bool) -> str:
        """The effect of the step; names the source unless it is the relieved broker."""
        start = "" if relieved else f" from {names[source[k]]}"
        return f"moves bundle {problem.snapshot.bundles.key[int(order[k])]}{start} to {names[target[k]]}"

    def scale_of(row: int, resource: str) -> UnitScale | None:
        if resource not in problem.snapshot.quality.nominal_capacity:
            return None
        capacity = problem.snapshot.brokers.capacity[row, RESOURCES.index(resource)]
        return UnitScale(float(capacity), UNITS[resource])

    def by_load(k: int) -> BundleReason:
        before, after, limit = measure[k]
        view, resource = problem.column_name(column[k])
        what = names[broker[k]]
        relieved = broker[k] == source[k]
        there = target[k] if relieved else source[k]
        where = resource_name(resource) + (f" in {view}" if several else "")
        bounded = limit if abs(limit) != float("inf") else None
        scales = [scale_of(row, resource) for row in (broker[k], there)]
        average = float(limits.centre[broker[k], column[k]])
        if goal[k] == ROOM_GOAL:
            why = f"room is needed on broker {what}"
        elif goal[k] == THETA_GOAL or not average > 0.0:
            level, most = limit_text(before, scales[0]), limit_text(limit, scales[0])
            why = f"broker {what} is at {level} {where}, limit {most}"
        else:
            why = f"broker {what} {UNEVEN[resource].format(from_average(before, average))} the average"
        text = (
            f"{why}; {moved(k, relieved)} ({where} {change(before, after, scales[0])}, "
            f"{names[there]} {change(other[k][0], other[k][1], scales[1])}){others(k)}"
        )
        named = "theta" if goal[k] == THETA_GOAL else "epsilon"
        return BundleReason(named, resource, view, what, before, after, bounded, text)

    def reason(k: int) -> BundleReason:
        if goal[k] == UNOWNED_GOAL:
            key = problem.snapshot.bundles.key[int(order[k])]
            text = f"no broker owns bundle {key}; assigns it to broker {names[target[k]]}{others(k)}"
            return BundleReason("unowned", None, None, names[target[k]], None, None, None, text)
        if goal[k] == DRAIN_GOAL:
            before, after, limit = measure[k]
            what = names[broker[k]]
            forbidden = problem.outside[order[k]]
            why = "is not in service"
            if forbidden:
                key = problem.snapshot.bundles.key[int(order[k])]
                why = f"is not allowed this bundle by {policy_text(problem, [namespace_of(key)])}"
            text = (
                f"broker {what} {why}; {moved(k, True)} ({before:.0f} -> {after:.0f} bundles left), "
                f"{_clients(sessions[k])} reconnect{others(k)}"
            )
            named = "policy" if forbidden else "drain"
            return BundleReason(named, None, None, what, before, after, limit, text)
        return by_load(k)

    return reason


def split_reason(
    before: BundlesSnapshot, after_cut: BundlesSnapshot, cut: SplitPoint, excess: UnplaceableLoad | None
) -> BundleReason:
    """Why a bundle is split.

    Parameters
    ----------
    before, after_cut
        The snapshot in which the bundle is still whole, and that with its parts.
    excess
        Its excess over every broker; None if it is only too coarse for balancing.
    """
    row = before.bundles.key.index(cut.bundle)
    owner = before.brokers.name[before.bundles.owner[row]]
    parts = len(cut.boundaries) + 1
    if excess is None:
        text = (
            f"bundle {cut.bundle} is too coarse for unloads to help; splits it into {parts} at the "
            "boundaries of its topics"
        )
        return BundleReason("hot", None, None, owner, None, None, None, text)
    view, resource = before.views[excess.column // len(RESOURCES)], RESOURCES[excess.column % len(RESOURCES)]
    name = before.brokers.name[excess.broker]
    text = (
        f"bundle {cut.bundle} alone takes {resource_name(resource)} of even broker {name} to "
        f"{excess.usage:.1%} in {view}, limit {excess.limit:.1%}; splits it into {parts} at the boundaries "
        "of its topics"
    )
    # After the split: the utilisation by the biggest part alone.
    rows = [after_cut.bundles.key.index(part.key) for part in cut.parts]
    view_row, resource_row = divmod(excess.column, len(RESOURCES))
    biggest = float(after_cut.bundles.load[view_row, rows, resource_row].max())
    base = float(before.brokers.base[excess.broker, resource_row])
    after = (biggest + base) / float(before.brokers.capacity[excess.broker, resource_row])
    text += f" (the biggest part takes it to {after:.1%})"
    return BundleReason("hot", resource, view, owner, excess.usage, after, excess.limit, text)


def _clients(sessions: int) -> str:
    return f"{sessions} client{'' if sessions == 1 else 's'}"

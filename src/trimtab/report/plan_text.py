"""The text of a plan: load, moves with reasons, cost and predicted result; and the difference of two plans.

Order and tables are the same for all balancers; each balancer adds its own texts (`trimtab.report.renderer`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.load import resource_name, sigma_threshold
from trimtab.model.plan import MoveT, Verdict
from trimtab.report.formats import counted, drop_text, figure_text, signed_text
from trimtab.report.tables import table_lines

if TYPE_CHECKING:
    from trimtab.model.load import Imbalance, ImbalanceSummary
    from trimtab.model.plan import Plan, Problem

MAX_BROKERS_LISTED = 12
MAX_GROUPS_LISTED = 12
MAX_MOVES_LISTED = 5

VERDICTS = {
    Verdict.BALANCED: "balanced: every goal holds after these {move}s",
    Verdict.IMPROVED: "improved: some goals still do not hold after these {move}s (see problems)",
    Verdict.INCOMPLETE: "incomplete: not every goal and request is met after this plan (see problems)",
    Verdict.INFEASIBLE: "infeasible: no plan can meet some hard limit (see problems)",
}

NOTHING_TO_DO = "balanced: every goal holds already, nothing to do"
AS_RULES_ALLOW = "balanced: the load is as even as the rules allow (see problems), nothing to do"
REQUEST_DONE = "balanced: the request is met after these {move}s ({requested})"
REQUEST_MET = "balanced: the request is met already, nothing to do ({requested})"


def text_of_plan(
    plan: Plan[MoveT],
    load: Iterable[str],
    cost: str,
    bound: str,
    prediction: Iterable[str],
    moves: Iterable[str],
    move: str = "move",
    requested: str = "",
) -> str:
    """The whole text of a plan of any balancer.

    Parameters
    ----------
    load
        Lines on the snapshot that it was made from; none where that is not at hand.
    cost, bound
        The cost of carrying it out, and what is proven of it; the bound may be empty.
    prediction, moves
        Lines under their headings; of moves none where there are none.
    move
        The noun for one of them.
    requested
        What was requested, where that is not to balance the cluster; the verdict's sentence names it.
    """
    verdict = _verdict_text(plan, requested).format(move=move, requested=requested)
    lines = [*load, f"Plan by {plan.strategy}: {verdict}"]
    if plan.moves:
        lines += [f"cost: {cost}", *([f"bound: {bound}"] if bound else ())]
    lines += ["", "Predicted:", *prediction, *moves, *_problem_lines(plan.problems)]
    return "\n".join(lines) + "\n"


def _verdict_text(plan: Plan[MoveT], requested: str) -> str:
    if plan.verdict is not Verdict.BALANCED:
        return VERDICTS[plan.verdict]
    if not plan.has_nothing_to_do:
        return REQUEST_DONE if requested else VERDICTS[Verdict.BALANCED]
    if any(one.proof.get("goal") == "epsilon" for one in plan.problems):
        return AS_RULES_ALLOW
    return REQUEST_MET if requested else NOTHING_TO_DO


def bound_text(
    plan: Plan[MoveT], proof: str, paid: int, least: int, amount: Callable[[int], str], verb: str, beyond: str
) -> str:
    """The proven minimum cost of any plan, and its ratio to the cost of this plan.

    Parameters
    ----------
    paid, least
        By this plan, and by any plan that meets the same goals, in the unit that the planner saves.
    amount
        An amount of that unit for people.
    verb, beyond
        `copies`, for a plan and an amount; and what is said where the least is no less than what was paid.
    """
    if not least:
        return f"none above {amount(0)} ({proof})" if paid else ""
    ratio = f"any plan {verb} {amount(least)} or more; this one {paid / least:.2f} times it"
    if plan.verdict is Verdict.BALANCED and plan.has_changes:
        return ratio
    if paid > least:
        return f"to meet every goal, {ratio}"
    # Held down to the plan's own cost, so the ratio would flatter.
    return f"to meet every goal, if possible at all, {beyond}"


def diff_of_plans(
    first: Plan[MoveT],
    second: Plan[MoveT],
    cost: Callable[[Plan[MoveT]], str],
    change: Callable[[MoveT], str],
) -> str:
    """Lines with `-` for changes of the first plan only, `+` for those of the second only.

    Order and reasons of moves are not compared: plans with equal results and costs count as equal.
    """
    lines = []
    for name, one, other in (
        ("snapshot", first.snapshot.sha256, second.snapshot.sha256),
        ("strategy", first.strategy, second.strategy),
        ("verdict", first.verdict, second.verdict),
        ("settings", first.settings, second.settings),
        ("cost", cost(first), cost(second)),
    ):
        if one != other:
            lines += [f"- {name}: {one}", f"+ {name}: {other}"]
    ours, theirs = ({change(move) for move in plan.moves} for plan in (first, second))
    only = [(line, "-") for line in ours - theirs] + [(line, "+") for line in theirs - ours]
    only.sort(key=lambda one: (_by_numbers(one[0]), one[1]))
    return "".join(f"{line}\n" for line in [*lines, *(f"{sign} {line}" for line, sign in only)])


def load_lines(
    head: Sequence[str],
    measured: Imbalance,
    before: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    *,
    only_counted: bool = False,
    nominal: Collection[str] = (),
    carrier: str = "broker",
) -> Iterator[str]:
    """The usage of the brokers and their distance from the mean; of many brokers, the furthest.

    Parameters
    ----------
    head
        Lines above the table.
    before, after
        Further columns by heading, with a cell for each broker: texts to the left, counts to the right.
    only_counted
        Whether resources that no broker limits are left out, instead of shown as dashes.
    nominal
        Resources without known capacity: only the distance from the mean is told.
    carrier
        The noun for what has load.
    """
    some = measured.mean > 0
    signed = np.where(some, measured.usage / np.where(some, measured.mean, 1) - 1, 0)
    places = [
        place
        for place in range(len(measured.resources))
        if not only_counted or measured.counted[:, place].any()
    ]
    rows = [[*before, *(resource_name(measured.resources[place]) for place in places), *after]]
    worst = np.argsort(-np.abs(measured.deviation).max(axis=1), kind="stable")[:MAX_BROKERS_LISTED]
    for row in np.sort(worst).tolist():
        cells = [
            _usage(measured, row, place, nominal) + f"({signed_text(float(signed[row, place]))})"
            if measured.counted[row, place]
            else "–"
            for place in places
        ]
        texts, counts = ([column[row] for column in side.values()] for side in (before, after))
        rows.append([*texts, *cells, *counts])
    means = [
        "–" if measured.resources[place] in nominal else figure_text(float(measured.mean[place]), ".0%")
        for place in places
    ]
    rows.append(["mean", *[""] * (len(before) - 1), *means, *[""] * len(after)])
    more = "" if len(worst) == len(measured.usage) else f", the {len(worst)} furthest from it"
    yield from (*head, "", f"Load of the {carrier}s, and distance from the mean{more}:")
    yield from (*table_lines(rows, "l" * len(before) + "r" * (len(places) + len(after))), "")


def _usage(measured: Imbalance, row: int, place: int, nominal: Collection[str]) -> str:
    return "" if measured.resources[place] in nominal else f"{measured.usage[row, place]:.0%} "


def idle_resources(plan: Plan[MoveT], measured: Imbalance, nominal: Collection[str]) -> list[str]:
    """Resources that are used too little to be balanced (`min_utilization` of the plan's settings)."""
    least = plan.settings.get("min_utilization", 0.0)
    used = zip(measured.resources, measured.mean.tolist(), strict=True)
    return [name for name, mean in used if mean < least and name not in nominal]


def prediction_lines(
    plan: Plan[MoveT],
    resources: Sequence[str],
    brokers: int | None,
    idle: Sequence[str] = (),
    nominal: Collection[str] = (),
) -> list[str]:
    """Measures before and after, with the goals below if they are equal for all resources.

    Parameters
    ----------
    plan
        Its settings hold `theta` and `epsilon` where they are goals.
    brokers
        The number in service, which η depends on; None where it is not known.
    idle, nominal
        Resources that are used too little to be balanced; those without known capacity.
    """
    before, after = plan.predicted.before, plan.predicted.after
    rows = [["resource", "peak", "after", "worst deviation", "after", "σ", "after", "drop"]]
    for name in resources:
        known = name in before.sigma and name in after.sigma
        cells = _figures(before, after, name) if known else ["–"] * 7
        rows.append([resource_name(name), *(["–"] * 2 + cells[2:] if name in nominal else cells)])
    limits = {name: _one_limit(plan.settings[name]) for name in ("theta", "epsilon") if name in plan.settings}
    if limits and None not in limits.values():
        theta, epsilon = limits.get("theta"), limits.get("epsilon")
        eta = f"{sigma_threshold(epsilon, brokers):.4f}" if brokers and epsilon is not None else ""
        shown = ["" if one is None else f"{one:.1%}" for one in (theta, epsilon)]
        rows.append(["goal", "", shown[0], "", shown[1], "", eta, ""])
    lines = table_lines(rows, "lrrrrrrr")
    if idle:
        least = plan.settings["min_utilization"]
        lines.append(
            f"  not balanced, used below {least:.0%} on average: {', '.join(map(resource_name, idle))}"
        )
    if nominal:
        named = ", ".join(resource_name(name) for name in resources if name in nominal)
        lines.append(f"  no capacity declared, so only compared between brokers: {named}")
    return lines


def prediction_in_views(
    plan: Plan[MoveT],
    resources: Sequence[str],
    views: Mapping[str, tuple[ImbalanceSummary, ImbalanceSummary]],
    idle: Mapping[str, Collection[str]],
) -> list[str]:
    """Measures before and after with a row for each view and resource, and the goals in columns.

    Parameters
    ----------
    idle
        By view: resources that are used too little to be balanced.
    """
    theta, epsilon = (_limits(plan.settings.get(name), resources) for name in ("theta", "epsilon"))
    deviation = ["worst deviation", "after", "goal"]
    rows = [["view", "resource", "peak", "after", "goal", *deviation, "σ", "after", "drop"]]
    for view, (before, after) in views.items():
        for name in resources:
            if name in before.sigma and name in after.sigma:
                cells = _figures(before, after, name)
                level = "idle" if name in idle.get(view, ()) else epsilon.get(name, "")
                cells[4:4], cells[2:2] = [level], [theta.get(name, "")]
                rows.append([view, resource_name(name), *cells])
    return table_lines(rows, "llrrrrrrrrr")


def move_lines(
    moves: Sequence[MoveT],
    purpose: Callable[[MoveT], str],
    together: Callable[[Sequence[MoveT]], str],
    cells: Callable[[MoveT], tuple[str, str, str]],
    *,
    all_moves: bool,
    noun: str = "move",
) -> Iterator[str]:
    """The moves grouped by goal; the first of each group, or all.

    Parameters
    ----------
    purpose
        The goal that a move serves, by which moves are grouped.
    together
        The cost of several moves.
    cells
        The thing that is moved, from where to where, and at what price (which may be empty).
    noun
        For one of them.
    """
    if not moves:
        return
    groups: dict[str, list[Any]] = {}
    for move in moves:
        groups.setdefault(purpose(move), []).append(move)
    yield ""
    yield f"{counted(len(moves), noun)}, grouped by goal; numbers are the order of execution:"
    for number, (goal, group) in enumerate(groups.items()):
        if number == MAX_GROUPS_LISTED and not all_moves:
            rest = list(groups.values())[number:]
            yield (
                f"  ... and {counted(sum(map(len, rest)), noun)} for "
                f"{counted(len(rest), 'more reason')}; --all-moves lists them"
            )
            return
        shown = group if all_moves else group[:MAX_MOVES_LISTED]
        # What is the same of every one of them is told once.
        ends = {m.reason.text.rpartition("; ")[2] for m in shown} if len(shown) > 1 else set()
        end = f"; {ends.pop()}" if len(ends) == 1 else ""
        yield f"  {goal}: {counted(len(group), noun)}, {together(group)}{end}"
        rows = [[str(m.order), str(m.kind), *cells(m), m.reason.text.removesuffix(end)] for m in shown]
        yield from table_lines(rows, "rlllrl", indent=" " * 6)
        if len(shown) < len(group):
            yield f"    ... and {len(group) - len(shown)} more"


def purpose_text(reason: Any, view: str | None = None) -> str:
    """Goal, resource and broker of a move's reason, with the view if there are several."""
    where = "" if view is None else f" in {view}"
    subject = "" if reason.resource is None else f" of {resource_name(reason.resource)}{where}"
    return f"{reason.goal}{subject}, broker {reason.broker}"


def _figures(before: ImbalanceSummary, after: ImbalanceSummary, resource: str) -> list[str]:
    """Peak, worst deviation and σ, each before and after, and the drop of σ."""
    sigma = before.sigma[resource], after.sigma[resource]
    return [
        *(f"{one.peak_usage.get(resource, 0):.1%}" for one in (before, after)),
        *(f"{one.worst_deviation.get(resource, 0):.1%}" for one in (before, after)),
        *(f"{one:.4f}" for one in sigma),
        # A σ that is nothing but rounding has no drop.
        drop_text(*sigma) if sigma[0] > 1e-6 else "–",
    ]


def _one_limit(limit: object) -> float | None:
    """The common limit of all resources; None if limits differ."""
    values = set(limit.values()) if isinstance(limit, dict) else {limit}
    value = values.pop() if len(values) == 1 else None
    return float(value) if isinstance(value, int | float) else None


def _limits(limit: object, resources: Sequence[str]) -> dict[str, str]:
    """A goal's limit by resource."""
    limits = limit if isinstance(limit, dict) else dict.fromkeys(resources, limit)
    return {one: f"{value:.0%}" for one, value in limits.items() if isinstance(value, int | float)}


def _problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    yield from ("", "Problems:") if problems else ()
    for problem in problems:
        count = "" if problem.count is None else f" {problem.count}"
        resource = "" if problem.resource is None else f" ({resource_name(problem.resource)})"
        text = problem.text.removeprefix(f"{problem.resource}: ")
        yield f"  {problem.kind.replace('_', ' ')}{count}{resource}: {text}"


def _by_numbers(text: str) -> list[int | str]:
    """A key that sorts `orders-2` before `orders-10`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text)]

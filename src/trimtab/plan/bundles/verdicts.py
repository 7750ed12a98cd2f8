"""Lower bound on the clients that any plan meeting the goals must disturb.

Every overloaded broker must lose its excess: bundles leave it at the cost of their sessions. That is a small
covering problem, and every price vector of its dual gives a lower bound (`trimtab.plan.search.covering`).
Brokers do not share departures, so their bounds add up, and so do the sessions of all bundles that must go.
The same from the other side: what underloaded brokers lack must arrive. The bigger of the two is the bound.
The bound holds for plans that split the same bundles as this one: a bundle that is split otherwise might move
in part.

Evaluates a final ownership by the goals, and proves why goals are missed.

The problem of a hot bundle names the topic and the remedy: a split, or more partitions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trimtab.model.bundles.plan import BundleBound, BundlesSettings
from trimtab.model.bundles.policies import IsolationPolicy, is_heartbeat_or_sla, is_system_namespace
from trimtab.model.bundles.snapshot import RESOURCES, UNITS, BundlesSnapshot, namespace_of
from trimtab.model.goals import exceeds, percent_above, violations
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.plan.bundles.confinement import NAMED, causes_of, grace_text, policy_fields, policy_text
from trimtab.plan.bundles.problem import BundlesProblem, problem_data
from trimtab.plan.bundles.splitting import (
    TARGET_SHARE,
    UnplaceableLoad,
    bundles_of_namespace,
    excess_of,
    free_capacity,
    shares_of,
    too_big,
    topics_of,
)
from trimtab.plan.search.compiled import entry
from trimtab.plan.search.covering import dual_bound
from trimtab.plan.search.limits import UsageLimits
from trimtab.plan.search.verdicts import Evaluation, Indices, evaluation, too_few_brokers

SWEEPS = 2
SLACK = 1e-6
"""Relative: rounding must not lift a bound above the truth."""

WIDEST = 2
"""Columns of greatest need that take part in one covering problem; leaving others out only lowers a bound."""


@entry
def _covered(need, scale, items, use, cost, sweeps):
    """`dual_bound` of some bundles, over the columns whose need is greatest."""
    # Each further column makes the ascent slower; one that is left out only lowers the bound.
    ranked = np.argsort(-need * scale, kind="mergesort")[:WIDEST]
    chosen = np.empty((len(items), len(ranked)))
    paid = np.empty(len(items))
    asked = np.empty(len(ranked))
    for c in range(len(ranked)):
        asked[c] = need[ranked[c]]
    for k in range(len(items)):
        paid[k] = cost[items[k]]
        for c in range(len(ranked)):
            chosen[k, c] = use[items[k], ranked[c]]
    return dual_bound(asked, chosen, paid, sweeps)


@entry
def departures(start, member, need, scale, use, cost, sweeps):
    """Sessions that must leave the brokers above their ceilings, besides the bundles that must leave anyway.

    Parameters
    ----------
    start, member
        Movable bundles of broker b: `member[start[b]:start[b + 1]]`.
    need
        Shape (brokers, columns): load beyond the ceiling.
    scale
        Shape (columns,): 1 / what a broker usually carries, so that needs are comparable.
    """
    total = 0.0
    for b in range(len(need)):
        most = 0.0
        for r in range(need.shape[1]):
            most = max(most, need[b, r])
        if most > 0.0:
            total += _covered(need[b], scale, member[start[b] : start[b + 1]], use, cost, sweeps)
    return total


def bound_of(problem: BundlesProblem, goal: UsageLimits, load: FloatArray, fixed: BoolArray) -> BundleBound:
    """The bound, with its proof in words.

    Parameters
    ----------
    goal
        The goals' own limits, around the mean that every plan that meets them ends with.
    load
        Shape (brokers, columns): of the snapshot.
    fixed
        Shape (columns,): whether that mean is the same for all plans.
    """
    arrays, capacity = problem.arrays, problem.capacity
    forced = float(arrays.cost[arrays.must].sum())
    with np.errstate(invalid="ignore"):
        top = np.where(fixed, goal.high, goal.theta) * capacity * (1 + SLACK)
        bottom = np.where(fixed, goal.low, -np.inf) * capacity * (1 - SLACK)
    asked = problem.counted
    # Bundles that must leave a broker in service take their load along; `forced` counts their cost.
    forced_rows = np.flatnonzero(arrays.must & (arrays.initial >= 0))
    stays = load.copy()
    np.add.at(stays, arrays.initial[forced_rows], -arrays.use[forced_rows])
    over = np.where(asked & np.isfinite(top), stays - top, -np.inf)
    under = np.where(asked & np.isfinite(bottom), np.maximum(bottom - load, 0.0), 0.0)
    scale = 1.0 / np.maximum(load.mean(axis=0), 1e-300)
    rows = np.flatnonzero(arrays.movable & (arrays.initial >= 0) & ~arrays.must)
    rows = rows[np.argsort(arrays.initial[rows], kind="stable")]
    start = np.searchsorted(arrays.initial[rows], np.arange(len(load) + 1))
    leave = float(departures(start, rows, over, scale, arrays.use, arrays.cost, SWEEPS))
    # `forced` counts the cost of unowned bundles and of bundles that must leave their broker.
    anyone = np.flatnonzero(arrays.movable & ((arrays.initial >= 0) | arrays.must))
    arrive = float(_covered(under.sum(axis=0), scale, anyone, arrays.use, arrays.cost, SWEEPS))
    least = max(forced + leave, arrive)
    proof = (
        f"{forced:.0f} sessions of bundles that must get another broker, {leave:.0f} to bring every broker "
        f"down to its limits (dual of the covering problem), {arrive:.0f} to lift every broker to its lower "
        "limits; bound = max(first + second, third), among plans that make the same splits"
    )
    return BundleBound(int(np.ceil(least * (1 - SLACK) - 1e-9)), proof)


MAX_LISTED = 8
"""Maximum number of hot bundles that are described one by one."""

_PARTITION = re.compile(r"(?P<topic>.*)-partition-(?P<number>\d+)")


def hot_problems(problem: BundlesProblem, goal: UsageLimits) -> tuple[list[Problem], list[Problem]]:
    """Bundles that are too big for every broker by the goals' own limits: by θ (no plan helps), or by ε
    alone.
    """
    proven = _indivisible_problems(problem, goal.theta, "theta")
    known = {one.proof["bundle"] for one in proven}
    uneven = [
        one
        for one in _indivisible_problems(problem, goal.high, "epsilon")
        if one.proof["bundle"] not in known
    ]
    return proven, uneven


def _indivisible_problems(problem: BundlesProblem, top: FloatArray, goal: str) -> list[Problem]:
    room = free_capacity(problem, top)
    return [_indivisible_problem(problem, top, room, one, goal) for one in too_big(problem, top)[:MAX_LISTED]]


def _indivisible_problem(
    problem: BundlesProblem, top: FloatArray, room: FloatArray, excess: UnplaceableLoad, goal: str
) -> Problem:
    snapshot = problem.snapshot
    key = snapshot.bundles.key[excess.row]
    view, resource = problem.column_name(excess.column)
    broker = snapshot.brokers.name[excess.broker]
    alone = (
        f"{resource} in {view}: bundle {key} alone takes even broker {broker} to {excess.usage:.2%}, "
        f"limit {excess.limit:.2%} ({goal})"
    )
    proof: dict[str, object] = {
        "goal": goal,
        "bundle": key,
        "view": view,
        "broker": broker,
        "usage": excess.usage,
        "limit": excess.limit,
        "times_too_big": excess.times,
        "topics": int(snapshot.bundles.topics[excess.row]),
    }
    where = topics_of(snapshot, excess.row)
    names = snapshot.topics.name[where]
    if not names:
        proof["topics_known"] = 0
        help_ = (
            "its topics' loads are not known: collect topic statistics, or let Pulsar split it by "
            "flow_or_qps_equally_divide"
            if snapshot.bundles.topics[excess.row] > 1
            else "it holds a single topic: give that more partitions, or add bigger brokers"
        )
        return Problem("hot_bundle", f"{alone}; {help_}", resource=resource, proof=proof)
    shares = shares_of(snapshot, excess.row)
    heaviest = int(shares[:, excess.column].argmax())
    share = float(shares[heaviest, excess.column])
    proof |= {"topic": names[heaviest], "topic_share": share}
    one = excess_of(problem, top, room, excess.row, problem.arrays.use[excess.row] * shares[heaviest])
    if one is not None:
        partitions, now = _partitions_needed(problem, names[heaviest], one)
        proof |= {
            "topic_usage": one.usage,
            "topic_times_too_big": one.times,
            "partitions_now": now,
            "partitions_needed": partitions,
        }
        return Problem(
            "hot_topic",
            f"{alone}; topic {names[heaviest]} carries {share:.0%} of it and is alone {one.times:.2f} times "
            f"too big for any broker, so no split helps; give it {partitions} partitions (now {now})",
            count=partitions,
            resource=resource,
            proof=proof,
        )
    return Problem(
        "hot_bundle",
        f"{alone}; topic {names[heaviest]} carries {share:.0%} of it; {_unsplit_reason(problem, excess.row)}",
        resource=resource,
        proof=proof,
    )


def _partitions_needed(problem: BundlesProblem, topic: str, excess: UnplaceableLoad) -> tuple[int, int]:
    """Number of partitions that a topic needs so that each uses at most `TARGET_SHARE` of a broker, and its
    current number.
    """
    found = _PARTITION.fullmatch(topic)
    now = 1
    if found is not None:
        alike = (_PARTITION.fullmatch(name) for name in problem.snapshot.topics.name)
        now = max(
            int(one["number"]) + 1 for one in alike if one is not None and one["topic"] == found["topic"]
        )
    return max(now + 1, math.ceil(now * excess.times / TARGET_SHARE)), now


def _unsplit_reason(problem: BundlesProblem, row: int) -> str:
    """Why a bundle that could be split between its topics was not split."""
    settings, snapshot = problem.settings, problem.snapshot
    namespace = namespace_of(snapshot.bundles.key[row])
    number = bundles_of_namespace(snapshot, namespace)
    if not problem.arrays.movable[row]:
        return "it may not be moved or split: its namespace is the system's or excluded"
    if not settings.allow_splits:
        return "a split between its topics would help: allow splits (bundles.allow_splits)"
    if number >= settings.max_bundles_per_namespace:
        return (
            f"a split would help, but namespace {namespace} has {number} bundles, "
            f"limit {settings.max_bundles_per_namespace} (loadBalancerNamespaceMaximumBundles); "
            "raise it or give the topic a namespace of its own"
        )
    if len(np.unique(snapshot.topics.hash[topics_of(snapshot, row)])) < 2:
        return "no other topic of it carries traffic, so no split helps"
    return "cutting it between its topics was tried and brought the cluster no nearer to its goals"


def evaluate(problem: BundlesProblem, place: IntArray, any_move: bool, cut: Problem | None) -> Evaluation:
    """Evaluate a final ownership by the goals.

    Parameters
    ----------
    any_move, cut
        As `trimtab.plan.search.verdicts.evaluation` takes them.
    """
    load = problem.load(place)
    usage, before = (_usage(problem, each) for each in (load, problem.load(problem.arrays.initial)))
    impossible, undone = _undone(problem, place, cut is not None)
    goal = problem.limits(load)
    asked, mean = problem.goals, problem.mean(load)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.where(problem.counted & (mean > 0), np.abs(usage - mean) / mean, 0.0)
    over, out = violations(usage, deviation, mean, asked)
    proven: list[Problem] = []
    open_: list[Problem] = []
    settled: list[Problem] = []
    if over.any() or out.any():
        alone, uneven = hot_problems(problem, goal)
        causes = causes_of(problem, mean, over, out & ~over)
        proven += [*_too_few_brokers(problem, load, over), *alone]
        known_theta = {one.resource for one in (*proven, *uneven)}
        proven += causes.proven
        known = {one.resource for one in (*proven, *uneven)}
        open_ += [*causes.until, *uneven]
        left = over & ~causes.over
        open_ += _unmet(problem, "theta", left, usage, asked.theta, known_theta, mean)
        # A grace time ends; a policy does not.
        settled = [one for one in causes.uneven if one.kind == "confined_bundles"]
        open_ += causes.uneven
        open_ += _unmet(problem, "epsilon", out & ~over & ~causes.out, deviation, asked.epsilon, known, mean)
    judgement = evaluation(
        (*impossible, *proven, *undone, *open_),
        proven=bool(impossible or proven),
        overloads=bool((over & ~exceeds(before, asked.theta)).any()),
        any_move=any_move,
        cuts=() if cut is None else (cut,),
        incomplete=bool(undone) or bool(over.any()),
        settled=settled,
    )
    return replace(judgement, problems=(*judgement.problems, *policy_findings(problem, place)))


def _usage(problem: BundlesProblem, load: FloatArray) -> FloatArray:
    """Shape of `load`: the share of capacity that it takes, 0 where that is not limited."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(problem.counted, load / problem.capacity, 0.0)


def policy_findings(problem: BundlesProblem, place: IntArray) -> list[Problem]:
    """Findings that violate no goal: bundles outside their policy, and bundles of several brokers."""
    snapshot = problem.snapshot
    found = []
    left = np.flatnonzero(problem.outside & (place == problem.arrays.initial))
    for policy, rows in _by_policy(problem, left).items():
        on = {key: snapshot.brokers.name[snapshot.bundles.owner[row]] for key, row in rows.items()}
        remedy = (
            "they stay until Pulsar loads them anew; bundles.policy_violations=move moves them"
            if problem.settings.policy_violations == "leave"
            else "they stay"
        )
        found.append(
            Problem(
                "policy_violations",
                f"{_listed(on)}: {policy_text(problem, [namespace_of(next(iter(rows)))])} "
                f"{'does' if policy is not None else 'do'} not allow that; {remedy}",
                proof={
                    "policy": None if policy is None else policy_fields(policy),
                    "bundles": [{"bundle": key, "broker": broker} for key, broker in on.items()],
                },
            )
        )
    if claims := {key: one for key, one in sorted(snapshot.claims.items()) if key in snapshot.bundles.key}:
        owner = {key: snapshot.bundles.owner[snapshot.bundles.key.index(key)] for key in claims}
        found.append(
            Problem(
                "several_owners",
                f"{_listed({key: ' and '.join(one) for key, one in claims.items()}, 'reported by')}: a plan "
                "counts such a bundle at one of them and does not move it; it may be changing hands, so "
                "plan again when one broker reports it",
                proof={
                    "bundles": [
                        {
                            "bundle": key,
                            "brokers": list(one),
                            "counted_at": snapshot.brokers.name[owner[key]] if owner[key] >= 0 else None,
                        }
                        for key, one in claims.items()
                    ]
                },
            )
        )
    return found


def findings(snapshot: BundlesSnapshot, settings: BundlesSettings) -> list[Problem]:
    """The findings about the snapshot itself."""
    return policy_findings(problem_data(snapshot, settings), snapshot.bundles.owner)


def _listed(context: Mapping[str, str], how: str = "on") -> str:
    """Bundles with their brokers, the first ones by name."""
    named = ", ".join(f"{key} {how} {broker}" for key, broker in list(context.items())[:NAMED])
    more = f" and {len(context) - NAMED} more" if len(context) > NAMED else ""
    return f"{len(context)} bundle{'' if len(context) == 1 else 's'} ({named}{more})"


def _by_policy(problem: BundlesProblem, rows: Indices) -> dict[IsolationPolicy | None, dict[str, int]]:
    """Bundles by the policy that covers them: key and row of each."""
    found: dict[IsolationPolicy | None, dict[str, int]] = {}
    for row in rows.tolist():
        key = problem.snapshot.bundles.key[row]
        policy = problem.snapshot.policies.isolation_of(namespace_of(key))
        found.setdefault(policy, {})[key] = row
    return found


def _undone(problem: BundlesProblem, place: IntArray, limited: bool) -> tuple[list[Problem], list[Problem]]:
    """Bundles that must get another broker and get none, by cause: those without any permitted broker, and
    the others.
    """
    arrays, snapshot = problem.arrays, problem.snapshot
    impossible: list[Problem] = []
    undone = _unmovable(problem)
    left = np.flatnonzero(arrays.must & (place == arrays.initial))
    if not snapshot.brokers.in_service.any():
        impossible.append(
            Problem(
                "no_broker_in_service",
                f"no broker is in service, so {len(snapshot.bundles)} bundles have nowhere to go; start a "
                "broker, or make a new snapshot once one answers",
                proof={"brokers": len(snapshot.brokers), "bundles": len(snapshot.bundles)},
            )
        )
        return impossible, undone
    nowhere = ~arrays.allowed[arrays.kind[left]].any(axis=1)
    for rows in _by_policy(problem, left[nowhere]).values():
        impossible.append(
            Problem(
                "conflicting_constraints",
                f"{_bundles_by_home(problem, rows)} must get another broker, and none in service is allowed: "
                f"{policy_text(problem, [namespace_of(next(iter(rows)))])}; start one of its brokers, or "
                "name others in the policy",
                proof={"bundles": list(rows), "allowed_brokers": 0},
            )
        )
    rest = left[~nowhere]
    free = arrays.allowed[arrays.kind[rest]].copy()
    for at, row in enumerate(rest.tolist()):
        free[at, [b for b in arrays.barred[row].tolist() if b >= 0]] = False
    if (waits := rest[~free.any(axis=1)]).size:
        said, more = grace_text(problem, waits, None)
        rows = {snapshot.bundles.key[row]: row for row in waits.tolist()}
        undone.append(
            Problem(
                "grace_time",
                f"{_bundles_by_home(problem, rows)} must get another broker: {said}, and no other broker in "
                "service is allowed; plan again then, or lower bundles.grace_seconds",
                proof={"goal": "drain", "bundles": list(rows), **more},
            )
        )
    if (open_ := rest[free.any(axis=1)]).size:
        rows = {snapshot.bundles.key[row]: row for row in open_.tolist()}
        why = "the limits on unloads or sessions leave it out" if limited else "no destination was found"
        undone.append(
            Problem(
                "unmet_goal",
                f"{_bundles_by_home(problem, rows)} must get another broker and does not: {why}",
                proof={"goal": "drain", "bundles": len(rows)},
            )
        )
    return impossible, undone


def _bundles_by_home(problem: BundlesProblem, rows: Mapping[str, int]) -> str:
    """Bundles that should leave, by broker."""
    where = {}
    for key, row in rows.items():
        home = problem.arrays.initial[row]
        service = "" if home < 0 or problem.snapshot.brokers.in_service[home] else ", which is not in service"
        where[key] = "no broker" if home < 0 else f"{problem.snapshot.brokers.name[home]}{service}"
    return _listed(where)


def _unmovable(problem: BundlesProblem) -> list[Problem]:
    """Bundles that should get another broker and are not moved; a broker's own end with it."""
    arrays, snapshot, settings = problem.arrays, problem.snapshot, problem.settings
    home, key = arrays.initial, snapshot.bundles.key
    gone = (home >= 0) & ~arrays.movable & ~snapshot.brokers.in_service[home]
    if settings.policy_violations == "move":
        gone |= problem.outside & ~arrays.movable
    causes: dict[str, dict[str, int]] = {}
    for row in np.flatnonzero(gone).tolist():
        namespace = namespace_of(key[row])
        if is_heartbeat_or_sla(namespace):
            continue
        if key[row] in snapshot.claims:
            why = "several brokers report them"
        elif is_system_namespace(namespace):
            why = "trimtab does not move the system's own; Pulsar places them at their next lookup"
        elif snapshot.bundles.movable[row]:
            why = "bundles.excluded_namespaces names their namespaces"
        else:
            why = "the snapshot says that they may not be moved"
        causes.setdefault(why, {})[key[row]] = row
    return [
        Problem(
            "unmovable_bundles",
            f"{_bundles_by_home(problem, rows)} must get another broker and stay: {why}",
            proof={"bundles": len(rows), "first": next(iter(rows))},
        )
        for why, rows in causes.items()
    ]


def _too_few_brokers(problem: BundlesProblem, load: FloatArray, over: BoolArray) -> list[Problem]:
    """Totals that exceed the limit of all brokers, with the maximum number of brokers to add."""
    found: dict[str, Problem] = {}
    fixed = problem.fixed_mean(True)
    for column in np.flatnonzero(over.any(axis=0) & fixed).tolist():
        view, name = problem.column_name(column)
        counted, resource = problem.counted[:, column], column % len(RESOURCES)
        capacity = problem.snapshot.brokers.capacity[counted, resource]
        theta, where = problem.settings.theta[resource], f"{name} in {view}"
        one = too_few_brokers(
            where, name, UNITS[name], float(load[counted, column].sum()), capacity, theta, {"view": view}
        )
        if one is not None and (name not in found or (found[name].count or 0) < (one.count or 0)):
            found[name] = one
    return list(found.values())


def _unmet(
    problem: BundlesProblem,
    goal: str,
    out: BoolArray,
    measure: FloatArray,
    limit: FloatArray,
    known: set[str | None],
    mean: FloatArray,
) -> list[Problem]:
    """One problem per resource: the views in which brokers stay outside their band, and the worst broker."""
    found = []
    for resource, name in enumerate(RESOURCES):
        columns = np.arange(resource, out.shape[1], len(RESOURCES))
        if name in known or not out[:, columns].any():
            continue
        views = [problem.column_name(int(column))[0] for column in columns[out[:, columns].any(axis=0)]]
        worst, at = np.unravel_index(
            np.where(out, measure, -1.0)[:, columns].argmax(), (len(out), len(columns))
        )
        column = int(columns[at])
        value, view = float(measure[worst, column]), problem.column_name(column)[0]
        broker = problem.snapshot.brokers.name[int(worst)]
        number = int(out[:, columns].any(axis=1).sum())
        figure = percent_above(value, limit[column])
        who = "1 broker stays" if number == 1 else f"{number} brokers stay"
        said = (
            f"above theta {100 * limit[column]:g}%, the worst {broker} at {figure} in {view}"
            if goal == "theta"
            else f"more than {100 * limit[column]:g}% from the mean {mean[column]:.2%}, "
            f"the worst {broker} by {figure} in {view}"
        )
        found.append(
            Problem(
                "unmet_goal",
                f"{name}: {who} {said}; no unload, exchange or split that was tried helps within the rules",
                resource=name,
                proof={"goal": goal, "brokers": number, "views": views, "worst": value, "view": view},
            )
        )
    return found

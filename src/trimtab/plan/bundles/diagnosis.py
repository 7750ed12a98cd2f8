"""Diagnosis of what is too hot, and what would help: the topic, the split, the number of partitions."""

import math
import re

import numpy as np

from trimtab.model.bundles.range import namespace_of
from trimtab.model.load import FloatArray
from trimtab.model.plan import Problem
from trimtab.plan.bundles.hot import UnplaceableLoad, excess_of, free_capacity, too_big
from trimtab.plan.bundles.problem import BundlesProblem
from trimtab.plan.bundles.splitting import TARGET_SHARE, bundles_of_namespace, shares_of, topics_of
from trimtab.plan.search.limits import UsageLimits

MAX_LISTED = 8
"""Hot bundles described one by one."""

_PARTITION = re.compile(r"(?P<topic>.*)-partition-(?P<number>\d+)")


def hot_problems(problem: BundlesProblem, goal: UsageLimits) -> tuple[list[Problem], list[Problem]]:
    """Bundles too big for every broker by the goals' own limits: beyond θ (no plan helps), or ε alone."""
    proven = _problem_text(problem, goal.theta, "theta")
    known = {one.proof["bundle"] for one in proven}
    uneven = [one for one in _problem_text(problem, goal.high, "epsilon") if one.proof["bundle"] not in known]
    return proven, uneven


def _problem_text(problem: BundlesProblem, top: FloatArray, goal: str) -> list[Problem]:
    room = free_capacity(problem, top)
    return [_bundle_text(problem, top, room, one, goal) for one in too_big(problem, top)[:MAX_LISTED]]


def _bundle_text(
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
        partitions, now = _partitions(problem, names[heaviest], one)
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


def _partitions(problem: BundlesProblem, topic: str, excess: UnplaceableLoad) -> tuple[int, int]:
    """Partitions that a topic needs so that each fills `TARGET_SHARE` of a broker at most; those it has."""
    found = _PARTITION.fullmatch(topic)
    now = 1
    if found is not None:
        alike = (_PARTITION.fullmatch(name) for name in problem.snapshot.topics.name)
        now = max(
            int(one["number"]) + 1 for one in alike if one is not None and one["topic"] == found["topic"]
        )
    return max(now + 1, math.ceil(now * excess.times / TARGET_SHARE)), now


def _unsplit_reason(problem: BundlesProblem, row: int) -> str:
    """Why a bundle that could be cut between its topics is still whole."""
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

"""Problems that rules on racks, hosts and replicas prove: the set of brokers, its numbers, the remedies."""

import numpy as np

from trimtab.model.goals import exceeds
from trimtab.model.plan import Problem
from trimtab.model.replicas.resources import RESOURCES, UNITS
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.shares import BrokerPrefix, whole_groups

NAMED = 5
"""Brokers named in a text, at most."""


def must_exceed_theta(problem: ReplicasProblem, r: int) -> Problem | None:
    """The problem of brokers that must carry more than θ allows by the rules; None where none must."""
    theta, name = problem.settings.theta[r], RESOURCES[r]
    found = problem.shares.fullest(r)
    if found is None or not exceeds(found.usage, theta):
        return None
    limit, typical = theta * found.capacity, found.capacity / len(found.brokers)
    count = max(1, int(np.ceil((found.needed / theta - found.capacity) / typical - 1e-9)))
    kind, which = _which(problem, found)
    more = f"{count} broker{'s' if count != 1 else ''} of {typical:.6g} {UNITS[name]}"
    return Problem(
        "conflicting_constraints",
        f"{name}: {_described(problem, found)}: {found.needed:.6g} {UNITS[name]}, limit {limit:.6g} "
        f"({100 * theta:g}% of the capacity). {_remedy(kind, which, more)}",
        count=count,
        resource=name,
        proof={"goal": "theta", **_proof(problem, found), "theta": theta, "limit": limit},
    )


def must_be_uneven(problem: ReplicasProblem, r: int) -> Problem | None:
    """The problem of brokers that the rules keep further than ε from the mean; None where none are."""
    epsilon, name, shares = problem.settings.epsilon[r], RESOURCES[r], problem.shares
    found, others = shares.fullest(r), shares.emptiest(r)
    if found is None or others is None:
        return None
    total, capacity = shares.total(r)
    if total <= 0.0:
        return None
    mean = total / capacity

    def rest(of: BrokerPrefix) -> float:
        return 1 - (total - of.needed) / (capacity - of.capacity) / mean

    if not exceeds(found.usage / mean - 1, epsilon):
        found = others
        if not exceeds(rest(found), epsilon):
            return None
    kind, which = _which(problem, found)
    return Problem(
        "conflicting_constraints",
        f"{name}: {_described(problem, found)}: on average at least {found.usage / mean - 1:.1%} above the "
        f"mean {mean:.2%}, and all other brokers at least {rest(found):.1%} below it (epsilon "
        f"{100 * epsilon:g}%). {_remedy(kind, which, 'brokers')}",
        resource=name,
        proof={
            "goal": "epsilon",
            **_proof(problem, found),
            "mean_usage": mean,
            "above_mean": found.usage / mean - 1,
            "others_below_mean": rest(found),
        },
    )


def _which(problem: ReplicasProblem, found: BrokerPrefix) -> tuple[str, list[str]]:
    """What the set is made of: racks, hosts or brokers, and their names."""
    brokers, service = problem.snapshot.brokers, problem.snapshot.brokers.in_service
    for kind, group, names in (
        ("rack", problem.arrays.rack, brokers.rack),
        ("host", problem.arrays.host, brokers.host),
    ):
        if kind in problem.settings.goals and whole_groups(found.brokers, group, service):
            several = len(set(group[service].tolist())) < int(service.sum())
            if several:
                return kind, sorted({names[b] for b in found.brokers.tolist()})
    return "broker", [str(brokers.id[b]) for b in sorted(found.brokers.tolist())]


def _described(problem: ReplicasProblem, found: BrokerPrefix) -> str:
    """The set, how many brokers it has, and what it must hold."""
    brokers, service = problem.snapshot.brokers, problem.snapshot.brokers.in_service
    kind, which = _which(problem, found)
    named = ", ".join(which[:NAMED]) + (", ..." if len(which) > NAMED else "")
    who = f"{kind}{'s' if len(which) > 1 else ''} {named}"
    least, most = found.replicas
    what = f"{most} replica{'s' if most != 1 else ''}"
    must = (
        f"must hold {what} of every partition" if least == most else f"must hold up to {what} of a partition"
    )
    if kind == "broker":
        return f"{who} {must}, because all others hold one at most"
    of = brokers.rack if kind == "rack" else brokers.host
    there = sum(name in which for name in of)
    ids = [str(brokers.id[b]) for b in sorted(found.brokers.tolist())]
    listed = ", ".join(ids[:NAMED]) + (", ..." if len(ids) > NAMED else "")
    number = f"{len(ids)} broker{'s' if len(ids) > 1 else ''}"
    if there > len(ids):
        has = f"{'have' if len(which) > 1 else 'has'} {number} left ({listed})"
    else:
        has = f"{'have' if len(which) > 1 else 'has'} {len(ids)} of {int(service.sum())} brokers ({listed})"
    return f"{who} {has} and {must}"


def _remedy(kind: str, which: list[str], more: str) -> str:
    if kind == "broker":
        return f"Add {more}, or give these brokers more capacity"
    where = f"{kind} {which[0]}" if len(which) == 1 else f"these {kind}s"
    return f"Add {more} to {where}, or take {kind} out of replicas.goals"


def _proof(problem: ReplicasProblem, found: BrokerPrefix) -> dict[str, object]:
    kind, which = _which(problem, found)
    ids = problem.snapshot.brokers.id
    return {
        "of": kind,
        "names": which,
        "brokers": sorted(int(ids[b]) for b in found.brokers),
        "brokers_in_service": int(problem.snapshot.brokers.in_service.sum()),
        "replicas_of_a_partition": found.replicas[1],
        "needed": found.needed,
        "capacity": found.capacity,
    }

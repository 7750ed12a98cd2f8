"""Partitions that do not get the number of replicas asked for, or crowd a rack with it, and the proofs."""

from dataclasses import replace

import numpy as np

from trimtab.model.load import BoolArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.resources import DISK
from trimtab.plan.replicas.headroom import ROUNDING, ceiling, too_few_holders
from trimtab.plan.replicas.infeasible import PinnedPartitions, counted, named
from trimtab.plan.replicas.placement import Placement, crowding
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.vacancies import unmet

GOAL = "replication_factor"


def factor_problems(
    problem: ReplicasProblem, place: IntArray, lead: IntArray, retained: PinnedPartitions
) -> tuple[list[Problem], list[Problem]]:
    """Problems proven to be beyond every plan of this kind, and those that this one only leaves undone.

    Parameters
    ----------
    place, lead
        The placement in slots.
    retained
        What stays for limits, and for want of room on the way.
    """
    proven: list[Problem] = []
    open_: list[Problem] = []
    left = unmet(problem, place)
    have = ((problem.arrays.initial >= 0) & (problem.arrays.initial < problem.brokers)).sum(axis=1)
    orphaned = left & problem.orphaned
    short = left & ~orphaned & (problem.target_factor > have)
    if orphaned.any():
        text = (
            "keep the replicas that they have: no broker that runs holds them in sync, so there is nothing "
            "to copy from, and none may be given up; bring one of their brokers back"
        )
        proven.append(
            _problem(problem, orphaned, "conflicting_constraints", text, proof={"online_in_sync_copies": 0})
        )
    too_few, where = _too_few(problem, short)
    proven += where
    no_room = [] if where else _no_disk_space(problem, short & ~too_few, place, lead)
    if not where and not no_room and (short & ~too_few).any():
        copies = np.where(problem.target_factor > 0, problem.target_factor, have).astype(np.int32)
        one = too_few_holders(problem, copies)
        no_room = [] if one is None else [_of_partitions(problem, one, short & ~too_few)]
    proven += no_room
    limited, held = (np.isin(np.arange(len(left)), rows) for rows in retained)
    reasons = (
        (limited, "a limit on moves or bytes left them out"),
        (held, "their copies would fill a disk on the way"),
    )
    rest = (short & ~too_few) if not no_room else np.zeros_like(short)
    dropped = left & ~orphaned & ~short
    for which, why in (*reasons, (np.ones_like(left), "")):
        for group, other in (
            (rest, "no broker was found that has room for one more on its disk; not proven impossible"),
            (dropped, "no other replica in sync may lead"),
        ):
            if (mine := group & which).any():
                text = f"keep the replicas that they have: {why or other}"
                open_.append(_problem(problem, mine, "unmet_goal", text, proof={"goal": GOAL}))
        rest, dropped = rest & ~which, dropped & ~which
    for name in ("rack", "host"):
        open_ += _crowded(problem, place, left, name)
    return proven, open_


def _of_partitions(problem: ReplicasProblem, proven: Problem, which: BoolArray) -> Problem:
    """A proof about disks, with the partitions that it keeps from what they are to have."""
    number = int(which.sum())
    kept = f"{counted(number)} ({named(problem, which)}) cannot all get the replicas that are asked for"
    proof: dict[str, object] = {**proven.proof, "partitions": number}
    return replace(proven, text=f"{kept}: {proven.text}", proof=proof)


def _too_few(problem: ReplicasProblem, short: BoolArray) -> tuple[BoolArray, list[Problem]]:
    """Partitions that are to have more replicas than there are brokers that may hold them."""
    arrays, home = problem.arrays, problem.arrays.initial
    open_ = int(arrays.may_receive.sum())
    closed = ((home >= 0) & (home < problem.brokers) & ~arrays.may_receive[home]).sum(axis=1)
    which = short & (problem.target_factor > open_ + closed)
    if not which.any():
        return which, []
    need = int(problem.target_factor[which].max())
    have = open_ + int(closed[which & (problem.target_factor == need)].min())
    more, s = need - have, "s" if need - have > 1 else ""
    text = (
        f"are to have {need} replicas on {need} different brokers, but only {have} brokers may hold them: "
        f"add {more} broker{s}, or open so many that are dead, drain or may be given no replicas; or "
        f"ask for {have}; they keep what they have"
    )
    choices = {"add_brokers": {"count": more}, "ask_for": {"replication_factor": have}}
    proof: dict[str, object] = {
        "replication_factor": need,
        "brokers_that_may_hold_them": have,
        "choices": choices,
    }
    return which, [_problem(problem, which, "add_brokers", text, count=more, proof=proof)]


def _no_disk_space(
    problem: ReplicasProblem, short: BoolArray, place: IntArray, lead: IntArray
) -> list[Problem]:
    """More bytes are to be added than all disks together have room for below θ."""
    arrays = problem.arrays
    if not short.any():
        return []
    top, service = ceiling(problem)[: problem.brokers], problem.counted[: problem.brokers, DISK]
    open_ = arrays.may_receive[: problem.brokers]
    if (open_ & ~service).any():
        return []
    capacity = problem.snapshot.brokers.capacity[: problem.brokers, DISK]
    # What is dropped in the same plan makes room.
    without = Placement(np.where(arrays.initial >= problem.brokers, arrays.initial, place), lead)
    held = problem.load(without)[: problem.brokers, DISK]
    free = float(np.maximum(top[open_] * capacity[open_] - held[open_], 0.0).sum())
    missing = ((arrays.initial >= problem.brokers) * arrays.size[:, None]).sum()
    if missing <= free * ROUNDING:
        return []
    theta = problem.settings.theta[DISK]
    typical = float(np.median(capacity[open_])) if open_.any() else 0.0
    more = max(1, int(np.ceil((missing - free) / (theta * typical) - 1e-9))) if typical else 1
    s = "s" if more > 1 else ""
    text = (
        f"keep the replicas that they have: {missing:.6g} bytes are to be added in all, and all disks "
        f"together have room for {free:.6g} below {100 * theta:g}%: add {more} broker{s} of "
        f"{typical:.6g} bytes; or ask for fewer replicas, or of fewer topics; or raise theta.disk"
    )
    proof: dict[str, object] = {
        "needed_bytes": float(missing),
        "free_bytes": free,
        "theta": theta,
        "choices": {"add_brokers": {"count": more}, "ask_for_less": {}, "raise_theta": {}},
    }
    return [_problem(problem, short, "add_brokers", text, count=more, resource="disk", proof=proof)]


def _crowded(problem: ReplicasProblem, place: IntArray, left: BoolArray, name: str) -> list[Problem]:
    """Partitions that crowd a rack or a host with the number of replicas that they have now."""
    arrays = problem.arrays
    group, cap = getattr(arrays, name), getattr(arrays, f"{name}_cap")
    real = np.where(place < problem.brokers, place, -1)
    which = (problem.target_factor > 0) & ~left & crowding(real, group, cap)
    if not which.any():
        return []
    text = (
        f"crowd a {name}: by the replicas that they had, or for want of brokers elsewhere that have room and "
        "may be given some; a plan without replication_factor spreads what can be spread"
    )
    return [_problem(problem, which, "unmet_goal", text, proof={"goal": name})]


def _problem(
    problem: ReplicasProblem,
    which: BoolArray,
    kind: str,
    text: str,
    *,
    count: int | None = None,
    resource: str | None = None,
    proof: dict[str, object],
) -> Problem:
    number = int(which.sum())
    told = {"partitions": number, **proof}
    sentence = f"{counted(number)} ({named(problem, which)}) {text}"
    return Problem(kind, sentence, count=count, resource=resource, proof=told)

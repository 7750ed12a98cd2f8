"""Partitions that break a hard goal in the end, and whether any plan could have done better."""

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.plan.replicas.board import new_board
from trimtab.plan.replicas.headroom import no_room
from trimtab.plan.replicas.lawful import find_places
from trimtab.plan.replicas.placement import Placement, crowding
from trimtab.plan.replicas.problem import ProblemData

NAMED = 5
"""Partitions named in a text; the proof counts them all."""


def hard_problems(
    problem: ProblemData, place: IntArray, lead: IntArray, load: FloatArray
) -> tuple[list[Problem], list[Problem]]:
    """Problems proven to be beyond every plan, and those that this one only leaves undone.

    Parameters
    ----------
    place, lead
        The placement in slots.
    load
        Shape (brokers, resources): its load.
    """
    arrays = problem.arrays
    full, explained = no_room(problem, place)
    asked = ~problem.excluded & ~explained
    # What is excluded stays where it is because the operator says so; that breaks no goal.
    left = asked & (arrays.leaving & (place == arrays.home)).any(axis=1)
    demoted = asked & (lead < 0) & problem.demoted
    leaderless = asked & (lead < 0) & (arrays.home >= 0).any(axis=1) & ~demoted
    crowded = {
        "rack": asked & crowding(place, arrays.rack, arrays.rack_cap),
        "host": asked & crowding(place, arrays.host, arrays.host_cap),
    }
    broken = left | leaderless | demoted | crowded["rack"] | crowded["host"]
    if not broken.any():
        return full, []
    lost = broken.copy()
    lost[broken] = problem.orphaned[broken] | ~_placeable(
        problem, place, lead, load, np.flatnonzero(broken).astype(np.int32)
    )
    proven = [*full, *_left_behind(problem, left & lost), *_leaderless(problem, leaderless & lost)]
    open_ = _open(problem, left & ~lost, "must leave their brokers and have not", "offline or drain")
    open_ += _open(problem, leaderless & ~lost, "stay without a leader", "leader")
    open_ += _open(problem, demoted & ~lost, "stay led by a broker that is to lead nothing", "demote")
    if (demoted & lost).any():
        why = (
            "are led by a broker that is to lead nothing: no other replica in sync may lead, nor any broker "
            "that could be given one by every hard rule"
        )
        proven.append(_conflict(problem, demoted & lost, why, {"goal": "demote"}))
    for name, groups in (("rack", problem.racks), ("host", problem.hosts)):
        if (crowded[name] & lost).any():
            why = (
                f"crowd a {name}, and cannot be spread: there is nothing to copy from, or no brokers that "
                f"may hold them keep to at most ceil(replicas / {groups}) a {name} and every other hard rule"
            )
            proof: dict[str, object] = {f"{name}s": groups, "goal": name}
            proven.append(_conflict(problem, crowded[name] & lost, why, proof))
        open_ += _open(problem, crowded[name] & ~lost, f"still crowd a {name}", name)
    return proven, open_


def _placeable(
    problem: ProblemData, place: IntArray, lead: IntArray, load: FloatArray, rows: IntArray
) -> BoolArray:
    """Shape of `rows`: whether some plan could place the partition by every hard rule."""
    borne, wide = problem.borne(Placement(place, lead)), problem.wide
    board = new_board(wide, place, lead, borne * wide.inverse, problem.limits(borne))
    leaders = problem.home.leader[rows]
    found = np.zeros(len(rows), dtype=np.bool_)
    find_places(board, rows, leaders, found)
    return found


def _left_behind(problem: ProblemData, left: BoolArray) -> list[Problem]:
    """Replicas that no plan gets off the brokers that they must leave, by why."""
    arrays = problem.arrays
    orphaned = left & problem.orphaned
    rest = left & ~orphaned
    factor = problem.snapshot.partitions.replication_factor
    open_brokers = int(arrays.may_receive.sum())
    staying = ((arrays.home >= 0) & ~arrays.leaving).sum(axis=1)
    holders_closed = ((arrays.home >= 0) & ~arrays.leaving & ~arrays.may_receive[arrays.home]).sum(axis=1)
    too_few = rest & (factor > open_brokers + holders_closed)
    other = rest & ~too_few
    found = []
    if orphaned.any():
        why = (
            "must leave their brokers, but no broker that runs holds them in sync, so there is nothing "
            "to copy from: bring one of their brokers back"
        )
        found.append(_conflict(problem, orphaned, why, {"online_in_sync_copies": 0}))
    if too_few.any():
        need = int(factor[too_few].max())
        have = open_brokers + int(holders_closed[too_few & (factor == need)].min())
        found.append(
            Problem(
                kind="add_brokers",
                count=need - have,
                text=f"{int(too_few.sum())} partitions keep {need} replicas on {need} different "
                f"brokers, but only {have} brokers may hold them; add {need - have} "
                f"({named(problem, too_few)})",
                proof={"replication_factor": need, "brokers_that_may_hold_them": have},
            )
        )
    if other.any():
        why = (
            "must leave their brokers, but the rules on leaders, brokers, racks, hosts and log dirs leave no "
            "destination, or no replica in sync that may lead meanwhile"
        )
        proof: dict[str, object] = {
            "replicas_that_stay": int(staying[other].sum()),
            "brokers_open_for_replicas": open_brokers,
        }
        found.append(_conflict(problem, other, why, proof))
    return found


def _leaderless(problem: ProblemData, without: BoolArray) -> list[Problem]:
    """Partitions that no plan can give a leader."""
    if not without.any():
        return []
    number = int(without.sum())
    return [
        Problem(
            "no_leader",
            f"{counted(number)} without a leader and none can be given: no replica on a running broker is "
            f"in sync and may lead ({named(problem, without)}); left as they are",
            proof={"partitions": number, "online_in_sync_replicas_that_may_lead": 0},
        )
    ]


def _open(problem: ProblemData, which: BoolArray, what: str, goal: str) -> list[Problem]:
    """Partitions for which there may be a way that this plan does not go."""
    if not which.any():
        return []
    number = int(which.sum())
    text = (
        f"{counted(number)} ({named(problem, which)}) {what}; not proven impossible: a limit on moves "
        "or bytes left it out, or it takes a way that the strategy does not know, such as back to a broker "
        "whose log dir failed"
    )
    return [Problem("unmet_goal", text, proof={"goal": goal, "partitions": number})]


def _conflict(problem: ProblemData, which: BoolArray, why: str, proof: dict[str, object]) -> Problem:
    number = int(which.sum())
    return Problem(
        "conflicting_constraints",
        f"{counted(number)} ({named(problem, which)}) {why}",
        proof={"partitions": number, **proof},
    )


def counted(number: int) -> str:
    """So many partitions, in words."""
    return f"{number} partition{'s' if number != 1 else ''}"


def named(problem: ProblemData, which: BoolArray) -> str:
    """The first few of some partitions by name."""
    parts = problem.snapshot.partitions
    rows = np.flatnonzero(which)
    names = ", ".join(f"{parts.topics[parts.topic[p]]}-{parts.number[p]}" for p in rows[:NAMED])
    return names + (", ..." if len(rows) > NAMED else "")

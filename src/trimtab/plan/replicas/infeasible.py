"""Partitions that violate a hard goal at the end, and whether another plan could do better."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.snapshot import ReplicaBrokerState
from trimtab.plan.replicas.arrays import UNBOUNDED, Placement, crowding
from trimtab.plan.replicas.board import new_board
from trimtab.plan.replicas.feasible import find_places
from trimtab.plan.replicas.headroom import insufficient_space, too_big, too_few_holders
from trimtab.plan.replicas.problem import ReplicasProblem

NAMED = 5
"""Partitions named in a text; the proof counts them all."""


class PinnedPartitions(NamedTuple):
    """Partitions that stay where they are for a reason that the planner knows.

    Attributes
    ----------
    by_limits
        `max_bytes` or `max_moves` left them out.
    by_disks
        Their copies would fill a disk on the way.
    """

    by_limits: IntArray
    by_disks: IntArray


NOTHING_PINNED = PinnedPartitions(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


def hard_problems(
    problem: ReplicasProblem,
    place: IntArray,
    lead: IntArray,
    leader: IntArray,
    load: FloatArray,
    retained: PinnedPartitions,
) -> tuple[list[Problem], list[Problem]]:
    """Problems that no plan can solve, and those that only this plan leaves unsolved.

    Parameters
    ----------
    place, lead
        The placement in slots.
    leader
        Shape (partitions,): broker index of the leader after the plan, -1 for none.
    load
        Shape (brokers, resources): its load.
    retained
        Partitions that stay because of limits, or because disks lack space during the execution.
    """
    arrays, settings = problem.arrays, problem.settings
    if settings.intra_broker_only and not settings.fix_offline_replicas:
        return [], []
    # A replica stays if its broker is in the final list, in whatever slot.
    remain = arrays.leaving & (place[:, None, :] == arrays.initial[:, :, None]).any(axis=2)
    rows = np.arange(len(place))
    ids = problem.snapshot.brokers.id
    held = (arrays.initial >= 0).any(axis=1)
    left = remain.any(axis=1)
    demoted = (leader >= 0) & np.isin(ids, settings.demote)[leader] & problem.needed
    led = (lead >= 0) & ~(left & problem.offline[rows, np.maximum(lead, 0)])
    leaderless = held & ~led & ~demoted & problem.needed
    asked = problem.free & ~left
    crowded = {
        "rack": asked & crowding(place, arrays.rack, arrays.rack_cap),
        "host": asked & crowding(place, arrays.host, arrays.host_cap),
    }
    full, explained = insufficient_space(problem, place)
    holders = too_few_holders(problem, copies_in_service(problem)) if left.any() and not full else None
    if holders is not None:
        full, explained = [holders], explained | (left & arrays.movable)
    most, big = too_big(problem)
    if (big := big & left & arrays.movable & ~explained).any():
        why = (
            "cannot leave, as no broker that may receive replicas may hold so many bytes within theta: "
            f"{float(arrays.size[big].max()):.6g} bytes, and "
            f"{most:.6g} at most; add bigger brokers, or keep less data"
        )
        proof_of_size: dict[str, object] = {"goal": "theta", "allowed_bytes_a_replica": most}
        full, explained = [*full, _conflict(problem, big, why, proof_of_size)], explained | big
    totals = _remaining(problem, remain, leader, demoted)
    fixed = problem.excluded & ~arrays.movable & ~problem.orphaned
    if (leaderless & (left | explained | fixed)).any():
        number = int(leaderless.sum())
        text = (
            f"{counted(number)} ({named(problem, leaderless)}) {'has' if number == 1 else 'have'} no leader"
        )
        proof: dict[str, object] = {"goal": "leader", "partitions": number}
        totals.append(Problem("unmet_goal", f"{text} after this plan", proof=proof))
    broken = (left | leaderless | demoted | crowded["rack"] | crowded["host"]) & ~explained & ~fixed
    if not broken.any():
        return full, [*totals, *_excluded(problem, (left | leaderless | demoted) & fixed)]
    lost = broken.copy()
    lost[broken] = problem.orphaned[broken] | ~_placeable(
        problem, place, lead, load, np.flatnonzero(broken).astype(np.int32)
    )
    proven = [*full, *_left_behind(problem, left & lost), *_leaderless(problem, leaderless & lost & ~left)]
    open_ = [*totals, *_excluded(problem, (left | leaderless | demoted) & fixed)]
    undone = _UnmovedPartitions(problem, place, load, retained)
    rest = broken & ~lost
    open_ += undone.problems(left & rest, "must leave {their} broker{s} and {have} not", "offline or drain")
    open_ += undone.problems(leaderless & rest & ~left, "{stay} without a leader", "leader")
    open_ += undone.problems(
        demoted & rest & ~left, "{stay} led by a broker that is to lead nothing", "demote"
    )
    if (which := demoted & lost & ~left).any():
        why = (
            f"{'is' if which.sum() == 1 else 'are'} led by a broker that is to lead nothing: no other "
            "replica in sync may lead, nor any broker that could be given one by every hard rule"
        )
        proven.append(_conflict(problem, which, why, {"goal": "demote"}))
    for name, groups in (("rack", problem.racks), ("host", problem.hosts)):
        if (which := crowded[name] & lost).any():
            why = (
                f"{'crowds' if which.sum() == 1 else 'crowd'} a {name}, and cannot be spread: no brokers "
                f"that may hold {'it keep' if which.sum() == 1 else 'them keep'} to at most "
                f"ceil(replicas / {groups}) a {name} and every other hard rule"
            )
            if problem.orphaned[which].all():
                why = (
                    f"{'crowds' if which.sum() == 1 else 'crowd'} a {name}, and cannot be spread: no broker "
                    f"that runs holds {'it' if which.sum() == 1 else 'them'} in sync, so there is nothing to "
                    "copy from"
                )
            proof = {f"{name}s": groups, "goal": name}
            proven.append(_conflict(problem, which, why, proof))
        open_ += undone.problems(crowded[name] & rest, "still {crowd} a " + name, name)
    return proven, open_


def copies_in_service(problem: ReplicasProblem) -> IntArray:
    """Shape (partitions,): copies that brokers in service must hold after all possible departures."""
    arrays = problem.arrays
    leaves = arrays.leaving & arrays.movable[:, None]
    stays = problem.snapshot.brokers.in_service[arrays.initial]
    return np.asarray(((arrays.initial >= 0) & (leaves | stays)).sum(axis=1), dtype=np.int32)


def _remaining(
    problem: ReplicasProblem, remain: BoolArray, leader: IntArray, demoted: BoolArray
) -> list[Problem]:
    """For each drained or demoted broker, the remaining replicas or leaders, counted and named."""
    brokers, home = problem.snapshot.brokers, problem.arrays.initial
    found = []
    # Few brokers are concerned, and a look at each of them takes time with all partitions.
    concerned = np.union1d(home[remain], leader[demoted])
    for b in concerned[(concerned >= 0) & (concerned < problem.brokers)].tolist():
        here = (remain & (home == b)).any(axis=1)
        number, state = int(brokers.id[b]), brokers.state[b]
        goal = "drain" if state == ReplicaBrokerState.DRAINING else "offline"
        where = "which is to be emptied" if goal == "drain" else "in log dirs that are offline"
        if state == ReplicaBrokerState.DEAD:
            where = "which is dead"
        led = leader == b
        for held, leads, why, about in (
            (here, led & here, goal, where),
            (np.zeros_like(here), led & demoted, "demote", "which is to lead nothing"),
        ):
            if held.any() or leads.any():
                found.append(_remains(problem, number, held, leads, why, about))
    return found


def _remains(
    problem: ReplicasProblem, broker: int, held: BoolArray, leads: BoolArray, goal: str, context: str
) -> Problem:
    """The remaining replicas or leaders of one request on one broker."""
    what = []
    if held.any():
        what.append(f"holds {int(held.sum())} replica{'s' if held.sum() != 1 else ''}")
    if leads.any():
        what.append(f"leads {counted(int(leads.sum()))}")
    text = f"broker {broker}, {context}, still {' and '.join(what)} after this plan"
    if context.startswith("in log"):
        text = f"broker {broker} still {' and '.join(what)} {context} after this plan"
    proof: dict[str, object] = {
        "goal": goal,
        "broker": broker,
        "replicas": int(held.sum()),
        "leaders": int(leads.sum()),
        "first_partitions": names_of(problem, held | leads),
    }
    return Problem("unmet_goal", f"{text} ({named(problem, held | leads)})", proof=proof)


def _excluded(problem: ReplicasProblem, which: BoolArray) -> list[Problem]:
    """Partitions that an exclusion keeps where they are."""
    if not which.any():
        return []
    one = which.sum() == 1
    text = (
        f"{counted(int(which.sum()))} ({named(problem, which)}) {'stays' if one else 'stay'} because "
        f"excluded_topics names {'its' if one else 'their'} topic{'' if one else 's'} and "
        "evacuate_excluded_topics is false; set it to true to move what must move"
    )
    proof: dict[str, object] = {"goal": "excluded_topics", "partitions": int(which.sum())}
    return [Problem("unmet_goal", text, proof=proof)]


@dataclass(frozen=True, eq=False)
class _UnmovedPartitions:
    """Partitions that another plan might move, grouped by the known cause."""

    problem: ReplicasProblem
    place: IntArray
    load: FloatArray
    pinned: PinnedPartitions

    def problems(self, which: BoolArray, what: str, goal: str) -> list[Problem]:
        """The problems, one for each cause; `what` has placeholders for words that depend on the number."""
        found = []
        rest = which.copy()
        for cause, rows, text in (
            ("limits", self._rows(self.pinned.by_limits), "max_bytes or max_moves leaves no more"),
            ("disk_on_the_way", self._rows(self.pinned.by_disks), "a copy would fill a disk on the way"),
            ("no_room", self._blocked_by_space(rest), self._space_text()),
            ("search", np.ones(len(which), dtype=np.bool_), self._search_text()),
        ):
            mine = rest & rows
            if mine.any():
                found.append(self._problem(mine, what, goal, cause, text))
            rest &= ~rows
        return found

    def _problem(self, which: BoolArray, what: str, goal: str, cause: str, why: str) -> Problem:
        number = int(which.sum())
        one = number == 1
        said = what.format(
            their="its" if one else "their",
            s="" if one else "s",
            have="has" if one else "have",
            stay="stays" if one else "stay",
            crowd="crowds" if one else "crowd",
        )
        text = f"{counted(number)} ({named(self.problem, which)}) {said}: {why}"
        return Problem("unmet_goal", text, proof={"goal": goal, "partitions": number, "cause": cause})

    def _rows(self, rows: IntArray) -> BoolArray:
        found = np.zeros(len(self.place), dtype=np.bool_)
        found[rows] = True
        return found

    def _blocked_by_space(self, which: BoolArray) -> BoolArray:
        """Partitions whose leaving replicas find every open broker too full at the end of the plan."""
        problem, found = self.problem, np.zeros(len(self.place), dtype=np.bool_)
        arrays = problem.arrays
        usage, theta = self.load * arrays.inverse, problem.bare_limits(self.load).theta
        for p in np.flatnonzero(which).tolist():
            if not (arrays.leaving[p] & (self.place[p] == arrays.initial[p])).any():
                continue
            may = arrays.may_receive.copy()
            may[self.place[p][self.place[p] >= 0]] = False
            after = usage[may] + arrays.use[p, 0] * arrays.inverse[may]
            found[p] = may.any() and bool((after > theta[may]).any(axis=1).all())
        return found

    def _space_text(self) -> str:
        return (
            "every broker that may receive replicas would pass theta with one more of them after this plan; "
            "not completed, not proven impossible"
        )

    def _search_text(self) -> str:
        settings = self.problem.settings
        limits = ", ".join(
            f"{name} {'none' if limit is None else limit}"
            for name, limit in (("max_bytes", settings.max_bytes), ("max_moves", settings.max_moves))
        )
        return (
            f"not completed, not proven impossible; the search with strategy {settings.strategy} found no "
            f"way within theta and the rules of racks, hosts and leaders ({limits})"
        )


def _placeable(
    problem: ReplicasProblem, place: IntArray, lead: IntArray, load: FloatArray, rows: IntArray
) -> BoolArray:
    """Shape of `rows`: whether some plan could place the partition by every hard rule."""
    borne, wide = problem.carried_load(Placement(place, lead)), problem.wide
    # Racks and hosts are not asked of excluded topics.
    rack_cap = np.where(problem.excluded, UNBOUNDED, wide.rack_cap).astype(np.int32)
    host_cap = np.where(problem.excluded, UNBOUNDED, wide.host_cap).astype(np.int32)
    wide = wide._replace(rack_cap=rack_cap, host_cap=host_cap)
    board = new_board(wide, place, lead, borne * wide.inverse, problem.limits(borne))
    leaders = problem.initial_placement.leader[rows]
    found = np.zeros(len(rows), dtype=np.bool_)
    find_places(board, rows, leaders, found)
    return found


def _left_behind(problem: ReplicasProblem, left: BoolArray) -> list[Problem]:
    """Replicas that no plan can move from the brokers that they must leave, by cause."""
    arrays = problem.arrays
    orphaned = left & problem.orphaned
    rest = left & ~orphaned
    factor = problem.snapshot.partitions.replication_factor
    open_brokers = int(arrays.may_receive.sum())
    staying = ((arrays.initial >= 0) & ~arrays.leaving).sum(axis=1)
    holders_closed = ((arrays.initial >= 0) & ~arrays.leaving & ~arrays.may_receive[arrays.initial]).sum(
        axis=1
    )
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


def _leaderless(problem: ReplicasProblem, without: BoolArray) -> list[Problem]:
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


def _conflict(problem: ReplicasProblem, which: BoolArray, why: str, proof: dict[str, object]) -> Problem:
    number = int(which.sum())
    return Problem(
        "conflicting_constraints",
        f"{counted(number)} ({named(problem, which)}) {why}",
        proof={"partitions": number, **proof},
    )


def counted(number: int) -> str:
    """A number of partitions as text."""
    return f"{number} partition{'s' if number != 1 else ''}"


def named(problem: ReplicasProblem, which: BoolArray) -> str:
    """The first few of some partitions by name."""
    return ", ".join(names_of(problem, which)) + (", ..." if which.sum() > NAMED else "")


def names_of(problem: ReplicasProblem, which: BoolArray) -> list[str]:
    """The names of the first few of some partitions."""
    parts = problem.snapshot.partitions
    return [parts.name_of(p) for p in np.flatnonzero(which)[:NAMED].tolist()]

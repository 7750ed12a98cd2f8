"""Headroom: no plan fills a disk above θ, neither at its end nor during the execution.

Disks are those of the brokers, and of the hosts that declare one.

Room on disks comes before racks and hosts, and before every other goal: a full disk stops its broker, and
with it more than one replica. If replicas that must move find no space by the rules, racks and hosts are
relaxed for as few partitions as necessary (biggest first). If that is not enough, replicas stay in place: on
a draining broker, or missing on a dead one. This applies to the plans of all strategies (`too_full`); only
`trim` searches again (`relax_constraints`).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.secondary_goals import Hosts, hosts_of
from trimtab.model.replicas.settings import DISK
from trimtab.plan.replicas.arrays import UNBOUNDED, Placement, crowding
from trimtab.plan.replicas.moves import LEADER_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem

ROUNDS = 3
"""Maximum number of searches for each relaxed rule; each round covers three times the excess of the previous
one.
"""

ROUNDING = 1 + 1e-9


def ceiling(problem: ReplicasProblem) -> FloatArray:
    """Shape (disks,): limit of each disk, infinite if not limited; brokers, then hosts.

    θ (the whole disk if θ is no goal), or the current content if that is more.
    """
    asked = _required_theta(problem)
    theta = problem.settings.theta[DISK] if asked else 1.0
    counted, most = problem.counted[:, DISK], np.full(len(problem.counted), theta)
    if (hosts := _hosts(problem)) is not None:
        own = problem.settings.host_theta[DISK] or theta
        counted = np.concatenate([counted, hosts.declared[:, DISK]])
        most = np.concatenate([most, np.full(len(hosts), own)])
    return np.where(counted, np.maximum(most, _disk(problem, problem.initial_placement)) * ROUNDING, np.inf)


def relax_constraints(
    problem: ReplicasProblem, placement: Placement, search: Callable[[ReplicasProblem], Placement]
) -> Placement:
    """The placement, or a new one with relaxed rules on racks and hosts, or with fewer necessary moves.

    Parameters
    ----------
    search
        Finds a placement of a problem.
    """
    rules = problem
    for give, may in (
        (_available_spread, _required_spread),
        (_still_leading, _copied_to_lead),
        (_staying, _forced_bytes),
    ):
        for turn in range(ROUNDS):
            rows = _arrivals_in_excess(rules, placement, may(rules), 3.0**turn)
            if not len(rows):
                break
            rules = give(rules, rows)
            placement = search(rules)
    return placement


def too_full(problem: ReplicasProblem, steps: StepArrays) -> IntArray:
    """Partitions with a step that fills a disk above its ceiling, if the steps are made one after the other.

    A copy is on its new broker before it leaves the old one.
    """
    use = problem.arrays.use[steps.partition, :, DISK]
    role = use[np.arange(len(use)), steps.role]
    change = np.where(steps.kind == LEADER_STEP, use[:, 1] - use[:, 0], role)
    broker, change = np.concatenate([steps.target, steps.source]), np.concatenate([change, -change])
    which = np.tile(np.arange(len(use)), 2)
    if (hosts := _hosts(problem)) is not None:
        reached, left = (np.where(side >= 0, hosts.of[side], -1) for side in (steps.target, steps.source))
        on = np.concatenate([np.where(reached == left, -1, reached), np.where(reached == left, -1, left)])
        broker = np.concatenate([broker, np.where(on >= 0, on + len(problem.counted), -1)])
        change, which = np.tile(change, 2), np.tile(which, 2)
    change = change * np.where(broker >= 0, _inverse(problem)[broker], 0.0)
    order = np.lexsort((which, broker))
    broker, change = broker[order], change[order]
    usage, top = _disk(problem, problem.initial_placement), ceiling(problem)
    level, first = np.cumsum(change), np.searchsorted(broker, broker)
    level += usage[broker] - (level[first] - change[first])
    over = (broker >= 0) & (change > 0) & (level > top[broker])
    return np.unique(steps.partition[which[order]][over])


def reverted(problem: ReplicasProblem, placement: Placement, rows: IntArray) -> Placement:
    """The placement with some partitions reverted to the snapshot.

    A leader of these that must leave, or that is missing, is still replaced by a replica in sync that may
    lead. Leaders of other partitions stay as the placement has them: limits may have left them out.
    """
    place, lead = placement.place.copy(), placement.lead.copy()
    place[rows], lead[rows] = problem.arrays.initial[rows], problem.initial_leader[rows]
    lead[rows] = with_leaders_moved(problem, Placement(place, lead)).lead[rows]
    return Placement(place, lead)


def with_leaders_moved(problem: ReplicasProblem, placement: Placement) -> Placement:
    """The placement with leader transfers away from brokers that must lose their leaders.

    The new leader is a replica in sync that may lead, on the broker with most room below θ. A partition
    without any leader gets one even if no broker has room; nothing is copied.
    """
    arrays, wide = problem.arrays, problem.wide
    place, lead = placement.place, placement.lead.copy()
    rows, slot = np.arange(len(lead)), np.maximum(lead, 0)
    left = (lead >= 0) & arrays.leaving[rows, slot] & (place[rows, slot] == arrays.initial[rows, slot])
    waits = arrays.movable & (left | ((lead < 0) & (place >= 0).any(axis=1)))
    if not waits.any():
        return placement
    more = wide.use[:, 1] - wide.use[:, 0]
    start = np.where(lead >= 0, lead, np.where(problem.demoted, problem.first_lead, -1)).astype(np.int32)
    borne = problem.carried_load(Placement(place, start))
    usage, theta = borne * wide.inverse, problem.limits(borne).theta
    order = np.flatnonzero(waits)
    order = order[np.argsort(-more[order].max(axis=1), kind="stable")]
    for p in order.tolist():
        homes = arrays.initial[p].tolist()
        best, room = -1, -np.inf
        for t, b in enumerate(place[p].tolist()):
            at = homes.index(b) if b in homes else -1
            if b < 0 or not arrays.may_lead[b] or (at >= 0 and not arrays.initial_in_sync[p, at]):
                continue
            if at >= 0 and arrays.leaving[p, at]:
                continue
            after = usage[b] + more[p] * wide.inverse[b]
            spare = float(np.where(more[p] > 0, theta[b] - after, np.inf).min())
            if spare > room:
                best, room = t, spare
        if best < 0 or (room < 0 and start[p] >= 0):
            continue
        target = place[p, best]
        usage[target] += more[p] * wide.inverse[target]
        if start[p] >= 0:
            source = place[p, start[p]]
            usage[source] -= more[p] * wide.inverse[source]
        lead[p] = best
    return Placement(place, lead)


def held_back(problem: ReplicasProblem, rows: IntArray) -> Problem | None:
    """The problem of partitions that stay because a disk would be filled for them."""
    if not len(rows):
        return None
    first = problem.snapshot.partitions.name_of(int(rows[0]))
    number, more, stay, their = f"{len(rows)} partitions", ", ...", "stay where they are", "their"
    if len(rows) == 1:
        number, more, stay, their = "1 partition", "", "stays where it is", "its"
    return Problem(
        "limit_reached",
        f"{number} ({first}{more}) {stay}: {their} copies would "
        "fill a disk above theta, at the end or on the way",
        resource="disk",
        proof={"partitions": len(rows), "theta": problem.settings.theta[DISK]},
    )


def insufficient_space(problem: ReplicasProblem, place: IntArray) -> tuple[list[Problem], BoolArray]:
    """Racks, hosts or clusters whose disks cannot hold the replicas required by the rules within θ, with the
    remedies.

    Parameters
    ----------
    place
        The final placement: the problems name the relaxed rules, and the affected partitions are returned.

    Returns
    -------
    tuple[list[Problem], BoolArray]
        The problems, and shape (partitions,): those that crowd a group or stay behind because of them.
    """
    arrays, service = problem.arrays, problem.snapshot.brokers.in_service
    found: list[Problem] = []
    explained = np.zeros(len(place), dtype=np.bool_)
    if not _required_theta(problem):
        return found, explained
    stayed = (arrays.leaving & (place == arrays.initial)).any(axis=1) & arrays.movable
    for name, group, cap in (
        ("rack", arrays.rack, arrays.rack_cap),
        ("host", arrays.host, arrays.host_cap),
        ("cluster", np.zeros_like(arrays.rack), np.full_like(arrays.rack_cap, UNBOUNDED)),
    ):
        gave_way = (crowding(place, group, cap) & arrays.movable) | stayed
        if gave_way.any() and not (name == "cluster" and found):
            groups = np.unique(group[service]).tolist()
            short = [_shortage(problem, place, name, group, cap, number, gave_way) for number in groups]
            found += [one for one in short if one is not None]
            explained |= gave_way & any(short)
    return found, explained


def _shortage(
    problem: ReplicasProblem,
    place: IntArray,
    name: str,
    group: IntArray,
    cap: IntArray,
    number: int,
    relaxed: BoolArray,
) -> Problem | None:
    """The problem of a group that must hold more than θ of its disks by the rules; None if it need not.

    The necessary number of replicas there is the partition's replicas, less the caps of the other groups (or
    the brokers in them, where those are fewer).
    """
    snapshot, arrays = problem.snapshot, problem.arrays
    brokers, theta = snapshot.brokers, problem.settings.theta[DISK]
    here = (group == number) & brokers.in_service
    if not problem.counted[here, DISK].all():
        return None
    sizes = np.bincount(group[brokers.in_service], minlength=int(group.max()) + 1)
    sizes[number] = 0
    elsewhere = np.minimum(sizes[None, :], cap[:, None]).sum(axis=1)
    copies = ((arrays.initial >= 0) & (arrays.leaving | brokers.in_service[arrays.initial])).sum(axis=1)
    must = np.maximum(copies - elsewhere, 0) * problem.free
    needed, capacity = float((must * arrays.size).sum()), float(brokers.capacity[here, DISK].sum())
    already = ""
    room = theta * capacity
    if problem.scoped:
        # A disk that is above θ already keeps what it holds.
        room = float((ceiling(problem)[: len(here)][here] * brokers.capacity[here, DISK]).sum())
        if room > theta * capacity * ROUNDING:
            already = f" ({room:.6g} with what full disks hold already)"
    if needed <= room * ROUNDING:
        return None
    names = {"rack": brokers.rack, "host": brokers.host}.get(name)
    label = f"{name} {names[int(np.flatnonzero(here)[0])]}" if names else "the cluster"
    typical = capacity / int(here.sum())
    count = max(1, int(np.ceil((needed - room) / theta / typical - 1e-9)))
    left = int((relaxed & (arrays.leaving & (place == arrays.initial)).any(axis=1)).sum())
    moved = int(relaxed.sum()) - left
    without = Placement(
        np.where(problem.arrived(place) & relaxed[:, None], -1, place), problem.initial_leader
    )
    peak, apart = (_peak(problem, Placement(each, problem.initial_leader)) for each in (place, without.place))
    with_more = needed / (capacity + count * typical)
    choices: dict[str, object] = {"add_brokers": {"count": count, "disk": with_more}}
    told = [
        f"add {count} broker{'s' if count != 1 else ''} of {typical:.6g} bytes to it (disk {with_more:.0%})"
    ]
    if moved and names:
        choices[f"relax_{name}"] = {"partitions": moved, "disk": peak}
        told.append(
            f"let {moved} partitions crowd another {name}, as this plan does (disk {peak:.0%} at most)"
        )
    choices["leave"] = {"partitions": moved + left, "disk": apart}
    told.append(
        f"leave {moved + left} partitions with a replica missing or on a broker that drains"
        f"{', as this plan does with ' + str(left) if left else ''} (disk {apart:.0%} at most)"
    )
    return Problem(
        "conflicting_constraints" if names else "add_brokers",
        f"disk: {label} must hold {needed:.6g} bytes{f' by the rule of {name}s' if names else ''}, more than "
        f"{100 * theta:g}% of its {int(here.sum())} broker{'s' if here.sum() != 1 else ''}, "
        f"{theta * capacity:.6g}{already}: {'; or '.join(told)}",
        count=count,
        resource="disk",
        proof={
            "goal": "theta",
            "where": label,
            "needed_bytes": needed,
            "capacity_bytes": capacity,
            "theta": theta,
            "brokers": int(here.sum()),
            "choices": choices,
        },
    )


def too_few_holders(problem: ReplicasProblem, copies: IntArray) -> Problem | None:
    """The proof that no plan can place all copies within θ of the disks; None where there is none.

    A broker holds at most one copy of a partition. So the k brokers with most room hold at most k copies of
    each, and all further copies must find room on the other brokers.

    Parameters
    ----------
    copies
        Shape (partitions,): how many copies are to be placed on brokers in service.
    """
    brokers, arrays, theta = problem.brokers, problem.arrays, problem.settings.theta[DISK]
    if not _required_theta(problem) or problem.carriers.hosts is not None:
        return None
    service = problem.snapshot.brokers.in_service[:brokers]
    capacity = problem.snapshot.brokers.capacity[:brokers, DISK]
    if not np.isfinite(capacity[service]).any():
        return None
    held = problem.load(Placement(arrays.initial, problem.first_lead))[:brokers, DISK]
    most = theta * capacity * ROUNDING
    if problem.scoped or problem.resizes or "theta" not in problem.settings.goals:
        # No broker must be reduced to θ.
        most = np.maximum(most, held * ROUNDING)
    room = np.where(arrays.may_receive[:brokers], most, held)
    ids = np.flatnonzero(service)
    ids = ids[np.argsort(-room[ids], kind="stable")]
    found = _tightest_brokers(arrays.size, copies, room[ids])
    if found is None:
        return None
    biggest, needed, allowed = found
    typical = float(np.median(capacity[ids][np.isfinite(capacity[ids])]))
    more = 1
    while more < MAX_ADDED:
        with_more = np.sort(np.append(room[ids], [theta * typical] * more))[::-1]
        if _tightest_brokers(arrays.size, copies, with_more) is None:
            break
        more += 1
    names = [int(problem.snapshot.brokers.id[b]) for b in ids]
    others = ", ".join(map(str, names[biggest:]))
    few = f"broker {others}" if len(names) - biggest == 1 else f"brokers {others}"
    without = ""
    if biggest:
        plural = "s" if biggest > 1 else ""
        without = (
            f"a broker holds at most one copy of a partition, so broker{plural} "
            f"{', '.join(map(str, names[:biggest]))} hold{'' if biggest > 1 else 's'} at most {biggest} of "
            "each; "
        )
    return Problem(
        "conflicting_constraints",
        f"disk: {without}{few} must hold {needed:.6g} bytes and may hold {allowed:.6g} within "
        f"{100 * theta:g}% of a disk; add {more} broker{'s' if more > 1 else ''} of {typical:.6g} bytes, "
        "empty fewer brokers, lower the replication factor, or raise theta.disk",
        count=more,
        resource="disk",
        proof={
            "goal": "theta",
            "copies_a_broker": 1,
            "biggest_brokers": names[:biggest],
            "other_brokers": names[biggest:],
            "needed_bytes": needed,
            "allowed_bytes": allowed,
            "theta": theta,
        },
    )


def too_big(problem: ReplicasProblem) -> tuple[float, BoolArray]:
    """The largest capacity within θ of a broker open for replicas, and shape (partitions,): partitions above
    it.
    """
    open_, counted = problem.arrays.may_receive[: problem.brokers], problem.counted[: problem.brokers, DISK]
    if not _required_theta(problem) or not open_.any() or (open_ & ~counted).any():
        return np.inf, np.zeros(len(problem.arrays.size), dtype=np.bool_)
    capacity = problem.snapshot.brokers.capacity[: problem.brokers, DISK]
    most = float((ceiling(problem)[: problem.brokers][open_] * capacity[open_]).max())
    return most, np.asarray(problem.arrays.size > most * ROUNDING)


MAX_ADDED = 100
"""Most brokers that a proof proposes to add."""


def _tightest_brokers(
    size: FloatArray, copies: IntArray, room: FloatArray
) -> tuple[int, float, float] | None:
    """The k, and the bytes needed and allowed outside the k brokers with most room; None where all fits.

    Parameters
    ----------
    room
        Shape (brokers,): bytes, descending.
    """
    worst: tuple[int, float, float] | None = None
    for k in range(len(room)):
        needed, allowed = float((size * np.maximum(copies - k, 0)).sum()), float(room[k:].sum())
        if needed > allowed * ROUNDING and (worst is None or needed * worst[2] > worst[1] * allowed):
            worst = k, needed, allowed
    return worst


def _required_theta(problem: ReplicasProblem) -> bool:
    return "theta" in problem.settings.goals or problem.settings.fix_offline_replicas or problem.resizes


def _hosts(problem: ReplicasProblem) -> Hosts | None:
    """The hosts, if some declare a disk of their own and a goal applies to them."""
    if problem.carriers.hosts is None and not problem.scoped:
        return None
    hosts = hosts_of(problem.snapshot)
    return hosts if hosts is not None and hosts.declared[:, DISK].any() else None


def _inverse(problem: ReplicasProblem) -> FloatArray:
    """Shape (disks,): 1 / capacity."""
    of_brokers = problem.arrays.inverse[:, DISK]
    hosts = _hosts(problem)
    return of_brokers if hosts is None else np.concatenate([of_brokers, 1.0 / hosts.capacity[:, DISK]])


def _disk(problem: ReplicasProblem, placement: Placement) -> FloatArray:
    """Shape (disks,): how full the disks are; brokers, then hosts."""
    load = problem.load(placement)[:, DISK : DISK + 1]
    hosts = _hosts(problem)
    held = load if hosts is None else np.vstack([load, hosts.load(load)])
    return np.asarray(held[:, 0] * _inverse(problem))


def _peak(problem: ReplicasProblem, placement: Placement) -> float:
    brokers = _disk(problem, placement)[: len(problem.counted)]
    return float(np.where(problem.counted[:, DISK], brokers, 0.0).max())


def _arrivals_in_excess(
    problem: ReplicasProblem, placement: Placement, may: BoolArray, share: float
) -> IntArray:
    """Partitions that arrived on disks above their ceilings: the biggest, as many as cover the excess.

    Parameters
    ----------
    may
        Shape (partitions,): those that can give way.
    share
        Of the excess to be covered.
    """
    if not may.any():
        return np.zeros(0, dtype=np.int64)
    usage, top = _disk(problem, placement), ceiling(problem)
    size, arrived = problem.arrays.size, problem.arrived(placement.place) & may[:, None]
    rows: list[int] = []
    for b in np.flatnonzero(usage > top).tolist():
        on = [b] if b < len(problem.counted) else _on_host(problem, b - len(problem.counted))
        here = np.flatnonzero((arrived & np.isin(placement.place, on)).any(axis=1))
        here = here[np.argsort(-size[here], kind="stable")]
        excess = share * (usage[b] - top[b]) / _inverse(problem)[b]
        rows += here[: int(np.searchsorted(np.cumsum(size[here]), excess)) + 1].tolist()
    return np.unique(np.array(rows, dtype=np.int64))


def _on_host(problem: ReplicasProblem, number: int) -> list[int]:
    """Brokers of one host, by index; empty without hosts."""
    hosts = _hosts(problem)
    found: list[int] = [] if hosts is None else np.flatnonzero(hosts.of == number).tolist()
    return found


def _required_spread(problem: ReplicasProblem) -> BoolArray:
    arrays = problem.arrays
    return np.asarray((arrays.rack_cap < UNBOUNDED) | (arrays.host_cap < UNBOUNDED))


def _available_spread(problem: ReplicasProblem, rows: IntArray) -> ReplicasProblem:
    caps = {name: getattr(problem.arrays, name).copy() for name in ("rack_cap", "host_cap")}
    for cap in caps.values():
        cap[rows] = UNBOUNDED
    return replace(problem, arrays=problem.arrays._replace(**caps))


def _copied_to_lead(problem: ReplicasProblem) -> BoolArray:
    """Partitions with a copy that is made only because their leader is demoted."""
    return np.asarray(problem.demoted & ~problem.arrays.leaving.any(axis=1))


def _still_leading(problem: ReplicasProblem, rows: IntArray) -> ReplicasProblem:
    """The problem with some demoted leaders left in place."""
    movable, free, home_lead = (
        problem.arrays.movable.copy(),
        problem.free.copy(),
        problem.initial_leader.copy(),
    )
    movable[rows], free[rows], home_lead[rows] = False, False, problem.first_lead[rows]
    return replace(
        problem, arrays=problem.arrays._replace(movable=movable), free=free, initial_leader=home_lead
    )


def _forced_bytes(problem: ReplicasProblem) -> BoolArray:
    return np.asarray(problem.arrays.leaving.any(axis=1))


def _staying(problem: ReplicasProblem, rows: IntArray) -> ReplicasProblem:
    leaving = problem.arrays.leaving.copy()
    leaving[rows] = False
    return replace(problem, arrays=problem.arrays._replace(leaving=leaving))

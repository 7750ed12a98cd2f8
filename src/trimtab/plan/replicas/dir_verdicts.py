"""Log dirs held against their goals at the end of a plan, with a proof where no plan can meet them."""

import numpy as np

from trimtab.model.goals import percent_above
from trimtab.model.load import BoolArray, FloatArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.log_dirs import counted_dirs, dir_balance
from trimtab.model.replicas.resources import DISK
from trimtab.model.replicas.snapshot import LogDirState
from trimtab.plan.replicas.dir_schedule import GOAL, LogDirSchedule
from trimtab.plan.replicas.placement import Placement
from trimtab.plan.replicas.problem import ReplicasProblem

ROUNDING = 1 + 1e-9


def dir_problems(
    problem: ReplicasProblem, placement: Placement, log_dir_schedule: LogDirSchedule
) -> tuple[list[Problem], list[Problem]]:
    """Problems of log dirs that no plan solves, and those that this one leaves.

    Parameters
    ----------
    placement
        The placement at the end.
    """
    data = log_dir_schedule.data
    if data is None or not data.is_goal:
        return [], []
    settings = problem.settings
    theta, epsilon = settings.theta[DISK], settings.epsilon[DISK]
    balance = dir_balance(problem.snapshot, log_dir_schedule.held)
    above, off = balance.violations_by_row(theta, epsilon, settings.min_utilization)
    proven: list[Problem] = []
    if above.any():
        proven += _too_big(problem, theta)
        if settings.intra_broker_only and not settings.fix_offline_replicas:
            proven += _too_much(problem, log_dir_schedule, theta)
    open_: list[Problem] = []
    if above.any() and not proven:
        open_.append(_unmet(problem, above, balance.usage, "theta", theta))
    if off.any():
        few = _too_few(problem, placement, off & ~above)
        if few is not None:
            open_.append(few)
        else:
            open_.append(_unmet(problem, off, balance.deviation, "epsilon", epsilon))
    return proven, open_


def _too_big(problem: ReplicasProblem, theta: float) -> list[Problem]:
    """A partition that is more than θ of any log dir that it could lie in.

    On a broker whose dirs do not count it could, for all that this goal asks.
    """
    snapshot, dirs, home = problem.snapshot, problem.snapshot.log_dirs, problem.arrays.initial
    service, number = snapshot.brokers.in_service, len(snapshot.brokers)
    counted = counted_dirs(snapshot)
    biggest = np.zeros(number)
    np.maximum.at(biggest, dirs.broker[counted], dirs.capacity[counted])
    biggest = np.where(np.bincount(dirs.broker[counted], minlength=number) > 0, biggest, np.inf)
    held = (home >= 0) & service[home]
    stays = problem.settings.intra_broker_only and not problem.settings.fix_offline_replicas
    # Where nothing leaves its broker, the dirs of each holder; else the biggest of all that could hold it.
    rooms = np.where(held, biggest[home] if stays else biggest[service].max(initial=0.0), np.inf)
    room_of = rooms.min(axis=1, initial=np.inf)
    share = problem.arrays.size / np.where(room_of > 0, room_of, np.inf)
    p = int(np.argmax(share))
    if share[p] <= theta * ROUNDING:
        return []
    room, size, parts = float(room_of[p]), problem.arrays.size, snapshot.partitions
    name = f"{parts.topics[parts.topic[p]]}-{parts.number[p]}"
    text = (
        f"disk: {name} alone takes {size[p] / room:.2%} of even the biggest log dir, limit {theta:.2%}; "
        "split the topic into more partitions, keep less of it, or add bigger disks"
    )
    proof: dict[str, object] = {
        "goal": GOAL,
        "topic": parts.topics[parts.topic[p]],
        "partition": int(parts.number[p]),
        "bytes": float(size[p]),
        "biggest_log_dir": room,
        "limit": theta,
    }
    return [Problem("indivisible_replica", text, resource="disk", proof=proof)]


def _too_much(problem: ReplicasProblem, log_dir_schedule: LogDirSchedule, theta: float) -> list[Problem]:
    """Brokers that nothing leaves whose log dirs hold more in all than θ of them."""
    snapshot, data = problem.snapshot, log_dir_schedule.data
    assert data is not None
    found = []
    for b, all_dirs in enumerate(data.of_broker):
        dirs = [d for d in all_dirs if data.counted[d]]
        total, room = float(data.held[dirs].sum()), float(data.capacity[dirs].sum())
        if dirs and total > theta * room * ROUNDING:
            broker = int(snapshot.brokers.id[b])
            text = (
                f"disk: the {len(dirs)} log dirs of broker {broker} hold {total:.6g} bytes, more than "
                f"{100 * theta:g}% of their {room:.6g}, and nothing may leave it: plan without "
                "intra_broker_only"
            )
            proof: dict[str, object] = {
                "goal": GOAL,
                "broker": broker,
                "needed_bytes": total,
                "capacity_bytes": room,
                "theta": theta,
            }
            found.append(Problem("conflicting_constraints", text, resource="disk", proof=proof))
    return found


def _too_few(problem: ReplicasProblem, placement: Placement, off: BoolArray) -> Problem | None:
    """Every broker that misses ε holds fewer replicas than log dirs: one must stay empty."""
    dirs = problem.snapshot.log_dirs
    place = placement.place[(problem.arrays.size > 0)]
    held = np.bincount(place[place >= 0], minlength=len(problem.snapshot.brokers))
    brokers = np.unique(dirs.broker[off])
    counted = np.bincount(
        dirs.broker[dirs.state == LogDirState.ONLINE], minlength=len(problem.snapshot.brokers)
    )
    if not len(brokers) or (held[brokers] >= counted[brokers]).any():
        return None
    ids = problem.snapshot.brokers.id[brokers].tolist()
    named = ", ".join(map(str, ids[:5])) + (", ..." if len(ids) > 5 else "")
    return Problem(
        "indivisible_replica",
        f"disk: broker {named}: fewer replicas than log dirs, so one dir stays empty; more partitions would "
        "help",
        resource="disk",
        proof={"goal": GOAL, "brokers": len(ids), "replicas": int(held[brokers].max())},
    )


def _unmet(
    problem: ReplicasProblem, which: BoolArray, figure: FloatArray, goal: str, limit: float
) -> Problem:
    snapshot = problem.snapshot
    d = int(np.argmax(np.where(which, figure, -1.0)))
    number = int(which.sum())
    dirs = "1 log dir is" if number == 1 else f"{number} log dirs are"
    far = (
        f"above theta {100 * limit:g}%"
        if goal == "theta"
        else f"more than {100 * limit:g}% from the mean of their broker's"
    )
    broker = int(snapshot.brokers.id[snapshot.log_dirs.broker[d]])
    return Problem(
        "unmet_goal",
        f"disk: {dirs} {far}, the worst {snapshot.log_dirs.path[d]} of broker {broker} "
        f"{'at' if goal == 'theta' else 'by'} {percent_above(figure[d], limit)}; no move or exchange "
        "between its dirs that was tried helps",
        resource="disk",
        proof={"goal": GOAL, "log_dirs": number, "worst": float(figure[d]), "limit": limit, "of": goal},
    )

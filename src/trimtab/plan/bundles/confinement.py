"""Bundles that rules confine to some brokers, and goals that are impossible for that reason.

Isolation policies, brokers out of service, and bundles that may not be moved leave each bundle a set of
brokers. `trimtab.plan.search.verdicts` proves where such a set is too small for θ, or too small or too big
for ε. Bundles may be divided among their brokers there, so that no split refutes a proof.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from trimtab.model.bundles.policies import IsolationPolicy
from trimtab.model.bundles.snapshot import RESOURCES, UNITS, namespace_of
from trimtab.model.goals import exceeds
from trimtab.model.load import BoolArray, FloatArray, IntArray, resource_name
from trimtab.model.plan import Problem
from trimtab.plan.bundles.problem import BundlesProblem
from trimtab.plan.search.verdicts import ConfinedLoad, Indices, confined

NAMED = 3
"""Maximum number of names in a text; the others are counted."""


@dataclass(frozen=True, eq=False)
class BrokerReach:
    """The brokers that each bundle may be on at the end of a plan.

    Attributes
    ----------
    sets
        Shape (sets, brokers): the different sets.
    of
        Shape (bundles,): row of `sets`; -1 for a bundle that stays on its broker, or that no broker serves.
    fixed
        Shape (brokers, columns): load that does not move, in `UNITS`.
    """

    sets: BoolArray
    of: IntArray
    fixed: FloatArray

    def amount(self, use: FloatArray) -> FloatArray:
        """Shape (sets,): sums of one column of loads for each set."""
        free = self.of >= 0
        found = np.bincount(self.of[free], weights=use[free], minlength=len(self.sets))
        return found.astype(np.float64)


@dataclass(frozen=True, eq=False)
class InfeasibilityCauses:
    """Goals that the rules make impossible.

    Attributes
    ----------
    proven
        Misses of θ that no plan avoids.
    until
        Misses of θ that no plan avoids as long as the grace time lasts.
    uneven
        Misses of ε that no plan avoids, or not as long as the grace time lasts.
    over, out
        Shape (brokers, columns): the misses of θ and ε that these explain.
    """

    proven: list[Problem]
    until: list[Problem]
    uneven: list[Problem]
    over: BoolArray
    out: BoolArray


def reach_of(problem: BundlesProblem, *, grace: bool) -> BrokerReach:
    """The sets of brokers; with `grace` without those that a bundle left within the grace time."""
    arrays, service = problem.arrays, problem.snapshot.brokers.in_service
    brokers = len(service)
    served = (arrays.initial >= 0) & service[arrays.initial]
    free = np.asarray(arrays.movable & (served | arrays.must))
    home = np.where(served & ~arrays.must, arrays.initial, -1)
    # If policies allow the owner, bundles of all owners have the same set.
    beside = np.where((home >= 0) & ~arrays.allowed[arrays.kind, home], home, -1)
    code = arrays.kind.astype(np.int64) * (brokers + 1) + beside + 1
    barred = arrays.barred if grace else arrays.barred[:, :0]
    left = np.asarray((barred >= 0).any(axis=1))
    numbers: dict[tuple[int, ...], int] = {}
    rows: list[BoolArray] = []
    of = np.full(len(code), -1, dtype=np.int32)
    different, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    for number, at in enumerate(first.tolist()):
        mine = np.flatnonzero((inverse.reshape(-1) == number) & free)
        allowed = arrays.allowed[arrays.kind[at]].copy()
        if beside[at] >= 0:
            allowed[beside[at]] = True
        for row in mine[left[mine]].tolist():
            closed = tuple(b for b in barred[row].tolist() if b >= 0 and b != home[row])
            key = (int(different[number]), *closed)
            if key not in numbers:
                numbers[key] = len(rows)
                rows.append(allowed.copy())
                rows[-1][list(closed)] = False
            of[row] = numbers[key]
        of[mine[~left[mine]]] = len(rows)
        rows.append(allowed)
    fixed = np.tile(problem.snapshot.brokers.base, (1, len(problem.snapshot.views)))
    stays = np.flatnonzero(~free & served)
    np.add.at(fixed, arrays.initial[stays], arrays.use[stays])
    sets = np.array(rows, dtype=np.bool_).reshape(len(rows), brokers)
    # Bundles without a permitted broker are no load of these brokers.
    if len(rows):
        nowhere = np.flatnonzero(~sets.any(axis=1))
        of[np.isin(of, nowhere)] = -1
    return BrokerReach(sets, of, fixed)


def causes_of(
    problem: BundlesProblem, mean: FloatArray, over: BoolArray, out: BoolArray
) -> InfeasibilityCauses:
    """The misses of a final ownership that rules make unavoidable.

    Parameters
    ----------
    mean
        Shape (columns,): B̄ under it.
    over, out
        Shape (brokers, columns): above θ, and further than ε from the mean but not above θ.
    """
    found = InfeasibilityCauses([], [], [], np.zeros_like(over), np.zeros_like(out))
    recent = (problem.arrays.barred >= 0).any()
    for grace in (False, True) if recent else (False,):
        reach = reach_of(problem, grace=grace)
        _of_theta(problem, reach, over & ~found.over, found, grace=grace)
        _of_epsilon(problem, reach, mean, out & ~found.out, found, grace=grace)
    return found


def _of_theta(
    problem: BundlesProblem, reach: BrokerReach, over: BoolArray, found: InfeasibilityCauses, *, grace: bool
) -> None:
    """For each resource, the worst column of every set of brokers that is too small for θ."""
    worst: dict[tuple[int, tuple[int, ...]], tuple[float, int, ConfinedLoad]] = {}
    service, theta = problem.snapshot.brokers.in_service, problem.goals.theta
    explained = found.over.copy()
    for column in np.flatnonzero(over.any(axis=0)).tolist():
        room = _free_capacity(problem, reach, column, theta[column])
        for one in confined(reach.amount(problem.arrays.use[:, column]), room, reach.sets):
            if not len(one.places) or len(one.places) == int(service.sum()):
                continue  # All brokers are too few: that has another proof.
            explained[one.places, column] = True
            key = column % len(RESOURCES), tuple(one.places.tolist())
            ratio = (one.load - one.capacity) / float(problem.capacity[one.places, column].sum())
            if key not in worst or ratio > worst[key][0]:
                worst[key] = ratio, column, one
    if not grace:
        _of_fixed(problem, reach, over, explained, found)
    found.over[:] = explained
    for _, column, one in worst.values():
        problems = found.until if grace else found.proven
        problems.append(_too_small(problem, reach, column, one, grace=grace))


def _of_fixed(
    problem: BundlesProblem,
    reach: BrokerReach,
    over: BoolArray,
    explained: BoolArray,
    found: InfeasibilityCauses,
) -> None:
    """Brokers whose fixed load alone exceeds θ; for each resource the worst column."""
    with np.errstate(invalid="ignore"):
        usage = np.where(problem.counted, reach.fixed / problem.capacity, 0.0)
    stuck = over & exceeds(usage, problem.goals.theta)
    explained |= stuck
    for row in np.flatnonzero(stuck.any(axis=1)).tolist():
        columns = np.flatnonzero(stuck[row])
        for resource in sorted(set((columns % len(RESOURCES)).tolist())):
            mine = columns[columns % len(RESOURCES) == resource]
            column = int(mine[usage[row, mine].argmax()])
            view, name = problem.column_name(column)
            base = float(problem.snapshot.brokers.base[row, resource])
            stays = int(((problem.arrays.initial == row) & ~problem.arrays.movable).sum())
            broker, theta = problem.snapshot.brokers.name[row], float(problem.goals.theta[column])
            found.proven.append(
                Problem(
                    "unmovable_load",
                    f"{name} in {view}: {usage[row, column]:.1%} of broker {broker} does not move, more than "
                    f"theta {100 * theta:g}%: {base:.6g} {UNITS[name]} are of no bundle, the rest of "
                    f"{_some(stays, 'bundle')} of system or excluded namespaces, or reported by several "
                    "brokers",
                    resource=name,
                    proof={
                        "goal": "theta",
                        "view": view,
                        "broker": broker,
                        "usage": float(usage[row, column]),
                        "theta": theta,
                        "base": base,
                        "bundles": stays,
                    },
                )
            )


def _free_capacity(
    problem: BundlesProblem, reach: BrokerReach, column: int, usage: float | FloatArray
) -> FloatArray:
    """Shape (brokers,): load that each broker may carry besides its fixed load; infinite without a goal."""
    counted = problem.counted[:, column]
    with np.errstate(invalid="ignore"):
        room = np.where(counted, usage * problem.capacity[:, column] - reach.fixed[:, column], np.inf)
    return np.where(problem.snapshot.brokers.in_service, room, 0.0)


def _too_small(
    problem: BundlesProblem, reach: BrokerReach, column: int, one: ConfinedLoad, *, grace: bool
) -> Problem:
    """The problem that θ cannot hold on these brokers: their necessary load, and the number of brokers that
    it needs.
    """
    view, name = problem.column_name(column)
    capacity, theta = problem.capacity[one.places, column], float(problem.goals.theta[column])
    fixed = float(reach.fixed[one.places, column].sum())
    total, most = one.load + fixed, float(capacity.sum())
    typical = float(np.median(capacity))
    count = max(1, math.ceil((total - theta * most) / (theta * typical) - 1e-9))
    rows = np.flatnonzero(np.isin(reach.of, one.loads))
    namespaces = _namespaces(problem, rows)
    where = _brokers(problem, one.places)
    stays = f", {fixed:.6g} of it does not move" if fixed > 0 else ""
    carried = (
        f"{_bundles(len(rows), namespaces)} may be on {where} only, by {policy_text(problem, namespaces)}"
    )
    asked = (
        f"the load there is {total:.6g} {UNITS[name]}{stays}, more than the {theta * most:.6g} that theta "
        f"{100 * theta:g}% allows"
    )
    proof: dict[str, object] = {
        "goal": "theta",
        "view": view,
        "brokers": [problem.snapshot.brokers.name[place] for place in one.places.tolist()],
        "bundles": len(rows),
        "namespaces": namespaces[:NAMED],
        "policies": _policy_fields(problem, namespaces),
        "total": total,
        "capacity": most,
        "theta": theta,
    }
    if grace:
        said, more = grace_text(problem, rows, None)
        return Problem(
            "grace_time", f"{name} in {view}: {said}; until then {asked}", resource=name, proof=proof | more
        )
    needed = len(one.places) + count
    remedy = (
        f"it takes {needed} such brokers: name {count} more of {typical:.6g} in the policy"
        if _policies(problem, namespaces)
        else f"it takes {needed} such brokers: add {count} of {typical:.6g}, or free some from the policies"
    )
    return Problem(
        "confined_bundles",
        f"{name} in {view}: {carried}; {asked}; {remedy}",
        count=count,
        resource=name,
        proof=proof | {"brokers_needed": needed, "capacity_of_an_added_broker": typical},
    )


def _of_epsilon(
    problem: BundlesProblem,
    reach: BrokerReach,
    mean: FloatArray,
    out: BoolArray,
    found: InfeasibilityCauses,
    *,
    grace: bool,
) -> None:
    """Sets of brokers that must carry more than ε allows, or cannot receive the load that it requires."""
    epsilon, theta = problem.goals.epsilon, problem.goals.theta
    service = problem.snapshot.brokers.in_service
    same = problem.fixed_mean(True)
    told: dict[tuple[str, tuple[int, ...]], tuple[list[int], ConfinedLoad]] = {}
    explained = found.out.copy()
    for column in np.flatnonzero(out.any(axis=0) & same & np.isfinite(epsilon)).tolist():
        amount = reach.amount(problem.arrays.use[:, column])
        high = _free_capacity(
            problem, reach, column, min(mean[column] * (1 + epsilon[column]), theta[column])
        )
        low = _free_capacity(problem, reach, column, mean[column] * (1 - epsilon[column]))
        wanted = np.maximum(np.where(problem.counted[:, column], low, 0.0), 0.0)
        for side, one in (
            *(("most", one) for one in confined(amount, high, reach.sets)),
            *(("least", one) for one in confined(wanted, amount, reach.sets.T)),
        ):
            where = one.places if side == "most" else one.loads
            if not len(where) or not out[where, column].any():
                continue
            if len(where) == service.sum():
                continue  # All brokers: no rule is the cause, they are too few for theta.
            explained[where, column] = True
            told.setdefault((side, tuple(where.tolist())), ([], one))[0].append(column)
    found.out[:] = explained
    serving = set(np.flatnonzero(service).tolist())
    crowded = {places: set(columns) for (side, places), (columns, _) in told.items() if side == "most"}
    for side, places in list(told):
        # This is the complement: all other brokers must carry too much.
        rest = tuple(sorted(serving.difference(places)))
        if side == "least" and set(told[side, places][0]) <= crowded.get(rest, set()):
            del told[side, places]
    for (side, places), (columns, one) in told.items():
        by_theta = side == "most" and mean[columns[0]] * (1 + epsilon[columns[0]]) > theta[columns[0]]
        goals = f"epsilon {100 * epsilon[columns[0]]:g}%"
        goals += f" and theta {100 * theta[columns[0]]:g}% allow" if by_theta else " allows"
        found.uneven.append(_uneven(problem, reach, side, np.array(places), columns, one, goals, grace=grace))


def _uneven(
    problem: BundlesProblem,
    reach: BrokerReach,
    side: str,
    places: Indices,
    columns: list[int],
    one: ConfinedLoad,
    goals: str,
    *,
    grace: bool,
) -> Problem:
    """The problem that ε cannot hold on these brokers, with the rule; `goals` are the goals that limit their
    load.
    """
    names = list(dict.fromkeys(problem.column_name(column)[1] for column in columns))
    view, first = problem.column_name(columns[0])
    unit, where = UNITS[first], _brokers(problem, places)
    which = ", ".join(resource_name(name) for name in names)
    limit = float(problem.goals.epsilon[columns[0]])
    proof: dict[str, object] = {
        "goal": "epsilon",
        "view": view,
        "resources": names,
        "brokers": [problem.snapshot.brokers.name[place] for place in places.tolist()],
        "epsilon": limit,
    }
    if side == "most":
        rows = np.flatnonzero(np.isin(reach.of, one.loads))
        asked, allowed = one.load, one.capacity
        text = (
            f"{where} must take {asked:.6g} {unit} of {first} in {view}, more than the {allowed:.6g} that "
            f"{goals}"
        )
    else:
        rows = np.flatnonzero(np.isin(reach.of, one.places))
        asked, allowed = one.load, one.capacity
        text = (
            f"{where} can be given {allowed:.6g} {unit} of {first} in {view}, less than the {asked:.6g} that "
            f"epsilon {100 * limit:g}% asks for"
        )
    proof |= {"bundles": len(rows), "load": one.load, "room": one.capacity}
    if grace:
        left = None if side == "most" else places
        back = rows if side == "most" else np.flatnonzero(np.isin(problem.arrays.barred, places).any(axis=1))
        said, more = grace_text(problem, back, left)
        return Problem("grace_time", f"{which}: {said}; until then {text}", proof=proof | more)
    namespaces = _namespaces(problem, rows)
    proof |= {"namespaces": namespaces[:NAMED], "policies": _policy_fields(problem, namespaces)}
    if side == "most":
        why = f"{_bundles(len(rows), namespaces)} may be nowhere else, by {policy_text(problem, namespaces)}"
    else:
        why = (
            f"{_bundles(len(rows), namespaces) if len(rows) else 'no bundle'} may be there, by "
            f"{_rules_against(problem, reach, rows, places)}"
        )
    return Problem("confined_bundles", f"{which}: {text}: {why}", proof=proof)


def _rules_against(problem: BundlesProblem, reach: BrokerReach, rows: Indices, places: Indices) -> str:
    """The rules that keep all bundles but `rows` away from brokers."""
    others = (reach.of >= 0) & ~np.isin(np.arange(len(reach.of)), rows)
    namespaces = _namespaces(problem, np.flatnonzero(others))
    found = _policies(problem, namespaces)
    if any(problem.snapshot.policies.isolation_of(one) is None for one in namespaces):
        names = [problem.snapshot.brokers.name[place] for place in places.tolist()]
        theirs = (one for one in problem.snapshot.policies.isolation if any(map(one.is_primary, names)))
        found = list(dict.fromkeys((*found, *theirs)))
    said = []
    if found:
        word = "the isolation policy" if len(found) == 1 else f"{len(found)} isolation policies:"
        said.append(f"{word} {'; '.join(map(_one_policy, found[:NAMED]))}")
    stay = int(((reach.of < 0) & (problem.arrays.initial >= 0) & ~problem.arrays.movable).sum())
    if stay:
        said.append(f"{_some(stay, 'bundle')} that may not be moved")
    return " and by ".join(said) or "the size of the cluster's load"


def grace_text(
    problem: BundlesProblem, rows: Indices, places: Indices | None
) -> tuple[str, dict[str, object]]:
    """Bundles and brokers that the grace time separates, and until when, as a text and for a proof.

    Parameters
    ----------
    places
        The brokers that matter; None for all.
    """
    snapshot, grace = problem.snapshot, problem.settings.grace_seconds
    row_of = {snapshot.bundles.key[row]: row for row in rows.tolist()}
    wanted = set(snapshot.brokers.name if places is None else [snapshot.brokers.name[p] for p in places])
    ends: dict[tuple[str, str], float] = {}
    for one in snapshot.departures:
        if snapshot.taken_at - one.at <= grace and one.bundle in row_of and one.broker in wanted:
            pair = one.bundle, one.broker
            ends[pair] = max(ends.get(pair, -math.inf), one.at + grace)
    bundles = sorted({bundle for bundle, _ in ends})
    brokers = sorted({broker for _, broker in ends})
    first, last = time_of(min(ends.values())), time_of(max(ends.values()))
    when = f"until {last}" if first == last else f"the first until {first}, the last until {last}"
    text = (
        f"the grace time of {grace:g} s keeps {_some(len(bundles), 'bundle')} (as {bundles[0]}) from going "
        f"back to {', '.join(brokers[:NAMED])}{' and others' if len(brokers) > NAMED else ''}, {when}"
    )
    return text, {
        "grace_seconds": grace,
        "barred_bundles": len(bundles),
        "barred_brokers": brokers,
        "ends_at": last,
    }


def time_of(at: float) -> str:
    """A time for texts and proofs: RFC 3339 in UTC, rounded up to a second."""
    return datetime.fromtimestamp(math.ceil(at), UTC).isoformat().replace("+00:00", "Z")


def policy_text(problem: BundlesProblem, namespaces: Iterable[str]) -> str:
    """The isolation policies that cover namespaces; a snapshot does not hold their names."""
    found = _policies(problem, namespaces)
    if not found:
        return "the isolation policies of other namespaces, whose brokers are theirs alone"
    word = "the isolation policy" if len(found) == 1 else f"{len(found)} isolation policies:"
    return f"{word} {'; '.join(map(_one_policy, found[:NAMED]))}"


def _one_policy(policy: IsolationPolicy) -> str:
    second = f", secondary {' '.join(policy.secondary)}" if policy.secondary else ""
    return f"{' '.join(policy.namespaces)} (primary {' '.join(policy.primary)}{second})"


def _policies(problem: BundlesProblem, namespaces: Iterable[str]) -> list[IsolationPolicy]:
    found: dict[IsolationPolicy, None] = {}
    for namespace in namespaces:
        policy = problem.snapshot.policies.isolation_of(namespace)
        if policy is not None:
            found[policy] = None
    return list(found)


def policy_fields(policy: IsolationPolicy) -> dict[str, list[str]]:
    """A policy as plain JSON values."""
    return {
        "namespaces": list(policy.namespaces),
        "primary": list(policy.primary),
        "secondary": list(policy.secondary),
    }


def _policy_fields(problem: BundlesProblem, namespaces: Iterable[str]) -> list[dict[str, list[str]]]:
    return [policy_fields(one) for one in _policies(problem, namespaces)]


def _namespaces(problem: BundlesProblem, rows: Indices) -> list[str]:
    return sorted({namespace_of(problem.snapshot.bundles.key[row]) for row in rows.tolist()})


def _bundles(number: int, namespaces: list[str]) -> str:
    named = ", ".join(namespaces[:NAMED])
    more = f" and {len(namespaces) - NAMED} more namespaces" if len(namespaces) > NAMED else ""
    return f"{_some(number, 'bundle')} of {named}{more}"


def _brokers(problem: BundlesProblem, places: Iterable[int]) -> str:
    names = [problem.snapshot.brokers.name[place] for place in places]
    named = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
    return f"{_some(len(names), 'broker')} ({named})"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

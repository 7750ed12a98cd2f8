"""A snapshot and its settings as the arrays that a search works on.

Every pair of view and resource is a column, so that a plan holds in all views.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from re import compile as compile_pattern
from typing import NamedTuple

import numpy as np

from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.bundles.policies import DEFAULT_DOMAIN, ClusterMetadata, is_system_namespace
from trimtab.model.bundles.snapshot import NO_OWNER, RESOURCES, BundlesSnapshot, namespace_of
from trimtab.model.errors import require_known_names
from trimtab.model.goals import Goals, goals_of
from trimtab.model.load import BoolArray, FloatArray, IntArray, mean_of
from trimtab.plan.pulsar.candidates import by_policies
from trimtab.plan.search.limits import UsageLimits, limits_around

NO_BROKER = -1


class BundlesArrays(NamedTuple):
    """The constants of a search; a named tuple, because compiled code takes it as it is.

    A column is a pair of view and resource: view · resources + resource.

    Attributes
    ----------
    use
        Shape (bundles, columns), in `UNITS`.
    inverse
        Shape (brokers, columns): 1 / capacity, 0 where not counted.
    cost
        Shape (bundles,): clients that an unload disconnects.
    initial
        Shape (bundles,): owner in the snapshot, -1 for none.
    movable
        Shape (bundles,).
    must
        Shape (bundles,): must get another broker. Its owner is drained, or settings require it because the
        bundle is unowned or policies forbid its owner.
    kind
        Shape (bundles,): row of `allowed`.
    allowed
        Shape (kinds, brokers): by isolation policies, and in service.
    barred
        Shape (bundles, most): brokers that it left within the grace time, -1 in padding.
    member
        Shape (bundles,): its namespace among those of anti-affinity groups, -1 for none.
    group
        Shape (members,): the group of such a namespace.
    domain
        Shape (brokers,): failure domain.
    """

    use: FloatArray
    inverse: FloatArray
    cost: FloatArray
    initial: IntArray
    movable: BoolArray
    must: BoolArray
    kind: IntArray
    allowed: BoolArray
    barred: IntArray
    member: IntArray
    group: IntArray
    domain: IntArray


@dataclass(frozen=True, eq=False)
class BundlesProblem:
    """One planning problem.

    Attributes
    ----------
    snapshot
        With the parts of split bundles in place of these.
    counted
        Shape (brokers, columns): brokers and columns to which θ and ε apply.
    outside
        Shape (bundles,): owned by a broker in service that isolation policies do not allow it. System
        namespaces, and bundles that several brokers report, are not among them.
    """

    snapshot: BundlesSnapshot
    settings: BundlesSettings
    arrays: BundlesArrays
    counted: BoolArray
    outside: BoolArray

    @property
    def capacity(self) -> FloatArray:
        """Capacity of each broker, shape (brokers, columns); repeated for each view."""
        return np.tile(self.snapshot.brokers.capacity, (1, len(self.snapshot.views)))

    def load(self, place: IntArray) -> FloatArray:
        """Load of every broker, shape (brokers, columns), if bundles are there."""
        views, resources = len(self.snapshot.views), len(RESOURCES)
        load = self.snapshot.broker_load(place)
        return np.ascontiguousarray(load.transpose(1, 0, 2).reshape(len(load[0]), views * resources))

    @property
    def goals(self) -> Goals:
        """θ and ε, of shape (columns,)."""
        asked = goals_of(self.settings, RESOURCES, self.snapshot.quality.nominal_capacity)
        theta, epsilon, idle = (np.tile(one, len(self.snapshot.views)) for one in asked[:3])
        return Goals(theta, epsilon, idle)

    def mean(self, load: FloatArray) -> FloatArray:
        """B̄ under a load, shape (columns,); NaN where no broker counts."""
        return mean_of(load, self.capacity, self.counted)

    def limits(self, load: FloatArray, share: float = 1.0) -> UsageLimits:
        """The bounds around the mean under a load, with `share` of ε (1: the goal itself).

        The mean is computed from the load, so the load should be that of the target ownership.
        """
        goals = self.goals
        return limits_around(
            self.mean(load), self.counted, goals.theta, goals.epsilon, goals.idle, share=share
        )

    def fixed_mean(self, placed: bool) -> BoolArray:
        """Shape (columns,): whether the mean is the same for all plans.

        It is if every broker in service counts, and every bundle that must get a broker gets one.
        """
        same = (self.counted == self.snapshot.brokers.in_service[:, None]).all(axis=0)
        return np.asarray(same & placed)

    def column_name(self, column: int) -> tuple[str, str]:
        """View and resource of a column."""
        return self.snapshot.views[column // len(RESOURCES)], RESOURCES[column % len(RESOURCES)]


def problem_data(snapshot: BundlesSnapshot, settings: BundlesSettings) -> BundlesProblem:
    """Arrays of the problem; nothing of the snapshot is changed."""
    brokers, bundles = snapshot.brokers, snapshot.bundles
    views = len(snapshot.views)
    in_service = brokers.in_service
    namespaces = [namespace_of(key) for key in bundles.key]
    distinct = sorted(set(namespaces))
    require_known_names(
        "bundles.excluded_namespaces",
        settings.excluded_namespaces,
        "namespace",
        distinct,
        snapshot.reference.taken_at,
    )
    number = {name: index for index, name in enumerate(distinct)}
    of = np.fromiter((number[name] for name in namespaces), dtype=np.int32, count=len(namespaces))
    system = np.array([is_system_namespace(name) for name in distinct], dtype=np.bool_)[of]
    excluded = _excluded(distinct, settings.excluded_namespaces)[of]
    kinds, allowed = _allowed(snapshot, distinct)
    kind = kinds[of]
    member, group = _members(snapshot, distinct)
    owned = bundles.owner != NO_OWNER
    leaving = owned & ~in_service[bundles.owner]
    claimed = np.array([key in snapshot.claims for key in bundles.key], dtype=np.bool_)
    stays = excluded & ~leaving if settings.evacuate_excluded_namespaces else excluded
    movable = bundles.movable & ~system & ~claimed & ~stays
    outside = owned & ~leaving & ~system & ~claimed & ~allowed[kind, bundles.owner]
    outside &= ~_on_secondary(snapshot, outside)
    wanted = leaving | outside if settings.policy_violations == "move" else leaving
    if settings.unowned_bundles == "assign":
        wanted = wanted | ~owned
    counted = np.tile(np.isfinite(brokers.capacity) & in_service[:, None], (1, views))
    with np.errstate(divide="ignore"):
        inverse = np.where(counted, 1.0 / np.tile(brokers.capacity, (1, views)), 0.0)
    use = bundles.load.transpose(1, 0, 2).reshape(len(bundles), views * len(RESOURCES))
    arrays = BundlesArrays(
        use=np.ascontiguousarray(use, dtype=np.float64),
        inverse=np.ascontiguousarray(inverse),
        cost=bundles.sessions.astype(np.float64),
        initial=bundles.owner.astype(np.int32),
        movable=np.ascontiguousarray(movable),
        must=np.ascontiguousarray(wanted & movable),
        kind=kind,
        allowed=allowed,
        barred=_barred(snapshot, settings.grace_seconds),
        member=member[of],
        group=group,
        domain=_domains(snapshot),
    )
    return BundlesProblem(snapshot, settings, arrays, counted, outside)


def _excluded(distinct: Sequence[str], patterns: tuple[str, ...]) -> BoolArray:
    """True for namespaces that settings exclude from balancing."""
    matchers = [compile_pattern(translate(pattern)) for pattern in patterns]
    return np.array([any(one.match(name) for one in matchers) for name in distinct], dtype=np.bool_)


def _on_secondary(snapshot: BundlesSnapshot, rows: BoolArray) -> BoolArray:
    """Select bundles on a secondary broker of their policy: Pulsar leaves them there."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for row in np.flatnonzero(rows).tolist():
        policy = snapshot.policies.isolation_of(namespace_of(snapshot.bundles.key[row]))
        broker = snapshot.brokers.name[snapshot.bundles.owner[row]]
        found[row] = policy is not None and policy.is_secondary(broker)
    return found


def _allowed(snapshot: BundlesSnapshot, distinct: Sequence[str]) -> tuple[IntArray, BoolArray]:
    """Row of each namespace, and for each row the brokers that policies allow."""
    brokers = snapshot.brokers
    serving = [name for name, up in zip(brokers.name, brokers.in_service.tolist(), strict=True) if up]
    metadata = ClusterMetadata(policies=snapshot.policies)
    index = {name: row for row, name in enumerate(brokers.name)}
    rows: dict[tuple[int, ...], int] = {}
    by_policy: dict[object, int] = {}
    kind = np.zeros(len(distinct), dtype=np.int32)
    for place, namespace in enumerate(distinct):
        policy = snapshot.policies.isolation_of(namespace)
        if policy not in by_policy:
            found = tuple(index[name] for name in by_policies(namespace, serving, metadata))
            by_policy[policy] = rows.setdefault(found, len(rows))
        kind[place] = by_policy[policy]
    allowed = np.zeros((max(len(rows), 1), len(brokers)), dtype=np.bool_)
    for found, row in rows.items():
        allowed[row, list(found)] = True
    return kind, allowed


def _members(snapshot: BundlesSnapshot, distinct: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Of each namespace its number among those of anti-affinity groups; the group of each of these."""
    groups: dict[str, int] = {}
    member = np.full(len(distinct), NO_BROKER, dtype=np.int32)
    of: list[int] = []
    for place, namespace in enumerate(distinct):
        group = snapshot.policies.anti_affinity_group(namespace)
        if group is not None:
            member[place] = len(of)
            of.append(groups.setdefault(group.lower(), len(groups)))
    return member, np.array(of, dtype=np.int32)


def _domains(snapshot: BundlesSnapshot) -> IntArray:
    names: dict[str, int] = {}
    domains = snapshot.policies.failure_domains
    return np.array(
        [
            names.setdefault(domains.get(broker, DEFAULT_DOMAIN), len(names))
            for broker in snapshot.brokers.name
        ],
        dtype=np.int32,
    )


def _barred(snapshot: BundlesSnapshot, grace_seconds: float) -> IntArray:
    """Brokers that each bundle left within the grace time; a part of a split bundle inherits them."""
    broker = {name: row for row, name in enumerate(snapshot.brokers.name)}
    row = {key: number for number, key in enumerate(snapshot.bundles.key)}
    found: dict[int, set[int]] = {}
    for one in snapshot.departures:
        recent = snapshot.taken_at - one.at <= grace_seconds
        if recent and one.bundle in row and one.broker in broker:
            found.setdefault(row[one.bundle], set()).add(broker[one.broker])
    most = max(map(len, found.values()), default=0)
    barred: IntArray = np.full((len(row), max(most, 1)), NO_BROKER, dtype=np.int32)
    for bundle, brokers in found.items():
        barred[bundle, : len(brokers)] = sorted(brokers)
    return barred

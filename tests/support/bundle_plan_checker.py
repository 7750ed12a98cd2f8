"""An independent judge of `trim`'s plans: recomputes everything from the snapshot and the moves alone."""

import math
from typing import cast

from trimtab.model.bundles.plan import BundleMoveKind, BundlePlan, BundlesSettings
from trimtab.model.bundles.policies import is_system_namespace
from trimtab.model.bundles.snapshot import RESOURCES, BundlesSnapshot, bundles_between, parse_bundle
from trimtab.model.plan import Verdict

SLACK = 1e-6

NOTICES = {"policy_violations", "several_owners"}
"""Problems that break no goal."""


class World:
    """Who owns what, as plain dictionaries, move after move."""

    def __init__(self, snapshot: BundlesSnapshot) -> None:
        names = snapshot.brokers.name
        bundles = snapshot.bundles
        self.snapshot = snapshot
        self.owner = {
            key: None if owner < 0 else names[owner]
            for key, owner in zip(bundles.key, bundles.owner.tolist(), strict=True)
        }
        self.load = {key: bundles.load[:, row] for row, key in enumerate(bundles.key)}
        self.sessions = dict(zip(bundles.key, bundles.sessions.tolist(), strict=True))
        self.movable = dict(zip(bundles.key, bundles.movable.tolist(), strict=True))
        self.left = [(one.bundle, one.broker, one.at) for one in snapshot.departures]

    def split(self, bundle: str, boundaries: tuple[int, ...]) -> None:
        """Cut a bundle; loads go by the topics' shares of the newest view."""
        whole = parse_bundle(bundle)
        topics = self.snapshot.topics
        parts = bundles_between(whole.namespace, (whole.low, *boundaries, whole.high))
        rows = [
            row
            for row, name in enumerate(topics.name)
            if name.partition("://")[2].rpartition("/")[0] == whole.namespace
            and whole.holds(int(topics.hash[row]))
        ]
        total = topics.load[rows].sum(axis=0)
        for part in parts:
            inside = [row for row in rows if part.holds(int(topics.hash[row]))]
            share = [
                topics.load[inside, r].sum() / total[r] if total[r] > 0 else len(inside) / len(rows)
                for r in range(len(RESOURCES))
            ]
            self.load[part.key] = self.load[bundle] * share
            self.owner[part.key] = self.owner[bundle]
            self.movable[part.key] = self.movable[bundle]
            self.left += [(part.key, broker, at) for one, broker, at in self.left if one == bundle]
        del self.owner[bundle], self.load[bundle]

    def usage(self) -> dict[tuple[str, int, int], float]:
        """Utilisation by (broker, view, resource), of brokers in service where limited."""
        brokers, found = self.snapshot.brokers, {}
        for row, name in enumerate(brokers.name):
            mine = [self.load[key] for key, owner in self.owner.items() if owner == name]
            for view in range(len(self.snapshot.views)):
                for r in range(len(RESOURCES)):
                    if brokers.in_service[row] and math.isfinite(brokers.capacity[row, r]):
                        carried = brokers.base[row, r] + sum(load[view, r] for load in mine)
                        found[name, view, r] = carried / brokers.capacity[row, r]
        return found

    def violations(self, settings: BundlesSettings) -> list[str]:
        """Goals that do not hold, in words."""
        usage, brokers = self.usage(), self.snapshot.brokers
        found = []
        for view in range(len(self.snapshot.views)):
            for r, resource in enumerate(RESOURCES):
                rows = [row for row, name in enumerate(brokers.name) if (name, view, r) in usage]
                if not rows:
                    continue
                weight = {row: brokers.capacity[row, r] for row in rows}
                mean = sum(usage[brokers.name[row], view, r] * weight[row] for row in rows) / sum(
                    weight.values()
                )
                for row in rows:
                    value = usage[brokers.name[row], view, r]
                    if mean > 0 and value > settings.theta[r] * (1 + SLACK):
                        found.append(f"theta {resource} {brokers.name[row]} view {view}: {value}")
                    if (
                        mean > 0
                        and mean >= settings.min_utilization
                        and abs(value - mean) > settings.epsilon[r] * mean * (1 + SLACK)
                    ):
                        found.append(f"epsilon {resource} {brokers.name[row]} view {view}: {value} of {mean}")
        return found


def check_plan(snapshot: BundlesSnapshot, settings: BundlesSettings, plan: BundlePlan) -> World:
    """Walk a plan through and assert all that it promises; returns the world after it."""
    world = World(snapshot)
    in_service = dict(zip(snapshot.brokers.name, snapshot.brokers.in_service.tolist(), strict=True))
    disturbed = 0
    for number, move in enumerate(plan.moves, start=1):
        assert move.order == number
        assert world.owner[move.bundle] == move.source
        assert world.movable[move.bundle], f"{move.bundle} may not be moved"
        namespace = parse_bundle(move.bundle).namespace
        assert not is_system_namespace(namespace)
        if move.kind is BundleMoveKind.SPLIT:
            assert settings.allow_splits
            world.split(move.bundle, move.boundaries)
            own = sum(parse_bundle(key).namespace == namespace for key in world.owner)
            assert own <= settings.max_bundles_per_namespace
            continue
        assert move.target is not None
        assert in_service[move.target], "a bundle went to a broker out of service"
        for bundle, broker, at in world.left:
            recent = snapshot.taken_at - at <= settings.grace_seconds
            assert not (recent and bundle == move.bundle and broker == move.target), (
                "back within the grace time"
            )
        policy = snapshot.policies.isolation_of(namespace)
        if policy is None:
            assert snapshot.policies.is_shared(move.target)
        else:
            primaries = [name for name, up in in_service.items() if up and policy.is_primary(name)]
            fallback = len(primaries) < policy.min_limit and policy.is_secondary(move.target)
            assert policy.is_primary(move.target) or fallback
        if move.source is None:
            assert settings.unowned_bundles == "assign"
        world.owner[move.bundle] = move.target
        disturbed += move.sessions
        assert move.reason.text
        if move.reason.limit is not None and move.reason.goal in ("theta", "epsilon"):
            assert move.reason.resource in RESOURCES
            assert move.reason.view in snapshot.views
    assert plan.cost.sessions == disturbed
    assert plan.bound.sessions <= plan.cost.sessions
    for one in plan.assignments:
        assert world.owner.get(one.bundle) == one.after
    violations = world.violations(settings)
    if plan.verdict is Verdict.BALANCED:
        # A policy that keeps epsilon out of reach is named, and leaves nothing to do.
        named = {
            resource
            for one in plan.problems
            if one.kind == "confined_bundles" and one.proof["goal"] == "epsilon"
            for resource in cast("list[str]", one.proof["resources"])
        }
        unexplained = [
            one for one in violations if one.split()[0] != "epsilon" or one.split()[1] not in named
        ]
        assert not unexplained, unexplained
        stranded = [
            key
            for key, owner in world.owner.items()
            if owner is not None and not in_service[owner] and world.movable[key]
        ]
        excluded = [
            key for key in stranded if parse_bundle(key).namespace not in settings.excluded_namespaces
        ]
        assert not excluded
        assert {problem.kind for problem in plan.problems} <= {
            *NOTICES,
            *(["confined_bundles"] if named else []),
        }
    else:
        assert plan.problems
    return world

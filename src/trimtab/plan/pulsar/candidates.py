"""The candidate brokers of a bundle: policies first, then filters that never remove the last candidate
themselves.

As `LoadManagerShared` of Pulsar 4.0.7 and 4.2.4, which are equal. Every filter receives candidates and
returns the remaining ones in the same order.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.model.bundles.policies import DEFAULT_DOMAIN, BrokerTraits, BundlePolicies, ClusterMetadata
from trimtab.model.bundles.snapshot import namespace_of
from trimtab.plan.pulsar.view import LeaderLoadView


def available_brokers(view: LeaderLoadView, metadata: ClusterMetadata) -> tuple[str, ...]:
    """The brokers that are up."""
    return tuple(view.brokers) if metadata.brokers is None else metadata.brokers


def by_policies(
    namespace: str, brokers: Sequence[str], metadata: ClusterMetadata, *, non_persistent: bool = False
) -> list[str]:
    """The brokers that the policies allow (`applyNamespacePolicies`).

    With an isolation policy: its primary brokers, and after them its secondary ones if there are fewer
    primary ones than `min_limit`. Without one: the brokers that are primary in no policy and serve the kind
    of topics. An isolation policy ignores the kind.
    """
    policy = metadata.policies.isolation_of(namespace)
    if policy is None:
        if not metadata.policies.isolation and not metadata.traits:
            return list(brokers)
        return [
            broker
            for broker in brokers
            if _serves(metadata.traits.get(broker, BrokerTraits()), non_persistent)
            and metadata.policies.is_shared(broker)
        ]
    primary = [broker for broker in brokers if policy.is_primary(broker)]
    if len(primary) >= policy.min_limit:
        return primary
    return primary + [b for b in brokers if policy.is_secondary(b) and not policy.is_primary(b)]


def _serves(traits: BrokerTraits, non_persistent: bool) -> bool:
    return traits.non_persistent if non_persistent else traits.persistent


def without_many_topics(candidates: Sequence[str], view: LeaderLoadView, most: int) -> list[str]:
    """Candidates with at most `most` topics, reported and preallocated; all if none remains.

    References
    ----------
    `filterBrokersWithLargeTopicCount`. A broker without a report counts as having none.
    """
    kept = [broker for broker in candidates if _topics(broker, view) <= most]
    return kept or list(candidates)


def _topics(broker: str, view: LeaderLoadView) -> int:
    load = view.brokers.get(broker)
    if load is None:
        return 0
    return view.reported_topics[broker] + sum(data.topics for data in load.preallocated.values())


def bundles_of_namespace(broker: str, namespace: str, view: LeaderLoadView) -> int:
    """Number of bundles of a namespace that a broker has, reported or preallocated."""
    load = view.brokers.get(broker)
    if load is None:
        return 0
    given = sum(
        bundle not in load.report.last_stats and namespace_of(bundle) == namespace
        for bundle in load.preallocated
    )
    return view.namespace_bundles[broker][namespace] + given


def with_fewest_bundles(namespace: str, candidates: Sequence[str], view: LeaderLoadView) -> list[str]:
    """Those that have the fewest bundles of the namespace (`removeMostServicingBrokersForNamespace`)."""
    counts = [bundles_of_namespace(broker, namespace, view) for broker in candidates]
    fewest = min(counts, default=0)
    return [broker for broker, count in zip(candidates, counts, strict=True) if count <= fewest]


def group_namespaces(namespace: str, view: LeaderLoadView, policies: BundlePolicies) -> dict[str, int] | None:
    """Number of namespaces of the same anti-affinity group that each broker has bundles of.

    The namespace itself counts too; brokers without any are left out. None if it is in no group.

    References
    ----------
    `getAntiAffinityNamespaceOwnedBrokers`; groups are compared without regard to case.
    """
    alike = _alike(namespace, policies)
    if alike is None:
        return None
    counts: dict[str, int] = {}
    for broker, load in view.brokers.items():
        given = {namespace_of(bundle) for bundle in load.preallocated}
        found = len(alike & (view.namespace_bundles[broker].keys() | given))
        if found:
            counts[broker] = found
    return counts


def group_bundles(namespace: str, view: LeaderLoadView, policies: BundlePolicies) -> dict[str, int] | None:
    """Number of bundles of namespaces of the same anti-affinity group that each broker owns.

    Used by the extensible manager, which counts owned bundles; the modular one counts namespaces.
    """
    alike = _alike(namespace, policies)
    if alike is None:
        return None
    counts = {
        broker: sum(namespace_of(bundle) in alike for bundle in report.bundles)
        for broker, report in view.reports.items()
    }
    return {broker: found for broker, found in counts.items() if found}


def _alike(namespace: str, policies: BundlePolicies) -> set[str] | None:
    """The namespaces of the same anti-affinity group, itself among them; None if it is in none."""
    group = policies.anti_affinity_group(namespace)
    if group is None:
        return None
    return {one for one, other in policies.anti_affinity_groups.items() if other.lower() == group.lower()}


Counted = Callable[[str, LeaderLoadView, BundlePolicies], dict[str, int] | None]
"""`group_namespaces` or `group_bundles`."""


def by_anti_affinity(
    namespace: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    policies: BundlePolicies,
    *,
    failure_domains: bool,
    counted: Counted = group_namespaces,
) -> list[str]:
    """Those in the domains, and there on the brokers, with the fewest namespaces of the same group.

    A domain's count is the sum over its candidates, not over its brokers. After it the fewest count among all
    candidates left decides, so that a domain may end up without any.

    Domains count only with `failure_domains` (`failureDomainsEnabled`).

    References
    ----------
    `filterAntiAffinityGroupOwnedBrokers`.
    """
    counts = counted(namespace, view, policies)
    left = list(candidates)
    if counts is None or not left:
        return left
    if failure_domains and policies.failure_domains:
        domain_of = {broker: policies.failure_domains.get(broker, DEFAULT_DOMAIN) for broker in left}
        domains: Counter[str] = Counter()
        for broker in left:
            domains[domain_of[broker]] += counts.get(broker, 0)
        fewest = min(domains.values())
        left = [broker for broker in left if domains[domain_of[broker]] == fewest]
    fewest = min(counts.get(broker, 0) for broker in left)
    return [broker for broker in left if counts.get(broker, 0) == fewest]


def of_load_manager(candidates: Sequence[str], metadata: ClusterMetadata) -> list[str]:
    """Those under the leader's load manager; not those that name none (`BrokerLoadManagerClassFilter`)."""
    wanted = metadata.load_manager
    if wanted is None:
        return list(candidates)
    return [
        broker for broker in candidates if metadata.traits.get(broker, BrokerTraits()).load_manager == wanted
    ]


@dataclass(frozen=True)
class DepartureRules:
    """The facts that decide whether bundles of a namespace may leave a broker.

    Attributes
    ----------
    candidates
        The brokers that policies allow.
    counts
        How many namespaces of the same anti-affinity group each broker has; empty if it does not matter.
    """

    candidates: tuple[str, ...]
    counts: Mapping[str, int]

    def allowed(self, broker: str) -> bool:
        """True if a bundle that leaves this broker could go to another by policies and anti-affinity."""
        if not self.candidates or self.candidates == (broker,):
            return False
        if not self.counts:
            return True
        counts = [self.counts.get(candidate, 0) for candidate in self.candidates]
        fewest = min(counts)
        here = self.counts.get(broker, 0) if broker in self.candidates else 0
        # If all have equal numbers, the bundle would return to its broker.
        return fewest == 0 or here > fewest or any(count != fewest for count in counts)


def departure_rules(namespace: str, view: LeaderLoadView, metadata: ClusterMetadata) -> DepartureRules:
    """The facts that let bundles of a namespace leave their broker or not.

    References
    ----------
    `shouldNamespacePoliciesUnload` and `shouldAntiAffinityNamespaceUnload` of ModularLoadManagerImpl.
    """
    candidates = by_policies(namespace, available_brokers(view, metadata), metadata)
    counts = group_namespaces(namespace, view, metadata.policies)
    return DepartureRules(tuple(candidates), counts or {})


def may_leave(bundle: str, broker: str, view: LeaderLoadView, metadata: ClusterMetadata) -> bool:
    """True if a bundle that leaves a broker could go to another; see `departure_rules`."""
    return departure_rules(namespace_of(bundle), view, metadata).allowed(broker)


_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-(?P<before>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def of_newest_version(candidates: Sequence[str], metadata: ClusterMetadata) -> list[str] | None:
    """The candidates with the newest version.

    None without a candidate, or if a version is missing or unreadable: the filter fails, and the caller
    starts again with all brokers.

    References
    ----------
    `BrokerVersionFilter`; semantic versioning 2.0.0, section 11. Build metadata does not count.
    """
    ranks: dict[str, Any] = {}
    for broker in candidates:
        rank = precedence(metadata.traits.get(broker, BrokerTraits()).version)
        if rank is None:
            return None
        ranks[broker] = rank
    if not ranks:
        return None
    newest = max(ranks.values())
    return [broker for broker, rank in ranks.items() if rank == newest]


def precedence(version: str | None) -> tuple[Any, ...] | None:
    """The key that orders a version among others, or None if it is no semantic version."""
    found = _VERSION.fullmatch(version or "")
    if found is None:
        return None
    before = found["before"]
    # A pre-release comes before its release; numbers before words, fewer identifiers before more.
    marks = [
        (0, int(mark), "") if mark.isdigit() else (1, 0, mark)
        for mark in (before.split(".") if before else [])
    ]
    return (*(int(number) for number in found.groups()[:3]), before is None, tuple(marks))

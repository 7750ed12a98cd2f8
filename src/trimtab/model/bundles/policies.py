"""Policies that operators lay down about namespaces and brokers: isolation, failure domains, anti-affinity.

Pulsar's `NamespaceIsolationPolicies`, `MinAvailablePolicy`, `FailureDomain` and
`LocalPolicies.namespaceAntiAffinityGroup` (4.0 and 4.2 alike), as values.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

SYSTEM_NAMESPACE: Final = "pulsar/system"
DEFAULT_DOMAIN: Final = "default"
"""The domain of brokers without a failure domain."""

_HEARTBEAT_OR_SLA = re.compile(r"(?:pulsar|sla-monitor)/[^:]+:\d+")


def is_heartbeat_or_sla(namespace: str) -> bool:
    """True if a namespace belongs to one broker, which probes itself with it; its bundles never move.

    `pulsar/HOST:PORT` or `sla-monitor/HOST:PORT`; before 4.2 the name of the cluster stood between the two
    in some of them (`NamespaceService.isSLAOrHeartbeatNamespace`).
    """
    return _HEARTBEAT_OR_SLA.fullmatch(namespace) is not None


def is_system_namespace(namespace: str) -> bool:
    """True if it is `pulsar/system` or a broker's own (`NamespaceService.isSystemServiceNamespace`)."""
    return namespace == SYSTEM_NAMESPACE or is_heartbeat_or_sla(namespace)


def host_of(broker: str) -> str:
    """The host of `host:port`: policies name brokers without their port."""
    host, _, _ = broker.rpartition(":")
    return host or broker


@dataclass(frozen=True)
class IsolationPolicy:
    """The brokers that some namespaces may be on (`NamespaceIsolationPolicyImpl`).

    Attributes
    ----------
    namespaces, primary, secondary
        Regular expressions that match a whole `tenant/namespace`, or the whole host of a broker.
    min_limit
        Fewer candidates among the primary brokers than this, and the secondary ones are candidates too
        (`MinAvailablePolicy.min_limit`).
    """

    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_limit: int = 1

    def covers(self, namespace: str) -> bool:
        """True if it is about this namespace."""
        return _matches(self.namespaces, namespace)

    def is_primary(self, broker: str) -> bool:
        """True if this broker is meant for the namespaces first of all."""
        return _matches(self.primary, host_of(broker))

    def is_secondary(self, broker: str) -> bool:
        """True if this broker may help out."""
        return _matches(self.secondary, host_of(broker))


def _matches(patterns: Sequence[str], text: str) -> bool:
    return any(re.fullmatch(pattern, text) for pattern in patterns)


@dataclass(frozen=True)
class BundlePolicies:
    """Everything laid down in a cluster that bears on where bundles may go.

    Attributes
    ----------
    isolation
        Where several cover a namespace, the first holds.
    anti_affinity_groups
        Group of each namespace that has one. Two groups are the same if they differ in case only.
    failure_domains
        Domain of each broker that has one.
    """

    isolation: tuple[IsolationPolicy, ...] = ()
    anti_affinity_groups: Mapping[str, str] = field(default_factory=dict)
    failure_domains: Mapping[str, str] = field(default_factory=dict)

    def isolation_of(self, namespace: str) -> IsolationPolicy | None:
        """The policy that covers a namespace (`NamespaceIsolationPolicies.getPolicyByNamespace`)."""
        return next((policy for policy in self.isolation if policy.covers(namespace)), None)

    def is_shared(self, broker: str) -> bool:
        """True if namespaces without a policy may be on a broker: it is no policy's primary one."""
        return not any(policy.is_primary(broker) for policy in self.isolation)

    def anti_affinity_group(self, namespace: str) -> str | None:
        """The group of a namespace; None if it has none, or a blank one."""
        group = self.anti_affinity_groups.get(namespace, "")
        return group if group.strip() else None

    def any_for(self, namespace: str) -> bool:
        """True if an isolation policy or a group bears on a namespace (`hasPolicies`)."""
        return self.isolation_of(namespace) is not None or self.anti_affinity_group(namespace) is not None


@dataclass(frozen=True)
class BrokerTraits:
    """A broker's facts about itself besides its load (`LocalBrokerData`).

    Attributes
    ----------
    version
        `brokerVersionString`; None if it says none.
    load_manager
        `loadManagerClassName`; None if it says none.
    persistent, non_persistent
        Which kinds of topics it serves.
    """

    version: str | None = None
    load_manager: str | None = None
    persistent: bool = True
    non_persistent: bool = True


@dataclass(frozen=True)
class ClusterMetadata:
    """The metadata store's knowledge of a cluster besides its load.

    Attributes
    ----------
    brokers
        Those that are up; None means just those that report load.
    policies
        What operators have laid down.
    traits
        Of the brokers; one that is missing has the defaults.
    boundaries
        Of the namespaces: all boundaries of the bundles, rising. One that is missing is taken to have the
        bundles that are reported.
    load_manager
        `loadManagerClassName` of the leader; brokers of another one get no bundles. None: nobody is left out.
    """

    brokers: tuple[str, ...] | None = None
    policies: BundlePolicies = BundlePolicies()
    traits: Mapping[str, BrokerTraits] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    load_manager: str | None = None

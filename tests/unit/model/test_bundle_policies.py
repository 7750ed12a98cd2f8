"""Isolation, failure domains and anti-affinity, as operators lay them down."""

import pytest

from trimtab.model.bundles.policies import (
    BundlePolicies,
    IsolationPolicy,
    host_of,
    is_heartbeat_or_sla,
    is_system_namespace,
)


@pytest.mark.parametrize(
    "namespace",
    [
        "pulsar/host-1:8080",
        "pulsar/standalone/host-1:8080",
        "sla-monitor/10.0.0.1:8080",
        "sla-monitor/standalone/10.0.0.1:8080",
    ],
)
def test_brokers_probe_themselves_in_namespaces_of_their_own(namespace: str) -> None:
    """Heartbeats and the SLA monitor, with the cluster as in 4.0 or without, are bound to their broker."""
    assert is_heartbeat_or_sla(namespace)
    assert is_system_namespace(namespace)


@pytest.mark.parametrize(
    "namespace",
    ["pulsar/host-1", "sla-monitor/host", "t/host:8080", "pulsar/h:80x", "pulsar/[::1]:8080"],
)
def test_similar_names_are_ordinary_namespaces(namespace: str) -> None:
    """The whole name must match: tenant, cluster, host and a numeric port."""
    assert not is_system_namespace(namespace)


def test_the_system_namespace_is_one_without_being_a_brokers_own() -> None:
    """`pulsar/system` may move; heartbeats may not."""
    assert is_system_namespace("pulsar/system")
    assert not is_heartbeat_or_sla("pulsar/system")


def test_policies_name_brokers_by_their_host_alone() -> None:
    """`broker-1.*` would otherwise have to match the port as well."""
    policy = IsolationPolicy(("t/.*",), primary=("broker-1",), secondary=("broker-2.*",))
    assert host_of("broker-1:8080") == "broker-1"
    assert host_of("broker-1") == "broker-1"
    assert policy.is_primary("broker-1:8080")
    assert not policy.is_primary("broker-10:8080")  # whole match, not a prefix
    assert policy.is_secondary("broker-22:8080")


def test_the_first_policy_that_covers_a_namespace_holds() -> None:
    """Operators should not lay down two; where they do, the order decides."""
    first, second = IsolationPolicy(("t/a.*",), ("x",)), IsolationPolicy(("t/.*",), ("y",))
    policies = BundlePolicies((first, second))
    assert policies.isolation_of("t/abc") is first
    assert policies.isolation_of("t/b") is second
    assert policies.isolation_of("u/t/b") is None


def test_a_primary_broker_is_not_shared_but_a_secondary_one_is() -> None:
    """Namespaces without a policy stay off brokers that are set aside for others."""
    policies = BundlePolicies((IsolationPolicy(("t/.*",), primary=("x",), secondary=("y",)),))
    assert not policies.is_shared("x:8080")
    assert policies.is_shared("y:8080")
    assert BundlePolicies().is_shared("x:8080")


def test_a_blank_group_is_none() -> None:
    """An empty anti-affinity group is how Pulsar stores that there is none any more."""
    policies = BundlePolicies(anti_affinity_groups={"t/a": "web", "t/b": "  "})
    assert policies.anti_affinity_group("t/a") == "web"
    assert policies.anti_affinity_group("t/b") is None
    assert policies.any_for("t/a")
    assert not policies.any_for("t/b")
    assert not policies.any_for("t/c")

"""Policies go through the lake as text and come back whole."""

from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy
from trimtab.observe.bundles.pipeline import policies_from, policies_text


def test_policies_come_back_as_they_were():
    """Of a cluster with everything, from the rows of its namespaces."""
    policies = BundlePolicies(
        (IsolationPolicy(("t/.*",), ("b1",), ("b2", "b3"), 2), IsolationPolicy(("u/n",), ("b3",))),
        {"t/n": "apart"},
        {"b1:8080": "left"},
    )
    texts = {
        name: policies_text(policies, policies.anti_affinity_groups.get(name)) for name in ("t/n", "u/n")
    }
    assert policies_from(texts) == policies


def test_a_cluster_without_policies_takes_no_room():
    """The usual case is an empty object; rows of others' collectors may hold nothing at all."""
    assert policies_text(BundlePolicies(), None) == "{}"
    assert policies_from({"t/n": "{}", "u/n": None}) == BundlePolicies()

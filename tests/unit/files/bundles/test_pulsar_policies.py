"""Policies and quotas of a Pulsar cluster in a file: what is read, and what is said of what cannot be."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimtab.files.bundles.policies import OperatorPolicies, read_policies
from trimtab.model.bundles.policies import IsolationPolicy
from trimtab.model.bundles.reports import BundleData, TimeAverage
from trimtab_common.errors import InputError

BUNDLE = "t/a/0x00000000_0x40000000"
WHOLE: dict[str, Any] = {
    "format": "trimtab/pulsar-policies/1",
    "namespaceIsolationPolicies": {
        "payments": {
            "namespaces": ["pay/.*"],
            "primary": ["broker-[12]"],
            "secondary": ["broker-3"],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "2", "usage_threshold": "100"},
            },
        }
    },
    "failureDomains": {"rack-a": {"brokers": ["broker-1:8080", "broker-2:8080"]}},
    "antiAffinityGroups": {"t/a": "web", "t/b": "WEB"},
    "resourceQuotas": {
        BUNDLE: {
            "msgRateIn": 40.0,
            "msgRateOut": 120.0,
            "bandwidthIn": 1e5,
            "bandwidthOut": 3e5,
            "memory": 80.0,
            "dynamic": True,
        }
    },
}


def of(tmp_path: Path, document: object) -> OperatorPolicies:
    """What is read from this document."""
    path = tmp_path / "policies.json"
    path.write_text(json.dumps(document))
    return read_policies(path)


def test_answers_of_the_admin_api_are_read(tmp_path: Path) -> None:
    """Every part in Pulsar's own words; a quota replaces means with all samples."""
    found = of(tmp_path, WHOLE)
    assert found.policies.isolation == (IsolationPolicy(("pay/.*",), ("broker-[12]",), ("broker-3",), 2),)
    assert found.policies.failure_domains == {"broker-1:8080": "rack-a", "broker-2:8080": "rack-a"}
    assert found.policies.anti_affinity_group("t/b") == "WEB"
    traffic = (1e5, 3e5, 40.0, 120.0)
    assert found.quotas == {BUNDLE: BundleData(TimeAverage(10, *traffic), TimeAverage(1000, *traffic))}


def test_every_part_may_be_left_out(tmp_path: Path) -> None:
    """A cluster may have none of it, and a policy no secondary brokers."""
    assert of(tmp_path, {"format": WHOLE["format"]}) == OperatorPolicies()
    least = {"p": {"namespaces": ["t/.*"], "primary": ["a"]}}
    found = of(tmp_path, {"format": WHOLE["format"], "namespaceIsolationPolicies": least})
    assert found.policies.isolation == (IsolationPolicy(("t/.*",), ("a",), (), 1),)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole.pop("format"), '$ has no field "format"; add it'),
        (lambda whole: whole.update(format="trimtab/plan/1"), "format"),
        (lambda whole: whole.update(isolationPolicies={}), 'unknown field "isolationPolicies"'),
        (
            lambda whole: whole["failureDomains"]["rack-a"].update(brokers="b"),
            '$.failureDomains: $.rack-a.brokers is "b", expected a list',
        ),
        (
            lambda whole: whole["resourceQuotas"][BUNDLE].update(msgRateIn=-1),
            f"$.resourceQuotas: $.{BUNDLE}.msgRateIn is -1, expected a number >= 0",
        ),
        (
            lambda whole: whole["resourceQuotas"].update({"t/a": whole["resourceQuotas"][BUNDLE]}),
            '$.resourceQuotas: bundle "t/a" is not a bundle\'s name',
        ),
        (
            lambda whole: whole["namespaceIsolationPolicies"]["payments"].update(primary=["broker-["]),
            '$.namespaceIsolationPolicies["payments"].primary[0] is "broker-[", no regular expression',
        ),
        (
            lambda whole: whole["namespaceIsolationPolicies"]["payments"]["auto_failover_policy"].update(
                parameters={"min_limit": "some"}
            ),
            'parameters.min_limit is "some", expected a whole number',
        ),
    ],
)
def test_malformed_policies_are_rejected_with_their_location(
    tmp_path: Path, change: Change, message: str
) -> None:
    """Path, value, and what was expected."""
    document = copy.deepcopy(WHOLE)
    change(document)
    with pytest.raises(InputError, match=re.escape(message)):
        of(tmp_path, document)

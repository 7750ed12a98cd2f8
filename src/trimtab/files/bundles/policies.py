"""Policies and resource quotas, which a recording does not hold of its cluster: `trimtab/pulsar-policies/1`.

Each part is what Pulsar's admin API answers, under one name: it can be pasted.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from trimtab.files.document import JsonDocument
from trimtab.files.records import record_of
from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy
from trimtab.model.bundles.reports import LONG_SAMPLES, SHORT_SAMPLES, BundleData, TimeAverage
from trimtab.model.bundles.snapshot import parse_bundle
from trimtab.model.documents import Amount
from trimtab_common.documents import checked_format
from trimtab_common.errors import InputError
from trimtab_common.files import read_bytes

FORMAT = "trimtab/pulsar-policies/1"

T = TypeVar("T")


POLICIES = record_of(BundlePolicies)
"""Policies in a snapshot, and in the raw rows of a lake."""


def policies_from(record: Struct) -> BundlePolicies:
    """The policies that a record stands for."""
    return msgspec.convert(record, type=BundlePolicies, from_attributes=True)


def policies_fields(policies: BundlePolicies) -> dict[str, object]:
    """The inverse as JSON values, names in order."""
    record = msgspec.convert(policies, type=POLICIES, from_attributes=True)
    found: dict[str, object] = msgspec.to_builtins(record)
    for part in ("anti_affinity_groups", "failure_domains"):
        found[part] = dict(sorted(getattr(policies, part).items()))
    return found


def check_patterns(document: JsonDocument, policies: BundlePolicies) -> None:
    """Refuse isolation policies of a snapshot whose patterns are no regular expressions."""
    for row, one in enumerate(policies.isolation):
        for part in ("namespaces", "primary", "secondary"):
            for place, pattern in enumerate(getattr(one, part)):
                try:
                    re.compile(pattern)
                except re.error:
                    at = f"$.policies.isolation[{row}].{part}[{place}]"
                    raise document.error(at, pattern, "a regular expression") from None


class FailoverRecord(Struct, forbid_unknown_fields=True):
    """`AutoFailoverPolicyData`; Pulsar writes its numbers as texts."""

    policy_type: str = "min_available"
    parameters: dict[str, str | int] = {}


class IsolationRecord(Struct, forbid_unknown_fields=True):
    """Pulsar's `NamespaceIsolationData` as read from JSON."""

    namespaces: list[str]
    primary: list[str]
    secondary: list[str] = []
    auto_failover_policy: FailoverRecord = msgspec.field(default_factory=FailoverRecord)
    unload_scope: str | None = None


class DomainRecord(Struct, forbid_unknown_fields=True):
    """Pulsar's `FailureDomain` as read from JSON."""

    brokers: list[str]


class QuotaRecord(Struct, rename="camel", forbid_unknown_fields=True):
    """`ResourceQuota`: rates in messages, bandwidths in bytes per second."""

    msg_rate_in: Amount
    msg_rate_out: Amount
    bandwidth_in: Amount
    bandwidth_out: Amount
    memory: float = 0.0
    dynamic: bool = True


PARTS = ("namespaceIsolationPolicies", "failureDomains", "antiAffinityGroups", "resourceQuotas")
"""Each may be left out."""

NAMES = (
    "format",
    *PARTS,
    *IsolationRecord.__struct_encode_fields__,
    *FailoverRecord.__struct_encode_fields__,
    *DomainRecord.__struct_encode_fields__,
    *QuotaRecord.__struct_encode_fields__,
)


@dataclass(frozen=True)
class OperatorPolicies:
    """The policies and quotas that operators have laid down.

    Attributes
    ----------
    policies
        Isolation, anti-affinity groups and failure domains.
    quotas
        What the leader takes a bundle for before it has heard of it, by key.
    """

    policies: BundlePolicies = field(default_factory=BundlePolicies)
    quotas: dict[str, BundleData] = field(default_factory=dict)


def read_policies(path: Path) -> OperatorPolicies:
    """The policies and quotas of a file.

    Raises
    ------
    InputError
        If it cannot be read or is malformed; one sentence with the JSON path, the value and the remedy.
    """
    document = JsonDocument(path, read_bytes(path), NAMES)
    document.require(("format",), PARTS)
    checked_format(str(path), document.part("format", object), FORMAT)

    isolation = _part(document, PARTS[0], IsolationRecord)
    domains = _part(document, PARTS[1], DomainRecord)
    groups = _part(document, PARTS[2], str)
    quotas = _part(document, PARTS[3], QuotaRecord)
    return OperatorPolicies(
        BundlePolicies(
            isolation=tuple(_isolation(path, name, record) for name, record in isolation.items()),
            anti_affinity_groups=groups,
            failure_domains={
                broker: domain for domain, record in domains.items() for broker in record.brokers
            },
        ),
        {bundle: _quota(path, bundle, record) for bundle, record in quotas.items()},
    )


def _part(document: JsonDocument, name: str, kind: type[T]) -> dict[str, T]:
    """A part of the file by the names in it, each entry read for itself so that what is wrong is named."""
    if name not in document.parts:
        return {}
    found = {}
    for key, entry in document.part(name, dict[str, msgspec.Raw]).items():
        lone = b"{" + msgspec.json.encode(key) + b":" + bytes(entry) + b"}"
        found[key] = JsonDocument(Path(f"{document.path}: $.{name}"), lone, NAMES).part(key, kind)
    return found


def _isolation(path: Path, name: str, record: IsolationRecord) -> IsolationPolicy:
    at = f'{path}: $.namespaceIsolationPolicies["{name}"]'
    for part in ("namespaces", "primary", "secondary"):
        for number, pattern in enumerate(getattr(record, part)):
            try:
                re.compile(pattern)
            except re.error as fault:
                raise InputError(
                    f'{at}.{part}[{number}] is "{pattern}", no regular expression ({fault}); correct it there'
                ) from None
    given = record.auto_failover_policy.parameters.get("min_limit", 1)
    try:
        least = int(given)
    except ValueError:
        raise InputError(
            f'{at}.auto_failover_policy.parameters.min_limit is "{given}", expected a whole number; correct '
            "it there"
        ) from None
    return IsolationPolicy(tuple(record.namespaces), tuple(record.primary), tuple(record.secondary), least)


def _quota(path: Path, bundle: str, record: QuotaRecord) -> BundleData:
    """As Pulsar takes a quota: as if there had been samples enough to fill both means."""
    try:
        parse_bundle(bundle)
    except InputError as fault:
        raise InputError(f"{path}: $.resourceQuotas: {fault}") from None
    traffic = (record.bandwidth_in, record.bandwidth_out, record.msg_rate_in, record.msg_rate_out)
    return BundleData(TimeAverage(SHORT_SAMPLES, *traffic), TimeAverage(LONG_SAMPLES, *traffic))

"""The records of `trimtab/bundles-snapshot/1` in files, and the head's way to and from the model.

Fields without a default must be there; `None` is only a value where the format says that null is one.
"""

import datetime
import itertools
import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.files.document import JsonDocument, one_of
from trimtab.files.pulsar_reports import time_text
from trimtab.files.replicas_records import Amount, Name
from trimtab.files.snapshot_head import checked_head, checked_quality, checked_time, quality_record
from trimtab.model.bundle_policies import BundlePolicies, IsolationPolicy
from trimtab.model.bundles_snapshot import RESOURCES, BundlesSnapshot, Departure
from trimtab.model.errors import InputError
from trimtab.model.snapshot import Quality, SnapshotReference

FORMAT = "trimtab/bundles-snapshot/1"
HEAD = (
    *("format", "cluster", "taken_at", "quality", "views", "load_manager", "usage"),
    *("departures", "boundaries", "policies"),
)
TOP_LEVEL = (*HEAD, "brokers", "bundles", "topics")
LOAD_MANAGERS = ("modular", "extensible")
USAGES = ("measured", "declared")

Count = Annotated[int, Meta(ge=0, le=2**62)]
Hash = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]


class LimitRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """What a broker can carry; a resource left out is not limited and not levelled."""

    cpu: Amount | UnsetType = UNSET
    bandwidth_in: Amount | UnsetType = UNSET
    bandwidth_out: Amount | UnsetType = UNSET
    message_rate: Amount | UnsetType = UNSET


class LoadRecord(Struct, forbid_unknown_fields=True, gc=False):
    """What a bundle or a topic brings along, in one view."""

    cpu: Amount
    bandwidth_in: Amount
    bandwidth_out: Amount
    message_rate: Amount


class BaseRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """What a broker carries whatever it owns; a resource left out is 0."""

    cpu: Amount = 0.0
    bandwidth_in: Amount = 0.0
    bandwidth_out: Amount = 0.0
    message_rate: Amount = 0.0


class BrokerRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One broker."""

    name: Name
    in_service: bool
    capacity: LimitRecord = msgspec.field(default_factory=LimitRecord)
    base: BaseRecord = msgspec.field(default_factory=BaseRecord)


class BundleRecord(Struct, forbid_unknown_fields=True, gc=False):
    """One bundle; a load for every view."""

    bundle: Name
    owner: Name | None
    movable: bool
    sessions: Count
    topics: Count
    load: list[LoadRecord]


class TopicRecord(Struct, forbid_unknown_fields=True, gc=False):
    """One topic that carries traffic."""

    topic: Name
    bundle: Name
    hash: Hash
    sessions: Count
    load: LoadRecord


class DepartureRecord(Struct, forbid_unknown_fields=True):
    """A bundle that left a broker."""

    bundle: Name
    broker: Name
    at: str


class IsolationRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which brokers some namespaces may be on."""

    namespaces: list[str]
    primary: list[str]
    secondary: list[str] = msgspec.field(default_factory=list)
    min_limit: int = 1


class PoliciesRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What operators have laid down."""

    isolation: list[IsolationRecord] = msgspec.field(default_factory=list)
    anti_affinity_groups: dict[str, str] = msgspec.field(default_factory=dict)
    failure_domains: dict[str, str] = msgspec.field(default_factory=dict)


NAMES = tuple(
    {
        *TOP_LEVEL,
        *("valid_share", "oldest_sample_seconds"),
        *(
            name
            for kind in (BrokerRecord, BundleRecord, TopicRecord, DepartureRecord, IsolationRecord)
            for name in kind.__struct_fields__
        ),
        *PoliciesRecord.__struct_fields__,
        *RESOURCES,
    }
)
"""Every field name of the format, for "did you mean"."""


class Head:
    """All of a snapshot but its brokers, bundles and topics, read and checked.

    Raises
    ------
    InputError
        If it is malformed; names the JSON path, the value found and what was expected.
    """

    def __init__(self, document: JsonDocument) -> None:
        where = str(document.path)
        self.cluster, self.time_text = checked_head(
            where, document.part("cluster", object), document.part("taken_at", object)
        )
        self.taken_at = _seconds(self.time_text)
        self.quality: Quality = checked_quality(where, document.part("quality", object))
        self.views = tuple(document.part("views", list[Name]))
        if not self.views or self.views[0] != "window 0":
            raise document.refusal("$.views", list(self.views), '"window 0", the newest, as the first view')
        if len(set(self.views)) < len(self.views):
            raise document.refusal("$.views", list(self.views), "each view once")
        self.load_manager = document.part("load_manager", str)
        one_of(document, "$.load_manager", self.load_manager, LOAD_MANAGERS)
        self.usage = document.part("usage", str)
        one_of(document, "$.usage", self.usage, USAGES)
        departed = document.part("departures", list[DepartureRecord])
        times = [checked_time(where, f"$.departures[{row}].at", one.at) for row, one in enumerate(departed)]
        self.departures = tuple(
            Departure(one.bundle, one.broker, _seconds(at)) for one, at in zip(departed, times, strict=True)
        )
        for row in range(1, len(self.departures)):
            if self.departures[row].at < self.departures[row - 1].at:
                raise InputError(
                    f"{where}: $.departures[{row}].at is before that of the departure before it; put them in "
                    "order, the oldest first"
                )
        self.boundaries = _boundaries(document)
        self.policies = _policies(document)

    def reference(self, sha256: str) -> SnapshotReference:
        """Which snapshot it is."""
        return SnapshotReference(self.cluster, self.time_text, sha256)


def head_fields(snapshot: BundlesSnapshot) -> dict[str, Any]:
    """The inverse of `Head`: what `meta.json` holds, and the first fields of the JSON form."""
    policies = snapshot.policies
    return {
        "format": FORMAT,
        "cluster": snapshot.reference.cluster,
        "taken_at": snapshot.reference.taken_at,
        "quality": quality_record(snapshot.quality),
        "views": list(snapshot.views),
        "load_manager": snapshot.load_manager,
        "usage": snapshot.usage,
        "departures": [
            {"bundle": one.bundle, "broker": one.broker, "at": time_text(one.at)}
            for one in snapshot.departures
        ],
        "boundaries": {name: list(snapshot.boundaries[name]) for name in sorted(snapshot.boundaries)},
        "policies": {
            "isolation": [
                {
                    "namespaces": list(one.namespaces),
                    "primary": list(one.primary),
                    "secondary": list(one.secondary),
                    "min_limit": one.min_limit,
                }
                for one in policies.isolation
            ],
            "anti_affinity_groups": dict(sorted(policies.anti_affinity_groups.items())),
            "failure_domains": dict(sorted(policies.failure_domains.items())),
        },
    }


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def _boundaries(document: JsonDocument) -> dict[str, tuple[int, ...]]:
    found = {}
    for namespace, cuts in document.part("boundaries", dict[str, list[Hash]]).items():
        at = f'$.boundaries["{namespace}"]'
        if len(cuts) < 2 or cuts[0] != 0 or cuts[-1] != 0xFFFFFFFF:
            raise document.refusal(at, cuts, "boundaries from 0 to 4294967295")
        if any(later <= before for before, later in itertools.pairwise(cuts)):
            raise document.refusal(at, cuts, "rising boundaries")
        found[namespace] = tuple(cuts)
    return found


def _policies(document: JsonDocument) -> BundlePolicies:
    record = document.part("policies", PoliciesRecord)
    for row, one in enumerate(record.isolation):
        for field in ("namespaces", "primary", "secondary"):
            for place, pattern in enumerate(getattr(one, field)):
                try:
                    re.compile(pattern)
                except re.error:
                    at = f"$.policies.isolation[{row}].{field}[{place}]"
                    raise document.refusal(at, pattern, "a regular expression") from None
    return BundlePolicies(
        tuple(
            IsolationPolicy(tuple(one.namespaces), tuple(one.primary), tuple(one.secondary), one.min_limit)
            for one in record.isolation
        ),
        record.anti_affinity_groups,
        record.failure_domains,
    )

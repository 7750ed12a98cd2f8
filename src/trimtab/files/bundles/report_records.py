"""The records of `trimtab/pulsar-reports/1` as they stand in files: Pulsar's own load reports.

Names are Pulsar's. A broker writes a report, not we: fields that nothing is decided from (addresses,
versions, listeners) are passed over.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from trimtab.model.bundles.reports import BrokerReport
from trimtab.model.values import Amount

FORMAT = "trimtab/pulsar-reports/1"
REQUIRED = ("at", "brokers")
OPTIONAL = ("format",)

Count = Annotated[int, Meta(ge=0)]


class ResourceRecord(Struct, gc=False):
    """A resource of a broker; Pulsar writes -1 for both where it does not know."""

    usage: float
    limit: float


class BundleRecord(Struct, rename="camel", gc=False):
    """`NamespaceBundleStats`."""

    msg_rate_in: Amount
    msg_rate_out: Amount
    msg_throughput_in: Amount
    msg_throughput_out: Amount
    topics: Count
    consumer_count: Count = 0
    producer_count: Count = 0
    cache_size: Count = 0


class BrokerRecord(Struct, rename="camel"):
    """`LocalBrokerData`."""

    cpu: ResourceRecord
    memory: ResourceRecord
    direct_memory: ResourceRecord
    bandwidth_in: ResourceRecord
    bandwidth_out: ResourceRecord
    msg_throughput_in: Amount
    msg_throughput_out: Amount
    msg_rate_in: Amount
    msg_rate_out: Amount
    bundles: list[str]
    last_stats: dict[str, BundleRecord]


class LooseBrokerRecord(Struct):
    """The same as far as it must be taken apart to say what is wrong with it."""

    last_stats: dict[str, msgspec.Raw] = msgspec.field(name="lastStats", default_factory=dict)


NAMES = (
    *REQUIRED,
    *OPTIONAL,
    *ResourceRecord.__struct_encode_fields__,
    *BundleRecord.__struct_encode_fields__,
    *BrokerRecord.__struct_encode_fields__,
)


def report_from(record: BrokerRecord) -> BrokerReport:
    """The value of a record."""
    return msgspec.convert(record, type=BrokerReport, from_attributes=True)


def record_of(report: BrokerReport) -> dict[str, object]:
    """A report as its broker would write it."""
    record = msgspec.convert(report, type=BrokerRecord, from_attributes=True)
    found: dict[str, object] = msgspec.to_builtins(record)
    return found

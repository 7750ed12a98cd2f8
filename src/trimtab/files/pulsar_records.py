"""The records of `trimtab/pulsar-reports/1` as they stand in files: Pulsar's own load reports.

Names are Pulsar's. A broker writes a report, not we: fields that nothing is decided from (addresses,
versions, listeners) are passed over.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from trimtab.model.bundles import BrokerReport, BundleStats, ResourceUsage

FORMAT = "trimtab/pulsar-reports/1"
REQUIRED = ("at", "brokers")
OPTIONAL = ("format",)

Amount = Annotated[float, Meta(ge=0)]
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
    return BrokerReport(
        cpu=_resource(record.cpu),
        memory=_resource(record.memory),
        direct_memory=_resource(record.direct_memory),
        bandwidth_in=_resource(record.bandwidth_in),
        bandwidth_out=_resource(record.bandwidth_out),
        msg_throughput_in=record.msg_throughput_in,
        msg_throughput_out=record.msg_throughput_out,
        msg_rate_in=record.msg_rate_in,
        msg_rate_out=record.msg_rate_out,
        bundles=tuple(record.bundles),
        last_stats={
            bundle: BundleStats(
                one.msg_rate_in,
                one.msg_rate_out,
                one.msg_throughput_in,
                one.msg_throughput_out,
                one.topics,
                one.consumer_count,
                one.producer_count,
                one.cache_size,
            )
            for bundle, one in record.last_stats.items()
        },
    )


def record_of(report: BrokerReport) -> dict[str, object]:
    """A report as its broker would write it."""
    resources = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
    record = BrokerRecord(
        **{
            name: ResourceRecord(getattr(report, name).usage, getattr(report, name).limit)
            for name in resources
        },
        msg_throughput_in=report.msg_throughput_in,
        msg_throughput_out=report.msg_throughput_out,
        msg_rate_in=report.msg_rate_in,
        msg_rate_out=report.msg_rate_out,
        bundles=list(report.bundles),
        last_stats={
            bundle: BundleRecord(**{name: getattr(stats, name) for name in BundleRecord.__struct_fields__})
            for bundle, stats in report.last_stats.items()
        },
    )
    found: dict[str, object] = msgspec.to_builtins(record)
    return found


def _resource(record: ResourceRecord) -> ResourceUsage:
    return ResourceUsage(record.usage, record.limit)

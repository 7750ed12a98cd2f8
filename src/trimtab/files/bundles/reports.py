"""Recorded load reports of Pulsar's brokers, `trimtab/pulsar-reports/1`: JSON lines, a tick a line.

Names are Pulsar's. A broker writes a report, not we: fields that nothing is decided from (addresses,
versions, listeners) are passed over.
"""

import gzip
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from trimtab.files.document import JsonDocument
from trimtab.files.head import checked_time, seconds_of, time_text
from trimtab.files.records import names_of
from trimtab.model.bundles.reports import BROKER_RESOURCES, BrokerReport, ReportTick
from trimtab.model.bundles.snapshot import BundleRange, overlapping, parse_bundle
from trimtab.model.documents import Amount
from trimtab_common.documents import checked_format, format_error
from trimtab_common.errors import InputError
from trimtab_common.files import GZIP_MAGIC, reading

FORMAT = "trimtab/pulsar-reports/1"

Count = Annotated[int, Meta(ge=0)]


class ResourceRecord(Struct, gc=False):
    """A resource of a broker; Pulsar writes -1 for both where it does not know."""

    usage: float
    limit: float


class BundleStatsRecord(Struct, rename="camel", gc=False):
    """Pulsar's `NamespaceBundleStats` as read from JSON."""

    msg_rate_in: Amount
    msg_rate_out: Amount
    msg_throughput_in: Amount
    msg_throughput_out: Amount
    topics: Count
    consumer_count: Count = 0
    producer_count: Count = 0
    cache_size: Count = 0


class BrokerReportRecord(Struct, rename="camel"):
    """Pulsar's `LocalBrokerData` as read from JSON."""

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
    last_stats: dict[str, BundleStatsRecord]


class UncheckedBrokerReportRecord(Struct):
    """The same as far as it must be taken apart to say what is wrong with it."""

    last_stats: dict[str, msgspec.Raw] = msgspec.field(name="lastStats", default_factory=dict)


NAMES = ("at", "brokers", "format", *names_of(BrokerReportRecord))


def read_reports(path: Path) -> Iterator[ReportTick]:
    """The ticks of a recording, one at a time; a recording of a week need not fit in memory.

    Parameters
    ----------
    path
        Plain or compressed by gzip.

    Raises
    ------
    InputError
        When a line is reached that is malformed, contradicts itself, or goes back in time; one sentence that
        names the line, the JSON path, the value found, what was expected, and the remedy.
    """
    names = BundleNames()
    before: tuple[float, str] | None = None
    for number, line in _lines(path):
        where = f"{path}: line {number}"
        tick, text = _tick(where, line, names)
        if before is not None and tick.at < before[0]:
            raise InputError(
                f'{where}: $.at is "{text}", earlier than "{before[1]}" of the tick before: a clock went '
                "back; drop the ticks of one of the two clocks"
            )
        before = tick.at, text
        yield tick
    if before is None:
        raise InputError(f"{path}: is empty, expected one tick of reports a line; record it again")


def report_line(tick: ReportTick) -> str:
    """A tick as a line of the format, with its end."""
    records = msgspec.convert(tick.brokers, type=dict[str, BrokerReportRecord], from_attributes=True)
    row = {"at": time_text(tick.at), "brokers": msgspec.to_builtins(records)}
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


class BundleNames:
    """Names of bundles seen so far in one recording, so that each is looked at once."""

    def __init__(self) -> None:
        self._ranges: dict[str, BundleRange] = {}
        self._sound: frozenset[str] = frozenset()

    def check_report(self, place: str, bundles: Sequence[str], with_stats: Collection[str]) -> None:
        """Refuse a report that names what is no bundle, or one bundle twice.

        Statistics of a bundle that is not among the broker's are no fault: Pulsar takes them in.

        Parameters
        ----------
        place
            The file, the line and the JSON path of the report, for messages.
        bundles, with_stats
            What the broker owns, and what it has statistics of.
        """
        if len(set(bundles)) < len(bundles):
            twice = next(bundle for number, bundle in enumerate(bundles) if bundle in bundles[:number])
            raise InputError(f'{place}.bundles names "{twice}" twice; drop one')
        for number, bundle in enumerate(bundles):
            self._range(f"{place}.bundles[{number}]", bundle)
        for bundle in with_stats:
            self._range(f"{place}.lastStats", bundle)

    def check_tick(self, context: str, reports: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Refuse a tick in which two bundles overlap as no bundles of one namespace ever did.

        One bundle at two brokers is no fault: it is changing hands. Nor is a part beside the whole: a bundle
        was split, and one of two reports is from before.

        Parameters
        ----------
        context
            The file and the line, for messages.
        reports
            The JSON path of each report, and the bundles of that broker.
        """
        owner = {bundle: place for place, bundles in reports for bundle in bundles}
        if owner.keys() <= self._sound:
            return
        for first, second in overlapping(self._ranges[bundle] for bundle in owner):
            if second.high > first.high:
                raise InputError(
                    f'{context}: {owner[second.key]}.bundles holds "{second.key}", which reaches beyond '
                    f'"{first.key}" of {owner[first.key]} that it begins in: no split leaves such bundles; '
                    "drop the report that is wrong"
                )
        self._sound = frozenset(owner)

    def _range(self, place: str, bundle: str) -> BundleRange:
        found = self._ranges.get(bundle)
        if found is None:
            try:
                found = self._ranges[bundle] = parse_bundle(bundle)
            except InputError as fault:
                raise InputError(f"{place}: {fault}") from None
        return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, from 1; empty ones are passed over."""
    with reading(path), open(path, "rb") as plain:
        packed = plain.peek(2)[:2] == GZIP_MAGIC
        file = gzip.GzipFile(fileobj=plain) if packed else plain
        number = 0
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip(b"\r\n")
        except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
            raise InputError(
                f"{path}: is not sound gzip data after line {number} ({fault}); copy or export it again"
            ) from None


def _tick(context: str, line: bytes, names: BundleNames) -> tuple[ReportTick, str]:
    document = JsonDocument(Path(context), line, NAMES)
    document.require(("at", "brokers"), ("format",))
    if "format" in document.parts:
        checked_format(context, document.part("format", object), FORMAT)
    text = checked_time(context, "$.at", document.part("at", object))
    try:
        records = msgspec.json.decode(document.parts["brokers"], type=dict[str, BrokerReportRecord])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _tick_error(context, document) from None
    for broker, record in records.items():
        _check_resources(f"{context}: {_at(broker)}", record)
        names.check_report(f"{context}: {_at(broker)}", record.bundles, record.last_stats)
    names.check_tick(context, ((_at(broker), record.bundles) for broker, record in records.items()))
    reports = msgspec.convert(records, type=dict[str, BrokerReport], from_attributes=True)
    return ReportTick(seconds_of(text), reports), text


def _at(broker: str) -> str:
    return f"$.brokers[{json.dumps(broker)}]"


def _check_resources(place: str, record: BrokerReportRecord) -> None:
    """A usage is not negative, but for the -1 of a broker that knows no limit: Pulsar takes that as 0 %."""
    for name in BROKER_RESOURCES:
        resource: ResourceRecord = getattr(record, name)
        if resource.usage < 0 and resource.limit > 0:
            pulsar_name = BrokerReportRecord.__struct_encode_fields__[
                BrokerReportRecord.__struct_fields__.index(name)
            ]
            raise InputError(
                f"{place}.{pulsar_name}.usage is {resource.usage:g}, expected a number >= 0; correct it there"
            )


def _tick_error(context: str, document: JsonDocument) -> InputError:
    """The error for the brokers of a tick; reads them again, one by one."""
    _ = document.tree  # refuses NaN, Infinity and repeated keys, with their places
    brokers = document.part("brokers", dict[str, msgspec.Raw])
    for broker, raw in brokers.items():
        try:
            msgspec.json.decode(raw, type=BrokerReportRecord)
        except msgspec.ValidationError as fault:
            return _broker_report_error(context, _at(broker), raw, fault)
    return document.error("$.brokers", None, "sound JSON")


def _broker_report_error(
    context: str, at: str, raw: msgspec.Raw, fault: msgspec.ValidationError
) -> InputError:
    """The error for a report; statistics are read one by one, so that their bundle is named."""
    try:
        loose = msgspec.json.decode(raw, type=UncheckedBrokerReportRecord)
    except msgspec.ValidationError:
        loose = UncheckedBrokerReportRecord()
    kind: type[msgspec.Struct] = BrokerReportRecord
    for bundle, stats in loose.last_stats.items():
        try:
            msgspec.json.decode(stats, type=BundleStatsRecord)
        except msgspec.ValidationError as inner:
            at, raw, fault, kind = f"{at}.lastStats[{json.dumps(bundle)}]", stats, inner, BundleStatsRecord
            break
    remedy = "record it again with a collector that keeps the whole report, or add it"
    return format_error(context, at, fault, msgspec.json.decode(raw), kind, add=remedy)

"""Recorded load reports of Pulsar's brokers, `trimtab/pulsar-reports/1`: JSON lines, a tick a line."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trimtab.files.bundles.report_records import (
    FORMAT,
    NAMES,
    OPTIONAL,
    REQUIRED,
    BrokerRecord,
    BundleRecord,
    LooseBrokerRecord,
    ResourceRecord,
    record_of,
    report_from,
)
from trimtab.files.bundles.snapshot_checks import BundleNames
from trimtab.files.document import JsonDocument
from trimtab.files.head import checked_format, checked_time, seconds_of, time_text
from trimtab.files.reading import GZIP_MAGIC, reading
from trimtab.files.refusals import worded
from trimtab.model.bundles.reports import BROKER_RESOURCES, ReportTick
from trimtab.model.errors import InputError


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
    row = {"at": time_text(tick.at), "brokers": {name: record_of(one) for name, one in tick.brokers.items()}}
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


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


def _tick(where: str, line: bytes, names: BundleNames) -> tuple[ReportTick, str]:
    document = JsonDocument(Path(where), line, NAMES)
    document.require(REQUIRED, OPTIONAL)
    if "format" in document.parts:
        checked_format(where, document.part("format", object), FORMAT)
    text = checked_time(where, "$.at", document.part("at", object))
    try:
        records = msgspec.json.decode(document.parts["brokers"], type=dict[str, BrokerRecord])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _refusal(where, document) from None
    for broker, record in records.items():
        _check_resources(f"{where}: {_at(broker)}", record)
        names.check_report(f"{where}: {_at(broker)}", record.bundles, record.last_stats)
    names.check_tick(where, ((_at(broker), record.bundles) for broker, record in records.items()))
    at = seconds_of(text)
    return ReportTick(at, {broker: report_from(record) for broker, record in records.items()}), text


def _at(broker: str) -> str:
    return f"$.brokers[{json.dumps(broker)}]"


def _check_resources(place: str, record: BrokerRecord) -> None:
    """A usage is not negative, but for the -1 of a broker that knows no limit: Pulsar takes that as 0 %."""
    for name in BROKER_RESOURCES:
        resource: ResourceRecord = getattr(record, name)
        if resource.usage < 0 and resource.limit > 0:
            pulsar_name = BrokerRecord.__struct_encode_fields__[BrokerRecord.__struct_fields__.index(name)]
            raise InputError(
                f"{place}.{pulsar_name}.usage is {resource.usage:g}, expected a number >= 0; correct it there"
            )


def _refusal(where: str, document: JsonDocument) -> InputError:
    """The error for the brokers of a tick; reads them again, one by one."""
    _ = document.tree  # refuses NaN, Infinity and repeated keys, with their places
    brokers = document.part("brokers", dict[str, msgspec.Raw])
    for broker, raw in brokers.items():
        try:
            msgspec.json.decode(raw, type=BrokerRecord)
        except msgspec.ValidationError as fault:
            return _broker_refusal(where, _at(broker), raw, fault)
    return document.refusal("$.brokers", None, "sound JSON")


def _broker_refusal(where: str, at: str, raw: msgspec.Raw, fault: msgspec.ValidationError) -> InputError:
    """The error for a report; statistics are read one by one, so that their bundle is named."""
    try:
        loose = msgspec.json.decode(raw, type=LooseBrokerRecord)
    except msgspec.ValidationError:
        loose = LooseBrokerRecord()
    kind: type[msgspec.Struct] = BrokerRecord
    for bundle, stats in loose.last_stats.items():
        try:
            msgspec.json.decode(stats, type=BundleRecord)
        except msgspec.ValidationError as inner:
            at, raw, fault, kind = f"{at}.lastStats[{json.dumps(bundle)}]", stats, inner, BundleRecord
            break
    remedy = "record it again with a collector that keeps the whole report, or add it"
    return worded(where, at, fault, msgspec.json.decode(raw), kind, add=remedy)

"""A broker's load report, value by value: `LocalBrokerData` of the modular manager, `BrokerLoadData` of the
extensible one.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trimtab.model.bundles.range import parse_bundle
from trimtab.systems.pulsar.figures import TRAFFIC, Figures, SampleErrors, figure, figures
from trimtab_common.errors import InputError

RESOURCES: Final = {
    "cpu": "cpu",
    "memory": "memory",
    "direct_memory": "directMemory",
    "bandwidth_in": "bandwidthIn",
    "bandwidth_out": "bandwidthOut",
}
"""Prefixes of raw columns, and Pulsar's names of the resources."""

COUNTS: Final = {
    "topics": "topics",
    "producers": "producerCount",
    "consumers": "consumerCount",
    "cache_size_bytes": "cacheSize",
}

AHEAD_SECONDS: Final = 5.0
"""A report that is further in the future than this was stamped by a clock that is wrong."""


@dataclass(frozen=True)
class CheckedReport:
    """One broker's report, as far as it is sound.

    Attributes
    ----------
    usage
        (usage, limit) by prefix of the raw columns; resources that are not known are missing.
    traffic
        The broker's own sums.
    bundles
        Keys, in the order of the report.
    stats
        Figures of bundles, in the order of the report; a bundle with a figure that cannot be is missing.
    updated_ms
        When the broker last published it, in milliseconds since 1970 by its own clock.
    weighted_max_ema, msg_throughput_ema
        The extensible manager's running means.
    """

    usage: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    traffic: Figures = field(default_factory=dict)
    bundles: tuple[str, ...] = ()
    stats: Mapping[str, Figures] = field(default_factory=dict)
    updated_ms: float | None = None
    weighted_max_ema: float | None = None
    msg_throughput_ema: float | None = None


def modular_report(text: Mapping[str, Any], broker: str, faults: SampleErrors) -> CheckedReport:
    """The sound part of a `LocalBrokerData`."""
    subject = f"broker {broker}"
    bundles = [bundle for bundle in _listed(text, subject, faults) if _is_bundle(bundle, subject, faults)]
    stats = text.get("lastStats")
    if not isinstance(stats, dict):
        faults.note(subject, "missing", "tells no lastStats")
        stats = {}
    return CheckedReport(
        usage=_usage(text, subject, faults),
        traffic=figures(text, TRAFFIC, subject, "", faults),
        bundles=tuple(dict.fromkeys(bundles)),
        stats={
            bundle: sound
            for bundle, one in stats.items()
            if _is_bundle(bundle, subject, faults)
            and (sound := bundle_figures(one, bundle, subject, faults)) is not None
        },
        updated_ms=figure(text, "lastUpdate", subject, "", faults),
    )


def published_report(text: Mapping[str, Any], broker: str, faults: SampleErrors) -> CheckedReport:
    """The sound part of a `BrokerLoadData`; bundles are not in it."""
    subject = f"broker {broker}"
    return CheckedReport(
        usage=_usage(text, subject, faults),
        traffic=figures(text, TRAFFIC, subject, "", faults),
        updated_ms=figure(text, "updatedAt", subject, "", faults),
        weighted_max_ema=figure(text, "weightedMaxEMA", subject, "", faults),
        msg_throughput_ema=figure(text, "msgThroughputEMA", subject, "", faults),
    )


def published_bundles(text: Mapping[str, Any], broker: str, faults: SampleErrors) -> dict[str, Figures]:
    """The sound part of a `TopBundlesLoadData`, in its order."""
    subject = f"broker {broker}"
    found: dict[str, Figures] = {}
    listed = text.get("topBundlesLoadData")
    for one in listed if isinstance(listed, list) else ():
        bundle = one.get("bundleName") if isinstance(one, dict) else None
        if isinstance(bundle, str) and _is_bundle(bundle, subject, faults):
            sound = bundle_figures(one.get("stats"), bundle, subject, faults)
            if sound is not None:
                found[bundle] = sound
    return found


def bundle_figures(text: object, bundle: str, subject: str, faults: SampleErrors) -> Figures | None:
    """All figures of a bundle, or None: they are one sample, and half of it would mislead."""
    if not isinstance(text, dict):
        faults.note(subject, "missing", f"tells no figures of {bundle}")
        return None
    wanted = {
        **TRAFFIC,
        **{column: name for column, name in COUNTS.items() if name in text or column == "topics"},
    }
    found = figures(text, wanted, subject, f" of {bundle}", faults)
    return found if len(found) == len(wanted) else None


class ReportClocks:
    """The times of reports, by brokers' clocks as far as these can be right."""

    def __init__(self) -> None:
        self._reported: dict[str, float] = {}
        self._stamped: dict[str, datetime.datetime] = {}

    def stamp(
        self, broker: str, updated_ms: float | None, read_at: datetime.datetime, faults: SampleErrors
    ) -> datetime.datetime:
        """The time of a report: the broker's own, or else when it was read; never earlier than the last."""
        told = None if updated_ms is None else self._checked(broker, updated_ms, read_at, faults)
        last = self._stamped.get(broker)
        stamp = read_at if told is None or (last is not None and told < last) else told
        self._stamped[broker] = stamp
        return stamp

    def _checked(
        self, broker: str, updated_ms: float, read_at: datetime.datetime, faults: SampleErrors
    ) -> datetime.datetime | None:
        before = self._reported.get(broker)
        self._reported[broker] = updated_ms
        subject = f"broker {broker}"
        if before is not None and updated_ms < before:
            faults.note(subject, "clock", "stamps a report earlier than the one before, its clock went back")
            return None
        try:
            told = datetime.datetime.fromtimestamp(updated_ms / 1000, datetime.UTC)
        except (ValueError, OverflowError, OSError):
            faults.note(subject, "clock", "stamps its report with what is no time")
            return None
        if (told - read_at).total_seconds() > AHEAD_SECONDS:
            faults.note(subject, "clock", "stamps its report with a time to come, its clock is ahead of ours")
            return None
        return told


def _usage(text: Mapping[str, Any], subject: str, faults: SampleErrors) -> dict[str, tuple[float, float]]:
    found = {}
    for column, name in RESOURCES.items():
        resource = text.get(name)
        if not isinstance(resource, dict):
            faults.note(subject, "resource", f"tells no {name}")
            continue
        if resource.get("usage") == resource.get("limit") == -1:
            # Pulsar's own sign for a resource that it has not looked at yet.
            faults.note(subject, "unknown", f"does not know its {name} yet")
            continue
        usage = figure(resource, "usage", subject, f" of {name}", faults)
        limit = figure(resource, "limit", subject, f" of {name}", faults)
        if limit == 0:
            faults.note(subject, "limit", f"tells a limit of 0 for {name}")
        elif usage is not None and limit is not None:
            found[column] = (usage, limit)
    return found


def _listed(text: Mapping[str, Any], subject: str, faults: SampleErrors) -> list[str]:
    bundles = text.get("bundles")
    if isinstance(bundles, list):
        return [str(bundle) for bundle in bundles]
    faults.note(subject, "missing", "tells no bundles")
    return []


def _is_bundle(bundle: str, subject: str, faults: SampleErrors) -> bool:
    try:
        parse_bundle(bundle)
    except InputError:
        faults.note(subject, "name", f'names a bundle "{bundle}", which is no bundle\'s name')
        return False
    return True

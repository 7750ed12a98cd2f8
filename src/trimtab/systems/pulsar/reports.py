"""Load reports of brokers, value by value: as the admin API answers, and as brokers publish them.

`LocalBrokerData` is the modular manager's report, `BrokerLoadData` the extensible one's. The admin API
refuses the latter: brokers publish it on two topics of the system, which are not persistent. Only what is
published while we listen arrives, a broker at a time, when its load has changed or its longest interval is
over. A number that cannot be is left out, counted, and told in a sentence.
"""

from __future__ import annotations

import datetime
import math
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import msgspec

from trimtab.model.bundles.snapshot import parse_bundle
from trimtab.systems.pulsar.connection import PulsarConnection, pulsar_client
from trimtab_common.errors import InputError, TrimtabError


class SampleErrors:
    """Collects faults of samples; may be used from many threads.

    Sentences hold no values: a sentence is shown once while it stays true, and values change.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def note(self, subject: str, kind: str, text: str) -> None:
        """One value that is left out: `text` says why, in words that follow the subject (`broker b1:8080`).

        Faults of a subject and a kind are told together.
        """
        with self._lock:
            self._first.setdefault((subject, kind), text)
            self._counts[subject, kind] += 1

    @property
    def count(self) -> int:
        """The number of values left out."""
        return sum(self._counts.values())

    def sentences(self) -> tuple[str, ...]:
        """One for each subject and kind, by the first value of the kind."""
        return tuple(
            f"{subject} {text}" + (f" ({number - 1} more like it)" if number > 1 else "") + ": left out"
            for (subject, kind), text in self._first.items()
            if (number := self._counts[subject, kind])
        )


TRAFFIC: Final = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "msgThroughputIn",
    "msg_throughput_out": "msgThroughputOut",
}
"""Raw columns, and Pulsar's names of them."""

Figures = dict[str, float]
"""Values by raw column; what is not known is not in it."""


def figure(
    text: Mapping[str, object], name: str, subject: str, of: str, faults: SampleErrors
) -> float | None:
    """A number that is finite and not negative; None, and a fault, for anything else.

    Parameters
    ----------
    text
        An object of a broker's answer.
    name
        Of its field, in Pulsar's words.
    subject, of
        The sender, and the object of the figure (`" of t/n/0x.."`), for the fault.
    """
    value = text.get(name)
    if value is None:
        faults.note(subject, "missing", f"tells no {name}{of}")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        faults.note(subject, "number", f"tells as {name}{of} what is no number")
    elif value < 0:
        faults.note(subject, "negative", f"tells a negative {name}{of}")
    else:
        return float(value)
    return None


def figures(
    text: Mapping[str, object], names: Mapping[str, str], subject: str, of: str, faults: SampleErrors
) -> Figures:
    """Several of them by raw column; those that cannot be are missing."""
    found = {column: figure(text, name, subject, of, faults) for column, name in names.items()}
    return {column: value for column, value in found.items() if value is not None}


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


def modular_report(text: Mapping[str, object], broker: str, faults: SampleErrors) -> CheckedReport:
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


def published_report(text: Mapping[str, object], broker: str, faults: SampleErrors) -> CheckedReport:
    """The sound part of a `BrokerLoadData`; bundles are not in it."""
    subject = f"broker {broker}"
    return CheckedReport(
        usage=_usage(text, subject, faults),
        traffic=figures(text, TRAFFIC, subject, "", faults),
        updated_ms=figure(text, "updatedAt", subject, "", faults),
        weighted_max_ema=figure(text, "weightedMaxEMA", subject, "", faults),
        msg_throughput_ema=figure(text, "msgThroughputEMA", subject, "", faults),
    )


def published_bundles(text: Mapping[str, object], broker: str, faults: SampleErrors) -> dict[str, Figures]:
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


def _usage(text: Mapping[str, object], subject: str, faults: SampleErrors) -> dict[str, tuple[float, float]]:
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


def _listed(text: Mapping[str, object], subject: str, faults: SampleErrors) -> list[str]:
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


BROKER_LOAD_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
BUNDLE_LOAD_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
"""`BrokerLoadData` and `TopBundlesLoadData` in JSON, keyed by broker; an empty one says that it has gone."""

ATTEMPT_SECONDS: Final = 10.0


@dataclass
class LatestValues:
    """The newest value of each key; may be used from many threads."""

    _values: dict[str, Mapping[str, object]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    unreadable: int = 0

    def update(self, key: str, data: bytes) -> None:
        """Store the value of one message under its key."""
        value: object = None
        with suppress(msgspec.MsgspecError):
            value = msgspec.json.decode(data) if data else {}
        with self._lock:
            if not isinstance(value, dict):
                self.unreadable += 1
            elif value:
                self._values[key] = MappingProxyType(value)
            else:
                self._values.pop(key, None)

    def all(self) -> dict[str, Mapping[str, object]]:
        """Everything that is known now."""
        with self._lock:
            return dict(self._values)


class PublishedLoads:
    """Listens to both topics, from the first question on.

    Parameters
    ----------
    service_url
        Of the binary protocol.
    """

    def __init__(self, connection: PulsarConnection, service_url: str) -> None:
        self.brokers = LatestValues()
        self.bundles = LatestValues()
        # A failed attempt is told and tried again at the next tick: none needs to take long.
        self._connection = replace(
            connection, change_timeout_seconds=min(connection.change_timeout_seconds, ATTEMPT_SECONDS)
        )
        self._service_url = service_url
        self._closed = False
        # Subscribing waits for brokers; a tick does not wait for it.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="published")
        self._client: Any = None
        self._attempt: Future[None] = self._pool.submit(self._subscribe)

    def problem(self) -> str | None:
        """Why nothing is heard, if so; after a failure it is tried again."""
        if not self._attempt.done():
            return "load reports are not heard yet: subscribing to the topics that brokers publish them on"
        error = self._attempt.exception()
        if error is None:
            return None
        self._attempt = self._pool.submit(self._subscribe)
        return (
            f"load reports cannot be heard ({error}): check service_url ({self._service_url}), and "
            "that we may consume from pulsar/system"
        )

    def close(self) -> None:
        """Stop reading the topic and close the client."""
        self._closed = True
        # An attempt under way ends when its client is closed.
        _close_client(self._client)
        self._pool.shutdown(wait=True, cancel_futures=True)
        _close_client(self._client)

    def _subscribe(self) -> None:
        import pulsar

        if self._closed:
            return
        self._client = pulsar_client(self._connection, self._service_url, quiet=True)
        try:
            for topic, latest in ((BROKER_LOAD_TOPIC, self.brokers), (BUNDLE_LOAD_TOPIC, self.bundles)):
                self._client.subscribe(
                    topic,
                    f"trimtab-{uuid4().hex}",
                    consumer_type=pulsar.ConsumerType.Exclusive,
                    message_listener=_listener(latest),
                )
        except pulsar.PulsarException as error:
            _close_client(self._client)
            raise TrimtabError(str(error)) from error


def _close_client(client: Any) -> None:
    """Close a client, which may be closed already."""
    import pulsar

    if client is not None:
        with suppress(pulsar.PulsarException):
            client.close()


def _listener(latest: LatestValues) -> Any:
    def receive(consumer: Any, message: Any) -> None:
        latest.update(message.partition_key(), message.data())
        consumer.acknowledge(message)

    return receive

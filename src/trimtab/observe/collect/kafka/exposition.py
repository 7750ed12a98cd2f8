"""The few counters we need out of a Prometheus exposition of a Kafka broker, under the names exporters use.

A narrow reader: an exporter without an include list gives megabytes a scrape, nearly all of them lines that a
look at the name can skip.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_TRAFFIC = {
    "bytesin": "bytes_in_total",
    "bytesout": "bytes_out_total",
    "replicationbytesin": "replication_bytes_in_total",
    "replicationbytesout": "replication_bytes_out_total",
    "messagesin": "messages_in_total",
    "totalproducerequests": "produce_requests_total",
    "totalfetchrequests": "fetch_requests_total",
}
TOPIC_COLUMNS = ("bytes_in_total", "bytes_out_total", "messages_in_total")
BROKER_COLUMNS = ("cpu_time_ns", "processors", "handler_idle_fraction", *_TRAFFIC.values())

# Exporters append _count or _total to a Count attribute; version 1 of the agent appends _total to every
# counter. The rates (_oneminuterate, _meanrate ...) lag by minutes and must not match.
_NAMED = re.compile(r"kafka_server_brokertopicmetrics_([a-z]+?)(?:persec)?(?:_count)?(?:_total)?")
_LABELLED = re.compile(r"kafka_server_brokertopicmetrics_count(?:_total)?")
"""The agent without rules keeps the meter's name in a label."""
_CPU_NS = re.compile(r"(?:java_lang_operatingsystem|jvm_os)_processcputime(?:_total)?")
_PROCESSORS = re.compile(r"(?:java_lang_operatingsystem|jvm_os)_availableprocessors")
_IDLE_NAMED = re.compile(
    r"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_?percent(?:_oneminuterate|_value)?"
)
_IDLE_LABELLED = re.compile(r"kafka_server_kafkarequesthandlerpool_oneminuterate")

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s*(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")

Labels = dict[str, str]
_Meaning = Callable[[Labels], "tuple[str, float] | None"]
"""From a sample's labels to (column, factor to the column's unit)."""


@dataclass(frozen=True)
class BrokerCounters:
    """One scrape.

    Attributes
    ----------
    broker
        Values by column name of `BROKER_COLUMNS`.
    topics
        Values by column name of `TOPIC_COLUMNS`, by topic.
    dropped
        How many samples we wanted were NaN, infinite, negative or unreadable, and were left out.
    """

    broker: dict[str, float] = field(default_factory=dict)
    topics: dict[str, dict[str, float]] = field(default_factory=dict)
    dropped: int = 0


def read_exposition(text: str) -> BrokerCounters:
    """Pick a broker's counters out of the text format of Prometheus.

    Parameters
    ----------
    text
        What the JMX exporter gives, whatever its rules for names: names in any case; the meter in the name
        (`kafka_server_brokertopicmetrics_bytesinpersec_count`, `..._bytesin_total`) or in a label `name`.

    Returns
    -------
    BrokerCounters
        Without the counters that are not there; where two names mean the same, the first one counts.
    """
    found = BrokerCounters()
    dropped = 0
    meanings: dict[str, _Meaning | None] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        try:
            meaning = meanings[name]
        except KeyError:
            meaning = meanings[name] = _meaning(name.lower())
        if meaning is None:
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            dropped += 1
            continue
        labels = {key: _unescaped(value) for key, value in _LABEL.findall(sample[2] or "")}
        column = meaning(labels)
        if column is None:
            continue
        value = _number(sample[3])
        if value is None:
            dropped += 1
            continue
        topic = labels.get("topic", "")
        if not topic:
            found.broker.setdefault(column[0], value * column[1])
        elif column[0] in TOPIC_COLUMNS:
            found.topics.setdefault(topic, {}).setdefault(column[0], value * column[1])
    return BrokerCounters(found.broker, found.topics, dropped)


def _meaning(name: str) -> _Meaning | None:
    if _LABELLED.fullmatch(name):
        return lambda labels: _traffic(labels.get("name", "").lower().removesuffix("persec"))
    if (named := _NAMED.fullmatch(name)) and name.endswith(("_count", "_total")):
        column = _traffic(named[1])
        return None if column is None else lambda labels: column
    if _CPU_NS.fullmatch(name):
        return lambda labels: ("cpu_time_ns", 1.0)
    if name == "process_cpu_seconds_total":
        return lambda labels: ("cpu_time_ns", 1e9)
    if _PROCESSORS.fullmatch(name):
        return lambda labels: ("processors", 1.0)
    if _IDLE_NAMED.fullmatch(name):
        return lambda labels: ("handler_idle_fraction", 1.0)
    if _IDLE_LABELLED.fullmatch(name):
        return lambda labels: (
            ("handler_idle_fraction", 1.0) if "idlepercent" in labels.get("name", "").lower() else None
        )
    return None


def _traffic(meter: str) -> tuple[str, float] | None:
    column = _TRAFFIC.get(meter)
    return None if column is None else (column, 1.0)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _unescaped(value: str) -> str:
    return value if "\\" not in value else _ESCAPE.sub(lambda hit: "\n" if hit[1] == "n" else hit[1], value)

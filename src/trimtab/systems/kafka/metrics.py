"""Counters of brokers from their Prometheus endpoints, under the names that exporters use.

An exporter without an include list gives megabytes a scrape, nearly all of them lines that a look at the
name can skip. Names alone prove nothing: `# TYPE` lines and labels decide what a sample is.
"""

from __future__ import annotations

import datetime
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trimtab.observe.collect.prometheus import metric_name, read_sample
from trimtab.observe.collect.sampler import RequestError
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder, whole_number
from trimtab.systems.kafka.samples import KafkaBroker
from trimtab_common.errors import SettingsError

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
TRAFFIC_COLUMNS: Final = tuple(_TRAFFIC.values())
BROKER_COLUMNS = ("cpu_time_ns", "processors", "handler_idle_fraction", *TRAFFIC_COLUMNS)
_COUNTERS: Final = ("cpu_time_ns", *TRAFFIC_COLUMNS)

_NEEDED: Final = ("cpu_time_ns", "bytes_in_total", "bytes_out_total", "replication_bytes_in_total")
RULES: Final = "give it the rules of docs/how-to/collect.md"

# Exporters append _count or _total to a Count attribute; version 1 of the agent appends _total to every
# counter. The rates (_oneminuterate, _meanrate ...) lag by minutes and must not match. Bitnami's rules put
# total_ before the meter where a sample is not of one topic.
_NAMED = re.compile(
    r"kafka_server_brokertopicmetrics_(?:total_)?([a-z]+?)(?:persec)?(?:_count|_total|_count_total)"
)
_LABELLED = re.compile(r"kafka_server_brokertopicmetrics_count(?:_total)?")
"""The agent without rules keeps the meter's name in a label."""
_RATE = re.compile(
    r"(?:\w+_)?kafka_server_brokertopicmetrics_(?:total_)?([a-z]+?)(?:persec)?(?:_[a-z]*rate)?"
)
"""Names of rates and of meters without the suffix of a counter: never read, but named where one is missed."""
_CPU_NS = re.compile(r"(?:java_lang_operatingsystem|jvm_os)_processcputime(?:_total)?")
_PROCESSORS = re.compile(r"(?:java_lang_operatingsystem|jvm_os)_availableprocessors")
_IDLE_NAMED = re.compile(
    r"kafka_server_kafkarequesthandlerpool_(?:total_)?requesthandleravgidle_?percent(?:_oneminuterate|_value)?"
)
_IDLE_LABELLED = re.compile(r"kafka_server_kafkarequesthandlerpool_oneminuterate")

_TYPE = "# TYPE "

_ID_LABELS: Final = frozenset({"broker", "broker_id", "brokerid", "kafka_broker_id", "node_id"})
"""Labels whose values are ids of brokers, or their hosts."""
_HOST_LABELS: Final = frozenset(
    {
        *("instance", "pod", "pod_name", "kubernetes_pod_name", "host", "hostname", "node", "nodename"),
        *("node_name", "kubernetes_node", "server", "target"),
    }
)
"""Labels whose values are the hosts of brokers, with or without a port and a domain."""
_TARGET_LABELS: Final = frozenset(
    {
        *("job", "cluster", "kafka_cluster", "namespace", "kubernetes_namespace", "container", "service"),
        *("endpoint", "env", "environment", "component", "prometheus", "region", "zone", "app", "type"),
    }
)
"""Labels that scrapers and operators add to every sample of a target."""

Labels = dict[str, str]


class _MetricMapping(NamedTuple):
    """What a sample says: a column, the factor to its unit, and 1 if another name is the better source."""

    column: str
    factor: float = 1.0
    second: int = 0


_Meaning = Callable[[Labels], "_MetricMapping | None"]
"""From a sample's labels, without those that the name of the meter is taken from."""


class _MetricSample(NamedTuple):
    column: str
    second: int
    labels: Labels
    value: float


@dataclass(frozen=True)
class ClusterNames:
    """What labels are compared with.

    Attributes
    ----------
    broker
        Whose endpoint was read; None if that is not known.
    hosts
        Hosts of all brokers of the cluster, by id.
    topics
        Names of its topics.
    topic_label
        The label that names the topic; None: `topic`, or a label whose values are all names of topics.
    sharing
        Ids of the brokers that have the same endpoint, if these are several.
    """

    broker: int | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)
    topics: Collection[str] = frozenset()
    topic_label: str | None = None
    sharing: Sequence[int] = ()


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
    causes
        Why a column is not there although something like it is, by column.
    error
        Why nothing at all was taken; empty if something was.
    unread_topics
        Why counters of topics were left out; empty if none was.
    """

    broker: dict[str, float] = field(default_factory=dict)
    topics: dict[str, dict[str, float]] = field(default_factory=dict)
    dropped: int = 0
    causes: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    unread_topics: str = ""

    def without_traffic(self, cause: str) -> BrokerCounters:
        """The same without the counters of traffic, since these are not to be believed."""
        kept = {name: value for name, value in self.broker.items() if name not in _TRAFFIC.values()}
        causes = {**self.causes, **{name: cause for name in TRAFFIC_COLUMNS if name in self.broker}}
        return BrokerCounters(kept, {}, self.dropped, causes, self.error, self.unread_topics)

    def lacking(self) -> str:
        """What of the needed counters an endpoint lacks, why, and what that means; empty if it has all.

        A sentence whose subject, the endpoint, is left out.
        """
        if self.error:
            return f"{self.error}: CPU is not balanced and bytes of all brokers are estimated"
        names = [name for name in _NEEDED if name not in self.broker]
        sentences = []
        if names:
            lost = ["CPU is not balanced"] * ("cpu_time_ns" in names)
            if "bytes_in_total" in names or "replication_bytes_in_total" in names:
                lost.append("bytes of all brokers are estimated")
            elif "bytes_out_total" in names:
                lost.append("bytes out of the broker are not known")
            listed = ", ".join(f"{one} ({self.causes[one]})" if one in self.causes else one for one in names)
            sentences.append(f"answers without {listed}: {' and '.join(lost)}; {RULES}")
        if self.unread_topics:
            sentences.append(self.unread_topics)
        return "; ".join(sentences)


def read_exposition(text: str, cluster: ClusterNames | None = None) -> BrokerCounters:
    """Pick a broker's counters out of the text format of Prometheus.

    Parameters
    ----------
    text
        What the JMX exporter gives, whatever its rules for names: names in any case; the meter in the name
        (`kafka_server_brokertopicmetrics_bytesinpersec_count`, `..._bytesin_total`) or in a label `name`.
    cluster
        What its labels are compared with.

    Returns
    -------
    BrokerCounters
        Without the counters that are not there; where two names mean the same, the first one counts. A
        sample whose type line says `gauge` is no counter; one with labels that are not understood is never a
        broker's total.
    """
    cluster = cluster or ClusterNames()
    samples, causes, dropped = _samples(text)
    label = _topic_label(samples, cluster)
    samples, refusal = _of_one_broker(samples, label, cluster)
    if refusal:
        return BrokerCounters(dropped=dropped, error=refusal)
    constant = _constant_labels(samples, label)
    broker: dict[str, float] = {}
    topics: dict[str, dict[str, float]] = {}
    strange: dict[str, set[str]] = {}
    # The sort is stable: of equally good sources the first one counts.
    for sample in sorted(samples, key=lambda one: one.second):
        topic = sample.labels.get(label, "")
        plain = len(sample.labels) == bool(topic)
        others = [] if plain else [one for one in sample.labels if one != label and one not in constant]
        if others:
            strange.setdefault(sample.column, set()).update(others)
        elif not topic:
            broker.setdefault(sample.column, sample.value)
        elif sample.column in TOPIC_COLUMNS:
            topics.setdefault(topic, {}).setdefault(sample.column, sample.value)
    for column, names in strange.items():
        if column not in broker:
            causes[column] = f"only with labels that are not understood: {', '.join(sorted(names))}"
    unread = sorted({one for column in TOPIC_COLUMNS for one in strange.get(column, ())})
    told = (
        f"has counters with the label {', '.join(unread)}, which are not read: if it names the topic, "
        "set collect.topic_label"
        if unread
        else ""
    )
    kept = {column: cause for column, cause in causes.items() if column not in broker}
    return BrokerCounters(broker, topics, dropped, kept, unread_topics=told)


def _samples(text: str) -> tuple[list[_MetricSample], dict[str, str], int]:
    """The samples that mean something, why some columns are no counters, and how many values were useless."""
    samples: list[_MetricSample] = []
    causes: dict[str, str] = {}
    dropped = 0
    gauges: set[str] = set()
    meanings: dict[str, _Meaning | None] = {}
    for line in text.splitlines():
        if line.startswith(_TYPE):
            name, _, kind = line[len(_TYPE) :].strip().partition(" ")
            if kind.strip() == "gauge":
                gauges.add(name)
            continue
        name = metric_name(line)
        try:
            meaning = meanings[name]
        except KeyError:
            meaning = meanings[name] = _meaning(name.lower())
            if meaning is None and (near := _RATE.fullmatch(name.lower())) and near[1] in _TRAFFIC:
                causes.setdefault(_TRAFFIC[near[1]], f"{name} is not named as a counter")
        if meaning is None:
            continue
        found = read_sample(line)
        if found is None:
            dropped += 1
            continue
        labels, value = found
        meant = meaning(labels)
        if meant is None:
            continue
        if name in gauges and meant.column in _COUNTERS:
            causes[meant.column] = f"{name} is a gauge by its # TYPE line"
            continue
        if value is None:
            dropped += 1
            continue
        samples.append(_MetricSample(meant.column, meant.second, labels, value * meant.factor))
    return samples, causes, dropped


def _topic_label(samples: Sequence[_MetricSample], cluster: ClusterNames) -> str:
    """The label that names the topic; one of another name only if all its values are names of topics."""
    if cluster.topic_label is not None:
        return cluster.topic_label
    values: dict[str, set[str]] = {}
    for sample in samples:
        if sample.column in _COUNTERS:
            if "topic" in sample.labels:
                return "topic"
            for name, value in sample.labels.items():
                values.setdefault(name, set()).add(value)
    verified = [name for name, found in values.items() if found <= set(cluster.topics)]
    return verified[0] if len(verified) == 1 else "topic"


def _of_one_broker(
    samples: list[_MetricSample], topic_label: str, cluster: ClusterNames
) -> tuple[list[_MetricSample], str]:
    """The samples of the broker whose endpoint this is, or why they cannot be told from those of others."""
    values: dict[str, dict[str, None]] = {}
    for sample in samples:
        for name, value in sample.labels.items():
            if name != topic_label and (name in _ID_LABELS or name in _HOST_LABELS):
                values.setdefault(name, {})[value] = None
    several = {name: found for name, found in values.items() if len(found) > 1}
    if not several:
        for name, found in values.items():
            of = _brokers_of(name, next(iter(found)), cluster)
            if of == [cluster.broker]:
                return samples, ""
            if len(of) == 1 and cluster.broker is not None:
                return [], f"has the counters of broker {of[0]} (label {name}={next(iter(found))!r})"
        if len(cluster.sharing) > 1:
            named = ", ".join(str(one) for one in cluster.sharing)
            return [], f"is the endpoint of brokers {named}, and no label tells their counters apart"
        return samples, ""
    for name, found in several.items():
        mine = [value for value in found if _brokers_of(name, value, cluster) == [cluster.broker]]
        if len(mine) == 1:
            # Samples without the label are nobody's, such as those of the program that joined the others.
            kept = [one for one in samples if one.labels.get(name) == mine[0]]
            return kept, ""
    name, found = next(iter(several.items()))
    shown = ", ".join([*found][:3]) + (" ..." if len(found) > 3 else "")
    return [], f"answers for several brokers (label {name}: {shown}), and none is this broker's id or host"


def _brokers_of(label: str, value: str, cluster: ClusterNames) -> list[int]:
    """Ids of the brokers that a label's value may be."""
    if label in _ID_LABELS and value.isdigit():
        return [int(value)] if int(value) in cluster.hosts else []
    host = value.partition("://")[2] or value
    host = re.sub(r":\d+$", "", host.partition("/")[0]).strip("[]").lower()
    exact = [broker for broker, other in cluster.hosts.items() if other.lower() == host]
    if exact or _is_address(host):
        return exact
    first = host.partition(".")[0]
    # A short name and a long one may be the same; two long ones are not.
    return [
        broker
        for broker, other in cluster.hosts.items()
        if not _is_address(other)
        and ("." not in host or "." not in other)
        and other.lower().partition(".")[0] == first
    ]


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _constant_labels(samples: Sequence[_MetricSample], topic_label: str) -> frozenset[str]:
    """Labels that say nothing: those of the target, with one value, and those that all of traffic has.

    One value alone does not tell a label from that of the only topic: a label of an unknown name counts as
    constant only where it stands beside the topic's.
    """
    values: dict[str, set[str]] = {}
    for sample in samples:
        for name, value in sample.labels.items():
            values.setdefault(name, set()).add(value)
    known = _TARGET_LABELS | _ID_LABELS | _HOST_LABELS
    traffic = [one.labels for one in samples if one.column in TRAFFIC_COLUMNS]
    beside = any(topic_label in labels for labels in traffic)
    return frozenset(
        name
        for name, found in values.items()
        if name != topic_label
        and len(found) == 1
        and (name in known or (beside and all(name in labels for labels in traffic)))
    )


def _meaning(name: str) -> _Meaning | None:
    if _LABELLED.fullmatch(name):
        return lambda labels: _traffic(labels.pop("name", "").lower().removesuffix("persec"))
    if named := _NAMED.fullmatch(name):
        column = _traffic(named[1])
        return None if column is None else lambda _: column
    if _CPU_NS.fullmatch(name):
        return lambda _: _MetricMapping("cpu_time_ns")
    if name == "process_cpu_seconds_total":
        # Of the process that answers: the broker's if the exporter is its agent, not if it stands beside it.
        return lambda _: _MetricMapping("cpu_time_ns", 1e9, second=1)
    if _PROCESSORS.fullmatch(name):
        return lambda _: _MetricMapping("processors")
    if _IDLE_NAMED.fullmatch(name):
        return lambda _: _MetricMapping("handler_idle_fraction")
    if _IDLE_LABELLED.fullmatch(name):
        return lambda labels: (
            _MetricMapping("handler_idle_fraction")
            if "idlepercent" in labels.pop("name", "").lower()
            else None
        )
    return None


def _traffic(meter: str) -> _MetricMapping | None:
    column = _TRAFFIC.get(meter)
    return None if column is None else _MetricMapping(column)


LARGEST_BYTES = 256 * 2**20
"""More than any exporter gives; an endpoint that streams without end must not fill our memory."""


@dataclass(frozen=True)
class MetricsEndpoints:
    """Addresses of the brokers' metrics.

    Attributes
    ----------
    pattern
        A URL with `{host}` and `{id}`, or None.
    by_broker
        Addresses of single brokers, by id; they go before the pattern.
    """

    pattern: str | None = None
    by_broker: Mapping[int, str] | None = None

    def url(self, broker: KafkaBroker) -> str | None:
        """The URL to scrape, or None where this broker has no endpoint."""
        address = (self.by_broker or {}).get(broker.id)
        if address is None:
            if self.pattern is None:
                return None
            host = f"[{broker.host}]" if ":" in broker.host else broker.host
            address = self.pattern.format(host=host, id=broker.id)
        return full_url(address)


def full_url(address: str) -> str:
    """`host:port`, or a URL with or without a path, as the URL to scrape."""
    url = address if "://" in address else f"http://{address}"
    scheme, _, rest = url.partition("://")
    return url if "/" in rest else f"{scheme}://{rest}/metrics"


def endpoints(setting: str | Mapping[str, str] | None) -> MetricsEndpoints:
    """Endpoints from the setting `collect.prometheus`: a pattern, or a table from broker id to address.

    Raises
    ------
    SettingsError
        If a key is no broker id, or a pattern names something else than `{host}` and `{id}`.
    """
    if setting is None:
        return MetricsEndpoints()
    if isinstance(setting, str):
        try:
            # Formatting is the check; every broker on its own host is what a pattern is for.
            setting.format(host="broker", id=1)
        except (KeyError, IndexError, ValueError):
            raise SettingsError(
                f"collect.prometheus is {setting!r}: use {{host}} and {{id}} only, as in http://{{host}}:7071/metrics"
            ) from None
        return MetricsEndpoints(pattern=setting)
    by_broker = {}
    for key, address in setting.items():
        if not key.isdigit():
            raise SettingsError(
                f'collect.prometheus has the key {key!r}: keys are broker ids, as in "1" = "127.0.0.1:7071"'
            )
        by_broker[int(key)] = address
    return MetricsEndpoints(by_broker=by_broker)


@dataclass(frozen=True)
class CounterScrape:
    """One broker's counters and when they were read."""

    sampled_at: datetime.datetime
    counters: BrokerCounters


def scrape(url: str, timeout_seconds: float, cluster: ClusterNames | None = None) -> CounterScrape:
    """Read one endpoint; its labels are compared with `cluster`.

    Raises
    ------
    Unanswered
        If it gives no exposition within the time.
    """
    deadline = time.monotonic() + timeout_seconds
    shown = re.sub(r"//[^/@\s]*@", "//", url)  # without a password
    request = urllib.request.Request(url, headers={"Accept": "text/plain; version=0.0.4"})
    # A proxy for the outside world does not know the brokers.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_seconds) as response:
            sampled_at = datetime.datetime.now(datetime.UTC)
            parts, size = [], 0
            # read() would wait for its whole share, however slowly it dribbles in.
            while part := response.read1(2**18):
                parts.append(part)
                size += len(part)
                if time.monotonic() > deadline:
                    raise RequestError(f"{shown} gave {size} bytes in {timeout_seconds:g} s and was not done")
                if size > LARGEST_BYTES:
                    raise RequestError(f"{shown} gave more than {LARGEST_BYTES} bytes")
    except urllib.error.HTTPError as error:
        raise RequestError(f"{shown} answers {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", None) or error
        raise RequestError(f"{shown}: {getattr(cause, 'strerror', None) or cause}") from error
    except http.client.HTTPException as error:
        raise RequestError(f"{shown} does not speak HTTP ({type(error).__name__})") from error
    return CounterScrape(sampled_at, read_exposition(b"".join(parts).decode("utf-8", "replace"), cluster))


def topic_batch(broker: int, found: CounterScrape) -> RowBatch:
    """Rows of kind `topic_broker` of one scrape."""
    writer = RowBatchBuilder(
        "topic_broker", "topic", *TOPIC_COLUMNS, broker=broker, sampled_at=found.sampled_at
    )
    for topic, values in sorted(found.counters.topics.items()):
        writer.add(topic, *(whole_number(values.get(column)) for column in TOPIC_COLUMNS))
    return writer.batch()

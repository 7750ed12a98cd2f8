"""Scrapes the brokers' Prometheus endpoints."""

from __future__ import annotations

import datetime
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.observe.collect.sampler import RequestError
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder, whole_number
from trimtab.systems.kafka.exposition import (
    TOPIC_COLUMNS,
    BrokerCounters,
    ClusterNames,
    read_exposition,
)
from trimtab.systems.kafka.placement import KafkaBroker
from trimtab_common.errors import SettingsError

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

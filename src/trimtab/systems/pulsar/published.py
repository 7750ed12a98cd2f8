"""Loads that brokers under the extensible load manager publish, on two topics of the system.

Its load report is refused by the admin API. The topics are not persistent: only what is published while we
listen arrives, a broker at a time, when its load has changed or its longest interval is over.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import msgspec

from trimtab.systems.pulsar.client import pulsar_client
from trimtab.systems.pulsar.settings import PulsarConnection
from trimtab_common.errors import TrimtabError

BROKERS: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
BUNDLES: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
"""`BrokerLoadData` and `TopBundlesLoadData` in JSON, keyed by broker; an empty one says that it has gone."""

ATTEMPT_SECONDS: Final = 10.0


@dataclass
class LatestValues:
    """The newest value of each key; may be used from many threads."""

    _values: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    unreadable: int = 0

    def update(self, key: str, data: bytes) -> None:
        """Take one message in."""
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

    def all(self) -> dict[str, Mapping[str, Any]]:
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
        """Stop listening."""
        self._closed = True
        # An attempt under way ends when its client is closed.
        _close(self._client)
        self._pool.shutdown(wait=True, cancel_futures=True)
        _close(self._client)

    def _subscribe(self) -> None:
        import pulsar

        if self._closed:
            return
        self._client = pulsar_client(self._connection, self._service_url, quiet=True)
        try:
            for topic, latest in ((BROKERS, self.brokers), (BUNDLES, self.bundles)):
                self._client.subscribe(
                    topic,
                    f"trimtab-{uuid4().hex}",
                    consumer_type=pulsar.ConsumerType.Exclusive,
                    message_listener=_listener(latest),
                )
        except pulsar.PulsarException as error:
            _close(self._client)
            raise TrimtabError(str(error)) from error


def _close(client: Any) -> None:
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

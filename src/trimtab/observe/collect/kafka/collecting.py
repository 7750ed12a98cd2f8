"""Collectors of Kafka: over the protocol, and over the brokers' metrics where they have an exporter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trimtab.connect.kafka.client import admin_client
from trimtab.connect.kafka.settings import KafkaConnection
from trimtab.observe.collect.capacity import CapacitySettings
from trimtab.observe.collect.collecting import Collecting
from trimtab.observe.collect.kafka.asking import AdminAsker
from trimtab.observe.collect.kafka.collector import Collector
from trimtab.observe.collect.kafka.raw import COLUMNS
from trimtab.observe.collect.settings import CollectSettings


@contextmanager
def open_collector(
    connection: KafkaConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Collector]:
    """A collector on a connection of its own.

    Raises
    ------
    ConnectError
        If the cluster cannot be reached now.
    """
    # The client's default would leave a broker that comes back unasked for up to 30 s.
    admin = admin_client(connection, reconnect_backoff_max_ms=1000)
    collector = Collector(AdminAsker(admin), settings, capacity)
    try:
        yield collector
    finally:
        collector.close()
        admin.close()


def remarks(settings: CollectSettings) -> tuple[str, ...]:
    """A remark where CPU cannot be known."""
    if settings.prometheus is not None:
        return ()
    return ("no metrics endpoint is set (collect.prometheus): no CPU, three resources remain",)


COLLECTING: Final = Collecting(COLUMNS, open_collector, remarks)

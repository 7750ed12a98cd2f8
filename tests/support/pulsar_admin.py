"""A simulated Pulsar with some load, for tests of what reads its admin API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simulate.pulsar_admin.server import PulsarAdminServer
from trimtab.model.bundles.snapshot import topic_hash

NAMESPACE = "acme/shop"


@contextmanager
def loaded_server(brokers: int = 3, topics: int = 6, **settings: Any) -> Iterator[PulsarAdminServer]:
    """Brokers with four bundles given out in turn, and topics of 10, 20, 30, ... messages/s in, twice out."""
    with PulsarAdminServer(brokers, **settings) as server:
        cluster = server.cluster
        cluster.add_namespace(NAMESPACE, 4)
        for number, bundle in enumerate(cluster.bundles_of(NAMESPACE)):
            cluster.give(bundle.key, server.ids[number % brokers])
        for number in range(topics):
            name = f"persistent://{NAMESPACE}/orders-{number}"
            cluster.add_topic(name, sessions=3)
            cluster.rates[name] = (10.0 * (number + 1), 20.0 * (number + 1))
        yield server


def bundle_holding(server: PulsarAdminServer, topic: str) -> str:
    """The bundle that a topic falls into."""
    hashed = topic_hash(topic)
    return next(one.key for one in server.cluster.bundles_of(NAMESPACE) if one.holds(hashed))

"""Putting bundles where they are wanted, so that a cluster begins uneven."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
from trimtab.model.bundles.range import topic_hash
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.admin import PulsarAdmin

# One unload in fifty goes elsewhere under the modular load manager, whose hint another lookup can use up.
TRIES = 5
OWNER_SECONDS = 5.0


def bundles_of(admin: PulsarAdmin, workload: PulsarWorkload) -> dict[str, list[str]]:
    """The topics of each bundle of a workload that has any, by the bundles' keys."""
    found: dict[str, list[str]] = defaultdict(list)
    boundaries = {namespace.name: admin.boundaries(namespace.name) for namespace in workload.namespaces}
    for topic, _ in workload.topics:
        namespace = topic.partition("://")[2].rpartition("/")[0]
        edges = boundaries[namespace]
        index = min(bisect_right(edges, topic_hash(topic)), len(edges) - 1)
        found[f"{namespace}/0x{edges[index - 1]:08x}_0x{edges[index]:08x}"].append(topic)
    return dict(found)


def uneven_places(
    workload: PulsarWorkload, bundles: Mapping[str, Sequence[str]], shares: Mapping[str, float]
) -> dict[str, str]:
    """A broker for each bundle, so that brokers carry given shares of the bytes, heaviest bundles first.

    Parameters
    ----------
    workload, bundles
        What topics carry, and which bundle they are in (`bundles_of`).
    shares
        By broker id; of their sum.
    """
    rates = {
        name: topic.messages_per_second * topic.message_bytes * (1 + topic.consumers)
        for name, topic in workload.topics
    }
    loads = {bundle: sum(rates[topic] for topic in topics) for bundle, topics in bundles.items()}
    left = {broker: sum(loads.values()) * share / sum(shares.values()) for broker, share in shares.items()}
    places = {}
    for bundle in sorted(loads, key=lambda bundle: (-loads[bundle], bundle)):
        places[bundle] = max(left, key=lambda broker: left[broker])
        left[places[bundle]] -= loads[bundle]
    return places


def place_bundles(
    admin: PulsarAdmin, bundles: Mapping[str, Sequence[str]], places: Mapping[str, str]
) -> None:
    """Move bundles to brokers, one by one, and make sure of it.

    Parameters
    ----------
    bundles
        Topics of each (`bundles_of`).
    places
        A broker's id for each bundle that is to be moved.

    Raises
    ------
    SandboxError
        If a bundle keeps going elsewhere.
    """
    for bundle, broker in places.items():
        for _ in range(TRIES):
            if _owner_becomes(admin, bundles[bundle][0], broker):
                break
            admin.unload(bundle, broker)
        else:
            raise SandboxError(
                f"{bundle} does not stay with broker {broker} after {TRIES} unloads: switch Pulsar's own "
                "shedding off meanwhile (loadBalancerSheddingEnabled=false)"
            )


def _owner_becomes(admin: PulsarAdmin, topic: str, broker: str) -> bool:
    """True if a topic is served there, now or, while its bundle is between owners, in a moment."""
    deadline = time.monotonic() + OWNER_SECONDS
    while (owner := admin.topic_owner(topic)) != broker:
        if owner or time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def place_unevenly(admin: PulsarAdmin, workload: PulsarWorkload, brokers: Sequence[str]) -> None:
    """Give each broker half of the load of the one before it; errors as in `place_bundles`."""
    bundles = bundles_of(admin, workload)
    shares = {broker: 0.5**rank for rank, broker in enumerate(brokers)}
    place_bundles(admin, bundles, uneven_places(workload, bundles, shares))

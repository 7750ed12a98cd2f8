"""The namespaces of a load on Pulsar: created, deleted, and their bundles placed unevenly on brokers."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Final

from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
from trimtab.model.bundles.snapshot import topic_hash
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.http import path_part, path_parts, topic_path

PARALLEL_REQUESTS = 4
POLICIES: Final = {
    "deduplicationEnabled": True,
    # What consumers have read stays long enough to be read back, and a load that somebody forgets ends there.
    "retention_policies": {"retentionTimeInMinutes": 15, "retentionSizeInMB": 64},
}
"""A careful user's: nothing is kept twice when a client sends again."""


def create_namespaces(admin: PulsarAdmin, workload: PulsarWorkload) -> None:
    """Create a workload's tenants, namespaces and topics; which brokers get their bundles is Pulsar's choice.

    Raises
    ------
    SandboxError
        If a namespace exists already.
    PulsarAdminError
        If a broker refuses for another reason.
    """
    for tenant in sorted({namespace.name.partition("/")[0] for namespace in workload.namespaces}):
        _passing_over(HTTPStatus.CONFLICT, partial(create_tenant, admin, tenant))
    for namespace in workload.namespaces:
        try:
            create_namespace(admin, namespace.name, namespace.bundles, POLICIES)
        except PulsarAdminError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            raise SandboxError(
                f"the namespace {namespace.name} exists already: the load can run in it, or remove it first"
            ) from error
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as threads:
        list(threads.map(partial(create_topic, admin), [name for name, _ in workload.topics]))


def delete_namespaces(admin: PulsarAdmin, workload: PulsarWorkload) -> None:
    """Remove a workload's namespaces with all that is in them; those that do not exist are passed over."""
    for namespace in workload.namespaces:
        delete_namespace(admin, namespace.name)


def create_tenant(admin: PulsarAdmin, tenant: str) -> None:
    """Make a tenant that may use the cluster; 409 if it exists."""
    body = {"allowedClusters": [admin.cluster()]}
    admin.change("PUT", f"tenants/{path_part(tenant)}", body=json.dumps(body).encode())


def create_namespace(
    admin: PulsarAdmin, namespace: str, bundles: int, policies: Mapping[str, object] | None = None
) -> None:
    """Make a namespace with so many bundles at first, and Pulsar's own `policies`; 409 if it exists."""
    body = {"replication_clusters": [admin.cluster()], "bundles": {"numBundles": bundles}, **(policies or {})}
    admin.change("PUT", f"namespaces/{path_parts(namespace)}", body=json.dumps(body).encode())


def create_topic(admin: PulsarAdmin, topic: str) -> None:
    """Make a topic that is not partitioned; 409 if it exists."""
    admin.change("PUT", topic_path(topic))


def delete_namespace(admin: PulsarAdmin, namespace: str) -> None:
    """Remove a namespace with all that is in it, unless it does not exist."""
    query = (("force", "true"),)
    remove = partial(admin.change, "DELETE", f"namespaces/{path_parts(namespace)}", query)
    for left in reversed(range(DELETE_TRIES)):
        try:
            _passing_over(HTTPStatus.NOT_FOUND, remove)
            return
        except PulsarAdminError as error:
            # The namespace's own system topic may write once more while its ledgers are removed: Pulsar then
            # answers 500 (KeeperErrorCode = Directory not empty), and a later request removes the rest.
            if error.status != HTTPStatus.INTERNAL_SERVER_ERROR or not left:
                raise
            time.sleep(1.0)


def _passing_over(status: HTTPStatus, call: Callable[[], object]) -> None:
    try:
        call()
    except PulsarAdminError as error:
        if error.status != status:
            raise


DELETE_TRIES = 5
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
    """Move bundles to brokers one by one, and wait until each is there.

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
    """True if the broker serves a topic; a bundle between two owners is waited for."""
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

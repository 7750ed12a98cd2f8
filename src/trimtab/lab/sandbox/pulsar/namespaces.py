"""Creating and removing the namespaces and topics of a workload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Final

from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
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
    _passing_over(HTTPStatus.NOT_FOUND, remove)


def _passing_over(status: HTTPStatus, call: Callable[[], object]) -> None:
    try:
        call()
    except PulsarAdminError as error:
        if error.status != status:
            raise

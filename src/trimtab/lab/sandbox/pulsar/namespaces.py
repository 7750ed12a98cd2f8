"""Creating and removing the namespaces and topics of a workload."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Final

from trimtab.connect.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
from trimtab.model.errors import SandboxError

ASKED_AT_ONCE = 4
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
        _passing_over(HTTPStatus.CONFLICT, partial(admin.create_tenant, tenant))
    for namespace in workload.namespaces:
        try:
            admin.create_namespace(namespace.name, namespace.bundles, POLICIES)
        except PulsarAdminError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            raise SandboxError(
                f"the namespace {namespace.name} exists already: the load can run in it, or remove it first"
            ) from error
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        list(threads.map(admin.create_topic, [name for name, _ in workload.topics]))


def delete_namespaces(admin: PulsarAdmin, workload: PulsarWorkload) -> None:
    """Remove a workload's namespaces with all that is in them; those that do not exist are passed over."""
    for namespace in workload.namespaces:
        delete_namespace(admin, namespace.name)


def delete_namespace(admin: PulsarAdmin, namespace: str) -> None:
    """Remove a namespace with all that is in it, unless it does not exist."""
    _passing_over(HTTPStatus.NOT_FOUND, partial(admin.delete_namespace, namespace))


def _passing_over(status: HTTPStatus, call: Callable[[], None]) -> None:
    try:
        call()
    except PulsarAdminError as error:
        if error.status != status:
            raise

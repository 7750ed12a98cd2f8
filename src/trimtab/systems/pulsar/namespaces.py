"""Namespaces of a cluster: boundaries of their bundles, and what is laid down about where these may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from trimtab.model.bundles.policies import BundlePolicies, is_heartbeat_or_sla
from trimtab.observe.bundles.pipeline import policies_text
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.bundles import are_valid_boundaries
from trimtab.systems.pulsar.figures import SampleErrors

POLICIES_SECONDS: Final = 300.0
"""Operators change policies rarely; boundaries are asked at every tick."""


@dataclass(frozen=True)
class NamespacesSample:
    """The namespaces of a tick.

    Attributes
    ----------
    boundaries
        By namespace; without those that could not be told or cannot be.
    policies
        Text of the raw column, by namespace.
    problems
        What is missing and why, one sentence each.
    """

    boundaries: Mapping[str, tuple[int, ...]]
    policies: Mapping[str, str]
    problems: tuple[str, ...]


class Namespaces:
    """Asks for namespaces; remembers their policies for a while.

    Parameters
    ----------
    clock
        Seconds, on any clock that does not go back.
    """

    def __init__(
        self, admin: PulsarAdmin, pool: Executor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._pool = pool
        self._clock = clock
        self._policies = BundlePolicies()
        self._groups: dict[str, str | None] = {}
        self._read_at = -POLICIES_SECONDS
        self._problems: tuple[str, ...] = ()

    def sample(self, observation: Iterable[str], faults: SampleErrors) -> NamespacesSample:
        """All namespaces.

        Parameters
        ----------
        observation
            Namespaces that brokers own bundles of; asked for where the list of all is refused.
        """
        problems = []
        try:
            names = self._names()
        except PulsarAdminError as error:
            names = {name for name in observation if not is_heartbeat_or_sla(name)}
            problems.append(f"namespaces cannot be listed, those with owned bundles are asked: {error}")
        boundaries = {}
        for name, found in zip(
            ordered := sorted(names), self._pool.map(self._boundaries, ordered), strict=True
        ):
            if isinstance(found, PulsarAdminError):
                if found.status != HTTPStatus.NOT_FOUND:  # 404: deleted since it was listed
                    problems.append(f"no boundaries of namespace {name}: {found}")
            elif are_valid_boundaries(found):
                boundaries[name] = found
            else:
                faults.note(f"namespace {name}", "boundaries", "has bundles that overlap or leave topics out")
        self._read_policies(boundaries)
        texts = {name: policies_text(self._policies, self._groups.get(name)) for name in boundaries}
        return NamespacesSample(boundaries, texts, (*problems, *self._problems))

    def _names(self) -> set[str]:
        tenants = self._admin.tenants()
        return {name for names in self._pool.map(self._admin.namespaces, tenants) for name in names}

    def _boundaries(self, namespace: str) -> tuple[int, ...] | PulsarAdminError:
        try:
            return self._admin.boundaries(namespace)
        except PulsarAdminError as error:
            return error

    def _read_policies(self, names: Iterable[str]) -> None:
        now = self._clock()
        stale = now - self._read_at >= POLICIES_SECONDS
        asked = [name for name in names if stale or name not in self._groups]
        if stale:
            self._read_at, self._problems = now, ()
            try:
                self._policies = self._admin.cluster_policies()
            except PulsarAdminError as error:
                self._problems = (f"isolation policies and failure domains cannot be told: {error}",)
        for name, group in zip(asked, self._pool.map(self._group, asked), strict=True):
            if isinstance(group, PulsarAdminError):
                self._problems += (f"no anti-affinity group of namespace {name}: {group}",)
            else:
                self._groups[name] = group

    def _group(self, namespace: str) -> str | PulsarAdminError | None:
        try:
            return self._admin.anti_affinity_group(namespace)
        except PulsarAdminError as error:
            return error

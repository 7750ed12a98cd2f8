"""Answers of Pulsar's admin API, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from trimtab.model.bundles.policies import IsolationPolicy
from trimtab.systems.pulsar.errors import PulsarAdminError

T = TypeVar("T")


@dataclass(frozen=True)
class Response:
    """The body that came back; `base` is the web address of the broker that answered."""

    base: str
    body: bytes

    @property
    def text(self) -> str:
        """A bare word or sentence, quoted or not."""
        return self.body.decode("utf-8", "replace").strip().strip('"')

    def decoded(self, path: str, kind: type[T]) -> T:
        """The JSON as a type.

        Raises
        ------
        PulsarAdminError
            If it is something else.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self.unreadable(path, str(error)) from error

    def statistics(self, path: str) -> dict[str, Any]:
        """An object of unknown soundness: brokers may write NaN, which JSON does not have."""
        try:
            found = msgspec.json.decode(self.body)
        except msgspec.MsgspecError:
            try:
                found = json.loads(self.body)
            except (ValueError, RecursionError) as error:
                raise self.unreadable(path, str(error)) from error
        if not isinstance(found, dict):
            raise self.unreadable(path, f"a {type(found).__name__} in place of an object")
        return found

    def unreadable(self, path: str, why: str) -> PulsarAdminError:
        """The error for an answer that says yes and makes no sense."""
        return PulsarAdminError(
            f"Pulsar at {self.base} answers GET {path} with something else than expected ({why}): check that "
            "the address is a broker's web address; Pulsar 4.0 and 4.2 are tried",
            reason=why,
            status=200,
        )


class OwnedBundle(msgspec.Struct):
    """One entry of `ownedNamespaces`."""

    is_active: bool = True


class BundleBoundaries(msgspec.Struct):
    """The answer to `namespaces/.../bundles`."""

    boundaries: list[str]


class LeaderBroker(msgspec.Struct, rename="camel"):
    """The answer to `brokers/leaderBroker`; Pulsar 3 gave no id."""

    service_url: str
    broker_id: str | None = None


class Lookup(msgspec.Struct, rename="camel"):
    """The answer to `lookup/v2/topic`."""

    http_url: str | None = None
    http_url_tls: str | None = None


class FailureDomain(msgspec.Struct):
    """A failure domain."""

    brokers: list[str] = []


class IsolationPolicyData(msgspec.Struct):
    """A namespace isolation policy."""

    namespaces: list[str] = []
    primary: list[str] = []
    secondary: list[str] = []
    auto_failover_policy: dict[str, Any] = {}

    def policy(self) -> IsolationPolicy:
        """The planners' own value; a limit that is no number counts as 1."""
        parameters: Mapping[str, Any] = self.auto_failover_policy.get("parameters") or {}
        try:
            fewest = int(parameters.get("min_limit", 1))
        except ValueError:
            fewest = 1
        return IsolationPolicy(tuple(self.namespaces), tuple(self.primary), tuple(self.secondary), fewest)

"""What single brokers tell: what they own, how loaded they are, how they are set."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from trimtab.connect.pulsar_answers import OwnedBundle
from trimtab.connect.pulsar_calls import PulsarCalls, path_part
from trimtab.connect.pulsar_http import Answer
from trimtab.connect.pulsar_wire import Request

GLOBAL_CLUSTER = "global"
"""Stands in the list of clusters of old installations and has no brokers."""


class _Owned(msgspec.Struct):
    is_active: bool = True
    is_controlled: bool = False


class PulsarBrokerCalls(PulsarCalls):
    """Calls that go to one broker, by its id (`host:port` of its web service)."""

    def cluster(self) -> str:
        """The cluster's name: as set, or as its brokers tell."""
        if self._cluster is None:
            names = [name for name in self.get_json("clusters", list[str]) if name != GLOBAL_CLUSTER]
            # Clusters that replicate to one another know each other's names.
            self._cluster = names[0] if len(names) == 1 else self.runtime_configuration()["clusterName"]
        return self._cluster

    def web_url(self, broker: str) -> str:
        """A broker's web address, with TLS where we use it.

        A broker with both ports is known by the plain one; where it listens with TLS, it tells by where
        requests for it are redirected to.
        """
        if not self.connection.uses_tls:
            return f"http://{broker}"
        with self._lock:
            found = self._web_urls.get(broker)
        if found is None:
            if f"https://{broker}" in self.connection.admin:
                found = f"https://{broker}"
            else:
                found = self._owned(broker)[0].base
            with self._lock:
                self._web_urls[broker] = found
        return found

    def owned_bundles(self, broker: str) -> tuple[OwnedBundle, ...]:
        """What a broker owns, its own heartbeat namespaces too; asking assigns nothing."""
        answer, path = self._owned(broker)
        told = self.decoded(answer, path, dict[str, _Owned])
        return tuple(OwnedBundle(bundle, one.is_active, one.is_controlled) for bundle, one in told.items())

    def load_report(self, broker: str) -> dict[str, Any]:
        """A broker's own load report (`LocalBrokerData`), as it stands, NaN and all.

        Refused with 500 by the extensible load manager.
        """
        return self._stats("broker-stats/load-report", broker)

    def topic_stats(self, broker: str) -> dict[str, Any]:
        """Statistics of a broker's topics, as they stand: by namespace, range, `persistent` or not, topic."""
        return self._stats("broker-stats/topics", broker)

    def metrics(self, broker: str) -> str:
        """A broker's metrics, in the text format of Prometheus."""
        answer = self.ask(Request("GET", "/metrics/"), self.web_url(broker))
        return answer.body.decode("utf-8", "replace")

    def is_healthy(self, broker: str) -> bool:
        """Whether a broker can write and read a message of its own, which needs its storage too."""
        answer = self.get("brokers/health", base=self.web_url(broker))
        return answer.body.strip() == b"ok"

    def version(self, broker: str | None = None) -> str:
        """Pulsar's version, of one broker or of any."""
        base = None if broker is None else self.web_url(broker)
        return self.get("brokers/version", base=base).body.decode("utf-8", "replace").strip().strip('"')

    def dynamic_configuration_names(self) -> tuple[str, ...]:
        """Which settings can be changed while brokers run."""
        return tuple(self.get_json("brokers/configuration", list[str]))

    def configuration_overrides(self) -> dict[str, str]:
        """Settings that were changed while brokers run, and stay so after a restart."""
        return self.get_json("brokers/configuration/values", dict[str, str])

    def runtime_configuration(self, broker: str | None = None) -> dict[str, str]:
        """All settings as they are in force, in one broker or in any."""
        base = None if broker is None else self.web_url(broker)
        path = "brokers/configuration/runtime"
        told = self.decoded(self.get(path, base=base), path, dict[str, Any])
        return {name: "" if value is None else str(value) for name, value in told.items()}

    def _owned(self, broker: str) -> tuple[Answer, str]:
        path = f"brokers/{path_part(self.cluster())}/{path_part(broker)}/ownedNamespaces"
        # Without TLS the id is the address; with it, whoever is asked sends us there.
        base = None if self.connection.uses_tls else f"http://{broker}"
        return self.get(path, base=base), path

    def _stats(self, path: str, broker: str) -> dict[str, Any]:
        """Statistics of unknown soundness: brokers may write NaN, which JSON does not have."""
        answer = self.get(path, base=self.web_url(broker))
        try:
            found = msgspec.json.decode(answer.body)
        except msgspec.MsgspecError:
            try:
                found = json.loads(answer.body)
            except (ValueError, RecursionError) as error:
                raise self.unreadable(answer, path, str(error)) from error
        if not isinstance(found, dict):
            raise self.unreadable(answer, path, f"a {type(found).__name__} in place of an object")
        return found

"""Calls that change a Pulsar cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from trimtab.connect.pulsar_answers import BundleQuota
from trimtab.connect.pulsar_calls import bundle_path, namespace_path, path_part, topic_path
from trimtab.connect.pulsar_cluster import PulsarClusterCalls


class _Quota(msgspec.Struct, rename="camel"):
    msg_rate_in: float
    msg_rate_out: float
    bandwidth_in: float
    bandwidth_out: float
    memory: float
    dynamic: bool = True


class PulsarChangeCalls(PulsarClusterCalls):
    """Calls that are sent to another broker only if the first one cannot have got them."""

    def set_configuration(self, name: str, value: str) -> None:
        """Change a setting in all brokers. 412 if it is not dynamic; values are not checked by Pulsar."""
        self.change("POST", f"brokers/configuration/{path_part(name)}/{path_part(value)}")

    def delete_configuration(self, name: str) -> None:
        """Give a setting back to what the brokers' own files say."""
        self.change("DELETE", f"brokers/configuration/{path_part(name)}")

    def unload(self, bundle: str, destination: str | None = None) -> None:
        """Make the owner let go of a bundle. An answer is no proof: look at who owns it.

        Parameters
        ----------
        destination
            Who is to take it, by id; 409 if no such broker is up. None: whom the leader chooses.
        """
        query = () if destination is None else (("destinationBroker", destination),)
        self.change("PUT", f"namespaces/{bundle_path(bundle)}/unload", query)

    def split(
        self,
        bundle: str,
        algorithm: str | None = None,
        boundaries: Sequence[int] = (),
        *,
        unload: bool = False,
    ) -> None:
        """Split a bundle. An answer is no proof: where no boundary fits, nothing happens.

        Parameters
        ----------
        bundle
            Its key; the range may be `LARGEST` or `HOT`.
        algorithm
            By its name in Pulsar; None: the brokers' default.
        boundaries
            Of `specified_positions_divide`; the extensible load manager takes one only.
        unload
            Whether the halves are unloaded too; the extensible load manager takes no notice.
        """
        query: tuple[tuple[str, str], ...] = (("unload", str(unload).lower()),)
        if algorithm is not None:
            query += (("splitAlgorithmName", algorithm),)
        body = json.dumps(list(boundaries)).encode() if boundaries else None
        self.change("PUT", f"namespaces/{bundle_path(bundle)}/split", query, body)

    def quota(self, bundle: str) -> BundleQuota:
        """What a bundle is taken to carry before it was seen."""
        told = self.get_json(f"resource-quotas/{bundle_path(bundle)}", _Quota)
        return BundleQuota(
            told.msg_rate_in,
            told.msg_rate_out,
            told.bandwidth_in,
            told.bandwidth_out,
            told.memory,
            told.dynamic,
        )

    def set_quota(self, bundle: str, quota: BundleQuota) -> None:
        """Lay down what a bundle is taken to carry."""
        record = _Quota(
            quota.msg_rate_in,
            quota.msg_rate_out,
            quota.bandwidth_in,
            quota.bandwidth_out,
            quota.memory,
            quota.dynamic,
        )
        self.change("POST", f"resource-quotas/{bundle_path(bundle)}", body=msgspec.json.encode(record))

    def delete_quota(self, bundle: str) -> None:
        """Back to the default."""
        self.change("DELETE", f"resource-quotas/{bundle_path(bundle)}")

    def create_tenant(self, tenant: str) -> None:
        """A tenant that may use this cluster; 409 if it exists."""
        body = json.dumps({"allowedClusters": [self.cluster()]}).encode()
        self.change("PUT", f"tenants/{path_part(tenant)}", body=body)

    def create_namespace(self, namespace: str, bundles: int | None = None) -> None:
        """A namespace with so many bundles at first; 409 if it exists."""
        policies: dict[str, object] = {"replication_clusters": [self.cluster()]}
        if bundles is not None:
            policies["bundles"] = {"numBundles": bundles}
        self.change("PUT", f"namespaces/{namespace_path(namespace)}", body=json.dumps(policies).encode())

    def create_topic(self, topic: str, partitions: int | None = None) -> None:
        """A topic, of so many partitions or not partitioned; 409 if it exists."""
        if partitions is None:
            self.change("PUT", topic_path(topic))
        else:
            self.change("PUT", f"{topic_path(topic)}/partitions", body=str(partitions).encode())

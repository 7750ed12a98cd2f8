"""Policies of a Pulsar cluster as the text that a raw row holds of them, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy


def policies_text(cluster: BundlePolicies, group: str | None) -> str:
    """The column `policies` of a namespace's row: what is laid down for all, and its own group.

    Parameters
    ----------
    cluster
        Isolation policies and failure domains; any row alone holds them all.
    group
        Anti-affinity group of the namespace.
    """
    told: dict[str, Any] = {}
    if cluster.isolation:
        told["isolation"] = [asdict(policy) for policy in cluster.isolation]
    if cluster.failure_domains:
        told["failure_domains"] = dict(cluster.failure_domains)
    if group is not None:
        told["anti_affinity_group"] = group
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def policies_from(texts: Mapping[str, str | None]) -> BundlePolicies:
    """The policies of a cluster out of the rows of one tick.

    Parameters
    ----------
    texts
        The column `policies`, by namespace.
    """
    isolation: tuple[IsolationPolicy, ...] = ()
    domains: dict[str, str] = {}
    groups: dict[str, str] = {}
    for namespace, text in texts.items():
        told = json.loads(text or "{}")
        if "anti_affinity_group" in told:
            groups[namespace] = told["anti_affinity_group"]
        if "isolation" in told:
            isolation = msgspec.convert(told["isolation"], tuple[IsolationPolicy, ...])
        domains |= told.get("failure_domains", {})
    return BundlePolicies(isolation, groups, domains)

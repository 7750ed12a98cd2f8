"""Registry of all strategies that decide from a stream of load reports: Pulsar's own, and `trim`."""

from collections.abc import Mapping
from typing import Any, Final

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.plan.pulsar import strategies
from trimtab.plan.pulsar.decision import Shedder

SHEDDERS: Final[Mapping[str, str]] = {
    **strategies.SHEDDERS,
    "trim": "trimtab.plan.bundles.shedder:trim_shedder",
}
"""As `trimtab.plan.pulsar.strategies.SHEDDERS`; ours is by its own name."""


def shedder(name: str, metadata: ClusterMetadata | None = None) -> Shedder[Any]:
    """As `trimtab.plan.pulsar.strategies.shedder`, ours among them."""
    return strategies.shedder(name, metadata, SHEDDERS)

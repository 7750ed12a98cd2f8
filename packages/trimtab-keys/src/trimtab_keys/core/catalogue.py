"""The key policies by the names that settings give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from trimtab_common.errors import SettingsError
from trimtab_keys.core.policies.bounded import BoundedLoads
from trimtab_keys.core.policies.choices import DChoices, PartialKeyGrouping, WChoices
from trimtab_keys.core.policies.hashing import HashPartitioning
from trimtab_keys.core.policies.ipooa import OverloadOptimisation
from trimtab_keys.core.policies.keyless import (
    BATCH_RECORDS,
    AdaptivePartition,
    RandomPartition,
    RoundRobinPartition,
    StickyPartition,
)
from trimtab_keys.core.policies.table import KeyGroups
from trimtab_keys.core.policy import KeyPolicy
from trimtab_keys.core.routing import RoutingTable
from trimtab_keys.core.settings import IpooaSettings


@dataclass(frozen=True, slots=True)
class KeyPolicyInputs:
    """What policies may ask for; each takes what it needs.

    Attributes
    ----------
    table
        Routes of key groups and hot keys.
    batch_records
        Records without a key that stay together.
    head
        Share of the records from which a key has more than two choices; None for the paper's.
    epsilon
        Of bounded loads.
    ipooa
        Its settings.
    """

    table: RoutingTable | None = None
    batch_records: int = BATCH_RECORDS
    head: float | None = None
    epsilon: float = 0.1
    ipooa: IpooaSettings = field(default_factory=IpooaSettings)


def _key_groups(values: KeyPolicyInputs) -> KeyPolicy:
    if values.table is None:
        raise SettingsError("policy 'key_groups' needs a routing table: pass one")
    return KeyGroups(values.table)


POLICIES: Final[dict[str, Callable[[KeyPolicyInputs], KeyPolicy]]] = {
    HashPartitioning.name: lambda _: HashPartitioning(),
    RandomPartition.name: lambda _: RandomPartition(),
    RoundRobinPartition.name: lambda _: RoundRobinPartition(),
    StickyPartition.name: lambda inputs: StickyPartition(inputs.batch_records),
    AdaptivePartition.name: lambda inputs: AdaptivePartition(inputs.batch_records),
    PartialKeyGrouping.name: lambda _: PartialKeyGrouping(),
    DChoices.name: lambda inputs: DChoices(inputs.head),
    WChoices.name: lambda inputs: WChoices(inputs.head),
    BoundedLoads.name: lambda inputs: BoundedLoads(inputs.epsilon),
    KeyGroups.name: _key_groups,
    OverloadOptimisation.name: lambda inputs: OverloadOptimisation(inputs.ipooa),
}
"""Name of a policy to how it is made."""


def policy_named(name: str, values: KeyPolicyInputs | None = None) -> KeyPolicy:
    """A policy.

    Raises
    ------
    SettingsError
        If there is none of that name, or it was not inputs what it needs.
    """
    if name not in POLICIES:
        raise SettingsError(f"policy is {name!r}, expected one of {', '.join(POLICIES)}")
    return POLICIES[name](KeyPolicyInputs() if values is None else values)

"""The section `[masters]` of the settings: how plans balance masterships."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Final

from trimtab.model.masters import RESOURCES
from trimtab_common.documents import Fraction, Positive, Seconds, SmallShare
from trimtab_common.settings import RejectCallback, Section


@dataclass(frozen=True)
class MastersSettings:
    """Goals and limits of a plan of masterships.

    Attributes
    ----------
    strategy
        Planner: `trim`.
    epsilon
        Highest deviation γ of a node's load from the mean of the nodes, 0 < ε < 1.
    max_moves
        Maximum number of masterships that a plan moves.
    min_gain
        Minimum gain of an optional move if no plan brings every node within ε: the relative decrease of the
        sum of squared deviations. It prevents repeated small moves.
    cooldown_seconds
        Groups with a newer master stay, unless they must move: load follows a master with delay.
    weights
        Relative share of the load of a node, by name; default: 1.
    drain
        Names of nodes to empty, regardless of load.
    excluded_nodes
        Names of nodes that receive no further masterships.
    """

    goals: ClassVar[tuple[str, ...]] = ("epsilon",)
    theta: ClassVar[tuple[float, ...]] = (inf,) * len(RESOURCES)

    strategy: str = "trim"
    epsilon: tuple[Fraction, ...] = (0.1, 0.1)
    max_moves: Positive = 100
    min_gain: SmallShare = 0.01
    cooldown_seconds: Seconds = 60.0
    weights: dict[str, float] = field(default_factory=dict)
    drain: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()


def _check(settings: MastersSettings, refuse: RejectCallback) -> None:
    for node, weight in settings.weights.items():
        if not 0 <= weight <= 1e6:
            refuse("weights", settings.weights, f"0 to 1e6 each, and {node} has {weight:g}")


SECTION: Final = Section("masters", MastersSettings, ("epsilon",), RESOURCES, _check)

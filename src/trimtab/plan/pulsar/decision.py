"""Strategies of Pulsar: their interface, their registry, and disagreements between shedder and placement.

A strategy is a function from view, state and options to a decision and a state. Pulsar's strategies are
objects with state (histories, hit counts). Here the state is an argument and a result: a frozen value of
numbers, texts, lists and mappings. So it can be written as JSON, and two strategies can run on one stream of
reports.

Pulsar's leader calls shedder and placement one after the other, and neither knows the other's reasons. A
bundle can be shed from a broker and placed on the same one, or on one that sheds in the next round
(`disagreements`).

The registry has a row for each strategy, which is imported on demand.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.reports import BrokerReport
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView

DecisionFacts = Mapping[str, Any]
"""The numbers behind a decision, as JSON values with snake-case names; averages and thresholds as fractions.
"""

S = TypeVar("S")


@dataclass(frozen=True)
class NoState:
    """The state of a stateless strategy."""


def nothing_noted(state: S, view: LeaderLoadView, options: PulsarBrokerConfig) -> S:
    """Reaction of most strategies to new reports: the state does not change before a decision."""
    return state


@dataclass(frozen=True)
class ShedDecision:
    """The decision of a shedder: bundles to unload.

    Attributes
    ----------
    unloads
        Bundles to unload, by the broker that owns them, each list in the order of choice.
    destinations
        Destinations of bundles, for shedders that choose them; others leave this to the placement.
    facts
        The numbers behind the decision.
    """

    unloads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)
    facts: DecisionFacts = field(default_factory=dict)

    @property
    def splits(self) -> Mapping[str, DecisionFacts]:
        """The bundles that Pulsar would split at the same tick, with their figures, in a replay."""
        return {name: one for name, one in self.facts.get("splits", {}).items() if one["outcome"] == "split"}


class ShedFunction(Protocol[S]):
    """Chooses bundles to unload (`LoadSheddingStrategy`, `NamespaceUnloadStrategy`)."""

    def __call__(
        self, view: LeaderLoadView, state: S, options: PulsarBrokerConfig, chance: np.random.Generator
    ) -> tuple[ShedDecision, S]:
        """Decide; pure except for random numbers from `chance`."""
        ...


@dataclass(frozen=True)
class BrokerChoice:
    """The broker for a bundle, None if there is none, and the numbers behind the decision.

    Attributes
    ----------
    pool
        The equal candidates of the random choice, in their order.
    """

    broker: str | None
    pool: tuple[str, ...] = ()
    facts: DecisionFacts = field(default_factory=dict)


class PlacementFunction(Protocol[S]):
    """Chooses a broker for a bundle (`ModularLoadManagerStrategy`, `BrokerSelectionStrategy`)."""

    def __call__(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: LeaderLoadView,
        state: S,
        options: PulsarBrokerConfig,
        chance: np.random.Generator,
    ) -> tuple[BrokerChoice, S]:
        """Choose among `candidates`, in their order; pure except for random numbers from `chance`."""
        ...


@dataclass(frozen=True)
class Shedder(Generic[S]):
    """A row of `SHEDDERS`.

    Attributes
    ----------
    decide
        One decision.
    initial
        The initial state; its type determines how a state is read from JSON.
    extensible
        Whether it names destinations itself. Those that it leaves open are placed by a placement of the
        extensible load manager, if there is one; another placement is not asked.
    owners_split
        Whether each owner splits its bundles beside it, as under the extensible load manager.
    noted
        The state after new reports: without missing brokers, or with published loads. Called at every tick,
        with or without a decision.
    """

    decide: ShedFunction[S]
    initial: S
    extensible: bool = False
    noted: Callable[[S, LeaderLoadView, PulsarBrokerConfig], S] = nothing_noted
    owners_split: bool = False


@dataclass(frozen=True)
class Placer(Generic[S]):
    """A row of `PLACERS`: one choice of a broker; the rest as for a shedder.

    Attributes
    ----------
    extensible
        Whether it is of the extensible load manager, by whose filters candidates are found.
    """

    choose: PlacementFunction[S]
    initial: S
    noted: Callable[[S, LeaderLoadView, PulsarBrokerConfig], S] = nothing_noted
    extensible: bool = False


def drawn(pool: Sequence[str], why: DecisionFacts, chance: np.random.Generator) -> BrokerChoice:
    """A random element of the pool; None if it is empty (`ThreadLocalRandom.nextInt`)."""
    if not pool:
        return BrokerChoice(None, (), why)
    return BrokerChoice(pool[int(chance.integers(len(pool)))], tuple(pool), why)


@dataclass(frozen=True)
class Disagreement:
    """One bundle on which shedder and placement disagree.

    Attributes
    ----------
    kind
        `back` (to the broker that it should leave), `overloaded` (to a broker that is, or would be then),
        `nowhere` (the placement finds none), `kept` (policies keep it where it is).
    """

    kind: str
    bundle: str
    source: str
    target: str | None
    text: str


def disagreements(
    decision: ShedDecision, reports: Mapping[str, BrokerReport], options: PulsarBrokerConfig
) -> tuple[Disagreement, ...]:
    """All placements that contradict the shedder.

    Parameters
    ----------
    decision
        As the load manager leaves it: `why` says under `refused` what stays, and why.
    reports, options
        As the strategy saw them; `loadBalancerBrokerOverloadedThresholdPercentage` says who is overloaded.
    """
    found: list[Disagreement] = []
    owner = {bundle: name for name, report in reports.items() for bundle in report.bundles}
    refused: Mapping[str, Any] = decision.facts.get("refused", {})
    for bundle, why in refused.items():
        source = owner.get(bundle, "?")
        if why == "the placement would put it back on its broker":
            kind, target = "back", source
        elif why == "there is no broker for it":
            kind, target = "nowhere", None
        else:
            kind, target = "kept", source
        found.append(Disagreement(kind, bundle, source, target, f"{bundle} stays on {source}: {why}"))
    limit = options.broker_overloaded_threshold_percentage / 100
    arrived: dict[str, float] = {}
    for source, bundles in decision.unloads.items():
        for bundle in bundles:
            target = decision.destinations.get(bundle)
            if target is None or target not in reports:
                continue
            if target == source:
                text = f"{bundle} leaves {source} and is placed on {source} again"
                found.append(Disagreement("back", bundle, source, target, text))
                continue
            usage = reports[target].weighted_usage(options.weights)
            arrived[target] = arrived.get(target, 0.0) + _added_usage(reports[source], bundle, options)
            if usage + arrived[target] > limit:
                text = (
                    f"{bundle} goes from {source} to {target}, which is {usage:.0%} full and would be "
                    f"{usage + arrived[target]:.0%}, above {limit:.0%}"
                )
                found.append(Disagreement("overloaded", bundle, source, target, text))
    return tuple(found)


def _added_usage(source: BrokerReport, bundle: str, options: PulsarBrokerConfig) -> float:
    """The usage that a bundle would add to a similar broker, by its share of its broker's traffic."""
    stats = source.last_stats.get(bundle)
    if stats is None or not source.throughput > 0:
        return 0.0
    return min(stats.throughput / source.throughput, 1.0) * source.weighted_usage(options.weights)


SHEDDERS: Final[Mapping[str, str]] = {
    "AvgShedder": "trimtab.plan.pulsar.avg_shedder:SHEDDER",
    "OverloadShedder": "trimtab.plan.pulsar.threshold_shedders:OVERLOAD",
    "ThresholdShedder": "trimtab.plan.pulsar.threshold_shedders:THRESHOLD",
    "TransferShedder": "trimtab.plan.pulsar.transfer_shedder:transfer_shedder",
    "UniformLoadShedder": "trimtab.plan.pulsar.threshold_shedders:UNIFORM",
}
"""By the class's name in Pulsar: the module, and in it the `Shedder`, or a function that makes one of the
cluster's metadata, for those that look at policies themselves. One that names every destination itself says
so by `extensible`, and no placement is asked."""

PLACERS: Final[Mapping[str, str]] = {
    "AvgShedder": "trimtab.plan.pulsar.avg_shedder:PLACER",
    "LeastLongTermMessageRate": "trimtab.plan.pulsar.placers:RATE",
    "LeastResourceUsageWithWeight": "trimtab.plan.pulsar.placers:MODULAR",
    "RoundRobinBrokerSelector": "trimtab.plan.pulsar.placers:ROUND_ROBIN",
    "extensions.LeastResourceUsageWithWeight": "trimtab.plan.pulsar.placers:EXTENSIBLE",
}
"""By the class's name in Pulsar: the module, and in it the `Placer`. Of two classes of one name the one of
the extensible load manager has `extensions.` in front."""


def shedder(
    name: str, metadata: ClusterMetadata | None = None, table: Mapping[str, str] = SHEDDERS
) -> Shedder[Any]:
    """The shedder of this name; a full Java class name will do too.

    Parameters
    ----------
    metadata
        For shedders that look at policies themselves.
    table
        The registry: Pulsar's, or one that has others besides.

    Raises
    ------
    PlanError
        If there is none.
    """
    found: Any = _strategy_named(name, table, "shedding")
    made: Shedder[Any] = found if isinstance(found, Shedder) else found(metadata or ClusterMetadata())
    return made


def placer(name: str) -> Placer[Any]:
    """The placement of this name; a full Java class name will do too.

    Raises
    ------
    PlanError
        If there is none.
    """
    found: Placer[Any] = _strategy_named(name, PLACERS, "placement")
    return found


def _strategy_named(name: str, table: Mapping[str, str], kind: str) -> Any:
    short = name.rpartition(".")[2]
    if ".extensions." in f".{name}" and f"extensions.{short}" in table:
        short = f"extensions.{short}"
    if short not in table:
        near = difflib.get_close_matches(short, table, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(table)}"
        raise PlanError(f"{kind} strategy {name} is not known; {remedy}")
    module, _, attribute = table[short].partition(":")
    return getattr(import_module(module), attribute)

"""The shape of every strategy: a function from view, state and options to a decision and a state.

Pulsar's strategies are objects that remember (histories, hit counts). Here what is remembered goes in and
comes out as a frozen value made of numbers, texts, lists and mappings, so that it can be written as JSON, and
so that two strategies can run side by side on one stream of reports.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView

DecisionFacts = Mapping[str, Any]
"""The numbers that decided, as JSON values under snake-case names; averages and thresholds as fractions."""

S = TypeVar("S")


@dataclass(frozen=True)
class NoState:
    """The state of a strategy that remembers nothing."""


def nothing_noted(state: S, view: LeaderLoadView, options: PulsarBrokerConfig) -> S:
    """The reaction of most strategies to new reports: nothing before they are asked."""
    return state


@dataclass(frozen=True)
class ShedDecision:
    """The unloads that a shedder wants.

    Attributes
    ----------
    unloads
        Bundles to unload, by the broker that owns them, each list in the order of choice.
    destinations
        Where bundles should go, for shedders that choose it themselves; others leave it to the placement.
    facts
        The numbers that decided.
    """

    unloads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)
    facts: DecisionFacts = field(default_factory=dict)

    @property
    def splits(self) -> Mapping[str, DecisionFacts]:
        """The bundles that Pulsar would split beside it, with their figures, in a replay."""
        return {name: one for name, one in self.facts.get("splits", {}).items() if one["outcome"] == "split"}


class ShedFunction(Protocol[S]):
    """Chooses bundles to unload (`LoadSheddingStrategy`, `NamespaceUnloadStrategy`)."""

    def __call__(
        self, view: LeaderLoadView, state: S, options: PulsarBrokerConfig, chance: np.random.Generator
    ) -> tuple[ShedDecision, S]:
        """Decide; pure but for what it draws from `chance`."""
        ...


@dataclass(frozen=True)
class BrokerChoice:
    """The broker that a bundle should go to, None where there is none, and the numbers that decided.

    Attributes
    ----------
    pool
        The equals that it was drawn from, in the order in which they were drawn from.
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
        """Choose among `candidates`, in their order; pure but for what it draws from `chance`."""
        ...


@dataclass(frozen=True)
class Shedder(Generic[S]):
    """A row of `strategies.SHEDDERS`.

    Attributes
    ----------
    decide
        One decision.
    initial
        The state before the first; its type says how a state is read back from JSON.
    extensible
        Whether it names destinations itself. Those that it leaves open are placed by a placement of the
        extensible load manager, if there is one; another placement is not asked.
    owners_split
        Whether each owner splits its bundles beside it, as under the extensible load manager.
    noted
        The state once new reports were taken in: without brokers that are gone, or with what brokers have
        published. Before every decision, and also where none is asked for.
    """

    decide: ShedFunction[S]
    initial: S
    extensible: bool = False
    noted: Callable[[S, LeaderLoadView, PulsarBrokerConfig], S] = nothing_noted
    owners_split: bool = False


@dataclass(frozen=True)
class Placer(Generic[S]):
    """A row of `strategies.PLACERS`: one choice of a broker; the rest as for a shedder.

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
    """Any of the pool, each with the same chance; none where it is empty (`ThreadLocalRandom.nextInt`)."""
    if not pool:
        return BrokerChoice(None, (), why)
    return BrokerChoice(pool[int(chance.integers(len(pool)))], tuple(pool), why)

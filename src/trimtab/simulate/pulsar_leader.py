"""The leader of a simulated Pulsar: takes reports in, sheds, finds splits, and chooses brokers.

Everything that it decides is decided by `trimtab.plan.bundles`; what is here is its memory, and who is asked
when.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundles import BrokerReport
from trimtab.plan.bundles.assign.select import PlacementRules, assign
from trimtab.plan.bundles.assign.state import AssignmentState, forget_preallocated, with_destination
from trimtab.plan.bundles.averages import EMPTY_TABLE, take_in
from trimtab.plan.bundles.decision import Decision
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.shed.round import shed_round, unexpired
from trimtab.plan.bundles.split.decision import Split
from trimtab.plan.bundles.split.modular import find_splits
from trimtab.plan.bundles.strategies import placer, shedder
from trimtab.plan.bundles.view import BrokerLoad, LoadView, MapOrder, shedding_order


@dataclass(frozen=True)
class LeaderSettings:
    """By what rules a leader decides.

    Attributes
    ----------
    shedder, placer
        Class names in Pulsar.
    options
        Pulsar's options.
    destination_first
        Whether a destination is chosen before a bundle is unloaded, as in Pulsar 4; else the bundle is
        released, and whoever looks it up next has it placed, as the article tells it.
    """

    shedder: str = "ThresholdShedder"
    placer: str = "LeastLongTermMessageRate"
    options: Options = field(default_factory=Options)
    destination_first: bool = True


@dataclass(frozen=True)
class Unload:
    """An order to a bundle's owner; the destination is the leader's own, for the next lookup."""

    bundle: str
    owner: str
    destination: str | None


class Leader:
    """What one leader remembers, from its election on: nothing is handed over but the reports.

    Parameters
    ----------
    settings
        By what rules it decides.
    chance
        For draws among equals.

    Attributes
    ----------
    view
        What it knows.
    decision
        The shedder's last one.
    """

    def __init__(self, settings: LeaderSettings, chance: np.random.Generator) -> None:
        self.settings = settings
        self.chance = chance
        self.view = LoadView(0.0, {})
        self.decision = Decision()
        self._shedder = shedder(settings.shedder)
        self._placer = placer(settings.placer)
        self._memory: Any = self._shedder.initial
        self._assignment: AssignmentState[Any] = AssignmentState(self._placer.initial)
        self._order = MapOrder()
        # AvgShedder is shedder and placement in one object, with one memory.
        self._one_memory = type(self._placer.initial) is type(self._shedder.initial)

    def take_in(self, at: float, reports: Mapping[str, BrokerReport], owned: tuple[str, ...] = ()) -> None:
        """Take everybody's reports in as one more sample of each bundle.

        Parameters
        ----------
        at
            Virtual seconds.
        owned
            Bundles that the leader's own broker owns.
        """
        before = self.view
        self._order = self._order.with_brokers(reports)
        order = self._order.brokers.names
        known_bundles = before.bundles if before.brokers else EMPTY_TABLE
        table, in_between = take_in(known_bundles, {name: reports[name] for name in order})
        self._order = self._order.with_bundles(table.names)
        brokers = {}
        for name in order:
            known = before.brokers.get(name)
            brokers[name] = BrokerLoad(reports[name], known.preallocated if known else {})
        view = replace(
            before,
            at=at,
            brokers=brokers,
            bundles=table.in_order(shedding_order(self._order.bundles.names)),
            rates_in_between=in_between,
            recently_unloaded=unexpired(before.recently_unloaded, at, self.settings.options),
        )
        self.view, self._assignment = forget_preallocated(view, self._assignment, owned)
        self._memory = self._shedder.noted(self._memory, self.view, self.settings.options)
        placement = self._placer.noted(self._assignment.placement, self.view, self.settings.options)
        self._assignment = replace(self._assignment, placement=placement)

    def joined(self, broker: str, report: BrokerReport) -> None:
        """A broker came up: its first report is seen at once."""
        given = {**self.view.brokers, broker: BrokerLoad(report)}
        self._order = self._order.with_brokers(given)
        ordered = {name: given[name] for name in self._order.brokers.names}
        self.view = replace(self.view, brokers=ordered)

    def left(self, broker: str) -> None:
        """A broker's session is over: what was preallocated to it is forgotten."""
        rest = {name: load for name, load in self.view.brokers.items() if name != broker}
        self._order = self._order.with_brokers(rest)
        self.view = replace(self.view, brokers=rest)
        kept = {bundle: one for bundle, one in self._assignment.preallocated.items() if one != broker}
        self._assignment = replace(self._assignment, preallocated=kept)

    def shed(self, metadata: ClusterMetadata) -> tuple[Unload, ...]:
        """What is unloaded now; a lone broker sheds nothing."""
        options = self.settings.options
        if not (options.enabled and options.shedding_enabled) or len(self.view.brokers) <= 1:
            return ()
        decision, self._memory = self._shedder.decide(self.view, self._memory, options, self.chance)
        self._share()
        if not self.settings.destination_first:
            decision = replace(decision, destinations={})
        elif not self._shedder.extensible:
            rules = PlacementRules(self._placer, options, metadata)
            found = shed_round(decision, self.view, rules, self._assignment, self.chance)
            decision, self._assignment = found.decision, found.assignment
            self._share_back()
        self.decision = decision
        orders = tuple(
            Unload(bundle, owner, decision.destinations.get(bundle))
            for owner, bundles in decision.unloads.items()
            for bundle in bundles
        )
        for order in orders:
            if order.destination is not None:
                self._assignment = with_destination(
                    self._assignment, order.bundle, order.destination, options
                )
        at = self.view.at
        self.view = replace(
            self.view,
            recently_unloaded={
                **self.view.recently_unloaded,
                **dict.fromkeys((order.bundle for order in orders), at),
            },
            recently_unloaded_brokers={
                **self.view.recently_unloaded_brokers,
                **dict.fromkeys(decision.unloads, at),
            },
        )
        return orders

    def splits(self, metadata: ClusterMetadata) -> tuple[Split, ...]:
        """What is to be split now."""
        return find_splits(self.view, self.settings.options, metadata).splits

    def choose(self, bundle: str, metadata: ClusterMetadata) -> str | None:
        """The broker that a lookup's bundle is to go to."""
        rules = PlacementRules(self._placer, self.settings.options, metadata)
        found, self.view, self._assignment = assign(bundle, self.view, rules, self._assignment, self.chance)
        self._share_back()
        return found.broker

    def _share(self) -> None:
        if self._one_memory:
            self._assignment = replace(self._assignment, placement=self._memory)

    def _share_back(self) -> None:
        if self._one_memory:
            self._memory = self._assignment.placement

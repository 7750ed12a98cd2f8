"""The leader of a simulated Pulsar, which decides with Pulsar's own balancer, and the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.reports import BrokerReport
from trimtab.plan.bundles.strategies import shedder
from trimtab.plan.pulsar.decision import ShedDecision, placer
from trimtab.plan.pulsar.leader import (
    LeaderMemory,
    LeaderRules,
    idle,
    inform,
    placement_rules,
    shed,
    with_assignment,
)
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.selection import AssignmentState, assign, with_destination
from trimtab.plan.pulsar.splits import BundleSplit, find_splits
from trimtab.plan.pulsar.view import BrokerLoad, LeaderLoadView

if TYPE_CHECKING:
    import numpy as np


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
    options: PulsarBrokerConfig = field(default_factory=PulsarBrokerConfig)
    destination_first: bool = True


@dataclass(frozen=True)
class UnloadOrder:
    """An order to a bundle's owner; the destination is the leader's own, for the next lookup."""

    bundle: str
    owner: str
    destination: str | None


class SimulatedLeader:
    """The memory of one leader, from its election on: nothing is handed over but the reports.

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
        self.view = LeaderLoadView(0.0, {})
        self.decision = ShedDecision()
        chosen = placer(settings.placer)
        self._rules = LeaderRules(
            shedder(settings.shedder),
            settings.options,
            chosen,
            destination_first=settings.destination_first,
        )
        self._memory = LeaderMemory(self._rules.shedder.initial, AssignmentState(chosen.initial))

    def absorb_reports(
        self, at: float, reports: Mapping[str, BrokerReport], owned: tuple[str, ...] = ()
    ) -> None:
        """Take everybody's reports in as one more sample of each bundle.

        Parameters
        ----------
        at
            Virtual seconds.
        owned
            Bundles that the leader's own broker owns.
        """
        given = {name: load.preallocated for name, load in self.view.brokers.items()}
        self.view, self._memory = inform(self._memory, at, reports, self._rules, given, owned)

    def joined(self, broker: str, report: BrokerReport) -> None:
        """A broker came up: its first report is seen at once."""
        self._see({**self.view.brokers, broker: BrokerLoad(report)})

    def left(self, broker: str) -> None:
        """A broker's session is over: what was preallocated to it is forgotten."""
        self._see({name: load for name, load in self.view.brokers.items() if name != broker})
        assignment = self._memory.assignment
        kept = {bundle: one for bundle, one in assignment.preallocated.items() if one != broker}
        self._memory = replace(self._memory, assignment=replace(assignment, preallocated=kept))

    def _see(self, brokers: Mapping[str, BrokerLoad]) -> None:
        self._memory = replace(self._memory, order=self._memory.order.with_brokers(brokers))
        names = self._memory.order.brokers.names
        self.view = replace(self.view, brokers={name: brokers[name] for name in names})

    def shed(self, metadata: ClusterMetadata) -> tuple[UnloadOrder, ...]:
        """The bundles that are unloaded now; a lone broker sheds nothing."""
        rules = replace(self._rules, metadata=metadata)
        if idle(self.view, rules) is not None:
            return ()
        self.decision, memory = shed(self.view, self._memory, rules, self.chance)
        orders = tuple(
            UnloadOrder(bundle, owner, self.decision.destinations.get(bundle))
            for owner, bundles in self.decision.unloads.items()
            for bundle in bundles
        )
        assignment = memory.assignment
        for order in orders:
            if order.destination is not None:
                assignment = with_destination(assignment, order.bundle, order.destination, rules.options)
        self._memory = replace(memory, assignment=assignment)
        return orders

    def splits(self, metadata: ClusterMetadata) -> tuple[BundleSplit, ...]:
        """The bundles that are to be split now."""
        return find_splits(self.view, self.settings.options, metadata).splits

    def choose(self, bundle: str, metadata: ClusterMetadata) -> str | None:
        """The broker that a lookup's bundle is to go to."""
        rules = placement_rules(replace(self._rules, metadata=metadata))
        found, self.view, assignment = assign(bundle, self.view, rules, self._memory.assignment, self.chance)
        self._memory = with_assignment(self._memory, assignment, self._rules)
        return found.broker


@dataclass(frozen=True)
class WorldSettings:
    """The settings of a simulated world.

    Attributes
    ----------
    leader
        By what rules its leader decides.
    seed
        Of all chance.
    round_seconds
        From one round of reports, shedding and splits to the next.
    session_seconds
        How long a dead broker's locks stand (`metadataStoreSessionTimeoutMillis`).
    hop_seconds, closing_seconds
        Means, exponentially distributed: of a message's travel, and of closing a bundle's topics.
    back_off_seconds, longest_back_off_seconds
        A client's first pause before it tries again, which doubles each time, and its longest; up to a tenth
        less by chance. Defaults are those of Pulsar's Java client.
    lookups
        How many clients of a bundle look their topics up at once; the others follow.
    """

    leader: LeaderSettings = field(default_factory=LeaderSettings)
    seed: int = 0
    round_seconds: float = 60.0
    session_seconds: float = 30.0
    hop_seconds: float = 0.005
    closing_seconds: float = 0.1
    back_off_seconds: float = 0.1
    longest_back_off_seconds: float = 60.0
    lookups: int = 2


@dataclass(frozen=True)
class WorldEvent:
    """Something that came to pass.

    Attributes
    ----------
    at
        Virtual seconds.
    what
        `assigned`, `connected`, `closed`, `released`, `split`, `died`, `expired` or `elected`.
    bundle, broker
        Whom it is about; empty where it is not about any.
    topics
        Whose clients were connected or closed.
    seconds
        For `connected`: how long they had been without their broker.
    """

    at: float
    what: str
    bundle: str = ""
    broker: str = ""
    topics: int = 0
    seconds: float = 0.0

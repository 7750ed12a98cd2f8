"""`TransferShedder`: bundles go straight from the fullest brokers to the emptiest, and smaller ones back.

Of the extensible load manager: it looks at what brokers publish (`view.PublishedLoad`) and at the
few heaviest bundles that each reports.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.plan.pulsar.assign.candidates import available_brokers
from trimtab.plan.pulsar.decision import ShedDecision, Shedder
from trimtab.plan.pulsar.java import divided
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.shed.transfer_pair import NO_BUNDLE_REPORTED, BundleTransfer, pair_up
from trimtab.plan.pulsar.view import LeaderLoadView, PublishedLoad, publish


@dataclass(frozen=True)
class UsageSpread:
    """Average and deviation, and which brokers come next.

    Attributes
    ----------
    ordered
        Brokers by published load, from the lowest; brokers whose data are too old are among them.
    counted
        How many brokers average and deviation are over.
    average, square_sum, deviation
        Of their loads: fractions, and of fractions squared. At first the deviation is not a number where
        rounding makes the difference that it is the root of negative; once something has moved, Pulsar takes
        the difference without its sign.
    lowest, highest
        Places in `ordered` of the broker that takes next and of the one that gives next.
    givers
        How many brokers have given up something so far.
    """

    ordered: tuple[str, ...]
    counted: int
    average: float
    square_sum: float
    deviation: float
    lowest: int
    highest: int
    givers: int = 0

    @property
    def destination(self) -> str:
        """The broker that takes next."""
        return self.ordered[self.lowest]

    @property
    def giver(self) -> str:
        """The broker that gives next."""
        return self.ordered[self.highest]

    def without_giver(self) -> "UsageSpread":
        """After the fullest broker was looked at, whatever came of it."""
        return replace(self, highest=self.highest - 1)

    def after_moving(self, fuller: float, emptier: float, moved: float) -> "UsageSpread":
        """As predicted once `moved` (a fraction of load) has gone from one broker to the other.

        Pulsar subtracts both squares in one sum, and never lets a load fall below zero.
        """
        left, grown = fuller - moved, emptier + moved
        if left < 0:  # and not max(): what is not a number must stay so, as in Java
            left = 0.0
        square_sum = self.square_sum - (fuller * fuller + emptier * emptier)
        square_sum += left * left + grown * grown
        return replace(
            self,
            square_sum=square_sum,
            deviation=math.sqrt(abs(_variance(square_sum, self.counted, self.average))),
            lowest=self.lowest + 1,
            givers=self.givers + 1,
        )


def spread_of(loads: Mapping[str, PublishedLoad], counted: Iterable[str]) -> UsageSpread:
    """The spread before anything has moved.

    Parameters
    ----------
    loads
        All published loads, at least one; brokers of equal load stay in this order.
    counted
        At least one broker whose data are recent enough, in the order in which they are added up.
    """
    total = square_sum = 0.0
    brokers = 0
    for name in counted:
        load = loads[name].weighted_max_ema
        total += load
        square_sum += load * load
        brokers += 1
    average = total / brokers
    ordered = tuple(sorted(loads, key=lambda name: loads[name].weighted_max_ema))
    variance = _variance(square_sum, brokers, average)
    deviation = math.sqrt(variance) if variance >= 0 else math.nan
    return UsageSpread(ordered, brokers, average, square_sum, deviation, 0, len(ordered) - 1)


def _variance(square_sum: float, brokers: int, average: float) -> float:
    return square_sum / brokers - average * average


NO_METADATA: Final = ClusterMetadata()


@dataclass(frozen=True)
class TransferState:
    """The memory from decision to decision.

    Attributes
    ----------
    hits
        How often in succession the cluster was uneven.
    published
        What each broker has published.
    """

    hits: int = 0
    published: Mapping[str, PublishedLoad] = field(default_factory=dict)


@dataclass(frozen=True)
class TransferShedder:
    """`TransferShedder.findBundlesForUnloading` with what it asks of others.

    Attributes
    ----------
    metadata
        Policies, and which brokers are up: as long as one of those has not published, nothing is decided.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder`
    (PIP-220). 4.0.7 knows no `loadBalancerSheddingExcludedNamespaces`.
    """

    metadata: ClusterMetadata = NO_METADATA

    def __call__(
        self,
        view: LeaderLoadView,
        state: TransferState,
        options: PulsarBrokerConfig,
        chance: np.random.Generator,
    ) -> tuple[ShedDecision, TransferState]:
        """Decide; nothing is left to chance."""
        published = publish(view, state.published, options)
        why: dict[str, object] = {}
        counted = self._counted(view, published, options, why)
        if not counted:
            return ShedDecision(facts=why), TransferState(state.hits, published)
        spread = spread_of(published, counted)
        reason = _reason(spread, published, options)
        hits = state.hits + 1 if reason else 0
        why |= {
            "average": spread.average,
            "deviation": spread.deviation,
            "target_deviation": options.broker_load_target_std,
            "loads": {name: published[name].weighted_max_ema for name in spread.ordered},
            "reason": reason,
            "hits": hits,
            "hits_needed": options.shedding_condition_hit_count_threshold + 1,
        }
        if hits <= options.shedding_condition_hit_count_threshold:
            why["skipped"] = "HitCount"
            return ShedDecision(facts=why), TransferState(hits, published)
        moves, pairs = self._transfers(view, spread, published, options)
        why["pairs"] = pairs
        if moves:
            hits = 0
        elif any(pair.get("outcome") == NO_BUNDLE_REPORTED for pair in pairs):
            why["skipped"] = "NoLoadData"
        else:
            why["skipped"] = "NoBundles" if pairs else "HitCount"
        unloads: dict[str, tuple[str, ...]] = {}
        for move in moves:
            unloads[move.source] = (*unloads.get(move.source, ()), move.bundle)
        destinations = {move.bundle: move.target for move in moves} if options.transfer_enabled else {}
        return ShedDecision(unloads, destinations, why), TransferState(hits, published)

    def _counted(
        self,
        view: LeaderLoadView,
        published: Mapping[str, PublishedLoad],
        options: PulsarBrokerConfig,
        why: dict[str, object],
    ) -> list[str]:
        """Brokers whose data count, or none and the reason in `why`."""
        counted: list[str] = []
        too_old = [
            name
            for name, load in published.items()
            if _milliseconds(view.at - load.updated_at) > options.broker_load_data_ttl_in_seconds * 1000
        ]
        for name, load in published.items():
            if name in too_old:
                continue
            unloaded_at = view.recently_unloaded_brokers.get(name)
            if unloaded_at is not None and (
                _milliseconds(load.updated_at - unloaded_at) < options.shedding_delay_in_seconds * 1000
            ):
                why |= {"skipped": "CoolDown", "broker": name, "unloaded_at": unloaded_at}
                return []
            counted.append(name)
        if not counted:
            why |= {"skipped": "OutDatedData", "brokers": too_old} if too_old else {"skipped": "NoBrokers"}
            return []
        silent = [name for name in available_brokers(view, self.metadata) if name not in published]
        if silent:
            why |= {"skipped": "NoLoadData", "brokers": silent}
            return []
        return counted

    def _transfers(
        self,
        view: LeaderLoadView,
        spread: UsageSpread,
        published: Mapping[str, PublishedLoad],
        options: PulsarBrokerConfig,
    ) -> tuple[list[BundleTransfer], list[dict[str, object]]]:
        """Pair after pair, the fullest broker left and the emptiest, until the prediction is even enough."""
        moves: list[BundleTransfer] = []
        pairs: list[dict[str, object]] = []
        while (
            spread.givers < options.max_number_of_broker_shedding_per_cycle and spread.lowest < spread.highest
        ):
            reason = _reason(spread, published, options)
            if reason is None:
                break
            source, target = spread.giver, spread.destination
            spread = spread.without_giver()
            pair = pair_up(self.metadata, view, source, target, published, options)
            why: dict[str, object] = {"source": source, "target": target, "reason": reason, **pair.facts}
            pairs.append(why)
            if not pair.offloaded > 0:
                continue
            moves += pair.moves
            fuller, emptier = published[source].weighted_max_ema, published[target].weighted_max_ema
            moved = divided((pair.offloaded - pair.gained) * fuller, view.reports[source].throughput)
            spread = spread.after_moving(fuller, emptier, moved)
            why |= {"predicted_move": moved, "predicted_deviation": spread.deviation}
        return moves, pairs


def noted(state: TransferState, view: LeaderLoadView, options: PulsarBrokerConfig) -> TransferState:
    """The state with what brokers have published by now, whether anything is decided or not."""
    return TransferState(state.hits, publish(view, state.published, options))


def transfer_shedder(metadata: ClusterMetadata) -> Shedder[TransferState]:
    """`TransferShedder` of a cluster with these policies, and what else there is to know besides its load."""
    return Shedder(TransferShedder(metadata), TransferState(), True, noted, owners_split=True)


def _reason(
    spread: UsageSpread, published: Mapping[str, PublishedLoad], options: PulsarBrokerConfig
) -> str | None:
    """The reason to move bundles, in Pulsar's words: one broker is too full, or one does next to nothing."""
    if spread.deviation > options.broker_load_target_std:
        return "Overloaded"
    taker, giver = published[spread.destination], published[spread.giver]
    share = min(0.5, max(0.0, options.broker_load_target_std / 2.0))
    if (
        taker.weighted_max_ema < spread.average * share
        or taker.msg_throughput_ema < giver.msg_throughput_ema * share
    ):
        return "Underloaded"
    full = options.broker_overloaded_threshold_percentage / 100.0
    if (
        giver.weighted_max_ema > full
        and giver.weighted_max_ema > spread.average + options.broker_load_target_std
    ):
        return "Overloaded"
    return None


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)

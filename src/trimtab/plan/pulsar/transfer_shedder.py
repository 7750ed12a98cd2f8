"""`TransferShedder`: moves bundles from the fullest brokers to the emptiest, and smaller ones back.

It belongs to the extensible load manager: it looks at what brokers publish (`view.PublishedLoad`) and at the
bundles that each broker reports as its heaviest. Both the bundles that go and those that come back in return
are chosen among these.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trimtab.model.bundles.policies import ClusterMetadata, is_system_namespace
from trimtab.model.bundles.reports import BundleStats
from trimtab.model.bundles.snapshot import namespace_of
from trimtab.plan.pulsar.candidates import available_brokers
from trimtab.plan.pulsar.decision import ShedDecision, Shedder
from trimtab.plan.pulsar.java import divided, rounded
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.selection import excluded_namespaces, filtered
from trimtab.plan.pulsar.view import LeaderLoadView, PublishedLoad, publish

THROUGHPUT_RESOLUTION = 100_000
MSG_RATE_RESOLUTION = 100
CONNECTION_RESOLUTION = 500
CACHE_SIZE_RESOLUTION = 100_000
"""Bundles of the same multiple of these count as equally heavy."""

Weight = tuple[int, int, int, int, int]


def weight(stats: BundleStats) -> Weight:
    """The weight of a bundle: bandwidth in, then out, message rate, connections, cache, each in buckets.

    Traffic is rounded to the nearest multiple, half up, so that 149,999 bytes/s weigh as much as 50,000;
    counts are rounded down, so that 999 connections weigh as much as 500.

    References
    ----------
    NamespaceBundleStats.compareTo from 4.0.7 on (#24772): `Math.round` of doubles, division of longs. Before,
    it compared differences, and sorting could fail.
    """
    return (
        rounded(stats.msg_throughput_in / THROUGHPUT_RESOLUTION),
        rounded(stats.msg_throughput_out / THROUGHPUT_RESOLUTION),
        rounded(stats.rate / MSG_RATE_RESOLUTION),
        (stats.topics + stats.consumer_count + stats.producer_count) // CONNECTION_RESOLUTION,
        stats.cache_size // CACHE_SIZE_RESOLUTION,
    )


def top_bundles(
    stats: Mapping[str, BundleStats], most: int, left_out: Callable[[str], bool] = lambda _: False
) -> dict[str, BundleStats]:
    """The heaviest bundles of a broker, the least heavy of them first.

    Parameters
    ----------
    stats
        By key; the order matters among bundles of equal weight.
    most
        `loadBalancerMaxNumberOfBundlesInBundleLoadReport`; none for 0.
    left_out
        Whether a namespace stays out of it: a system namespace, one excluded from shedding, or one with
        isolation policies or an anti-affinity group while `loadBalancerSheddingBundlesWithPoliciesEnabled` is
        off. Bundles without throughput always stay out.

    Returns
    -------
    dict of str to BundleStats
        At most `most`, in ascending order of weight: the order in which TransferShedder tries them.

    References
    ----------
    org.apache.pulsar.broker.loadbalance.extensions.models.TopKBundles (4.0 and 4.2).
    """
    keys = [key for key, one in stats.items() if one.throughput != 0 and not left_out(namespace_of(key))]
    weights = {key: weight(stats[key]) for key in keys}
    most = max(0, min(most, len(keys)))
    return {key: stats[key] for key in reversed(heaviest_first(keys, weights, most)[:most])}


def heaviest_first(keys: list[str], weights: Mapping[str, Weight], most: int) -> list[str]:
    """The keys with the `most` heaviest in front, in descending order.

    Which of several equally heavy bundles come in front, and in which order, is decided by how the selection
    swaps them; so it takes the same steps as Pulsar: a three-way partition around the last key of the stretch
    that holds the border, then a stable sort of what lies in front of it.
    """
    keys = list(keys)
    if most <= 0:
        return keys
    start, end, border = 0, len(keys) - 1, most - 1
    while start < end:
        pivot = weights[keys[end]]
        equal, behind, at = start, end, start
        while at <= behind:
            here = weights[keys[at]]
            if here > pivot:
                keys[equal], keys[at] = keys[at], keys[equal]
                equal, at = equal + 1, at + 1
            elif here < pivot:
                keys[at], keys[behind] = keys[behind], keys[at]
                behind -= 1
            else:
                at += 1
        if border < equal:
            end = equal - 1
        elif border < at:
            end = equal
            break
        else:
            start = at
    keys[:end] = sorted(keys[:end], key=weights.__getitem__, reverse=True)
    return keys


NO_BUNDLE_REPORTED: Final = "it reports no bundle"
SWAP_RELIEF: Final = 0.75
"""After a swap the fuller broker must carry less than this share of what it carried before."""


@dataclass(frozen=True)
class BundleTransfer:
    """A bundle and the brokers that it leaves and goes to."""

    bundle: str
    source: str
    target: str


@dataclass(frozen=True)
class TransferPair:
    """The bundles chosen between two brokers so far, in the order of choice, and the numbers that decided.

    Attributes
    ----------
    offloaded, gained
        Moved and returned load, bytes per second.
    """

    moves: tuple[BundleTransfer, ...] = ()
    offloaded: float = 0.0
    gained: float = 0.0
    facts: Mapping[str, object] = field(default_factory=dict)

    def ended(self, why: str) -> "TransferPair":
        """The same, with the reason why it ends."""
        return replace(self, facts={**self.facts, "outcome": why})

    def with_moves(
        self,
        source: str,
        target: str,
        bundle: str,
        carried: float,
        swapped: list[tuple[str, float]],
        options: PulsarBrokerConfig,
    ) -> "TransferPair":
        """The same with one more bundle, and the bundles returned for it with their bytes per second."""
        # An upstream slip: the line that adds the gain stands inside "if debug mode" there.
        counted = options.debug_mode_enabled or options.transfer_shedder_swap_gain_counted
        back = 0.0
        for _, one in swapped:  # not sum(), which rounds otherwise from Python 3.12 on
            back += one
        return replace(
            self,
            moves=(
                *self.moves,
                *(BundleTransfer(one, target, source) for one, _ in swapped),
                BundleTransfer(bundle, source, target),
            ),
            offloaded=self.offloaded + carried,
            gained=self.gained + back if counted else self.gained,
        )


def pair_up(
    metadata: ClusterMetadata,
    view: LeaderLoadView,
    source: str,
    target: str,
    published: Mapping[str, PublishedLoad],
    options: PulsarBrokerConfig,
) -> TransferPair:
    """Bundles from one broker to the other, the least heavy first, up to half their difference."""
    load = published[source].weighted_max_ema
    offload = (load - published[target].weighted_max_ema) / 2
    wanted = divided(view.reports[source].throughput * offload, load)
    pair = TransferPair(facts={"load_wanted": offload, "bytes_per_second_wanted": wanted})
    top = _top(metadata, view, source, options)
    if len(top) <= 1:
        return pair.ended("its sole reported bundle overloads it" if top else NO_BUNDLE_REPORTED)
    back = iter(_top(metadata, view, target, options).items())
    left = len(top)
    for bundle, stats in top.items():
        if not _may_leave(metadata, view, bundle, source, target, options):
            continue
        if left <= 1:
            return pair.ended("one reported bundle must stay")
        carried = stats.throughput
        swapped: list[tuple[str, float]] = []
        if pair.offloaded - pair.gained + carried > wanted:
            # Additions in Pulsar's order: it decides ties.
            fuller = view.reports[source].throughput - pair.offloaded + pair.gained - carried
            emptier = view.reports[target].throughput + pair.offloaded - pair.gained + carried
            swapped = _swap(metadata, view, (source, fuller), emptier, back, options)
            if not swapped:
                return pair.ended("the next bundle is more than what is wanted, and nothing balances it")
        pair = pair.with_moves(source, target, bundle, carried, swapped, options)
        left -= 1
    return pair if pair.moves else pair.ended("no reported bundle may leave")


def _swap(
    metadata: ClusterMetadata,
    view: LeaderLoadView,
    giver: tuple[str, float],
    emptier: float,
    back: Iterator[tuple[str, BundleStats]],
    options: PulsarBrokerConfig,
) -> list[tuple[str, float]]:
    """Bundles of the emptier broker that balance one too large for it, or none.

    It goes on where it stopped at the pair's last bundle, and asks neither who owns a bundle nor whether
    it was unloaded just now, as Pulsar.

    Parameters
    ----------
    giver, emptier
        The fuller broker, and what both would carry without anything in return, bytes per second.
    back
        What the taker reports and was not looked at yet.
    """
    if not options.transfer_enabled:
        return []
    source, fuller = giver
    before = view.reports[source].throughput
    swapped: list[tuple[str, float]] = []
    for bundle, stats in back:
        carried = stats.throughput
        if not _transferable(metadata, view, bundle, source, options):
            continue
        if not (fuller + carried < before and emptier - carried < before):
            continue
        swapped.append((bundle, carried))
        fuller, emptier = fuller + carried, emptier - carried
        if emptier <= fuller < before * SWAP_RELIEF:
            return swapped
    return []


def _top(
    metadata: ClusterMetadata, view: LeaderLoadView, broker: str, options: PulsarBrokerConfig
) -> dict[str, BundleStats]:
    """The heaviest bundles that a broker reports, the least heavy first."""

    def left_out(namespace: str) -> bool:
        if is_system_namespace(namespace) or namespace in excluded_namespaces(options):
            return True
        return metadata.policies.any_for(namespace) and not options.shedding_bundles_with_policies_enabled

    most = options.max_number_of_bundles_in_bundle_load_report
    return top_bundles(view.reports[broker].last_stats, most, left_out)


def _may_leave(
    metadata: ClusterMetadata,
    view: LeaderLoadView,
    bundle: str,
    source: str,
    target: str,
    options: PulsarBrokerConfig,
) -> bool:
    if bundle not in view.reports[source].bundles or bundle in view.recently_unloaded:
        return False
    return _transferable(metadata, view, bundle, target, options)


def _transferable(
    metadata: ClusterMetadata, view: LeaderLoadView, bundle: str, target: str, options: PulsarBrokerConfig
) -> bool:
    """True if every filter lets a bundle go to a broker; asked also where bundles are just released."""
    found = filtered(namespace_of(bundle), view, metadata, options)
    return target in found.candidates and not found.failed


@dataclass(frozen=True)
class UsageSpread:
    """Average and deviation of loads, and the next pair of brokers.

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
        """The next broker that receives bundles."""
        return self.ordered[self.lowest]

    @property
    def giver(self) -> str:
        """The next broker that gives bundles."""
        return self.ordered[self.highest]

    def without_giver(self) -> "UsageSpread":
        """The spread after the fullest broker was examined."""
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
        Number of successive uneven observations.
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
        """Brokers with valid data, or none and the reason in `why`."""
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

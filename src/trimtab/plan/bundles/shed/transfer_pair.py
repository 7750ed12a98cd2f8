"""Which bundles `TransferShedder` moves between two brokers, and which it has come back in return."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.model.bundle_policies import ClusterMetadata, is_system_namespace
from trimtab.model.bundle_range import namespace_of
from trimtab.model.bundles import BundleStats
from trimtab.plan.bundles.assign.select import excluded_namespaces
from trimtab.plan.bundles.assign.select_extensible import filtered
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.published import PublishedLoad
from trimtab.plan.bundles.split.topk import top_bundles
from trimtab.plan.bundles.view import LoadView

NO_BUNDLE_REPORTED: Final = "it reports no bundle"
SWAP_RELIEF: Final = 0.75
"""After a swap the fuller broker must carry less than this share of what it carried before."""


@dataclass(frozen=True)
class Move:
    """A bundle and the brokers that it leaves and goes to."""

    bundle: str
    source: str
    target: str


@dataclass(frozen=True)
class Pair:
    """What has been chosen between two brokers.

    Attributes
    ----------
    moves
        In the order of choice.
    offloaded, gained
        What goes and what is counted as coming back, bytes per second.
    why
        The numbers that decided.
    """

    moves: tuple[Move, ...] = ()
    offloaded: float = 0.0
    gained: float = 0.0
    why: Mapping[str, object] = field(default_factory=dict)

    def ended(self, why: str) -> "Pair":
        """The same, and why there is no more of it."""
        return replace(self, why={**self.why, "outcome": why})

    def with_moves(
        self,
        source: str,
        target: str,
        bundle: str,
        carried: float,
        swapped: list[tuple[str, float]],
        options: Options,
    ) -> "Pair":
        """The same with one bundle more, and those that come back for it with their bytes per second."""
        # An upstream slip: the line that adds the gain stands inside "if debug mode" there.
        counted = options.debug_mode_enabled or options.transfer_shedder_swap_gain_counted
        back = 0.0
        for _, one in swapped:  # not sum(), which rounds otherwise from Python 3.12 on
            back += one
        return replace(
            self,
            moves=(
                *self.moves,
                *(Move(one, target, source) for one, _ in swapped),
                Move(bundle, source, target),
            ),
            offloaded=self.offloaded + carried,
            gained=self.gained + back if counted else self.gained,
        )


def pair_up(
    metadata: ClusterMetadata,
    view: LoadView,
    source: str,
    target: str,
    published: Mapping[str, PublishedLoad],
    options: Options,
) -> Pair:
    """Bundles from one broker to the other, the least heavy first, up to half their difference."""
    load = published[source].weighted_max_ema
    offload = (load - published[target].weighted_max_ema) / 2
    wanted = divided(throughput(view, source) * offload, load)
    pair = Pair(why={"load_wanted": offload, "bytes_per_second_wanted": wanted})
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
        carried = stats.msg_throughput_in + stats.msg_throughput_out
        swapped: list[tuple[str, float]] = []
        if pair.offloaded - pair.gained + carried > wanted:
            # Additions in Pulsar's order: it decides ties.
            fuller = throughput(view, source) - pair.offloaded + pair.gained - carried
            emptier = throughput(view, target) + pair.offloaded - pair.gained + carried
            swapped = _swap(metadata, view, (source, fuller), emptier, back, options)
            if not swapped:
                return pair.ended("the next bundle is more than what is wanted, and nothing balances it")
        pair = pair.with_moves(source, target, bundle, carried, swapped, options)
        left -= 1
    return pair if pair.moves else pair.ended("no reported bundle may leave")


def _swap(
    metadata: ClusterMetadata,
    view: LoadView,
    giver: tuple[str, float],
    emptier: float,
    back: Iterator[tuple[str, BundleStats]],
    options: Options,
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
    before = throughput(view, source)
    swapped: list[tuple[str, float]] = []
    for bundle, stats in back:
        carried = stats.msg_throughput_in + stats.msg_throughput_out
        if not _transferable(metadata, view, bundle, source, options):
            continue
        if not (fuller + carried < before and emptier - carried < before):
            continue
        swapped.append((bundle, carried))
        fuller, emptier = fuller + carried, emptier - carried
        if emptier <= fuller < before * SWAP_RELIEF:
            return swapped
    return []


def _top(metadata: ClusterMetadata, view: LoadView, broker: str, options: Options) -> dict[str, BundleStats]:
    """The heaviest bundles that a broker reports, the least heavy first."""

    def left_out(namespace: str) -> bool:
        if is_system_namespace(namespace) or namespace in excluded_namespaces(options):
            return True
        return metadata.policies.any_for(namespace) and not options.shedding_bundles_with_policies_enabled

    most = options.max_number_of_bundles_in_bundle_load_report
    return top_bundles(view.reports[broker].last_stats, most, left_out)


def _may_leave(
    metadata: ClusterMetadata, view: LoadView, bundle: str, source: str, target: str, options: Options
) -> bool:
    if bundle not in view.reports[source].bundles or bundle in view.recently_unloaded:
        return False
    return _transferable(metadata, view, bundle, target, options)


def _transferable(
    metadata: ClusterMetadata, view: LoadView, bundle: str, target: str, options: Options
) -> bool:
    """Whether every filter lets a bundle go to a broker; asked also where bundles are just released."""
    found = filtered(namespace_of(bundle), view, metadata, options)
    return target in found.candidates and not found.failed


def throughput(view: LoadView, broker: str) -> float:
    """What a broker reports over all its bundles, bytes per second in and out."""
    report = view.reports[broker]
    return report.msg_throughput_in + report.msg_throughput_out


def divided(number: float, by: float) -> float:
    """As Java divides doubles: by zero it is infinite, and zero by zero is not a number."""
    if by != 0:
        return number / by
    return math.nan if number == 0 or math.isnan(number) else math.copysign(math.inf, number)

"""The bundles of a broker, by its report, by what it owns now, and by its topics; each counted once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trimtab.model.bundles.range import BundleRange, bundles_between, parse_bundle
from trimtab.systems.pulsar.figures import Figures, SampleErrors


@dataclass(frozen=True)
class BundleSample:
    """One bundle at one broker.

    Attributes
    ----------
    position
        In the list of those that the broker owns; None: it has figures of it, and no longer owns it.
    figures, stats_position
        None where it has none yet.
    """

    bundle: str
    position: int | None
    figures: Figures | None
    stats_position: int | None


def bundle_samples(
    reported: Sequence[str],
    stats: Mapping[str, Figures],
    owned: Sequence[str] | None,
    sums: Mapping[str, Figures],
) -> tuple[BundleSample, ...]:
    """One broker's bundles.

    A report lags: brokers renew its bundles once a minute. What is owned is asked anew, so that a bundle that
    has just moved has its owner; and the sums of its topics are its figures until the report has some.

    Parameters
    ----------
    reported, stats
        Of the report, in its order.
    owned
        Owned at this moment; None where the broker did not tell: those reported.
    sums
        Of the statistics of its topics.
    """
    still = set(reported if owned is None else owned)
    now = [*(one for one in reported if one in still), *(owned or ())]
    positions = {bundle: place for place, bundle in enumerate(dict.fromkeys(now))}
    told = {**stats, **{bundle: found for bundle, found in sums.items() if bundle not in stats}}
    places = {bundle: place for place, bundle in enumerate(told)}
    return tuple(
        BundleSample(bundle, positions.get(bundle), told.get(bundle), places.get(bundle))
        for bundle in dict.fromkeys([*positions, *told])
    )


def current_bundles(
    by_broker: Mapping[str, Sequence[BundleSample]],
    boundaries: Mapping[str, Sequence[int]],
    faults: SampleErrors,
) -> dict[str, tuple[BundleSample, ...]]:
    """The same without bundles that are none of their namespace, and without any that overlap.

    Parameters
    ----------
    by_broker
        Samples of every broker.
    boundaries
        Of namespaces, read after the brokers were asked: what does not fit was split or merged meanwhile. A
        namespace that is missing is not known; of bundles that overlap there the narrowest stay, since
        splits make them narrower.
    """
    known = {name: {one.key for one in bundles_between(name, cuts)} for name, cuts in boundaries.items()}
    found: dict[str, list[BundleSample]] = {broker: [] for broker in by_broker}
    unsure: dict[str, tuple[BundleRange, str]] = {}
    for broker, samples in by_broker.items():
        for sample in samples:
            namespace = sample.bundle.rpartition("/")[0]
            if namespace not in known:
                unsure[sample.bundle] = (parse_bundle(sample.bundle), broker)
            elif sample.bundle not in known[namespace]:
                faults.note(
                    f"broker {broker}",
                    "unknown",
                    f"tells of {sample.bundle}, which is no bundle of its namespace (any more)",
                )
                continue
            found[broker].append(sample)
    dropped = _overlapping(unsure.values(), faults)
    return {
        broker: tuple(sample for sample in samples if sample.bundle not in dropped)
        for broker, samples in found.items()
    }


def are_valid_boundaries(boundaries: Sequence[int]) -> bool:
    """True if they cut all hashes into bundles that do not overlap."""
    return (
        len(boundaries) > 1
        and boundaries[0] == 0
        and boundaries[-1] == 0xFFFFFFFF
        and all(low < high for low, high in pairwise(boundaries))
    )


def _overlapping(bundles: Iterable[tuple[BundleRange, str]], faults: SampleErrors) -> set[str]:
    """Keys of those that overlap a narrower one."""
    kept: list[BundleRange] = []
    dropped: set[str] = set()
    ordered = sorted(bundles, key=lambda one: (one[0].namespace, one[0].high - one[0].low, one[0].low))
    for bundle, broker in ordered:
        clash = next((one for one in kept if one.overlaps(bundle)), None)
        if clash is None:
            kept.append(bundle)
            continue
        dropped.add(bundle.key)
        faults.note(f"broker {broker}", "overlap", f"tells of {bundle.key}, which overlaps {clash.key}")
    return dropped

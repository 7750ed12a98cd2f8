"""Snapshots of the balancer `bundles` for tests: random ones, and small ones made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy
from trimtab.model.bundles.snapshot import (
    FULL_UPPER,
    NO_OWNER,
    RESOURCES,
    BundleBrokers,
    BundleRange,
    Bundles,
    BundlesSnapshot,
    BundleTopics,
    Departure,
    bundle_positions,
    bundles_between,
    initial_boundaries,
    topic_hash,
)
from trimtab.model.documents import Quality, SnapshotReference

AT = 1_795_237_200.0
"""2026-11-21T05:00:00Z, when all of them are taken."""


NO_FILE = SnapshotReference("fake", "2026-01-01T00:00:00Z", "0" * 64)
"""Of a snapshot that was never written."""


def random_bundles_snapshot(
    seed: int,
    brokers: int | None = None,
    namespaces: int = 4,
    views: int = 3,
    usage: float = 0.5,
    wild: bool = False,
) -> BundlesSnapshot:
    """A sound snapshot; the same seed gives the same one.

    Parameters
    ----------
    brokers
        How many; by default 3 to 7.
    usage
        Mean utilisation in the newest view.
    wild
        Brokers out of service or without limits, bundles that nobody owns or that may not move, policies,
        departures.
    """
    chance = np.random.default_rng(seed)
    number = brokers or int(chance.integers(3, 8))
    names = tuple(sorted(f"broker-{index}.local:8080" for index in range(number)))
    boundaries = {
        f"tenant/space-{index}": initial_boundaries(int(chance.choice([2, 4, 5, 8])))
        for index in range(namespaces)
    }
    ranges = sorted(
        (one for name, cuts in boundaries.items() for one in bundles_between(name, cuts)),
        key=lambda one: one.key,
    )
    size = len(ranges)
    newest = chance.pareto(1.8, (size, 1)) + 0.1
    newest = newest * chance.uniform(0.6, 1.4, (size, len(RESOURCES)))
    newest *= usage * number / newest.sum(axis=0)
    factors = [np.ones(newest.shape), *(chance.uniform(0.8, 1.2, newest.shape) for _ in range(views - 1))]
    load = np.stack([newest * factor for factor in factors])
    capacity = np.array([8.0, 1e8, 2e8, 5e4]) * np.ones((number, 1))
    load *= capacity[0]
    sessions = chance.integers(0, 200, size)
    owner = chance.integers(0, number, size).astype(np.int32)
    in_service = np.ones(number, dtype=np.bool_)
    movable = np.ones(size, dtype=np.bool_)
    policies = BundlePolicies()
    departures: tuple[Departure, ...] = ()
    if wild:
        owner[chance.random(size) < 0.1] = NO_OWNER
        in_service[0] = chance.random() < 0.5
        movable[chance.random(size) < 0.1] = False
        capacity[1, int(chance.integers(4))] = np.inf
        policies = BundlePolicies(
            isolation=(
                IsolationPolicy(("tenant/space-0",), (r"broker-[01]\.local",), (r"broker-2\.local",)),
            ),
            anti_affinity_groups={"tenant/space-1": "g", "tenant/space-2": "g"},
            failure_domains={names[0]: "a", names[1]: "b"},
        )
        departures = tuple(
            Departure(ranges[int(chance.integers(size))].key, names[int(chance.integers(number))], AT - ago)
            for ago in (2000.0, 1000.5, 10.25)
        )
    return BundlesSnapshot(
        reference=SnapshotReference(f"random-{seed}", "2026-11-21T05:00:00Z", "0" * 64),
        quality=Quality(0.98, 61.5, "measured"),
        taken_at=AT,
        views=(*(f"window -{view}" if view else "window 0" for view in range(views - 1)), "forecast +900")
        if views > 1
        else ("window 0",),
        brokers=BundleBrokers(names, in_service, capacity, capacity_base(capacity)),
        bundles=Bundles(
            tuple(one.key for one in ranges),
            owner,
            load,
            sessions.astype(np.int64),
            chance.integers(1, 9, size).astype(np.int64),
            movable,
        ),
        topics=_topics(boundaries, ranges, load[0], sessions, chance),
        departures=departures,
        boundaries=boundaries,
        policies=policies,
    )


def capacity_base(capacity: np.ndarray) -> np.ndarray:
    """A little CPU that no bundle carries along, elsewhere nothing."""
    base = np.zeros_like(capacity)
    base[:, 0] = 0.1
    return base


def small_snapshot(
    owners: Sequence[int],
    shares: Sequence[Any],
    *,
    brokers: int | None = None,
    sessions: Sequence[int] | None = None,
    topics: Sequence[tuple[int, int, float]] = (),
    policies: BundlePolicies | None = None,
    movable: Sequence[bool] | None = None,
    in_service: Sequence[bool] | None = None,
    departures: tuple[Departure, ...] = (),
    namespaces: Sequence[str] | None = None,
) -> BundlesSnapshot:
    """Brokers of 100 units of every resource; bundle i loads `shares[i]` units of each, in one or more views.

    Parameters
    ----------
    owners
        Of each bundle, a broker's index or -1.
    shares
        A number for each bundle, or a list with one for each view.
    topics
        Some topics: bundle's index, hash above the bundle's lower end, share of the bundle's load.
    namespaces
        Of each bundle; by default all are of `t/n`. Bundles must stand in the order of their keys.
    """
    size = len(owners)
    number = brokers if brokers is not None else max(owners) + 1
    spaces = list(namespaces) if namespaces is not None else ["t/n"] * size
    ranges = []
    boundaries: dict[str, list[int]] = {}
    for space in spaces:
        cuts = boundaries.setdefault(space, [0])
        last = spaces.count(space) == len(cuts)
        cuts.append(FULL_UPPER if last else cuts[-1] + 0x1000)
        ranges.append(BundleRange(space, cuts[-2], cuts[-1]))
    values = np.atleast_2d(np.array([np.atleast_1d(share) for share in shares], dtype=np.float64).T)
    load = np.repeat(values[:, :, None], len(RESOURCES), axis=2)
    count = np.array(sessions if sessions is not None else [10] * size, dtype=np.int64)
    ordered = sorted(topics)
    return BundlesSnapshot(
        reference=SnapshotReference("small", "2026-11-21T05:00:00Z", "0" * 64),
        quality=Quality(),
        taken_at=AT,
        views=tuple(f"window -{view}" if view else "window 0" for view in range(len(values))),
        brokers=BundleBrokers(
            tuple(f"b{index}:8080" for index in range(number)),
            np.array(in_service if in_service is not None else [True] * number),
            np.full((number, len(RESOURCES)), 100.0),
            np.zeros((number, len(RESOURCES))),
        ),
        bundles=Bundles(
            tuple(one.key for one in ranges),
            np.array(owners, dtype=np.int32),
            load,
            count,
            np.array([max(1, sum(of == row for of, _, _ in ordered)) for row in range(size)], dtype=np.int64),
            np.array(movable if movable is not None else [True] * size),
        ),
        topics=BundleTopics(
            tuple(f"persistent://{spaces[of]}/topic-{place}" for place, (of, _, _) in enumerate(ordered)),
            np.array([of for of, _, _ in ordered], dtype=np.int32),
            np.array([ranges[of].low + above for of, above, _ in ordered], dtype=np.int64),
            np.array([load[0, of] * share for of, _, share in ordered]).reshape(-1, len(RESOURCES)),
            np.array([round(count[of] * share) for of, _, share in ordered], dtype=np.int64),
        ),
        departures=departures,
        boundaries={space: tuple(cuts) for space, cuts in boundaries.items()},
        policies=policies or BundlePolicies(),
    )


def _topics(
    boundaries: dict[str, tuple[int, ...]],
    ranges: list[BundleRange],
    load: np.ndarray,
    sessions: np.ndarray,
    chance: np.random.Generator,
) -> BundleTopics:
    row = {one: index for index, one in enumerate(ranges)}
    found = []
    for namespace, cuts in boundaries.items():
        for number in range(4 * len(cuts)):
            name = f"persistent://{namespace}/topic-{number}"
            place = int(bundle_positions(cuts, np.array([topic_hash(name)], dtype=np.uint32))[0])
            found.append((row[BundleRange(namespace, cuts[place], cuts[place + 1])], topic_hash(name), name))
    found.sort()
    bundle = np.array([one for one, _, _ in found], dtype=np.int32)
    weight = chance.random(len(found)) + 0.05
    weight /= np.bincount(bundle, weights=weight, minlength=len(ranges))[bundle]
    return BundleTopics(
        tuple(name for _, _, name in found),
        bundle,
        np.array([number for _, number, _ in found], dtype=np.int64),
        load[bundle] * weight[:, None],
        np.floor(sessions[bundle] * weight).astype(np.int64),
    )


def message_snapshot(
    brokers: Sequence[str],
    messages: Mapping[str, float],
    owners: Mapping[str, str],
    reference: SnapshotReference = NO_FILE,
) -> BundlesSnapshot:
    """Brokers that can carry 100 messages/s each, and nothing else that is limited; one view.

    Parameters
    ----------
    messages, owners
        By bundle, in ascending order: its messages a second, and who owns it.
    """
    load = np.zeros((1, len(messages), len(RESOURCES)))
    load[0, :, RESOURCES.index("message_rate")] = list(messages.values())
    capacity = np.full((len(brokers), len(RESOURCES)), np.inf)
    capacity[:, RESOURCES.index("message_rate")] = 100.0
    none = np.zeros(len(messages), dtype=np.int64)
    return BundlesSnapshot(
        reference=reference,
        quality=Quality(),
        taken_at=0.0,
        views=("window 0",),
        brokers=BundleBrokers(
            tuple(brokers), np.ones(len(brokers), dtype=np.bool_), capacity, np.zeros_like(capacity)
        ),
        bundles=Bundles(
            tuple(messages),
            np.array([list(brokers).index(owners[key]) for key in messages], dtype=np.int32),
            load,
            none + 3,
            none + 2,
            none == 0,
        ),
        topics=BundleTopics(
            (),
            np.zeros(0, np.int32),
            np.zeros(0, np.int64),
            np.zeros((0, len(RESOURCES))),
            np.zeros(0, np.int64),
        ),
    )

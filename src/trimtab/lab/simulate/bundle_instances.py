"""Made-up snapshots of the balancer `bundles` at scale, for measuring speed and quality."""

import numpy as np

from trimtab.model.bundles.range import bundles_between, initial_boundaries
from trimtab.model.bundles.snapshot import NO_TOPICS, RESOURCES, BundleBrokers, Bundles, BundlesSnapshot
from trimtab.model.snapshot import Quality, SnapshotReference

PER_NAMESPACE = 64


def skewed_bundles(
    brokers: int, bundles: int, seed: int, *, views: int = 3, skew: float = 0.5, usage: float = 0.5
) -> BundlesSnapshot:
    """A cluster whose bundles are of lognormal size and unevenly dealt out.

    Parameters
    ----------
    views
        How many: the newest window, further windows, and a forecast as the last.
    skew
        σ of the lognormal chance of each broker to own a bundle; 0 deals evenly.
    usage
        Mean utilisation in the newest view.
    """
    chance = np.random.default_rng(seed)
    cuts = initial_boundaries(PER_NAMESPACE)
    names = [f"tenant-{number % 50:02d}/space-{number:05d}" for number in range(-(-bundles // PER_NAMESPACE))]
    keys = sorted(one.key for name in names for one in bundles_between(name, cuts))[:bundles]
    size = chance.lognormal(0, 1, (bundles, 1)) * chance.uniform(0.7, 1.3, (bundles, len(RESOURCES)))
    size *= usage * brokers / size.sum(axis=0)
    capacity = np.array([8.0, 1e8, 2e8, 5e4])
    factors = [np.ones(size.shape), *(chance.uniform(0.85, 1.15, size.shape) for _ in range(views - 1))]
    likely = chance.lognormal(0, skew, brokers)
    forecast = ("forecast +900",) if views > 1 else ()
    return BundlesSnapshot(
        reference=SnapshotReference(f"skewed-{seed}", "2026-11-21T05:00:00Z", "0" * 64),
        quality=Quality(),
        taken_at=1_795_237_200.0,
        views=("window 0", *(f"window -{number}" for number in range(1, views - 1)), *forecast),
        brokers=BundleBrokers(
            tuple(f"broker-{number:04d}:8080" for number in range(brokers)),
            np.ones(brokers, dtype=np.bool_),
            np.tile(capacity, (brokers, 1)),
            np.zeros((brokers, len(RESOURCES))),
        ),
        bundles=Bundles(
            tuple(keys),
            chance.choice(brokers, bundles, p=likely / likely.sum()).astype(np.int32),
            np.stack([size * factor for factor in factors]) * capacity,
            chance.integers(0, 60, bundles).astype(np.int64),
            np.full(bundles, 10, dtype=np.int64),
            np.ones(bundles, dtype=np.bool_),
        ),
        topics=NO_TOPICS,
        boundaries=dict.fromkeys(names, cuts),
    )

"""Drawing one of several equally good brokers."""

from collections.abc import Sequence

import numpy as np

from trimtab.plan.bundles.decision import Placement, Why


def drawn(pool: Sequence[str], why: Why, chance: np.random.Generator) -> Placement:
    """Any of the pool, each with the same chance; none where it is empty (`ThreadLocalRandom.nextInt`)."""
    if not pool:
        return Placement(None, (), why)
    return Placement(pool[int(chance.integers(len(pool)))], tuple(pool), why)

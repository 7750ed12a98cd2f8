"""A snapshot as it is expected to be once a plan was carried out."""

from dataclasses import replace

import numpy as np

from trimtab.model.bundles.plan import BundleMoveKind, BundlePlan
from trimtab.model.bundles.snapshot import NO_OWNER, BundlesSnapshot
from trimtab.plan.bundles.splitting import Cut, after_cut


def carried_out(snapshot: BundlesSnapshot, plan: BundlePlan) -> BundlesSnapshot:
    """Bundles split and owned as at the plan's end; loads go with them.

    Parameters
    ----------
    snapshot
        What the plan was made from.
    """
    for move in plan.moves:
        if move.kind is BundleMoveKind.SPLIT:
            snapshot = after_cut(snapshot, Cut(move.bundle, move.boundaries))
    broker = {name: row for row, name in enumerate(snapshot.brokers.name)}
    after = {one.bundle: NO_OWNER if one.after is None else broker[one.after] for one in plan.assignments}
    owner = [
        after.get(key, held)
        for key, held in zip(snapshot.bundles.key, snapshot.bundles.owner.tolist(), strict=True)
    ]
    bundles = replace(snapshot.bundles, owner=np.array(owner, dtype=np.int32))
    return replace(snapshot, bundles=bundles)

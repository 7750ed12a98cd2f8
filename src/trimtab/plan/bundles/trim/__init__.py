"""`trim` on the level `bundles`: the fewest clients disturbed, then the fewest unloads, that meet the goals.

First what must move (bundles of brokers that are to be emptied, bundles too big for any broker), then the
descent towards the inner band, then everything that the goals themselves do not need goes home again, and
where the cluster is small the search goes on.
"""

from trimtab.plan.bundles.trim.planning import plan_bundles

__all__ = ["plan_bundles"]

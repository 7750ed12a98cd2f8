"""Made-up clusters of bundles."""

from simulate.instances import skewed_bundles
from support.bundle_plan_checker import check_plan
from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.plan import Verdict
from trimtab.plan.bundles.trim import plan_bundles


def test_a_skewed_cluster_is_balanced_near_the_bound() -> None:
    """40 brokers, 4,000 bundles, three views: all goals hold, for at most half as many clients again as any
    plan must disturb.
    """
    snapshot = skewed_bundles(40, 4000, seed=1)
    assert snapshot.imbalance().worst_deviation.max() > 0.5
    plan = plan_bundles(snapshot, BundlesSettings())
    check_plan(snapshot, BundlesSettings(), plan)
    assert plan.verdict is Verdict.BALANCED
    assert plan.cost.sessions <= 1.5 * plan.bound.sessions


def test_the_same_seed_makes_the_same_cluster() -> None:
    """Sizes and owners alike."""
    one, other = skewed_bundles(5, 50, seed=2), skewed_bundles(5, 50, seed=2)
    assert (one.bundles.load == other.bundles.load).all()
    assert (one.bundles.owner == other.bundles.owner).all()

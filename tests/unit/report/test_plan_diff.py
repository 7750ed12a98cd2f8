"""Two plans compared, at every balancer."""

from dataclasses import replace

from support.bundle_plans import bundle_plan_of, key, split, unload
from support.plans import plan_of
from trimtab.model.replicas.plan import ReplicaMoveKind
from trimtab.report.bundles import renderer as bundles
from trimtab.report.renderer import plan_diff
from trimtab.report.replicas import renderer as replicas

LOW, HIGH = key(0, 0x80000000), key(0x80000000, 0xFFFFFFFF)


def test_plans_of_replicas_differ_by_their_moves() -> None:
    """A line for each move that only one of them makes, in the order of partitions, not of letters."""
    one = plan_of(("orders", 2, (1, 2), (3, 2)), ("orders", 10, (1, 2), (1, 3)))
    other = plan_of(("orders", 2, (1, 2), (3, 2)), ("orders", 10, (1, 2), (1, 4)), ("orders", 9, (1,), (2,)))
    lines = plan_diff(replicas, one, other).splitlines()
    assert [line for line in lines if "orders" in line] == [
        "+ orders-9: replica 1 → 2",
        "- orders-10: replica 2 → 3",
        "+ orders-10: replica 2 → 4",
    ]
    assert "- cost: 2 replicas to copy (20.0 MB), 0 leader roles to hand over" in lines


def test_another_log_dir_is_another_plan() -> None:
    """Moves that end in different folders of a broker are distinguished."""
    plan = plan_of(("orders", 0, (1, 2), (3, 2)))
    moves = [replace(move, kind=ReplicaMoveKind.REPLICA, target_dir="/d2") for move in plan.moves]
    text = plan_diff(replicas, plan, replace(plan, moves=tuple(moves)))
    assert text == "- orders-0: replica 1 → 3\n+ orders-0: replica 1 → 3 /d2\n"


def test_plans_of_bundles_are_compared_too() -> None:
    """Unloads and splits by bundle, and what they cost."""
    one = bundle_plan_of(unload(LOW, "b1", "b2"), unload(HIGH, "b1", "b3"))
    other = bundle_plan_of(split(HIGH, "b1", 0xC0000000), unload(LOW, "b1", "b2"))
    lines = plan_diff(bundles, one, other).splitlines()
    assert [line for line in lines if "t/n" in line] == [
        f"+ {HIGH}: split on b1 at 0xc0000000",
        f"- {HIGH}: unload b1 → b3",
    ]
    assert any(line.startswith("- cost: 2 unloads that disconnect") for line in lines)


def test_the_same_moves_in_another_order_do_the_same() -> None:
    """Order and reasons are not compared."""
    moves = unload(LOW, "b1", "b2"), unload(HIGH, "b1", "b3")
    assert plan_diff(bundles, bundle_plan_of(*moves), bundle_plan_of(*reversed(moves))) == ""

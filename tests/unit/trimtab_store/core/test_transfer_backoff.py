"""A group that was lost soon after a transfer rests, longer each time."""

from __future__ import annotations

import pytest

from support.masters_bench import Bench
from trimtab_store.core.messages import MapChanged
from trimtab_store.core.transfer import TransferBackoff


def test_each_loss_in_a_row_makes_the_rest_longer_up_to_a_bound() -> None:
    """A mastership that lasts resets the count."""
    rests, now, found = TransferBackoff(100.0), 0.0, []
    for _ in range(5):
        rests.transferred(now, 1)
        rests.mastered(now + 10.0, 2)
        found.append(rests.left(now + 10.0, 1))
        now += 10.0 + found[-1]
    assert found == [100.0, 800.0, 6400.0, 25600.0, 25600.0]
    assert rests.left(now, 1) == 0.0
    rests.transferred(now, 1)
    rests.mastered(now + 4001.0, 2)
    assert rests.left(now + 4001.0, 1) == 0.0
    rests.transferred(now + 5000.0, 1)
    rests.mastered(now + 5001.0, 2)
    assert rests.left(now + 5001.0, 1) == 100.0


def test_only_the_node_that_lost_the_mastership_is_excluded() -> None:
    """And only if it lost it to a failure: a mastership that is renewed or handed on is not lost."""
    rests = TransferBackoff(100.0)
    rests.mastered(0.0, 1)
    rests.mastered(1.0, 2)
    rests.transferred(2.0, 1)
    rests.mastered(3.0, 1)
    rests.mastered(4.0, 1)
    rests.transferred(5.0, 2)
    assert [rests.left(5.0, node) for node in range(3)] == [0.0, 0.0, 0.0]
    rests.mastered(6.0, 0)
    assert [rests.left(6.0, node) for node in range(3)] == [0.0, 0.0, 100.0]


def without_master(bench: Bench, preferred: int, period: float, *, killed: bool) -> tuple[float, int]:
    """The share of 20 minutes without a master, and how often the preferred node becomes it.

    That node stands still for the last twelve seconds of each period, or is killed then and started again.
    """
    begun, looks, none, took, has, life = bench.now, 0, 0, 0, False, 1
    while bench.now - begun < 1200.0:
        if (bench.now - begun) % period >= period - 12.0:
            bench.down.add(preferred)
        elif preferred in bench.down:
            life += 1
            if killed:
                bench.restart(preferred, life)
                bench.tell(preferred, MapChanged(1, (preferred,)))
            bench.down.discard(preferred)
        bench.run(0.25)
        masters = bench.masters()
        looks, none = looks + 1, none + (not masters)
        has, had = masters == [preferred], has
        took += has and not had
    return none / looks, took


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("period", [30.0, 72.0])
def test_a_preferred_node_that_fails_repeatedly_costs_little_availability(
    period: float, killed: bool
) -> None:
    """Without backoff a paused node gets the group 40 times, and a third of the time is lost. A restarted
    node learns exclusions from the others.
    """
    bench = Bench()
    bench.run(bench.settings.cycle_seconds + 1.0)
    (master,) = bench.masters()
    preferred = (master + 1) % 3
    bench.publish_map(preferred)
    share, took = without_master(bench, preferred, period, killed=killed)
    assert 1 <= took <= 5 and share < 0.04


def test_another_node_may_have_it_at_once() -> None:
    """A new map that names one ends the rest, and one that names the same does not."""
    bench = Bench()
    bench.run(bench.settings.cycle_seconds + 1.0)
    (master,) = bench.masters()
    preferred, other = (node for node in range(3) if node != master)
    bench.publish_map(preferred)
    bench.run(5.0)
    assert bench.masters() == [preferred]
    bench.down.add(preferred)
    bench.run(15.0)
    bench.down.clear()
    bench.run(1.0)
    (failed_over,) = bench.masters()
    assert failed_over != preferred
    bench.publish_map(preferred, version=2)
    bench.run(3.0)
    assert bench.masters() == [failed_over]
    bench.publish_map(({master, other} - {failed_over}).pop(), version=3)
    bench.run(5.0)
    assert bench.masters() == [({master, other} - {failed_over}).pop()]

"""The search for lawful brokers of one partition, against all sets that there are."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.plan.replicas.feasible import cheapest_set
from trimtab.plan.search.compiled import entry

cheapest = entry(cheapest_set.py_func)


@st.composite
def places(draw: st.DrawFn) -> tuple:
    """Up to eight brokers with racks, hosts and costs; some may not hold the partition."""
    brokers = draw(st.integers(1, 8))
    rack, host = (
        np.array(draw(st.lists(st.integers(0, 3), min_size=brokers, max_size=brokers)), np.int32)
        for _ in range(2)
    )
    cost = draw(st.lists(st.sampled_from([0.0, 1.0, 1.25, np.inf]), min_size=brokers, max_size=brokers))
    fixed = draw(st.integers(-1, brokers - 1))
    return rack, host, draw(st.integers(1, 3)), draw(st.integers(1, 3)), np.array(cost), fixed


@settings(deadline=None, max_examples=400)
@given(places(), st.integers(1, 4))
def test_no_set_within_the_caps_is_cheaper_and_none_is_missed(cluster: tuple, number: int) -> None:
    """Every set is tried: the one found is within the caps and as cheap as any, and found if any is."""
    rack, host, rack_cap, host_cap, cost, fixed = cluster
    chosen = np.zeros(len(cost), np.bool_)
    found = cheapest(rack, host, rack_cap, host_cap, number, cost, fixed, chosen)
    lawful = [
        sum(cost[list(those)])
        for those in itertools.combinations(range(len(cost)), number)
        if fixed in (-1, *those)
        and max(np.bincount(rack[list(those)])) <= rack_cap
        and max(np.bincount(host[list(those)])) <= host_cap
    ]
    best = min(lawful, default=np.inf)
    if np.isinf(best):
        assert np.isinf(found)
        return
    those = np.flatnonzero(chosen)
    assert len(those) == number
    assert fixed in (-1, *those)
    assert max(np.bincount(rack[those])) <= rack_cap
    assert max(np.bincount(host[those])) <= host_cap
    assert np.isclose(found, best)
    assert np.isclose(cost[those].sum(), best)

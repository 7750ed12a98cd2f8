"""Nodes that see different maps of one version: no group is handed to and fro between two preferred nodes."""

from __future__ import annotations

import pytest

from support.masters_bench import Bench
from trimtab_store.core.messages import Accepted, MapChanged, NodeHeartbeat, Received
from trimtab_store.core.token import CLUSTER


def with_two_maps() -> tuple[Bench, int, int, int]:
    """A master, a preferred node by its map and by its own, and one that has a map of its own."""
    bench = Bench()
    master = bench.elected()
    preferred, other = (node for node in range(3) if node != master)
    for node, named in ((master, preferred), (preferred, preferred), (other, other)):
        bench.tell(node, MapChanged(1, (named,)))
    return bench, master, preferred, other


def test_nothing_is_taken_over_while_two_nodes_have_two_maps_of_one_version() -> None:
    """The master stays, and renews; a map with a higher version takes effect again, a lower one does not."""
    bench, master, preferred, other = with_two_maps()
    for _ in range(120):
        bench.run(1.0)
        assert bench.masters() == [master]
    # Nor is the token asked for, which others may want.
    assert [node.token.version for node in bench.nodes] == [0, 0, 0]
    assert [bench.nodes[node].disputed_by for node in (master, preferred, other)] == [
        [other],
        [other],
        [node for node in range(3) if node != other],
    ]
    bench.publish_map(preferred, version=2)
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.masters() == [preferred]
    bench.publish_map(other, version=1)
    bench.run(2 * bench.settings.cycle_seconds)
    assert bench.masters() == [preferred] and not any(node.disputed_by for node in bench.nodes)


def test_a_missing_node_disputes_no_map() -> None:
    """The others go by what they agree on, and stop again as soon as it is back."""
    bench, master, preferred, other = with_two_maps()
    bench.run(2 * bench.settings.cycle_seconds)
    assert bench.masters() == [master]
    bench.down.add(other)
    bench.run(4 * bench.settings.renewal_seconds)
    assert bench.masters() == [preferred] and bench.nodes[preferred].disputed_by == []
    bench.restart(other, incarnation=2)
    bench.tell(other, MapChanged(1, (other,)))
    for _ in range(60):
        bench.run(1.0)
        assert bench.masters() == [preferred]


def ready() -> tuple[Bench, int, list[int]]:
    """Three groups, the master of group 0, and the two others; the token may be taken."""
    bench = Bench(groups=3)
    bench.run(bench.settings.cycle_seconds + 1.0)
    (master,) = bench.masters(0)
    return bench, master, [node for node in range(3) if node != master]


@pytest.mark.parametrize("has", [0, 1])
def test_a_node_with_an_old_map_delays_no_other_group(has: int) -> None:
    """It has no map, or the previous one: its group waits for it, and those behind are transferred. Before,
    nothing moved in an hour.
    """
    bench, master, (preferred, late) = ready()
    if has:
        bench.publish_map(-1, -1, -1)
    for node in (master, preferred):
        bench.tell(node, MapChanged(2, (late, preferred, preferred)))
    bench.run(2 * bench.settings.renewal_seconds - 0.1)
    assert bench.nodes[preferred].passed_over == {}
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.nodes[preferred].passed_over == {late: has}
    assert [bench.masters(group) for group in range(3)] == [[master], [preferred], [preferred]]
    bench.tell(late, MapChanged(2, (late, preferred, preferred)))
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.masters(0) == [late] and bench.nodes[preferred].passed_over == {}


def test_a_node_that_stays_at_an_old_map_takes_nothing_over_by_it() -> None:
    """Or it would take back what the new one gives to others, without end."""
    bench, master, (preferred, late) = ready()
    for node in (master, preferred):
        bench.tell(node, MapChanged(3, (preferred, -1, -1)))
    bench.tell(late, MapChanged(2, (late, -1, -1)))
    for _ in range(60):
        bench.run(1.0)
        assert bench.masters(0) in ([master], [preferred], [])
    assert bench.masters(0) == [preferred] and bench.nodes[late].outdated_by == {master: 3, preferred: 3}
    bench.down |= {master, preferred}
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.nodes[late].outdated_by == {}


def test_a_node_that_sees_each_map_a_little_late_is_not_passed_over() -> None:
    """While maps are published one after another it always lags, and always reads them eventually."""
    bench, master, (preferred, late) = ready()
    for version in range(2, 40):
        for node in (master, preferred):
            bench.tell(node, MapChanged(version, (late, -1, -1)))
        bench.run(1.0)
        assert bench.nodes[preferred].passed_over == {}
        bench.tell(late, MapChanged(version - 1, (late, -1, -1)))


def test_a_map_disputed_when_the_token_arrives_starts_no_transfer() -> None:
    """The token was requested in time, and is released."""
    bench = Bench()
    master = bench.elected()
    preferred, other = (node for node in range(3) if node != master)
    bench.run(bench.settings.cycle_seconds)
    bench.holds = lambda sender, receiver, message: isinstance(message, Accepted) and receiver == preferred
    bench.publish_map(preferred)
    bench.run(bench.settings.renewal_seconds)
    assert bench.held
    bench.tell(preferred, Received(other, CLUSTER, NodeHeartbeat((), 1, 7)))
    assert bench.nodes[preferred].disputed_by == [other]
    bench.let_go()
    bench.run(0.1)
    token = bench.nodes[preferred].token
    assert (token.group, token.lease.open, bench.nodes[preferred].groups[0].incoming_transfer) == (
        CLUSTER,
        True,
        None,
    )
    assert token.version and bench.masters() == [master]


def test_a_new_map_does_not_extend_the_deadline_of_a_lagging_node() -> None:
    """Where maps come more often than the bound is long, it would never be noticed."""
    bench, master, (preferred, late) = ready()
    for version in range(2, 14):
        for node in (master, preferred):
            bench.tell(node, MapChanged(version, (late, preferred, preferred)))
        bench.run(1.0)
    assert bench.nodes[preferred].passed_over == {late: 0} and bench.masters(1) == [preferred]

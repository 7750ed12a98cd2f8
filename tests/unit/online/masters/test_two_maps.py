"""Nodes that see different maps of one version: no group is handed to and fro between two ideal nodes."""

from __future__ import annotations

from support.masters_bench import Bench
from trimtab.online.masters.messages import Accepted, Beat, MapSeen, Received
from trimtab.online.masters.token import CLUSTER


def with_two_maps() -> tuple[Bench, int, int, int]:
    """A master, an ideal node by its map and by its own, and one that has a map of its own."""
    bench = Bench()
    master = bench.elected()
    ideal, other = (node for node in range(3) if node != master)
    for node, named in ((master, ideal), (ideal, ideal), (other, other)):
        bench.tell(node, MapSeen(1, (named,)))
    return bench, master, ideal, other


def test_nothing_is_taken_over_while_two_nodes_have_two_maps_of_one_version() -> None:
    """The master stays, and renews; a map with a higher version is gone by again, a lower one is not."""
    bench, master, ideal, other = with_two_maps()
    for _ in range(120):
        bench.run(1.0)
        assert bench.masters() == [master]
    # Nor is the token asked for, which others may want.
    assert [node.token.version for node in bench.nodes] == [0, 0, 0]
    assert [bench.nodes[node].disputed_by for node in (master, ideal, other)] == [
        [other],
        [other],
        [node for node in range(3) if node != other],
    ]
    bench.publish_map(ideal, version=2)
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.masters() == [ideal]
    bench.publish_map(other, version=1)
    bench.run(2 * bench.settings.cycle_seconds)
    assert bench.masters() == [ideal] and not any(node.disputed_by for node in bench.nodes)


def test_whoever_is_gone_disputes_nothing() -> None:
    """The others go by what they agree on, and stop again as soon as it is back."""
    bench, master, ideal, other = with_two_maps()
    bench.run(2 * bench.settings.cycle_seconds)
    assert bench.masters() == [master]
    bench.down.add(other)
    bench.run(4 * bench.settings.renewal_seconds)
    assert bench.masters() == [ideal] and bench.nodes[ideal].disputed_by == []
    bench.restart(other, life=2)
    bench.tell(other, MapSeen(1, (other,)))
    for _ in range(60):
        bench.run(1.0)
        assert bench.masters() == [ideal]


def test_another_version_is_another_matter() -> None:
    """Each node sees a map in its own time; one that has seen none has none to dispute."""
    bench = Bench()
    master = bench.elected()
    ideal, other = (node for node in range(3) if node != master)
    bench.tell(ideal, MapSeen(3, (ideal,)))
    bench.tell(other, MapSeen(2, (other,)))
    bench.run(2 * bench.settings.cycle_seconds)
    assert not any(node.disputed_by for node in bench.nodes)
    assert bench.nodes[other].maps.seen == MapSeen(2, (other,))


def test_a_map_that_is_disputed_when_the_token_comes_begins_nothing() -> None:
    """The token was asked for in time, and is given back."""
    bench = Bench()
    master = bench.elected()
    ideal, other = (node for node in range(3) if node != master)
    bench.run(bench.settings.cycle_seconds)
    bench.holds = lambda sender, receiver, message: isinstance(message, Accepted) and receiver == ideal
    bench.publish_map(ideal)
    bench.run(bench.settings.renewal_seconds)
    assert bench.held
    bench.tell(ideal, Received(other, CLUSTER, Beat((), 1, 7)))
    assert bench.nodes[ideal].disputed_by == [other]
    bench.let_go()
    bench.run(0.1)
    token = bench.nodes[ideal].token
    assert (token.group, token.lease.open, bench.nodes[ideal].groups[0].challenge) == (CLUSTER, True, None)
    assert token.version and bench.masters() == [master]

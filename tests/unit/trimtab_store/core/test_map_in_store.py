"""The preferred map in the store itself: published by clients, over one version, in the log of the token."""

from __future__ import annotations

from typing import Any

import pytest

from support.masters_bench import Bench
from trimtab_store.core.messages import (
    CLAIM_BYTES,
    Accept,
    Accepted,
    AcquireToken,
    AskMap,
    ChangeClaims,
    ChangeMap,
    Chosen,
    Commit,
    MapIs,
    Promise,
    PublishMap,
)
from trimtab_store.core.token import CLUSTER, Registry


def ready(groups: int = 1, **settings: Any) -> tuple[Bench, int, list[int]]:
    """A bench whose nodes read the map in the store, the master of group 0, and the two others."""
    bench = Bench(groups, map_in_store=True, **settings)
    bench.run(bench.settings.cycle_seconds + 1.0)
    (master,) = bench.masters()
    return bench, master, [node for node in range(3) if node != master]


def publish(bench: Bench, node: int, expected: int, version: int, *preferred: int) -> None:
    """A client asks a node to publish a map."""
    bench.send(node, ChangeMap(PublishMap(expected, version, preferred)), CLUSTER)


def told(bench: Bench, node: int) -> MapIs:
    """What a node tells a client of the map."""
    (answer,) = bench.send(node, AskMap("client"), CLUSTER)
    assert isinstance(answer, MapIs)
    return answer


def seen(bench: Bench) -> list[tuple[int, tuple[int, ...]]]:
    """The map that each node goes by."""
    return [tuple(node.maps.newest) for node in bench.nodes]  # type: ignore[misc]


def test_all_nodes_follow_a_map_also_after_their_restart() -> None:
    """Published at any node; a transfer follows, and so it does after all have died, from what they wrote."""
    bench, master, (preferred, other) = ready()
    publish(bench, master, 0, 1, preferred)
    assert seen(bench) == [(1, (preferred,))] * 3
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.masters() == [preferred]
    publish(bench, other, 1, 5, other)
    for node in range(3):
        bench.restart(node, incarnation=2)
    assert seen(bench) == [(5, (other,))] * 3
    bench.run(2 * bench.settings.cycle_seconds)
    assert bench.masters() == [other]
    assert [told(bench, node)[2:5] for node in range(3)] == [(5, 5, (other,))] * 3


def test_a_cluster_with_added_groups_follows_its_map_and_accepts_the_next() -> None:
    """Groups that the map does not name have any master; of fewer groups only those count that are there."""
    bench, master, (preferred, _) = ready(groups=2)
    publish(bench, master, 0, 1, preferred, master)
    for groups, named in ((3, (preferred, master, -1)), (1, (preferred,))):
        bench._groups = groups
        for node in range(3):
            bench.restart(node, incarnation=1 + groups)
        assert seen(bench) == [(1, named)] * 3
    bench.run(bench.settings.cycle_seconds)
    publish(bench, master, 1, 2, master)
    assert seen(bench) == [(2, (master,))] * 3


def test_the_state_of_the_log_carries_the_map_and_the_claims() -> None:
    """A node that was away for long begins at a snapshot, which has them; so does one that starts on it."""
    bench, master, (preferred, late) = ready(snapshot_entries=4)
    publish(bench, master, 0, 1, preferred)
    bench.down.add(late)
    for number in range(8):
        publish(bench, master, 1 + number, 2 + number, -1)
        bench.send(master, ChangeMap(ChangeClaims((f"claim {number}",), (f"claim {number - 1}",))), CLUSTER)
    bench.down.discard(late)
    bench.run(2 * bench.settings.renewal_seconds)
    assert told(bench, late)[2:] == (9, 9, (-1,), ("claim 7",))
    for node in range(3):
        bench.restart(node, incarnation=2)
        assert told(bench, node)[2:] == (9, 9, (-1,), ("claim 7",))


def test_of_two_maps_over_the_same_version_one_counts() -> None:
    """Published at two nodes simultaneously, both are chosen, and the later is void; so is a late one."""
    bench, master, (one, other) = ready()
    bench.holds = lambda sender, receiver, message: isinstance(message, Accepted)
    publish(bench, one, 0, 1, one)
    publish(bench, other, 0, 1, other)
    bench.let_go()
    bench.run(2.0)
    (first, *rest) = seen(bench)
    assert first[0] == 1 and first[1] in ((one,), (other,)) and rest == [first] * 2
    publish(bench, master, 0, 7, master)
    assert seen(bench) == [first] * 3
    publish(bench, master, 1, 2, master)
    assert seen(bench) == [(2, (master,))] * 3


def test_the_state_compares_versions() -> None:
    """By itself: over another version, or one that is not above it, a map is void."""
    registry = Registry()
    for entry, version in (
        (PublishMap(1, 2, (0,)), 0),
        (PublishMap(0, 3, (0,)), 3),
        (PublishMap(3, 3, (1,)), 3),
        (PublishMap(0, 4, (1,)), 3),
    ):
        registry.apply(entry)
        assert registry.version == version
    assert registry.preferred == (0,)


@pytest.mark.parametrize("change", [(0, 1, (0, 0)), (0, 1, ()), (0, 1, (3,)), (0, 1, (-2,)), (0, 0, (0,))])
def test_an_invalid_map_is_not_proposed(change: tuple[int, int, tuple[int, ...]]) -> None:
    """Another number of groups, a node that there is not, or no newer version."""
    bench, master, _ = ready()
    before = bench.nodes[master].token.log.applied
    bench.send(master, ChangeMap(PublishMap(*change)), CLUSTER)
    bench.run(1.0)
    assert bench.nodes[master].token.log.applied == before and seen(bench) == [(0, (-1,))] * 3


def test_a_node_with_another_map_source_publishes_nothing_and_reports_that() -> None:
    """It would be published without an effect."""
    bench = Bench()
    master = bench.elected()
    applied = told(bench, master).applied
    publish(bench, master, 0, 1, 0)
    bench.send(master, ChangeMap(ChangeClaims(("me",), ())), CLUSTER)
    bench.publish_map(2, version=4)
    assert told(bench, master) == MapIs(False, applied, 0, 4, (2,), ())


def test_a_node_that_missed_a_map_learns_it_from_the_heartbeats_of_others() -> None:
    """Nothing else may be chosen in that log for days, and who is behind takes nothing over."""
    bench, master, (preferred, late) = ready(groups=2)
    kinds = (Accept, Commit, Chosen)
    bench.holds = lambda sender, receiver, message: isinstance(message, kinds) and receiver == late
    publish(bench, master, 0, 1, -1, late)
    assert seen(bench)[late] == (0, (-1, -1)) and seen(bench)[preferred] == (1, (-1, late))
    bench.held.clear()
    bench.holds = lambda sender, receiver, message: False
    bench.run(bench.settings.renewal_seconds)
    assert seen(bench) == [(1, (-1, late))] * 3
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.masters(1) == [late]


def test_a_map_is_followed_though_only_a_dead_node_knew_that_it_is_chosen() -> None:
    """Its publisher got a confirmation; the others have accepted it, and no further entry follows in that
    log.
    """
    bench, master, others = ready()
    (other, knows) = others
    bench.holds = lambda sender, receiver, message: isinstance(message, Commit) and sender == knows
    publish(bench, knows, 0, 1, other)
    assert told(bench, knows).published == 1 and seen(bench)[other] == (0, (-1,))
    bench.down.add(knows)
    bench.run(2 * bench.settings.renewal_seconds)
    assert seen(bench)[master] == seen(bench)[other] == (1, (other,))
    bench.run(2 * bench.settings.cycle_seconds)
    assert bench.masters() == [other]
    # Once that is settled nobody proposes anything in this log any more.
    applied = told(bench, other).applied
    bench.run(10 * bench.settings.renewal_seconds)
    assert told(bench, other).applied == applied


def test_without_a_majority_nothing_is_published_and_only_the_newest_map_waits() -> None:
    """The node goes on with what it has; once the others are back, the newest that waits is chosen."""
    bench, master, others = ready()
    publish(bench, others[0], 0, 1, -1)
    bench.down |= set(others)
    for node in others:
        publish(bench, master, 1, 2, node)
    bench.run(5.0)
    assert told(bench, master)[2:5] == (1, 1, (-1,))
    waiting = bench.nodes[master].token.log.proposer.waiting  # type: ignore[attr-defined]
    assert len(waiting) <= 1
    bench.down -= set(others)
    bench.run(10.0)
    first, *rest = seen(bench)
    assert first[0] == 2 and first[1][0] in others and rest == [first] * 2


def test_a_node_without_a_majority_keeps_its_map_and_reports_that() -> None:
    """It reports how many nodes it lacks; with a map elsewhere it reports nothing."""
    bench, master, others = ready()
    publish(bench, master, 0, 1, master)
    assert [node.lacks_nodes for node in bench.nodes] == [0, 0, 0]
    bench.down |= set(others)
    bench.run(2 * bench.settings.renewal_seconds + 1.0)
    assert bench.nodes[master].lacks_nodes == 1 and seen(bench)[master] == (1, (master,))
    bench.down.discard(others[0])
    bench.run(bench.settings.renewal_seconds)
    assert bench.nodes[master].lacks_nodes == 0
    alone = Bench()
    alone.down |= {1, 2}
    alone.run(2 * alone.settings.renewal_seconds + 1.0)
    assert alone.nodes[0].lacks_nodes == 0


def test_claims_are_a_set_with_a_limit() -> None:
    """Texts come and go in one change; what would be too much changes nothing."""
    bench, master, (one, other) = ready()
    bench.send(one, ChangeMap(ChangeClaims(("a", "b"), ())), CLUSTER)
    bench.send(other, ChangeMap(ChangeClaims(("c",), ("a", "z"))), CLUSTER)
    assert [told(bench, node).claims for node in range(3)] == [("b", "c")] * 3
    half = "x" * (CLAIM_BYTES // 2)
    for text in (half, "y" + half):
        bench.send(master, ChangeMap(ChangeClaims((text,), ())), CLUSTER)
    assert told(bench, other).claims == ("b", "c", half)
    before = told(bench, other).applied
    bench.send(master, ChangeMap(ChangeClaims(("x" * CLAIM_BYTES,), ())), CLUSTER)
    assert told(bench, other).applied == before


def test_a_token_released_during_a_publication_is_free_immediately() -> None:
    """The publisher's node leads the log from then on, and the other node's proposal is proposed again.

    Otherwise the next transfer would wait until the token expires.
    """
    bench, _, others = ready(groups=2)
    (holder,) = bench.masters(1)
    preferred = others[0]
    other = next(node for node in range(3) if node not in (holder, preferred))
    publish(bench, holder, 0, 1, preferred, -1)

    def gives_back(sender: int | str, receiver: int | str, message: Any) -> bool:
        entry = message.entry if isinstance(message, Accept) else None
        return isinstance(entry, AcquireToken) and entry.group == CLUSTER

    bench.holds = gives_back
    bench.run_until(lambda: bench.masters() == [preferred] and bench.held)
    # Nor does the other node hear of it in the promise of the one that had accepted it.
    bench.holds = lambda sender, receiver, message: isinstance(message, Promise) and sender == preferred
    publish(bench, other, 1, 2, preferred, other)
    bench.held.clear()
    bench.holds = lambda sender, receiver, message: False
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.masters(1) == [other]

"""What a tick of a store of Paxos groups reports as wrong."""

from __future__ import annotations

from trimtab.systems.paxos.collector import store_problems
from trimtab_store.core.messages import GroupReport


def report(version: int, rest_seconds: float = 0.0, *, votes: bool = True) -> GroupReport:
    """What a node tells of a group, by a version of the map."""
    return GroupReport(1, False, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0.0, version, rest_seconds, votes)


def test_a_node_with_an_old_map_and_an_excluded_node_are_reported() -> None:
    """Each once, whichever nodes know of it; nothing where all go by one map."""
    assert store_problems({0: {0: report(3)}, 1: {0: report(3)}}) == []
    told = store_problems({
        0: {0: report(3), 1: report(3, 80.0)},
        1: {0: report(3), 1: report(3, 95.4)},
        2: {0: report(1), 1: report(1)},
    })  # fmt: skip
    assert told == [
        "node 2 has version 1 of the map, others have 3: if that stays so, its groups stay where they are; "
        'correct "map" in the configuration of node 2',
        "group 1 is not given to its preferred node for 95 s: that node lost it soon after a transfer; see "
        "why "
        "it stands still or ends, or name another node in the map",
    ]


def test_a_node_without_a_vote_is_reported() -> None:
    """It answers and may have all messages, but until it votes no other node may be stopped."""
    there = {0: report(3), 1: report(3)}
    assert store_problems({0: there, 1: {**there, 1: report(3, votes=False)}}) == [
        "node 1 started without its log and has no vote in 1 of 2 groups: stop no other node, and start "
        "those that are down; it votes once all have answered and it has caught up",
    ]

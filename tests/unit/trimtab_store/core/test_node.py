"""Which wrong group is taken over next, by whom, and what stands in nobody's way."""

from __future__ import annotations

from typing import Any

import pytest

from support.masters_bench import Bench
from trimtab_store.core.messages import (
    Accept,
    AcquireToken,
    AppendMessages,
    Chosen,
    Commit,
    MapChanged,
    MessageRecord,
    NodeHeartbeat,
    ProbeTransfer,
    ProduceRequest,
    Received,
    TransferProbed,
)
from trimtab_store.core.token import CLUSTER

IDEAL = 1
"""The preferred node of group 0 in these tests; that of group 1 is node 0."""


def ready(groups: int = 2, **settings: Any) -> Bench:
    """Groups with masters, none of them on node 1, and a token that may be taken."""
    bench = Bench(groups=groups, **settings)
    bench.run(bench.settings.cycle_seconds + 1.0)
    assert [bench.masters(group) for group in range(groups)] == [[0], [2]][:groups]
    return bench


def probes(bench: Bench, seen: list[ProbeTransfer], *others: type) -> None:
    """Note from now on what node 1 asks current masters, and hold messages of other kinds to it back."""

    def hold(sender: int | str, receiver: int | str, message: Any) -> bool:
        if sender == IDEAL and isinstance(message, ProbeTransfer):
            seen.append(message)
        return receiver == IDEAL and isinstance(message, others)

    bench.holds = hold


def test_the_smallest_wrong_group_is_taken_over_first() -> None:
    """By its own preferred node, and by no other."""
    bench = ready()
    taken: list[tuple[int, int]] = []

    def look(sender: object, receiver: object, message: object) -> bool:
        for node in bench.nodes:
            if node.token.group != CLUSTER:
                taken.append((node.context.node, node.token.group))
        return False

    bench.holds = look
    bench.publish_map(IDEAL, 0)
    bench.run(10.0)
    assert list(dict.fromkeys(taken)) == [(IDEAL, 0), (0, 1)]
    assert (bench.masters(0), bench.masters(1)) == ([IDEAL], [0])


def test_a_dead_preferred_node_is_skipped() -> None:
    """Its group waits for it, and the groups behind that one do not."""
    bench = ready()
    bench.down.add(IDEAL)
    bench.run(2 * bench.settings.renewal_seconds)
    bench.publish_map(IDEAL, 0)
    bench.run(5.0)
    assert (bench.masters(0), bench.masters(1)) == ([0], [0])
    bench.restart(IDEAL, incarnation=2)
    bench.publish_map(IDEAL, 0)
    bench.run(bench.settings.cycle_seconds + 10.0)
    assert bench.masters(0) == [IDEAL]


def test_a_preferred_node_that_runs_but_does_nothing_is_skipped() -> None:
    """Its heartbeats are received and nothing else, so it cannot have the token; the groups behind its own
    can.
    """
    bench = ready()
    bench.holds = lambda sender, receiver, message: (
        sender == IDEAL and receiver != IDEAL and not isinstance(message, NodeHeartbeat)
    )
    bench.publish_map(IDEAL, 0)
    bench.run(1.5 * bench.settings.renewal_seconds)
    assert (bench.masters(1), bench.nodes[0].idle) == ([2], {})
    bench.run(2 * bench.settings.renewal_seconds)
    assert (bench.masters(1), bench.nodes[0].idle) == ([0], {IDEAL: 0})
    bench.held.clear()
    bench.let_go()
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.masters(0) == [IDEAL] and bench.nodes[0].idle == {}


def test_a_preferred_node_whose_transfer_failed_is_skipped_and_retries_later() -> None:
    """The master did not answer it: others are notified of its exclusion, and it excludes itself as well."""
    bench = ready()
    seen: list[ProbeTransfer] = []
    probes(bench, seen, TransferProbed)
    bench.publish_map(IDEAL, 0)
    # Sooner than a node that only does nothing is passed over: its heartbeats say what it has muted.
    bench.run(2 * bench.settings.renewal_seconds)
    assert (bench.masters(0), bench.masters(1)) == ([0], [0])
    bench.run(bench.settings.backoff_seconds - 2 * bench.settings.renewal_seconds - 1.0)
    assert (bench.masters(0), bench.masters(1)) == ([0], [0])
    assert len({one.cycle for one in seen}) == 1
    bench.held.clear()
    bench.let_go()
    bench.run(10.0)
    assert bench.masters(0) == [IDEAL]


def test_a_lagging_preferred_node_is_skipped() -> None:
    """It is refused by what it has applied, and muted as any that failed."""
    bench = ready(max_lag_entries=1)

    def hold(sender: int | str, receiver: int | str, message: Any) -> bool:
        told = message.entries if isinstance(message, Chosen) else [getattr(message, "entry", None)]
        return receiver == IDEAL and any(isinstance(one, AppendMessages) for one in told)

    bench.holds = hold
    for sequence in range(1, 10):
        bench.send(0, ProduceRequest("client", MessageRecord("t", "p", sequence, b"")))
        bench.run(0.05)
    bench.publish_map(IDEAL, 0)
    bench.run(8.0)
    assert (bench.masters(0), bench.masters(1)) == ([0], [0])


def test_a_successful_transfer_causes_no_backoff() -> None:
    """The next map may want the same group at the same node soon."""
    bench = ready(groups=1)
    for version, preferred in ((1, IDEAL), (2, 0), (3, IDEAL)):
        bench.publish_map(preferred, version=version)
        bench.run(4.0)
        assert bench.masters() == [preferred]


def test_a_late_older_map_changes_nothing() -> None:
    """Nodes see maps in any order; the newest version counts."""
    bench = ready(groups=1)
    bench.publish_map(IDEAL, version=2)
    bench.publish_map(2, version=1)
    bench.run(5.0)
    assert bench.masters() == [IDEAL]


def asked_for_the_token(bench: Bench) -> None:
    """Node 1 has proposed to take the token, and nobody has seen that yet."""
    bench.holds = lambda sender, receiver, message: (
        isinstance(message, Accept) and isinstance(message.entry, AcquireToken)
    )
    bench.publish_map(IDEAL)
    bench.run_until(lambda: any(sender == IDEAL for sender, *_ in bench.held))


def given(bench: Bench) -> list[ProbeTransfer]:
    """Let node 1 have the token; what it asks current masters then."""
    held, bench.held = bench.held, []
    seen: list[ProbeTransfer] = []
    probes(bench, seen)
    for sender, receiver, group, message in held:
        assert isinstance(receiver, int)
        bench.tell(receiver, Received(sender, group, message))
    return seen


def test_the_map_is_checked_again_once_the_token_is_acquired() -> None:
    """It may name another node by then, and the token is given back to that one."""
    bench = ready(groups=1)
    asked_for_the_token(bench)
    for node in range(3):
        bench.tell(node, MapChanged(2, (2,)))
    assert given(bench) == []
    bench.run(5.0)
    assert bench.masters() == [2] and bench.nodes[IDEAL].token.group == CLUSTER


@pytest.mark.parametrize("what", ["nobody is master", "handed over", "right"])
def test_a_group_that_needs_no_transfer_once_the_token_is_acquired_stays(what: str) -> None:
    """Any node may become master of a group without one; a transfer in progress ends by itself."""
    bench = ready(groups=1)
    asked_for_the_token(bench)
    group = bench.nodes[IDEAL].groups[0]
    match what:
        case "nobody is master":
            group.lease.others_until = bench.now
        case "handed over":
            group.state.preferred = 2
        case _:
            group.state.master = IDEAL
    assert given(bench) == []
    assert bench.nodes[IDEAL].token.group == CLUSTER


def test_a_token_held_by_another_node_is_not_requested() -> None:
    """By its version it could be taken away in the middle of a transfer."""
    bench = ready()
    bench.holds = lambda sender, receiver, message: isinstance(message, TransferProbed)
    bench.publish_map(IDEAL, 0)
    bench.run_until(lambda: bench.nodes[IDEAL].token.group != CLUSTER)
    version = bench.nodes[IDEAL].token.version
    # Node 0 hears no more of node 1 being there, so group 1 is the smallest that it sees.
    bench.nodes[0]._heartbeats[IDEAL] = NodeHeartbeat((0,), 1, bench.nodes[0].maps.checksum)
    bench.nodes[0]._choose()
    for order in bench.nodes[0].context.orders:
        assert not isinstance(getattr(order, "message", None), Accept | Commit)
    assert bench.nodes[IDEAL].token.version == version and bench.nodes[0].token._requested_at is None


def test_a_preferred_node_that_makes_progress_is_awaited() -> None:
    """However long it takes for all of its groups, none of another node's precedes them."""
    bench = Bench(groups=18)
    bench.run(bench.settings.cycle_seconds + 1.0)
    bench.publish_map(*[IDEAL] * 17, 2)
    begun = bench.now
    while bench.masters(16) != [IDEAL] or bench.masters(15) != [IDEAL]:
        bench.run(0.1)
        assert bench.nodes[2].idle == {} and bench.now < begun + 60.0
    assert bench.now > begun + 2 * bench.settings.renewal_seconds

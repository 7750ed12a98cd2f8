"""A transfer at the node that is master until then: what it waits for, and what calls it off."""

from __future__ import annotations

from typing import Any

import pytest

from support.masters_bench import Bench
from trimtab_store.core.group import ReplicatedGroup
from trimtab_store.core.messages import (
    Accept,
    AppendMessages,
    ClaimMastership,
    FetchRequest,
    MessageRecord,
    OffsetUpload,
    Prepare,
    ProduceRequest,
    ProduceResponse,
    Received,
    StartTransfer,
    TransferMastership,
    TransferReady,
)
from trimtab_store.core.paxos import PaxosLog
from trimtab_store.core.settings import TransferScheme
from trimtab_store.core.transfer import TransferPhase

MASTER, IDEAL, ANOTHER = 0, 1, 2


def publish(sequence: int) -> ProduceRequest:
    """A message."""
    return ProduceRequest("client", MessageRecord("t", "p", sequence, b""))


def proposes(message: Any, kind: Any) -> bool:
    """Whether a message asks to accept an entry of a kind, or of one of several."""
    return isinstance(message, Accept) and isinstance(message.entry, kind)


def checking(**settings: Any) -> tuple[Bench, ReplicatedGroup, Received]:
    """A current master that has asked the preferred node once more, and the answer still in transit."""
    bench = Bench(**settings)
    assert bench.elected() == MASTER
    bench.holds = lambda sender, receiver, message: isinstance(message, TransferReady)
    bench.publish_map(IDEAL)
    bench.run_until(lambda: bench.held)
    group = bench.nodes[MASTER].groups[0]
    assert phase(group) is TransferPhase.CHECKING
    (sender, _, number, message), *_ = bench.held
    bench.held.clear()
    return bench, group, Received(sender, number, message)


def phase(group: ReplicatedGroup) -> TransferPhase | None:
    """How far its transfer is."""
    return None if group.outgoing_transfer is None else group.outgoing_transfer.phase


def another_is_master(bench: Bench, group: ReplicatedGroup) -> None:
    """What a node learns when it was cut off for a term."""
    group.context.now = bench.now
    group._apply(group.log.applied + 1, ClaimMastership(ANOTHER, (9, 1), group.state.version))
    assert group.state.master == ANOTHER


def draining() -> tuple[Bench, ReplicatedGroup]:
    """A current master with a batch under way, of which nobody has heard yet."""
    bench, group, ready = checking()
    bench.holds = lambda sender, receiver, message: proposes(message, AppendMessages | TransferMastership)
    bench.send(MASTER, publish(1))
    bench.tell(MASTER, ready)
    return bench, group


def test_batches_in_flight_finish_before_the_transfer_is_proposed() -> None:
    """Their producers are answered by the receiving node, and later messages are forwarded."""
    bench, group = draining()
    bench.run(0.5)
    assert phase(group) is TransferPhase.DRAINING and not group.pending_probes
    assert not any(proposes(message, TransferMastership) for *_, message in bench.held)
    bench.let_go()
    bench.run(1.0)
    assert (MASTER, 0, ProduceResponse("t", "p", 1, "stored", MASTER)) in bench.heard
    assert bench.masters() == [IDEAL]


def test_a_master_whose_term_ends_while_batches_finish_cancels_the_transfer() -> None:
    """Everything is cancelled: the next master has not requested it."""
    bench, group = draining()
    bench.now = group.lease.own_until
    assert group.outgoing_transfer is not None and bench.now < group.outgoing_transfer.until
    held, bench.held = bench.held, []
    for sender, receiver, number, message in held:
        assert isinstance(receiver, int)
        bench.holds = lambda sender, receiver, message: proposes(message, TransferMastership)
        bench.tell(receiver, Received(sender, number, message))
    assert phase(group) is None
    assert not any(proposes(message, TransferMastership) for *_, message in bench.held)


def test_an_answer_counts_for_its_own_cycle_and_while_this_node_is_master() -> None:
    """An answer of an earlier transfer does not show what the preferred node has applied now."""
    bench, group, ready = checking()
    bench.tell(MASTER, ready._replace(message=ready.message._replace(cycle=ready.message.cycle - 1)))
    assert phase(group) is TransferPhase.CHECKING
    bench.now = group.lease.own_until
    assert group.outgoing_transfer is not None and bench.now < group.outgoing_transfer.until
    bench.tell(MASTER, ready)
    assert phase(group) is not TransferPhase.DRAINING and phase(group) is not TransferPhase.HANDING


def test_a_transfer_ends_if_the_fence_changes() -> None:
    """The mastership has drifted: there is nothing to hand over any more."""
    bench, group, _ = checking()
    another_is_master(bench, group)
    assert phase(group) is None


def test_the_time_limit_counts_from_the_own_stamp() -> None:
    """So it never outlives the token, from which the preferred node counted what is left."""
    bench = Bench()
    assert bench.elected() == MASTER
    bench.holds = lambda sender, receiver, message: isinstance(message, StartTransfer)
    bench.publish_map(IDEAL)
    bench.run_until(lambda: bench.held)
    (_, _, _, start), *_ = bench.held
    bench.run(2.0)
    bench.holds = lambda sender, receiver, message: isinstance(message, TransferReady)
    bench.tell(MASTER, Received(IDEAL, 0, start))
    current_master = bench.nodes[MASTER].groups[0].outgoing_transfer
    assert current_master is not None
    assert current_master.until == start.stamp + start.seconds * (1 - bench.settings.margin)


@pytest.mark.parametrize("what", ["another life", "no master"])
def test_a_transfer_requested_from_a_previous_incarnation_does_not_start(what: str) -> None:
    """The stamp of another incarnation is of another clock."""
    bench = Bench()
    assert bench.elected() == MASTER
    node, life = (MASTER, 2) if what == "another life" else (ANOTHER, 1)
    bench.tell(node, Received(IDEAL, 0, StartTransfer(1, life, bench.now, 10.0)))
    assert bench.nodes[node].groups[0].outgoing_transfer is None


def test_under_the_first_scheme_the_preferred_node_waits_for_the_end_of_the_term() -> None:
    """And by the transfer it writes for one term from when it was ready, no longer."""
    bench, _, ready = checking(scheme=TransferScheme.AWAIT)
    ready_at = bench.now
    bench.holds = lambda sender, receiver, message: proposes(message, ClaimMastership)
    bench.tell(MASTER, ready)
    preferred = bench.nodes[IDEAL].groups[0]
    assert preferred.state.preferred == IDEAL and preferred.produce_queue.writes
    bench.run(bench.settings.renewal_seconds + 0.5)
    assert bench.held == [] and preferred.produce_queue.writes
    preferred.context.now = ready_at + bench.settings.lease_seconds * (1 - bench.settings.margin)
    assert preferred.state.preferred == IDEAL and not preferred.produce_queue.writes


def test_state_of_the_old_fence_is_discarded_with_it() -> None:
    """Consumers and what they handed in are the next master's business; a batch would be under its fence."""
    bench = Bench()
    assert bench.elected() == MASTER
    group = bench.nodes[MASTER].groups[0]
    bench.send(MASTER, publish(1))
    bench.run(0.1)
    bench.send(MASTER, FetchRequest("client", "c", "t", 1, -1, 10))
    bench.send(MASTER, OffsetUpload("client", "c", "t", 1, -1))
    bench.send(MASTER, publish(2))
    assert (
        group.consumer_sessions.consumers and group.consumer_sessions.uploads and group.produce_queue.pending
    )
    another_is_master(bench, group)
    assert (
        group.consumer_sessions.consumers == {}
        and group.consumer_sessions.uploads == {}
        and group.produce_queue.pending == {}
    )
    bench.holds = lambda sender, receiver, message: (
        proposes(message, AppendMessages) or isinstance(message, Prepare)
    )
    bench.run(0.1)
    assert isinstance(group.log, PaxosLog)
    waiting = [*group.log.proposer.waiting, *group.log.in_flight]
    assert not any(isinstance(entry, AppendMessages) for entry in waiting)


def test_an_offset_is_noted_by_the_master_alone() -> None:
    """Another node could never have it chosen, and would keep it for good."""
    bench = Bench()
    assert bench.elected() == MASTER
    bench.send(ANOTHER, OffsetUpload("client", "c", "t", 1, -1))
    assert bench.nodes[ANOTHER].groups[0].consumer_sessions.uploads == {}


def test_a_transfer_on_the_own_disk_claims_no_mastership_after_a_restart() -> None:
    """Whatever is written there, a starting node leaves the group alone for a term."""
    bench, _, ready = checking()
    bench.holds = lambda sender, receiver, message: sender == IDEAL and proposes(message, ClaimMastership)
    bench.tell(MASTER, ready)
    assert bench.nodes[IDEAL].groups[0].state.preferred == IDEAL
    bench.restart(IDEAL, incarnation=2)
    group = bench.nodes[IDEAL].groups[0]
    assert group.state.preferred == IDEAL and group.pending_probes == {}

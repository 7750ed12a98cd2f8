"""What a node counts for a group: what came to it, what it gave, what its proposals took."""

from __future__ import annotations

from typing import Any

import pytest

from support.masters_bench import Bench
from trimtab_store.core.messages import (
    Accept,
    AppendMessages,
    FetchRequest,
    GroupReport,
    MessageRecord,
    ProduceRequest,
    ProduceResponse,
    ReadGroupMetrics,
)


def report(bench: Bench, node: int) -> GroupReport:
    """What a node says when it is asked."""
    (told,) = bench.send(node, ReadGroupMetrics("client"))
    assert isinstance(told, GroupReport)
    return told


def test_a_master_counts_its_work() -> None:
    """Three messages of five bytes, one of them sent twice; one question that gets all three."""
    bench = Bench()
    master = bench.elected()
    follower = (master + 1) % 3
    began = report(bench, master)
    assert (began.holds, began.stored, began.proposals) == (True, 0, 0)
    for sequence in (1, 2, 3, 3):
        bench.send(master, ProduceRequest("client", MessageRecord("t", "p", sequence, b"hello")))
        bench.run(0.1)
    bench.send(master, FetchRequest("client", "c", "t", 1, 0, 10))
    bench.run(0.9)
    told = report(bench, master)
    # The fourth is stored already: its sender is told so at once, and nothing is proposed.
    assert (told.stored, told.stored_bytes, told.messages) == (3, 15, 3)
    assert (told.pulls, told.pulled, told.pulled_bytes) == (1, 3, 15)
    assert told.proposals == 3
    assert told.held_seconds - began.held_seconds == pytest.approx(1.3)
    other = report(bench, follower)
    assert (other.holds, other.held_seconds, other.stored, other.proposals) == (False, 0.0, 0, 0)
    assert (other.master, other.applied, other.messages) == (master, told.applied, 3)


def test_a_proposal_takes_as_long_as_until_it_is_applied() -> None:
    """Answers are held back for 50 ms: that is what it took."""
    bench = Bench()
    master = bench.elected()
    before = report(bench, master).proposed_seconds

    def append(sender: Any, receiver: Any, message: Any) -> bool:
        return isinstance(message, Accept) and isinstance(message.entry, AppendMessages)

    bench.holds = append
    bench.send(master, ProduceRequest("client", MessageRecord("t", "p", 1, b"")))
    bench.run(bench.settings.batch_seconds)
    bench.run(0.05)
    bench.holds = lambda sender, receiver, message: False
    bench.let_go()
    told = report(bench, master)
    assert told.proposals == 1
    assert 0.04 <= told.proposed_seconds - before <= 0.3


def test_a_new_incarnation_resets_the_counters() -> None:
    """The incarnation shows that these are other counters."""
    bench = Bench()
    master = bench.elected()
    bench.send(master, ProduceRequest("client", MessageRecord("t", "p", 1, b"")))
    bench.run(0.1)
    assert any(isinstance(told, ProduceResponse) for _, _, told in bench.heard)
    first = report(bench, master)
    bench.restart(master, incarnation=7)
    second = report(bench, master)
    assert (first.incarnation, second.incarnation) == (1, 7)
    assert (first.stored, second.stored) == (1, 0)
    assert not second.holds

"""What every engine promises of a group's log, whatever is lost, late, cut off or killed."""

from __future__ import annotations

import pytest

from support.masters_logs import Logs, batch, be_master
from trimtab_store.core.messages import (
    ENTRY_BYTES,
    PAYLOAD_BYTES,
    AppendMessages,
    ClaimMastership,
    MessageRecord,
    entry_bytes,
)
from trimtab_store.core.node import ENGINES
from trimtab_store.core.stored import ConsensusEngine

SEEDS = 12
BATCHES = 30


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> ConsensusEngine:
    """Each in turn."""
    return ENGINES[request.param]


def test_proposed_values_are_applied_everywhere(engine: ConsensusEngine) -> None:
    """By the node itself, and by nodes that do not vote."""
    logs = Logs(engine)
    logs.propose(1, batch(1, 1))
    logs.run(1.0)
    assert logs.entries(0) == [batch(1, 1)] and logs.alike()


def test_batches_of_a_node_keep_their_order(engine: ConsensusEngine) -> None:
    """More than may be under way at once."""
    logs = Logs(engine)
    wanted = [batch(2, sequence) for sequence in range(1, BATCHES + 1)]
    for entry in wanted:
        logs.propose(2, entry)
    logs.run(5.0)
    assert logs.entries() == wanted and logs.alike()


def test_batches_as_large_as_may_be_are_applied(engine: ConsensusEngine) -> None:
    """One after another, and behind small ones: together they are more than a store takes at once."""
    logs = Logs(engine)
    size = PAYLOAD_BYTES // 2
    count = ENTRY_BYTES // entry_bytes(AppendMessages(0, (MessageRecord("t", "p1", 1, bytes(size)),)))
    sequences = [range(at, at + count) for at in range(2, 6 * count, count)]
    large = [
        AppendMessages(0, tuple(MessageRecord("t", "p1", sequence, bytes(size)) for sequence in one))
        for one in sequences
    ]
    assert ENTRY_BYTES - size < entry_bytes(large[0]) <= ENTRY_BYTES
    wanted = [batch(1, 1), *large, batch(2, 1)]
    for entry in wanted:
        logs.propose(1, entry)
    logs.run(5.0)
    assert logs.entries() == wanted and logs.alike()


def test_of_two_masterships_that_expect_the_same_one_counts(engine: ConsensusEngine) -> None:
    """Both may be chosen; the second finds that the first has changed what it expected."""
    logs = Logs(engine)
    for node in (0, 2):
        logs.propose(node, be_master(node, 1, 0))
    logs.run(5.0)
    chosen = [entry for entry in logs.entries() if isinstance(entry, ClaimMastership)]
    states = [one.state for one in logs.nodes]
    assert chosen and {state.master for state in states} == {chosen[0].node}
    assert len({state.version for state in states}) == 1 and logs.alike()


def test_a_value_withdrawn_before_it_is_sent_is_never_chosen(engine: ConsensusEngine) -> None:
    """A value that no other node knows is withdrawn; the previous one may still be chosen."""
    logs = Logs(engine)
    logs.cut.add(0)
    logs.propose(0, be_master(0, 1, 0))
    logs.propose(0, be_master(0, 2, 0))
    logs.nodes[0].log.discard_pending(ClaimMastership)
    logs.run(5.0)
    logs.cut.clear()
    logs.propose(0, batch(0, 1))
    logs.run(5.0)
    assert batch(0, 1) in logs.entries() and be_master(0, 2, 0) not in logs.entries()


def test_a_node_that_was_away_learns_chosen_values_and_continues(engine: ConsensusEngine) -> None:
    """From a snapshot, where the slots that it lacks are cut off; what it had proposed counts once."""
    logs = Logs(engine, snapshot_entries=10)
    logs.propose(0, batch(0, 1))
    logs.run(1.0)
    logs.cut.add(0)
    logs.propose(0, batch(0, 2))
    for sequence in range(1, BATCHES + 1):
        logs.propose(1, batch(1, sequence))
        logs.run(0.2)
    assert logs.counted(1, at=0) == []
    logs.cut.clear()
    logs.run(10.0)
    logs.propose(1, batch(1, BATCHES + 1))
    logs.run(10.0)
    assert [logs.counted(1, at=node) for node in range(3)] == [[*range(1, BATCHES + 2)]] * 3
    assert [logs.counted(0, at=node) for node in range(3)] == [[1, 2]] * 3


def test_a_new_incarnation_starts_from_the_log(engine: ConsensusEngine) -> None:
    """All nodes die; nothing that was applied is lost, and it is not applied otherwise."""
    logs = Logs(engine, snapshot_entries=10)
    for sequence in range(1, BATCHES + 1):
        logs.propose(1, batch(1, sequence))
        logs.run(0.1)
    logs.run(2.0)
    for node in range(3):
        logs.restart(node)
    logs.propose(2, batch(2, 1))
    logs.run(5.0)
    assert logs.counted(1) == [*range(1, BATCHES + 1)] and logs.counted(2) == [1] and logs.alike()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_lost_or_late_a_slot_has_one_value_and_batches_count_once(
    engine: ConsensusEngine, seed: int
) -> None:
    """Three nodes race for slots; answers are lost, watches are late, nodes are cut off and killed.

    Producers send again what does not count, as real ones do. `Logs` asserts at every applied entry that it
    is the next one, and what every other node has applied there.
    """
    logs = Logs(engine, seed, snapshot_entries=20)
    chance = logs.chance
    for step in range(60):
        logs.loss, logs.late_seconds = chance.choice((0.0, 0.2, 0.5)), chance.choice((0.0, 0.5, 3.0))
        logs.cut = {chance.randrange(3)} if chance.random() < 0.3 else set()
        if chance.random() < 0.1:
            logs.restart(chance.randrange(3))
        for node in range(3):
            state, stored = logs.nodes[node].state, len(logs.counted(node, at=node))
            for sequence in range(stored + 1, min(stored + 4, BATCHES + 1)):
                logs.propose(node, batch(node, sequence, state.fence))
            if chance.random() < 0.1:
                logs.nodes[node].log.discard_pending(ClaimMastership)
                logs.propose(node, be_master(node, step, state.version))
        logs.run(chance.random())
    logs.loss, logs.late_seconds, logs.cut = 0.0, 0.0, set()
    # A mastership is a fence: what was written under the one before counts no more.
    for _ in range(40):
        logs.run(2.0)
        for node in range(3):
            state, stored = logs.nodes[node].state, len(logs.counted(node, at=node))
            if stored < BATCHES:
                logs.propose(node, batch(node, stored + 1, state.fence))
    for count in range(3):  # whoever is behind and does not know it learns it by the next renewal
        logs.propose(0, be_master(0, 100 + count, logs.nodes[0].state.version))
        logs.run(5.0)
    assert logs.alike()
    assert [logs.counted(node) for node in range(3)] == [[*range(1, BATCHES + 1)]] * 3
    assert any(isinstance(entry, AppendMessages) for entry in logs.entries())

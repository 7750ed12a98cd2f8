"""Messages at a master: each is proposed once, and each is answered, however often it comes."""

from __future__ import annotations

from typing import Any

from support.masters_bench import Bench
from trimtab_store.core.messages import (
    Accept,
    AppendMessages,
    Chosen,
    GroupSnapshot,
    MessageRecord,
    ProduceRequest,
    ProduceResponse,
    Received,
)


def publish(sequence: int, attempt: int = 0) -> ProduceRequest:
    """A message of producer `p`."""
    return ProduceRequest("client", MessageRecord("t", "p", sequence, b""), attempt)


def proposed(bench: Bench) -> list[int]:
    """Note from now on which messages are proposed, in their order; each is sent to two others."""
    seen: list[int] = []

    def look(sender: Any, receiver: Any, message: Any) -> bool:
        if (
            isinstance(message, Accept)
            and isinstance(message.entry, AppendMessages)
            and receiver == (sender + 1) % 3
        ):
            seen.extend(record.sequence for record in message.entry.records)
        return False

    bench.holds = look
    return seen


def told(bench: Bench) -> list[tuple[int, str, int]]:
    """Sequence, verdict and attempt of all answers, in order."""
    answers = [one for _, _, one in bench.heard if isinstance(one, ProduceResponse)]
    return [(one.sequence, one.verdict, one.attempt) for one in answers]


def test_pending_or_stored_messages_are_not_proposed_again() -> None:
    """The answer goes to the last attempt; what is stored already is answered at once."""
    bench = Bench()
    master = bench.elected()
    seen = proposed(bench)
    bench.send(master, publish(1))
    bench.send(master, publish(2))
    bench.send(master, publish(1, attempt=3))
    bench.run(0.1)
    assert seen == [1, 2] and told(bench) == [(1, "stored", 3), (2, "stored", 0)]
    assert [one.attempt for one in bench.send(master, publish(2, attempt=4))] == [4]
    bench.run(0.1)
    assert seen == [1, 2] and told(bench)[2:] == [(2, "stored", 4)]


def test_messages_pending_under_an_old_fence_are_answered_and_may_be_resent() -> None:
    """The batch can no longer count, whichever node writes now."""
    bench = Bench()
    master = bench.elected()
    bench.holds = lambda sender, receiver, message: master in (sender, receiver)
    bench.send(master, publish(1, attempt=7))
    bench.run(bench.settings.lease_seconds + 2 * bench.settings.renewal_seconds)
    bench.let_go()
    bench.run(5.0)
    assert told(bench) == [(1, "moved", 7)]
    (master,) = bench.masters()
    bench.send(master, publish(1, attempt=8))
    bench.run(0.1)
    assert told(bench)[1:] == [(1, "stored", 8)]


def test_messages_skipped_by_a_snapshot_are_answered() -> None:
    """A batch that is chosen before one that is missing is never applied here, and leaves nothing behind."""
    bench = Bench(snapshot_entries=4)
    master = bench.elected()
    other = (master + 1) % 3
    bench.send(master, publish(1))
    bench.run(0.1)
    group = bench.nodes[master].groups[0]
    bench.holds = lambda sender, receiver, message: isinstance(message, Accept | Chosen)
    bench.send(master, publish(2, attempt=5))
    bench.run(0.1)
    assert list(group.produce_queue.pending) == [("t", "p", 2)]
    state = bench.nodes[other].groups[0].state.snapshot()
    bench.tell(master, Received(other, 0, GroupSnapshot(group.log.applied + 5, state)))
    assert group.produce_queue.pending == {} and told(bench)[1:] == [(2, "moved", 5)]

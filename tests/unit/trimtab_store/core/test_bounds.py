"""How large messages and entries may be: what no node takes, and what goes into several entries."""

from __future__ import annotations

import pytest

from support.masters_bench import Bench
from trimtab_store.core import paxos
from trimtab_store.core.messages import (
    ENTRY_BYTES,
    NAME_BYTES,
    PAYLOAD_BYTES,
    UNFIT,
    AppendMessages,
    CatchUp,
    Chosen,
    Entry,
    ForwardMessage,
    MessageRecord,
    OffsetCommitted,
    OffsetUpload,
    ProduceRequest,
    ProduceResponse,
    SyncOffsets,
    entry_bytes,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.paxos import PaxosLog
from trimtab_store.core.settings import StoreSettings
from trimtab_store.format.wire import encoded

LONG = "n" * NAME_BYTES


@pytest.mark.parametrize(
    "record",
    [
        MessageRecord("t", "p", 1, bytes(PAYLOAD_BYTES + 1)),
        MessageRecord("ä" * 128, "p", 1, b""),
        MessageRecord("t", LONG + "n", 1, b""),
        MessageRecord("t", "p", 0, b""),
        MessageRecord("t", "p", 1, "text"),  # type: ignore[arg-type]
    ],
    ids=["payload", "topic", "producer", "sequence", "text"],
)
def test_a_message_beyond_the_limits_is_rejected_by_every_node(record: MessageRecord) -> None:
    """By the master, by others, and when it is sent on; the group goes on, and holds nothing of it."""
    bench = Bench()
    master = bench.elected()
    for node in range(3):
        for message in (ProduceRequest("client", record), ForwardMessage(ProduceRequest("client", record))):
            (told,) = bench.send(node, message)
            assert told == ProduceResponse(*record[:3], UNFIT, master)
    largest = MessageRecord("t", LONG, 1, bytes(PAYLOAD_BYTES))
    bench.send(master, ProduceRequest("client", largest))
    bench.run(0.1)
    assert bench.nodes[master].groups[0].state.topics == {"t": [largest]}


def chosen(bench: Bench, kind: type) -> list[Entry]:
    """Entries of a kind that a node has accepted."""
    log = bench.nodes[0].groups[0].log
    assert isinstance(log, PaxosLog)
    return [entry for _, (_, entry) in sorted(log.acceptor.accepted.items()) if type(entry) is kind]


def test_many_small_messages_with_long_names_go_into_several_batches() -> None:
    """Payloads alone do not determine the size of a batch."""
    bench = Bench()
    master = bench.elected()
    count = 2 * ENTRY_BYTES // (2 * NAME_BYTES)
    for sequence in range(1, count + 1):
        bench.send(master, ProduceRequest("client", MessageRecord(LONG, LONG, sequence, b"")))
    bench.run(0.1)
    batches = chosen(bench, AppendMessages)
    assert len(batches) == 3 and max(map(entry_bytes, batches)) <= ENTRY_BYTES
    assert bench.nodes[0].groups[0].state.sequences == {(LONG, LONG): count}


def test_offsets_of_many_consumers_go_into_several_entries() -> None:
    """All of them are stored, and each consumer gets an answer."""
    bench = Bench()
    master = bench.elected()
    names = [f"{number:05}".rjust(NAME_BYTES, "n") for number in range(ENTRY_BYTES // NAME_BYTES)]
    for name in names:
        bench.send(master, OffsetUpload("client", name, LONG, 7, -1))
    bench.run(1.5)
    entries = chosen(bench, SyncOffsets)
    assert len(entries) >= 3 and max(map(entry_bytes, entries)) <= ENTRY_BYTES
    assert bench.nodes[0].groups[0].state.offsets == {(name, LONG): 7 for name in names}
    assert {one.consumer for _, _, one in bench.heard if isinstance(one, OffsetCommitted)} == {*names}


@pytest.mark.parametrize(
    "entry",
    [
        AppendMessages(1 << 62, tuple(MessageRecord("ä" * 127, LONG, 1 << 62, b"") for _ in range(2000))),
        AppendMessages(1, tuple(MessageRecord("t", "p", 1 << 40, bytes(PAYLOAD_BYTES)) for _ in range(16))),
        SyncOffsets(1 << 62, tuple((LONG, "€" * 85, 1 << 62) for _ in range(2000))),
    ],
    ids=["names", "payloads", "offsets"],
)
def test_an_entry_takes_no_more_than_is_reckoned(entry: AppendMessages | SyncOffsets) -> None:
    """What is taken to fit must fit: etcd counts the bytes of frames."""
    assert len(encoded(entry)) <= entry_bytes(entry) + 64


def test_a_lagging_node_receives_a_bounded_number_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the rest then; an answer larger than a frame could not be sent at all."""
    monkeypatch.setattr(paxos, "MAX_BATCH_BYTES", 1000)
    station = NodeContext(0, 1, 1, StoreSettings(), now=100.0)
    one = PaxosLog(station, 0, lambda slot, entry: None, tuple, lambda state: None)
    entries = [AppendMessages(slot, (MessageRecord("t", "p", slot, bytes(300)),)) for slot in range(1, 8)]
    large = AppendMessages(8, (MessageRecord("t", "p", 8, bytes(5000)),))
    one._learn(1, (*entries, large))
    station.orders.clear()
    for since, told in ((1, entries[:2]), (7, entries[6:]), (8, [large])):
        one.received(1, CatchUp(since))
        assert station.orders.pop().message == Chosen(since, tuple(told))  # type: ignore[union-attr]

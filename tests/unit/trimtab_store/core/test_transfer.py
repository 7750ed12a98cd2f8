"""Masterships and transfers on three nodes whose messages and disks do as a test says."""

from __future__ import annotations

from typing import Any

import pytest

from support.masters_bench import Bench
from trimtab_store.core.messages import (
    Accept,
    Accepted,
    AcquireToken,
    AppendMessages,
    Chosen,
    ClaimMastership,
    ClientDisconnected,
    Commit,
    ConfirmReady,
    DescribeGroup,
    FetchRequest,
    FetchResponse,
    ForwardMessage,
    GroupStatus,
    MessageRecord,
    NodeHeartbeat,
    OffsetCommitted,
    OffsetUpload,
    Prepare,
    ProduceRequest,
    ProduceResponse,
    Received,
    RequestOffset,
    StartTransfer,
    SyncOffsets,
    TransferMastership,
)
from trimtab_store.core.paxos import PaxosLog
from trimtab_store.core.settings import TransferScheme
from trimtab_store.core.token import CLUSTER
from trimtab_store.core.transfer import TransferPhase


def publish(sequence: int) -> ProduceRequest:
    """A message."""
    return ProduceRequest("client", MessageRecord("t", "p", sequence, b""))


def pull(number: int = 1, offset: int = -1) -> FetchRequest:
    """A question of a consumer."""
    return FetchRequest("client", "c", "t", number, offset, 10)


def proposes(message: Any, kind: type) -> bool:
    """Whether a message asks to accept an entry of a kind."""
    return isinstance(message, Accept) and isinstance(message.entry, kind)


def test_no_node_is_master_before_a_whole_lease_has_passed() -> None:
    """A starting node cannot know whether there is one; then one of them becomes master, and renews."""
    bench = Bench()
    bench.run(bench.settings.lease_seconds - 0.01)
    assert bench.masters() == []
    master = bench.elected()
    for _ in range(20):
        bench.run(1.0)
        assert bench.masters() == [master]


def test_the_master_stores_and_others_name_it() -> None:
    """A consumer hears the same."""
    bench = Bench()
    master = bench.elected()
    other = (master + 1) % 3
    assert bench.send(other, publish(1)) == [ProduceResponse("t", "p", 1, "moved", master)]
    bench.send(master, publish(1))
    bench.run(0.1)
    assert bench.heard[-1] == (master, 0, ProduceResponse("t", "p", 1, "stored", master))
    (told,) = bench.send(master, pull())
    assert told == FetchResponse("c", "t", 1, "stored", 0, (publish(1).record,), master)
    (told,) = bench.send(other, pull())
    assert (told.verdict, told.master) == ("moved", master)


def test_each_node_reports_the_status_of_a_group() -> None:
    """The sender of the query is no client of the group: a transfer does not wait for it."""
    bench = Bench()
    master = bench.elected()
    bench.send(master, publish(1))
    bench.run(0.1)
    told = {node: bench.send(node, DescribeGroup("client"))[0] for node in range(3)}
    assert all(isinstance(one, GroupStatus) for one in told.values())
    assert [(one.master, one.messages) for one in told.values()] == [(master, 1)] * 3
    assert [node for node, one in told.items() if one.holds] == [master]
    assert bench.nodes[master].groups[0].consumer_sessions.consumers == {}


def test_values_chosen_after_the_term_are_not_acknowledged_by_the_previous_master() -> None:
    """It may be stored; another may be master by then, and answers when it is sent again."""
    bench = Bench()
    master = bench.elected()
    bench.holds = lambda sender, receiver, message: receiver == master
    bench.send(master, publish(1))
    bench.run(0.1)
    bench.now += bench.settings.lease_seconds
    bench.heard.clear()
    bench.let_go()
    verdicts = [
        told.verdict for node, _, told in bench.heard if node == master and isinstance(told, ProduceResponse)
    ]
    assert verdicts == ["moved"]


def test_offsets_chosen_after_the_term_are_not_confirmed_by_the_previous_master() -> None:
    """It is stored; the next master confirms it when it is uploaded again."""
    bench = Bench()
    master = bench.elected()
    bench.holds = lambda sender, receiver, message: receiver == master
    bench.send(master, OffsetUpload("client", "c", "t", 1, -1, leaves=True))
    bench.now += bench.settings.lease_seconds
    bench.heard.clear()
    bench.let_go()
    assert bench.nodes[master].groups[0].state.offsets == {("c", "t"): 1}
    assert not any(isinstance(told, OffsetCommitted) for _, _, told in bench.heard)


def test_a_killed_masters_group_is_anothers_after_the_lease_and_everything_is_there() -> None:
    """And the killed one, restarted from its log, is master of nothing."""
    bench = Bench()
    master = bench.elected()
    bench.send(master, publish(1))
    bench.run(0.1)
    bench.down.add(master)
    bench.run(bench.settings.lease_seconds + bench.settings.renewal_seconds + 0.5)
    (now,) = bench.masters()
    assert now != master
    (told,) = bench.send(now, pull())
    assert [one.sequence for one in told.records] == [1]
    bench.restart(master, incarnation=2)
    bench.run(1.0)
    assert bench.masters() == [now]


@pytest.mark.parametrize("scheme", list(TransferScheme))
def test_the_preferred_node_becomes_master(scheme: TransferScheme) -> None:
    """By every scheme; nothing of the transfer is left anywhere, and the token is free again."""
    bench = Bench(scheme=scheme)
    master = bench.elected()
    preferred = (master + 1) % 3
    bench.publish_map(*[preferred])
    bench.run(bench.settings.cycle_seconds)
    assert bench.masters() == [preferred]
    for node in bench.nodes:
        group = node.groups[0]
        assert (
            group.outgoing_transfer is None
            and group.incoming_transfer is None
            and node.token.group == CLUSTER
        )


def begun(**settings: Any) -> tuple[Bench, int, int]:
    """A transfer of a group whose consumer was asked for its offset; current master and preferred node."""
    bench = Bench(**settings)
    master = bench.elected()
    preferred = (master + 1) % 3
    bench.send(master, publish(1))
    bench.run(0.1)
    bench.send(master, pull())
    bench.publish_map(*[preferred])
    while bench.nodes[master].groups[0].outgoing_transfer is None:
        bench.run(0.1)
    return bench, master, preferred


def asked(bench: Bench) -> RequestOffset:
    """The question to the consumer."""
    return next(told for _, _, told in reversed(bench.heard) if isinstance(told, RequestOffset))


def phase(bench: Bench, node: int) -> TransferPhase | None:
    """How far a transfer is at its current master."""
    current_master = bench.nodes[node].groups[0].outgoing_transfer
    return None if current_master is None else current_master.phase


def test_only_an_answer_to_the_request_is_an_upload_of_the_transfer() -> None:
    """An upload sent before may be overtaken by messages received with it."""
    bench, master, _ = begun()
    bench.send(master, OffsetUpload("client", "c", "t", 0, -1))
    bench.send(master, OffsetUpload("client", "c", "t", 0, asked(bench).cycle - 1))
    assert phase(bench, master) is TransferPhase.UPLOADING
    bench.send(master, OffsetUpload("client", "c", "t", 1, asked(bench).cycle))
    assert phase(bench, master) is not TransferPhase.UPLOADING


def test_no_consumer_receives_messages_from_the_current_master_during_a_transfer() -> None:
    """It would get it again from the next master."""
    bench, master, _ = begun()
    (told,) = bench.send(master, pull(2, 0))
    assert told.verdict == "wait" and told.records == ()


def test_a_consumer_that_does_not_answer_is_awaited_for_a_limited_time() -> None:
    """Then it goes on, and the transfer is not called clean."""
    bench, master, preferred = begun()
    bench.holds = lambda sender, receiver, message: isinstance(message, ConfirmReady)
    bench.run(bench.settings.upload_seconds + 0.3)
    current_master = bench.nodes[master].groups[0].outgoing_transfer
    assert (
        current_master is not None
        and current_master.phase is TransferPhase.CHECKING
        and not current_master.clean
    )
    bench.let_go()
    bench.run(1.0)
    assert bench.masters() == [preferred]


def test_a_departed_consumer_is_neither_requested_nor_awaited() -> None:
    """Its offset is kept at once; another one of the name, whose client is another, is still there."""
    bench = Bench()
    master = bench.elected()
    bench.send(master, publish(1))
    bench.run(0.1)
    bench.send(master, pull())
    bench.send(master, OffsetUpload("another", "c", "t", 0, -1, leaves=True))
    readers = bench.nodes[master].groups[0].consumer_sessions
    assert [*readers.consumers] == [("c", "t")]
    (kept,) = bench.send(master, OffsetUpload("client", "c", "t", 1, -1, leaves=True))
    assert kept == OffsetCommitted("c", "t", 1) and readers.consumers == {}
    (kept,) = bench.send(master, OffsetUpload("client", "c", "t", 1, -1, leaves=True))
    assert kept == OffsetCommitted("c", "t", 1) and bench.nodes[master].groups[0].log.in_flight == ()
    bench.run(bench.settings.cycle_seconds)
    begun = bench.now
    bench.publish_map((master + 1) % 3)
    bench.run_until(lambda: bench.masters() == [(master + 1) % 3])
    # The next beat, and no second of waiting behind it.
    assert bench.now - begun < bench.settings.renewal_seconds / 2 + 0.1
    assert not any(isinstance(told, RequestOffset) for _, _, told in bench.heard)


def test_a_disconnected_consumer_is_not_awaited_and_the_transfer_is_not_clean() -> None:
    """It may have received more than it has uploaded. If it returns it gets a request, as before."""
    bench, master, preferred = begun()
    bench.holds = lambda sender, receiver, message: isinstance(message, ConfirmReady)
    bench.tell(master, ClientDisconnected("another"))
    assert phase(bench, master) is TransferPhase.UPLOADING
    bench.tell(master, ClientDisconnected("client"))
    group = bench.nodes[master].groups[0]
    assert (
        group.outgoing_transfer is not None
        and group.outgoing_transfer.phase is TransferPhase.CHECKING
        and not group.outgoing_transfer.clean
    )
    bench.let_go()
    bench.run(1.0)
    assert bench.masters() == [preferred] and group.consumer_sessions.departed == set()


def test_a_reconnected_consumer_gets_a_new_request() -> None:
    """What it read in between counts for it, and the transfer may be clean."""
    bench = Bench()
    master = bench.elected()
    bench.send(master, pull())
    readers = bench.nodes[master].groups[0].consumer_sessions
    bench.tell(master, ClientDisconnected("client"))
    assert (readers.consumers, readers.departed) == ({}, {("c", "t")})
    bench.send(master, pull(2))
    assert (readers.consumers, readers.departed) == ({("c", "t"): "client"}, set())


def test_late_messages_of_an_earlier_incarnation_do_not_replace_the_current_one() -> None:
    """A killed process may have sent messages that arrive after the first ones of its successor."""
    bench = Bench()
    master = bench.elected()
    readers, key = bench.nodes[master].groups[0].consumer_sessions, ("c", "t")
    bench.send(master, pull()._replace(client="later"))
    bench.send(master, pull(7, offset=3))
    bench.send(master, OffsetUpload("client", "c", "t", 1, -1, leaves=True))
    assert readers.consumers == {key: "later"}
    assert not readers.all_known, "the later pull of the two cannot be told"
    bench.tell(master, ClientDisconnected("client"))
    assert not readers.all_known
    bench.send(master, pull(2, offset=3)._replace(client="later"))
    assert readers.all_known


def test_a_consumer_that_starts_next_to_another_gets_a_request_and_the_transfer_is_not_clean() -> None:
    """Its first question may itself be late, and the other one may read on."""
    bench = Bench()
    master = bench.elected()
    readers, key = bench.nodes[master].groups[0].consumer_sessions, ("c", "t")
    bench.send(master, pull())
    bench.send(master, pull()._replace(client="later"))
    assert (readers.consumers, readers.all_known) == ({key: "later"}, False)
    bench.send(master, OffsetUpload("later", "c", "t", 0, -1, leaves=True))
    assert (readers.consumers, readers.all_known) == ({}, False)
    bench.send(master, pull(2, offset=0))
    assert (readers.consumers, readers.all_known) == ({key: "client"}, True)


def test_a_consumer_that_leaves_on_request_is_no_longer_awaited() -> None:
    """It accepts no further message, so its last offset is correct."""
    bench, master, preferred = begun()
    bench.send(master, OffsetUpload("client", "c", "t", 1, -1, leaves=True))
    assert phase(bench, master) is not TransferPhase.UPLOADING
    bench.run(0.5)
    assert bench.masters() == [preferred] and bench.nodes[preferred].groups[0].state.offsets == {
        ("c", "t"): 1
    }


def test_a_late_goodbye_of_another_incarnation_answers_nothing() -> None:
    """It arrives by another connection, and does not cover later messages of the consumer."""
    bench, master, _ = begun()
    bench.send(master, OffsetUpload("another", "c", "t", 0, -1, leaves=True))
    assert phase(bench, master) is TransferPhase.UPLOADING


def test_offsets_are_chosen_before_the_preferred_node_is_checked() -> None:
    """The next master must know them."""
    bench, master, preferred = begun()
    bench.holds = lambda sender, receiver, message: proposes(message, SyncOffsets)
    bench.send(master, OffsetUpload("client", "c", "t", 1, asked(bench).cycle))
    bench.run(0.5)
    assert phase(bench, master) is TransferPhase.SYNCING
    bench.let_go()
    bench.run(1.0)
    assert bench.masters() == [preferred]
    assert OffsetCommitted("c", "t", 1) in [told for _, _, told in bench.heard]
    (told,) = bench.send(preferred, pull(3))
    assert (told.verdict, told.offset) == ("stored", 1)


def test_the_preferred_node_is_ready_once_it_has_applied_all_of_the_masters_entries() -> None:
    """And reports it at that moment, without another request."""
    bench, master, preferred = begun()
    bench.holds = lambda sender, receiver, message: (
        receiver == preferred and isinstance(message, Commit | Chosen)
    )
    bench.send(master, OffsetUpload("client", "c", "t", 1, asked(bench).cycle))
    bench.run(0.1)
    assert phase(bench, master) is TransferPhase.CHECKING
    bench.holds = lambda sender, receiver, message: isinstance(message, ConfirmReady)
    held, bench.held = bench.held, []
    for sender, receiver, group, message in held:
        assert isinstance(receiver, int)
        bench.tell(receiver, Received(sender, group, message))
    assert bench.masters() == [preferred]


def test_the_master_gives_up_authority_before_it_proposes_the_transfer() -> None:
    """Whether the proposal is chosen cannot be known in time: only a later mastership gives it back."""
    bench, master, preferred = begun()
    bench.holds = lambda sender, receiver, message: proposes(message, TransferMastership)
    bench.send(master, OffsetUpload("client", "c", "t", 1, asked(bench).cycle))
    bench.run(0.3)
    assert phase(bench, master) is TransferPhase.HANDING and bench.masters() == []
    bench.let_go()
    bench.run(0.5)
    assert bench.masters() == [preferred]


def test_messages_sent_during_a_transfer_are_stored_by_the_preferred_node() -> None:
    """Their producer gets the response from that node, without an error."""
    bench, master, preferred = begun()
    bench.holds = lambda sender, receiver, message: proposes(message, TransferMastership)
    bench.send(master, OffsetUpload("client", "c", "t", 1, asked(bench).cycle))
    bench.run(0.3)
    bench.heard.clear()
    assert bench.send(master, publish(2)) == []
    bench.let_go()
    bench.run(0.5)
    told = [(node, told.verdict) for node, _, told in bench.heard if isinstance(told, ProduceResponse)]
    assert told == [(preferred, "stored")]


def test_a_preferred_node_that_dies_after_the_transfer_delays_others_by_at_most_a_lease() -> None:
    """All others leave the group to it for that long, and then one of them is master."""
    bench, master, preferred = begun()
    bench.holds = lambda sender, receiver, message: sender == preferred and proposes(message, ClaimMastership)
    bench.send(master, OffsetUpload("client", "c", "t", 1, asked(bench).cycle))
    bench.run(0.1)
    assert bench.nodes[master].groups[0].state.preferred == preferred
    bench.down.add(preferred)
    bench.run(bench.settings.lease_seconds + bench.settings.renewal_seconds + 1.0)
    (now,) = bench.masters()
    assert now != preferred


def test_a_lagging_preferred_node_becomes_no_master() -> None:
    """Its consumers would get less than was there; it catches up, and the group is left alone."""
    bench = Bench(max_lag_entries=1)
    master = bench.elected()
    bench.run(bench.settings.cycle_seconds)  # a node that starts leaves the token alone for so long
    preferred = (master + 1) % 3

    # The log of the token goes on, or no transfer would begin whoever is behind.
    def hold(sender: int | str, receiver: int | str, message: Any) -> bool:
        told = message.entries if isinstance(message, Chosen) else [getattr(message, "entry", None)]
        return receiver == preferred and any(isinstance(one, AppendMessages) for one in told)

    bench.holds = hold
    for sequence in range(1, 10):
        bench.send(master, publish(sequence))
        bench.run(0.05)
    started = []
    bench.holds = lambda sender, receiver, message: (
        bool(started.append(message))
        if isinstance(message, StartTransfer)
        else hold(sender, receiver, message)
    )
    bench.publish_map(*[preferred])
    bench.run(4.0)
    assert bench.masters() == [master] and started == []
    bench.let_go()
    bench.run(bench.settings.backoff_seconds + 10.0)
    assert bench.masters() == [preferred]


def test_groups_are_taken_over_one_after_another() -> None:
    """Never two at the same time in the cluster."""
    bench = Bench(groups=4)
    bench.run(bench.settings.lease_seconds + bench.settings.renewal_seconds)
    masters = [bench.masters(group)[0] for group in range(4)]
    preferred = [(master + 1) % 3 for master in masters]
    bench.publish_map(*preferred)
    seen: set[tuple[int, ...]] = set()

    def look(sender: object, receiver: object, message: object) -> bool:
        groups = [group for node in bench.nodes for group in node.groups]
        seen.add(tuple({one.number for one in groups if one.outgoing_transfer or one.incoming_transfer}))
        return False

    bench.holds = look
    bench.run(30.0)
    assert seen == {(), (0,), (1,), (2,), (3,)}
    assert [bench.masters(group)[0] for group in range(4)] == preferred


def test_of_two_nodes_that_want_the_token_the_first_that_is_chosen_has_it() -> None:
    """The other one claimed after an outdated version."""
    bench = Bench(groups=2)
    bench.run(bench.settings.cycle_seconds + 1.0)
    token = bench.nodes[0].token
    version = token.version
    nonce = token.lease.new_proposal()
    token._apply(version + 1, AcquireToken(0, 0, nonce, version))
    assert token.group == 0 and token.lease.held
    token._apply(version + 2, AcquireToken(1, 1, (99, 1), version))
    assert token.group == 0 and token.lease.held
    token._apply(version + 3, AcquireToken(1, 1, (99, 2), version + 1))
    assert token.group == CLUSTER and not token.lease.held


def test_the_token_counts_from_before_its_request() -> None:
    """All other nodes count from learning the holder, and may acquire it after that."""
    bench = Bench()
    bench.run(bench.settings.cycle_seconds + 1.0)
    token, station = bench.nodes[0].token, bench.nodes[0].context
    nonce, asked_at = token.lease.new_proposal(), station.now
    station.now += 3.0
    token._apply(token.version + 1, AcquireToken(0, 0, nonce, token.version))
    assert token.lease.own_until == asked_at + bench.settings.cycle_seconds * (1 - bench.settings.margin)


def test_a_message_that_was_forwarded_in_vain_is_sent_back() -> None:
    """The transfer fails, and the producer is referred to the current master."""
    bench, master, preferred = begun()
    bench.heard.clear()
    bench.tell(preferred, Received(master, 0, ForwardMessage(publish(2))))
    assert bench.heard == []
    bench.run(2 * bench.settings.propose_seconds)
    assert (preferred, 0, ProduceResponse("t", "p", 2, "moved", master)) in bench.heard


def test_a_client_that_speaks_as_a_node_is_passed_over() -> None:
    """It may neither request the token nor exclude nodes; and the node continues."""
    bench = Bench()
    master = bench.elected()
    for message in (NodeHeartbeat((0,), 1, 7), Commit((1, 0), 1, 1), AcquireToken(0, 0, (1, 1), 0)):
        bench.tell(master, Received("client", CLUSTER, message))
        bench.tell(master, Received("client", 0, message))
    bench.run(20.0)
    assert bench.masters() == [master]


def test_values_that_wait_for_a_slot_are_discarded_with_a_new_fence() -> None:
    """It names a fence that is over, and would be void wherever it is chosen; producers send it again."""
    bench = Bench()
    master = bench.elected()
    log = bench.nodes[master].groups[0].log
    bench.holds = lambda sender, receiver, message: master in (sender, receiver) and sender != receiver
    for sequence in range(1, 4 * bench.settings.window):
        bench.send(master, publish(sequence))
        bench.nodes[master].groups[0].produce_queue.flush()
    assert isinstance(log, PaxosLog)
    assert any(isinstance(entry, AppendMessages) for entry in log.proposer.waiting)
    bench.run(bench.settings.lease_seconds + bench.settings.renewal_seconds)
    assert bench.masters() and bench.masters() != [master]
    bench.held.clear()
    # It hears again, and nobody hears it: it learns who is master before it can propose anything.
    bench.holds = lambda sender, receiver, message: sender == master and isinstance(message, Accept | Prepare)
    bench.run(2 * bench.settings.renewal_seconds)
    assert bench.nodes[master].groups[0].state.master == bench.masters()[0]
    assert not any(isinstance(entry, AppendMessages | SyncOffsets) for entry in log.proposer.waiting)


def test_under_the_first_scheme_the_preferred_node_tries_first() -> None:
    """It waits for the term's end, and then for its turn: the others leave the group alone until then."""
    bench = Bench(scheme=TransferScheme.AWAIT)
    master = bench.elected()
    preferred = (master + 1) % 3
    bench.publish_map(preferred)
    while bench.nodes[0].groups[0].state.preferred != preferred:
        bench.run(0.01)
    handed_at, settings = bench.now, bench.settings
    for node in {0, 1, 2} - {preferred}:
        left = bench.nodes[node].groups[0].lease.others_until - handed_at
        assert left == pytest.approx(settings.lease_seconds + settings.renewal_seconds, abs=0.05)
    bench.run(settings.lease_seconds + settings.renewal_seconds)
    assert bench.masters() == [preferred]


def test_a_transfer_found_after_a_term_causes_no_further_wait() -> None:
    """Its current master is gone, and the preferred node's term is over when it is chosen."""
    bench, master, preferred = begun(scheme=TransferScheme.INSTATE)
    bench.holds = lambda sender, receiver, message: (
        isinstance(message, Accepted) and sender != master and phase(bench, master) is TransferPhase.HANDING
    )
    bench.send(master, OffsetUpload("client", "c", "t", 1, asked(bench).cycle))
    assert phase(bench, master) is TransferPhase.HANDING and len(bench.held) == 2
    bench.down.add(master)
    bench.holds = lambda sender, receiver, message: isinstance(receiver, int) and sender != receiver
    bench.run(bench.settings.lease_seconds)
    assert bench.nodes[preferred].groups[0].state.master == master
    bench.held.clear()
    bench.let_go()
    bench.run(2 * bench.settings.renewal_seconds + 1.0)
    assert bench.nodes[preferred].groups[0].state.master != master and len(bench.masters()) == 1

"""Acceptor, proposer and learner of a group, message by message."""

from __future__ import annotations

from typing import Any

from trimtab_store.core.messages import (
    Accept,
    Accepted,
    AcceptedAt,
    AppendMessages,
    CatchUp,
    Chosen,
    ChosenUpTo,
    ClaimMastership,
    Commit,
    GroupSnapshot,
    NoOp,
    Prepare,
    Promise,
    Promised,
    Rejected,
    SendMessage,
    WriteLog,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.paxos import Acceptor, PaxosLog
from trimtab_store.core.settings import StoreSettings

A, B, C = (AppendMessages(1, ()), AppendMessages(2, ()), AppendMessages(3, ()))


def station(node: int = 0) -> NodeContext:
    """A node of three."""
    return NodeContext(node, 3, 1, StoreSettings(snapshot_entries=4), now=100.0)


class Learnt:
    """A replica whose applied values are kept."""

    def __init__(self, node: int = 0) -> None:
        self.context = station(node)
        self.applied: list[tuple[int, Any]] = []
        self.replica = PaxosLog(self.context, 0, self._apply, lambda: tuple(self.applied), self._restore)

    def _apply(self, slot: int, entry: Any) -> None:
        self.applied.append((slot, entry))

    def _restore(self, state: tuple[Any, ...]) -> None:
        self.applied = list(state)

    def take(self) -> list[Any]:
        """Orders since the last time."""
        orders, self.context.orders = self.context.orders, []
        return orders

    def hear(self, sender: int, message: Any) -> list[Any]:
        """Take a message in; the orders that follow."""
        assert self.replica.received(sender, message)
        return self.take()

    def leading(self) -> Learnt:
        """Make it the leader of an empty log."""
        self.replica.propose(A)
        self.take()
        ballot = self.replica.proposer.ballot
        for node in (0, 1):
            self.hear(node, Promise(ballot, 1, ()))
        assert self.replica.proposer.leads
        return self


def sends(orders: list[Any], kind: type) -> list[SendMessage]:
    """The messages of a kind."""
    return [one for one in orders if isinstance(one, SendMessage) and isinstance(one.message, kind)]


def test_a_promise_is_written_and_sent_when_the_disk_has_it() -> None:
    """One that a power cut takes back has let two proposers through."""
    one = station(2)
    acceptor = Acceptor(one, 0)
    acceptor.prepare(0, Prepare((1, 0), 1))
    assert one.orders == [
        WriteLog(0, Promised((1, 0))),
        SendMessage(0, 0, Promise((1, 0), 1, ()), True),
    ]


def test_an_acceptance_is_written_and_sent_when_the_disk_has_it() -> None:
    """The proposer counts it as one that stays."""
    one = station(2)
    acceptor = Acceptor(one, 0)
    acceptor.handle_accept(0, Accept((1, 0), 1, A), 0)
    assert one.orders == [
        WriteLog(0, Promised((1, 0))),
        WriteLog(0, AcceptedAt(1, (1, 0), A)),
        SendMessage(0, 0, Accepted((1, 0), 1), True),
    ]


def test_a_lower_ballot_is_refused() -> None:
    """Neither promised nor accepted."""
    one = station(2)
    acceptor = Acceptor(one, 0)
    acceptor.prepare(1, Prepare((5, 1), 1))
    one.orders.clear()
    acceptor.prepare(0, Prepare((4, 0), 1))
    acceptor.handle_accept(0, Accept((4, 0), 1, A), 0)
    assert one.orders == [SendMessage(0, 0, Rejected((5, 1)), False)] * 2
    assert acceptor.accepted == {}


def test_a_promise_contains_all_accepted_values() -> None:
    """From the requested slot on."""
    one = station(2)
    acceptor = Acceptor(one, 0)
    for slot, entry in enumerate((A, B, C), 1):
        acceptor.handle_accept(0, Accept((1, 0), slot, entry), 0)
    one.orders.clear()
    acceptor.prepare(1, Prepare((2, 1), 2))
    (answer,) = sends(one.orders, Promise)
    assert answer.message.accepted == ((2, (1, 0), B), (3, (1, 0), C))


def test_a_ballot_is_proposed_once_the_own_promise_is_on_disk() -> None:
    """A later incarnation must not use it again."""
    one = Learnt()
    one.replica.propose(A)
    orders = one.take()
    assert orders[0] == WriteLog(0, Promised((1, 0)))
    assert [(order.to, order.synced) for order in sends(orders, Prepare)] == [(1, True), (2, True)]


def test_a_proposer_continues_with_values_that_others_accepted() -> None:
    """Of a slot the value of the highest ballot, for it may be chosen; a hole is filled with nothing."""
    one = Learnt()
    one.replica.propose(C)
    one.take()
    ballot = one.replica.proposer.ballot
    one.hear(1, Promise(ballot, 1, ((1, (0, 1), A), (3, (0, 1), A))))
    orders = one.hear(2, Promise(ballot, 1, ((1, (0, 2), B),)))
    told = {order.message.slot: order.message.entry for order in sends(orders, Accept)}
    assert told == {1: B, 2: NoOp(), 3: A, 4: C}


def test_a_proposer_that_lacks_a_snapshot_proposes_nothing() -> None:
    """Those slots look empty, and are chosen."""
    one = Learnt()
    one.replica.propose(A)
    one.take()
    ballot = one.replica.proposer.ballot
    orders = one.hear(1, Promise(ballot, 9, ()))
    orders += one.hear(2, Promise(ballot, 1, ()))
    orders += one.hear(0, Promise(ballot, 1, ()))
    assert sends(orders, Accept) == [] and sends(orders, CatchUp) == [SendMessage(1, 0, CatchUp(1), False)]


def test_a_value_is_chosen_when_a_majority_has_it_the_proposer_itself_included() -> None:
    """Its own counts when its own disk has it."""
    one = Learnt().leading()
    ballot = one.replica.proposer.ballot
    one.hear(2, Accepted(ballot, 1))
    assert one.applied == []
    orders = one.hear(0, Accepted(ballot, 1))
    assert one.applied == [(1, A)]
    assert WriteLog(0, ChosenUpTo(1)) in orders
    assert [order.message for order in sends(orders, Commit)] == [Commit(ballot, 1, 1)] * 2


def test_the_same_answer_twice_is_one() -> None:
    """Messages may come doubled."""
    one = Learnt().leading()
    ballot = one.replica.proposer.ballot
    one.hear(2, Accepted(ballot, 1))
    one.hear(2, Accepted(ballot, 1))
    assert one.applied == []


def test_an_answer_to_another_ballot_counts_for_nothing() -> None:
    """What was accepted under an earlier one may have been another value."""
    one = Learnt().leading()
    round_, node = one.replica.proposer.ballot
    for sender in (1, 2):
        one.hear(sender, Accepted((round_ - 1, node), 1))
    assert one.applied == []


def test_a_proposer_that_is_outdone_proposes_batches_again_and_masterships_never() -> None:
    """What was under way may be chosen or not: a batch counts once, an old wish to be master must not."""
    one = Learnt().leading()
    one.replica.propose(ClaimMastership(0, (1, 1), 0))
    one.replica.propose(B)
    one.take()
    one.hear(1, Rejected((9, 1)))
    assert not one.replica.proposer.leads
    assert list(one.replica.proposer.waiting) == [A, B]


def test_of_several_values_in_a_slot_the_highest_ballot_counts() -> None:
    """That value may be chosen; one of a lower ballot is not, or it would be the same."""
    for first, second in (((0, 1), (0, 2)), ((0, 2), (0, 1))):
        one = Learnt()
        one.replica.propose(A)
        ballot = one.replica.proposer.ballot
        one.hear(0, Promise(ballot, 1, ((1, first, B if first > second else C),)))
        one.hear(1, Promise(ballot, 1, ((1, second, B if second > first else C),)))
        assert one.replica.proposer.in_flight[1].entry == B


def test_an_outdone_proposer_leaves_found_values_to_the_other() -> None:
    """Nodes that outdo one another would double it each time, and go on for what is left of it."""
    one = Learnt()
    one.replica.propose(A)
    ballot = one.replica.proposer.ballot
    one.hear(0, Promise(ballot, 1, ()))
    one.hear(1, Promise(ballot, 1, ((1, (0, 1), B),)))
    assert [each.entry for each in one.replica.proposer.in_flight.values()] == [B, A]
    one.hear(1, Rejected((9, 1)))
    assert list(one.replica.proposer.waiting) == [A]


def test_a_commit_covers_only_values_accepted_under_its_ballot() -> None:
    """The same slot may hold another ballot's value, which was not chosen."""
    one = Learnt(2)
    one.hear(1, Accept((1, 1), 1, A))
    orders = one.hear(0, Commit((2, 0), 1, 1))
    assert one.applied == [] and len(sends(orders, CatchUp)) == 1
    one.hear(0, Accept((2, 0), 1, B))
    one.hear(0, Commit((2, 0), 1, 1))
    assert one.applied == [(1, B)]


def test_values_are_applied_in_order_once() -> None:
    """In any order of arrival."""
    one = Learnt(2)
    one.hear(0, Accept((1, 0), 2, B))
    one.hear(0, Commit((1, 0), 2, 2))
    assert one.applied == []
    one.context.now += 1
    one.hear(0, Chosen(1, (A, B)))
    one.hear(0, Chosen(1, (A, B)))
    assert one.applied == [(1, A), (2, B)]


def test_a_lagging_node_receives_entries_or_a_snapshot() -> None:
    """A snapshot where the log is cut off; the newest half of it stays."""
    one = Learnt().leading()
    ballot = one.replica.proposer.ballot
    for slot in range(1, 7):
        one.replica.propose(B)
        for node in (0, 1):
            one.hear(node, Accepted(ballot, slot))
    (told,) = sends(one.hear(1, CatchUp(5)), Chosen)
    assert told.message.since == 5
    (told,) = sends(one.hear(1, CatchUp(1)), GroupSnapshot)
    other = Learnt(1)
    other.hear(0, told.message)
    assert other.applied == one.applied


def test_a_slow_receiver_lengthens_its_request_interval() -> None:
    """Each answer may be large: who asks every 0.2 s for what is under way never gets done with it."""
    one = Learnt(2)
    lease_seconds = one.context.settings.lease_seconds

    def asked(seconds: float, upto: int) -> int:
        """Questions for what the leader has, in so long."""
        count = 0
        for _ in range(round(seconds / 0.1)):
            one.context.now += 0.1
            count += len(sends(one.hear(0, Commit((1, 0), upto, upto)), CatchUp))
        return count

    assert asked(0.1, 2) == 1, "the first question goes at once"
    assert 4 <= asked(6.5, 2) <= 6, "0.2, 0.4, 0.8, 1.6 and 3.2 s behind one another"
    assert 5 <= asked(5.5 * lease_seconds, 2) <= 6, "and then once a lease"
    while not asked(0.1, 2):
        pass
    one.hear(0, Chosen(1, (A, B)))
    assert asked(0.3, 9) == 1, "who is answered asks on"
    assert asked(lease_seconds - 1.0, 9) == 0, "and waits as long as for the answer before"
    counts = []
    for slot in range(3, 83):
        one.hear(0, Chosen(slot, (A,)))
        counts.append(asked(0.1, 99))
    assert 3 <= sum(counts[-10:]) <= 5, "who is answered at once asks every 0.2 s"
    one.context.now += 3 * lease_seconds
    one.hear(0, Chosen(83, (A,)))
    assert asked(0.1, 99) == 1
    assert asked(0.3, 99) == 1, "a wait of before counts no more when it is behind another time"


def test_an_early_request_is_repeated_later() -> None:
    """No further notification may tell this node that it lags."""
    one = Learnt(2)
    assert len(sends(one.hear(0, Commit((1, 0), 2, 2)), CatchUp)) == 1
    assert one.replica.next_deadline() == float("inf")
    one.hear(0, Chosen(1, (A,)))
    assert sends(one.hear(1, Commit((2, 1), 3, 3)), CatchUp) == []
    one.context.now = one.replica.next_deadline()
    one.replica.tick()
    assert sends(one.take(), CatchUp) == [SendMessage(1, 0, CatchUp(2), False)]
    assert one.replica.next_deadline() == float("inf")


def test_a_new_incarnation_continues_from_the_log() -> None:
    """Promises hold, accepted values are there, and what was chosen is applied."""
    one = Learnt(2)
    orders = one.hear(0, Accept((3, 0), 1, A)) + one.hear(0, Accept((3, 0), 2, B))
    orders += one.hear(0, Commit((3, 0), 1, 1))
    other = Learnt(2)
    other.replica.recover([order.written for order in orders if isinstance(order, WriteLog)])
    assert other.applied == [(1, A)]
    other.take()
    assert other.hear(1, Prepare((2, 1), 1)) == [SendMessage(1, 0, Rejected((3, 0)), False)]
    (answer,) = sends(other.hear(1, Prepare((4, 1), 2)), Promise)
    assert answer.message.accepted == ((2, (3, 0), B),)


def test_a_value_that_is_not_answered_is_sent_again_more_and_more_rarely() -> None:
    """A slow follower does not get all of it five times a second; once a second at least, it does."""
    one = Learnt().leading()
    begun, times = one.context.now, list[float]()
    while len(times) < 6:
        one.context.now = one.replica.next_deadline()
        one.replica.tick()
        assert sorted(order.to for order in sends(one.take(), Accept)) == [1, 2]
        times.append(round(one.context.now - begun, 3))
    assert times == [0.2, 0.6, 1.4, 2.4, 3.4, 4.4]

"""A node that comes back with an empty folder: it loses nothing that was acknowledged, whoever ends then."""

from __future__ import annotations

import pytest

from support.masters_bench import Bench
from trimtab_store.core.messages import (
    Accepted,
    Ballot,
    DescribeGroup,
    GroupReport,
    GroupStatus,
    MessageRecord,
    ProduceRequest,
    ProduceResponse,
    Promise,
    Promised,
    ReadGroupMetrics,
    Received,
    Rejoined,
    StartTransfer,
    WriteLog,
)
from trimtab_store.core.paxos import ALL_RESTARTED, NO_BALLOT, RESTARTED, PaxosLog
from trimtab_store.core.token import CLUSTER


def acknowledged_beside_one_that_is_cut_off() -> tuple[Bench, int, int, int]:
    """A message stands on the master and on one node more; those two, and the third, which heard nothing."""
    bench = Bench()
    master = bench.elected()
    second, cut_off = (node for node in range(3) if node != master)
    bench.holds = lambda sender, receiver, message: (
        isinstance(receiver, int) and sender != receiver and cut_off in (sender, receiver)
    )
    bench.send(master, ProduceRequest("client", MessageRecord("t", "p", 1, b"")))
    bench.run(0.1)
    assert bench.heard[-1] == (master, 0, ProduceResponse("t", "p", 1, "stored", master))
    return bench, master, second, cut_off


def emptied(bench: Bench, node: int) -> None:
    """The node starts anew, on an empty disk."""
    bench.written[node] = {}
    bench.restart(node, incarnation=2)


def votes(bench: Bench, node: int) -> bool:
    """Whether a node may promise and accept, in the log of group 0."""
    return not bench.nodes[node].groups[0].log.without_vote


def messages(bench: Bench) -> int:
    """How many the one master has."""
    (now,) = bench.masters()
    (told,) = bench.send(now, DescribeGroup("client"))
    assert isinstance(told, GroupStatus)
    return told.messages


def terms(bench: Bench) -> float:
    """As long as it takes until another node is master."""
    return 2 * (bench.settings.lease_seconds + bench.settings.renewal_seconds)


def test_a_node_that_lost_its_disk_does_not_outvote_acknowledged_messages() -> None:
    """The message stood on the master and on the lost disk; the master ends, and the other two know nothing.

    They have no master, rather than one without the message. With the old master back all is there.
    """
    bench, master, second, _ = acknowledged_beside_one_that_is_cut_off()
    emptied(bench, second)
    bench.down.add(master)
    bench.held.clear()
    bench.let_go()
    bench.run(terms(bench))
    assert bench.masters() == [] and not votes(bench, second)
    assert f"node {master} has not answered" in bench.nodes[second].without_vote[0]
    bench.restart(master, incarnation=2)
    bench.run(terms(bench))
    assert messages(bench) == 1 and votes(bench, second)


@pytest.mark.parametrize("which", ["second", "cut off", "master"])
def test_a_node_that_lost_its_disk_votes_again_once_it_has_caught_up(which: str) -> None:
    """Whichever it is: with all others there it learns all, and then one of those may end."""
    bench, master, second, cut_off = acknowledged_beside_one_that_is_cut_off()
    lost = {"second": second, "cut off": cut_off, "master": master}[which]
    bench.holds = lambda sender, receiver, message: False
    bench.held.clear()
    emptied(bench, lost)
    bench.run(terms(bench))
    assert votes(bench, lost)
    bench.down.add(next(node for node in (master, second) if node != lost))
    bench.run(terms(bench))
    assert messages(bench) == 1


def test_without_a_vote_nothing_is_promised_accepted_or_proposed() -> None:
    """One other node is disconnected from it: it learns chosen values, and proposes nothing."""
    bench, master, second, cut_off = acknowledged_beside_one_that_is_cut_off()
    bench.holds = lambda sender, receiver, message: {sender, receiver} == {second, cut_off}
    bench.held.clear()
    emptied(bench, second)
    told = []
    holds = bench.holds

    def listening(sender: int | str, receiver: int | str, message: object) -> bool:
        told.append((sender, message))
        return holds(sender, receiver, message)

    bench.holds = listening
    bench.send(master, ProduceRequest("client", MessageRecord("t", "p", 2, b"")))
    bench.run(terms(bench))
    assert bench.nodes[second].groups[0].state.sequences == {("t", "p"): 2}
    assert not votes(bench, second)
    assert not [one for node, one in told if node == second and isinstance(one, Promise | Accepted)]
    # The disk holds what was learnt, and no promise: started again, it still has no vote.
    bench.restart(second, incarnation=3)
    bench.run(1.0)
    assert not votes(bench, second)
    bench.let_go()
    bench.run(terms(bench))
    assert votes(bench, second)
    bench.restart(second, incarnation=4)
    assert votes(bench, second)


def test_clients_see_whether_a_node_votes() -> None:
    """In the group's log and in that of the token; a node that answers and has all messages may have none."""
    bench, _, second, _ = acknowledged_beside_one_that_is_cut_off()

    def seen(node: int) -> tuple[bool, bool]:
        (status,) = bench.send(node, DescribeGroup("client"))
        (report,) = bench.send(node, ReadGroupMetrics("client"))
        assert isinstance(status, GroupStatus) and isinstance(report, GroupReport)
        return status.votes, report.votes

    assert seen(second) == (True, True)
    for withheld in (0, CLUSTER):
        bench.holds = lambda sender, receiver, message: False
        bench.held.clear()
        emptied(bench, second)
        recovered_but_in(bench, second, withheld)
        assert seen(second) == (False, False)
    bench.let_go()
    bench.run(terms(bench))
    assert seen(second) == (True, True)


def recovered_but_in(bench: Bench, node: int, log: int) -> None:
    """A node without a disk gets its vote back in all logs but one, whose answers do not reach it."""
    bench.holds = lambda sender, receiver, message: receiver == node and isinstance(message, Rejoined)
    for _ in range(10):
        bench.run(bench.settings.renewal_seconds)
        for sender, receiver, group, message in bench.held:
            assert isinstance(receiver, int)
            if group != log:
                bench.tell(receiver, Received(sender, group, message))
        bench.held = [one for one in bench.held if one[2] == log]
    assert len(bench.nodes[node].without_vote) == 1


def test_a_node_without_a_vote_does_not_take_a_group_over() -> None:
    """It could not renew the mastership; the master stays until the node has its vote."""
    bench, _, second, _ = acknowledged_beside_one_that_is_cut_off()
    bench.held.clear()
    emptied(bench, second)
    recovered_but_in(bench, second, 0)
    before = bench.masters()
    bench.publish_map(second)
    bench.run(terms(bench))
    assert bench.masters() == before != [second]
    bench.let_go()
    bench.run(terms(bench))
    assert bench.masters() == [second]


def test_two_without_a_vote_do_not_give_it_to_one_another() -> None:
    """Two of three disks are lost: acknowledged messages may be gone, and no node claims otherwise."""
    bench, _, second, cut_off = acknowledged_beside_one_that_is_cut_off()
    bench.holds = lambda sender, receiver, message: False
    bench.held.clear()
    emptied(bench, second)
    emptied(bench, cut_off)
    bench.run(terms(bench))
    assert not votes(bench, second) and not votes(bench, cut_off)
    assert "has no vote either" in " ".join(bench.nodes[second].without_vote)


def test_a_new_cluster_votes_once_all_of_its_nodes_are_there() -> None:
    """No node has promised anything; one without an answer may have been part of an older incarnation."""
    bench = Bench()
    bench.down.add(2)
    bench.run(terms(bench))
    assert bench.masters() == [] and not votes(bench, 0)
    bench.down.clear()
    bench.run(terms(bench))
    assert len(bench.masters()) == 1 and all(votes(bench, node) for node in range(3))


YES = Rejoined(incarnation=2, promised=(9, 9), votes=True, leads=True, upto=0)
"""What the leader answers a node that starts for the second time."""


@pytest.mark.parametrize(
    ("one", "other", "enough"),
    [
        (YES, YES._replace(leads=False), True),
        (YES, YES._replace(leads=False, promised=(3, 1)), True),
        (YES, YES._replace(leads=False, promised=(9, 10)), False),
        (YES._replace(leads=False), YES._replace(leads=False), False),
        (YES._replace(upto=10**6), YES._replace(leads=False), False),
        (YES, YES._replace(leads=False, votes=False), False),
        (YES._replace(incarnation=1), YES._replace(leads=False), False),
        (YES, None, False),
    ],
)
def test_a_vote_takes_answers_of_all_others_and_a_leader(
    one: Rejoined, other: Rejoined | None, enough: bool
) -> None:
    """By the highest promised ballot, and all its proposals; to this incarnation."""
    bench, master, second, cut_off = acknowledged_beside_one_that_is_cut_off()
    emptied(bench, second)
    log = bench.nodes[second].groups[0].log
    log.received(master, one)
    if other is not None:
        log.received(cut_off, other)
    assert votes(bench, second) is enough


def test_a_ballot_that_was_promised_once_is_a_bound_for_ever() -> None:
    """Answers may overtake one another."""
    bench, master, second, cut_off = acknowledged_beside_one_that_is_cut_off()
    emptied(bench, second)
    log = bench.nodes[second].groups[0].log
    log.received(cut_off, YES._replace(leads=False, promised=(11, 0)))
    log.received(cut_off, YES._replace(leads=False, promised=(3, 0)))
    log.received(master, YES)
    assert not votes(bench, second)


def test_another_node_leads_if_only_the_lost_one_did() -> None:
    """The token's log is written only when a group is transferred."""
    bench = Bench()
    bench.run(bench.settings.cycle_seconds + 1.0)
    (master,) = bench.masters()
    preferred, other = (node for node in range(3) if node != master)
    bench.publish_map(preferred)
    bench.run(10.0)
    token_log = bench.nodes[preferred].token.log
    assert isinstance(token_log, PaxosLog)
    assert bench.masters() == [preferred] and token_log.proposer.leads
    emptied(bench, preferred)
    bench.run(terms(bench))
    assert not bench.nodes[preferred].token.log.without_vote
    bench.publish_map(other, version=2)
    bench.run(terms(bench))
    assert bench.masters() == [other]


def test_a_transfer_of_a_previous_incarnation_is_awaited() -> None:
    """The current master may still be in it when the requesting node has learnt the token's log again."""
    bench = Bench(groups=2)
    bench.run(bench.settings.cycle_seconds + 1.0)
    preferred = next(node for node in range(3) if node not in (bench.masters(0) + bench.masters(1)))
    now = [bench.masters(group)[0] for group in range(2)]
    bench.publish_map(preferred, now[1])
    bench.run_until(lambda: bench.masters(0) == [preferred] and bench.nodes[preferred].token.lease.open)
    bench.holds = lambda sender, receiver, message: isinstance(message, StartTransfer)
    bench.publish_map(preferred, preferred, version=2)
    bench.run_until(lambda: bench.nodes[preferred].token.lease.held)
    taken = bench.nodes[preferred].token.version
    emptied(bench, preferred)
    bench.run(bench.settings.cycle_seconds / 2)
    assert bench.nodes[preferred].token.version == taken and not bench.nodes[preferred].token.lease.open


@pytest.mark.parametrize("seen", [(RESTARTED, RESTARTED), (ALL_RESTARTED, None)])
def test_in_a_new_cluster_no_node_votes_before_all_have_a_log(seen: tuple[Ballot, Ballot | None]) -> None:
    """Otherwise a node that lost power just then would find others that have started without it, and no
    leader. A node that votes already knows that of all.
    """
    bench = Bench()
    log = bench.nodes[0].groups[0].log
    nothing = Rejoined(1, NO_BALLOT, votes=False, leads=False, upto=0)
    for node in (1, 2):
        log.received(node, nothing)
    assert not votes(bench, 0)
    for order in bench.nodes[0].context.orders:
        if isinstance(order, WriteLog):
            bench.written[0].setdefault(order.group, []).append(order.written)
    assert bench.written[0] == {0: [Promised(RESTARTED)]}
    # It has begun, and that alone is no vote in its next life either.
    bench.restart(0, incarnation=2)
    log = bench.nodes[0].groups[0].log
    assert not votes(bench, 0)
    for node, promised in enumerate(seen, 1):
        if promised is not None:
            log.received(node, nothing._replace(incarnation=2, promised=promised))
    assert votes(bench, 0)

"""A transfer at the preferred node, step by step, and the verifier that ends it."""

from __future__ import annotations

import pytest

from support.masters_bench import Bench
from trimtab_store.core.group import ReplicatedGroup
from trimtab_store.core.messages import (
    ConfirmReady,
    ProbeTransfer,
    SendMessage,
    StartTransfer,
    TransferProbed,
    TransferReady,
)
from trimtab_store.core.transfer import IncomingTransfer

INCUMBENT, IDEAL, ANOTHER = 0, 1, 2
CYCLE = 7
LEFT_SECONDS = 10.0
"""Of the token."""


@pytest.fixture
def group() -> ReplicatedGroup:
    """Of the preferred node; the current master is its master."""
    bench = Bench()
    assert bench.elected() == INCUMBENT
    one = bench.nodes[IDEAL].groups[0]
    one.context.now = bench.now
    one.context.orders.clear()
    return one


def begun(group: ReplicatedGroup) -> IncomingTransfer:
    """A transfer that begins now."""
    return IncomingTransfer(CYCLE, group.context.now + LEFT_SECONDS, INCUMBENT, group.context.now)


def sent(group: ReplicatedGroup, kind: type) -> list[int | str]:
    """To whom messages of a kind were sent since the last time."""
    orders, group.context.orders = group.context.orders, []
    return [one.to for one in orders if isinstance(one, SendMessage) and isinstance(one.message, kind)]


def probed(group: ReplicatedGroup, cycle: int = CYCLE) -> TransferProbed:
    """The current master is as far as this node."""
    return TransferProbed(cycle, 1, group.context.now, group.log.applied)


def test_a_renewal_in_flight_is_ignored_and_the_next_one_ends_it(group: ReplicatedGroup) -> None:
    """A current master that renews twice in a row hands nothing over."""
    one = begun(group)
    one.became(INCUMBENT, group)
    assert one.outcome is None
    one.became(INCUMBENT, group)
    assert one.outcome is False


def test_renewals_from_before_its_start_do_not_end_it(group: ReplicatedGroup) -> None:
    """A node that was away learns several of them at once, while its transfer is under way."""
    one = begun(group)
    one.probed(group, TransferProbed(CYCLE, 1, group.context.now, group.log.applied + 2))
    for node in (ANOTHER, INCUMBENT, INCUMBENT):
        one.became(node, group)
    assert one.started and one.outcome is None


def test_it_is_done_when_this_node_is_master_and_nothing_else_undoes_that(group: ReplicatedGroup) -> None:
    """A renewal of the current master may come before."""
    one = begun(group)
    one.became(INCUMBENT, group)
    one.became(IDEAL, group)
    assert one.outcome is True
    one.became(INCUMBENT, group)
    one.became(INCUMBENT, group)
    assert one.outcome is True


def test_it_fails_if_a_third_node_is_master(group: ReplicatedGroup) -> None:
    """Neither the current master nor this node."""
    one = begun(group)
    one.became(ANOTHER, group)
    assert one.outcome is False


def test_it_ends_with_the_token(group: ReplicatedGroup) -> None:
    """By the clock of its holder, and as what it was until then."""
    one = begun(group)
    one.step(group)
    assert not one.ended and sent(group, ProbeTransfer) == [INCUMBENT]
    group.context.now = one.until
    one.step(group)
    assert (one.ended, one.outcome) == (True, False)


def test_a_master_that_does_not_answer_is_not_retried_indefinitely(group: ReplicatedGroup) -> None:
    """The token is for the next group then, long before it expires."""
    one = begun(group)
    group.context.now += 2 * group.context.settings.propose_seconds
    one.step(group)
    assert one.ended and one.outcome is False


def test_it_starts_once_while_the_token_is_held(group: ReplicatedGroup) -> None:
    """An answer that is doubled, late, or of another transfer starts nothing."""
    one = begun(group)
    one.probed(group, probed(group, CYCLE - 1))
    assert not one.started
    one.probed(group, probed(group))
    one.probed(group, probed(group))
    assert sent(group, StartTransfer) == [INCUMBENT]
    one = begun(group)
    group.context.now = one.until
    one.probed(group, probed(group))
    assert not one.started and sent(group, StartTransfer) == []


def test_it_is_ready_while_the_token_is_held(group: ReplicatedGroup) -> None:
    """Its term by an instating transfer would begin then."""
    one = begun(group)
    one.confirm_ready(group, ConfirmReady(CYCLE, group.log.applied))
    assert sent(group, TransferReady) == [INCUMBENT]
    one = begun(group)
    group.context.now = one.until
    one.confirm_ready(group, ConfirmReady(CYCLE, group.log.applied))
    assert sent(group, TransferReady) == []

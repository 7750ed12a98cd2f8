"""A lease by local clocks: its holder is the first to count it as expired."""

from __future__ import annotations

from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.token import MastershipLease

SECONDS = 10.0
MARGIN = 0.02
NOW = 100.0
"""When a lease of these tests has run for long."""


def lease(incarnation: int = 1) -> tuple[NodeContext, MastershipLease]:
    """Of a node 0 that has run long enough to know what it may believe."""
    station = NodeContext(0, 3, incarnation, StoreSettings(margin=MARGIN), now=0.0)
    one = MastershipLease(station, SECONDS)
    station.now = NOW
    return station, one


def test_a_node_that_starts_leaves_everything_alone_for_a_whole_term() -> None:
    """Another node may have become master a moment before."""
    station = NodeContext(0, 3, 1, StoreSettings(), now=50.0)
    one = MastershipLease(station, SECONDS)
    station.now = 59.9
    assert not one.open
    station.now = 60.0
    assert one.open


def test_the_term_counts_from_before_sending_and_is_shorter_by_the_margin() -> None:
    """Others count from the arrival of the proposal, however long it took until it was chosen."""
    station, one = lease()
    nonce = one.new_proposal()
    station.now = 103.0
    one.acquired(0, nonce, NOW)
    assert one.own_until == 100.0 + SECONDS * (1 - MARGIN)
    station, other = lease()
    station.now = 103.0
    other.acquired(1, nonce, 101.0)
    assert other.others_until == 101.0 + SECONDS and not other.held


def test_the_start_is_that_of_the_question_that_was_chosen() -> None:
    """An earlier one may be chosen, and a later one be under way."""
    station, one = lease()
    early = one.new_proposal()
    station.now = 104.0
    one.new_proposal()
    one.acquired(0, early, NOW)
    assert one.own_until == 100.0 + SECONDS * (1 - MARGIN)


def test_a_proposal_of_a_previous_incarnation_changes_nothing() -> None:
    """That incarnation is over, and no other has its term."""
    _, former = lease(incarnation=1)
    nonce = former.new_proposal()
    _, one = lease(incarnation=2)
    one.acquired(0, nonce, NOW)
    assert not one.held and one.open


def test_released_authority_returns_by_a_later_proposal_only() -> None:
    """A claim that was proposed before may be chosen after the transfer was proposed."""
    _, one = lease()
    early = one.new_proposal()
    one.give_up()
    one.acquired(0, early, NOW)
    assert (one.held, one.is_released) == (False, True)
    one.acquired(0, one.new_proposal(), NOW)
    assert one.held and not one.is_released


def test_a_term_ends_if_another_node_is_master() -> None:
    """However much of it is left."""
    _, one = lease()
    one.acquired(0, one.new_proposal(), NOW)
    one.acquired(1, (9, 1), NOW)
    assert not one.held and not one.open


def test_other_nodes_wait_one_term_for_the_target_of_a_transfer() -> None:
    """The preferred node may die before it becomes master; it itself may try at once."""
    station, other = lease()
    other.reserve(ends_now=False)
    station.now = 100.0 + SECONDS - 0.1
    early = other.open
    station.now = 100.0 + SECONDS
    assert other.open and not early
    _, preferred = lease()
    preferred.reserve(ends_now=True)
    assert preferred.open


def test_a_term_ends_if_it_is_handed_to_another_node() -> None:
    """Also where this node is master still, since an earlier transfer of its own was chosen late."""
    _, one = lease()
    one.acquired(0, one.new_proposal(), NOW)
    one.reserve(ends_now=False)
    assert not one.held


def test_others_wait_longer_for_one_that_must_wait_itself() -> None:
    """It tries only after the old term and at its turn: sometimes others were first."""
    station, other = lease()
    other.reserve(ends_now=False, waits=2.5)
    station.now = 100.0 + SECONDS + 2.4
    assert not other.open
    station.now = 100.0 + SECONDS + 2.5
    assert other.open


def test_the_target_writes_for_one_term_from_its_readiness() -> None:
    """Not from when it learns that it is named."""
    station, one = lease()
    ready = one.new_proposal()
    station.now = 108.0
    one.named(ready)
    assert one.acting_until == 100.0 + SECONDS * (1 - MARGIN)
    one.acting_until = 0.0
    one.named((77, 1))
    assert one.acting_until == 0.0

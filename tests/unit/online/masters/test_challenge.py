"""A takeover at the ideal node, step by step, and the verifier that ends it."""

from __future__ import annotations

import pytest

from support.masters_bench import Bench
from trimtab.online.masters.challenge import Challenge
from trimtab.online.masters.group import Group
from trimtab.online.masters.messages import AskReady, Probe, Probed, Ready, Send, Start

INCUMBENT, IDEAL, ANOTHER = 0, 1, 2
CYCLE = 7
LEFT_SECONDS = 10.0
"""Of the token."""


@pytest.fixture
def group() -> Group:
    """Of the ideal node; the incumbent is its master."""
    bench = Bench()
    assert bench.elected() == INCUMBENT
    one = bench.nodes[IDEAL].groups[0]
    one.station.now = bench.now
    one.station.orders.clear()
    return one


def begun(group: Group) -> Challenge:
    """A takeover that begins now."""
    return Challenge(CYCLE, group.station.now + LEFT_SECONDS, INCUMBENT, group.station.now)


def sent(group: Group, kind: type) -> list[int | str]:
    """To whom messages of a kind were sent since the last time."""
    orders, group.station.orders = group.station.orders, []
    return [one.to for one in orders if isinstance(one, Send) and isinstance(one.message, kind)]


def probed(group: Group, cycle: int = CYCLE) -> Probed:
    """The incumbent is as far as this node."""
    return Probed(cycle, 1, group.station.now, group.log.applied)


def test_a_renewal_that_was_under_way_is_passed_over_and_the_next_one_ends_it(group: Group) -> None:
    """An incumbent that renews twice in a row hands nothing over."""
    one = begun(group)
    one.became(INCUMBENT, group)
    assert one.outcome is None
    one.became(INCUMBENT, group)
    assert one.outcome is False


def test_renewals_from_before_it_began_do_not_end_it(group: Group) -> None:
    """A node that was away learns several of them at once, while its takeover is under way."""
    one = begun(group)
    one.probed(group, Probed(CYCLE, 1, group.station.now, group.log.applied + 2))
    for node in (ANOTHER, INCUMBENT, INCUMBENT):
        one.became(node, group)
    assert one.started and one.outcome is None


def test_it_is_done_when_this_node_is_master_and_nothing_else_undoes_that(group: Group) -> None:
    """A renewal of the incumbent may come before."""
    one = begun(group)
    one.became(INCUMBENT, group)
    one.became(IDEAL, group)
    assert one.outcome is True
    one.became(INCUMBENT, group)
    one.became(INCUMBENT, group)
    assert one.outcome is True


def test_it_has_failed_when_somebody_else_is_master(group: Group) -> None:
    """Neither the incumbent nor this node."""
    one = begun(group)
    one.became(ANOTHER, group)
    assert one.outcome is False


def test_it_ends_with_the_token(group: Group) -> None:
    """By the clock of its holder, and as what it was until then."""
    one = begun(group)
    one.step(group)
    assert not one.ended and sent(group, Probe) == [INCUMBENT]
    group.station.now = one.until
    one.step(group)
    assert (one.ended, one.outcome) == (True, False)


def test_a_master_that_says_nothing_is_not_asked_for_ever(group: Group) -> None:
    """The token is for the next group then, long before it expires."""
    one = begun(group)
    group.station.now += 2 * group.station.settings.propose_seconds
    one.step(group)
    assert one.ended and one.outcome is False


def test_it_starts_once_while_the_token_is_held(group: Group) -> None:
    """An answer that is doubled, late, or of another takeover starts nothing."""
    one = begun(group)
    one.probed(group, probed(group, CYCLE - 1))
    assert not one.started
    one.probed(group, probed(group))
    one.probed(group, probed(group))
    assert sent(group, Start) == [INCUMBENT]
    one = begun(group)
    group.station.now = one.until
    one.probed(group, probed(group))
    assert not one.started and sent(group, Start) == []


def test_it_is_ready_while_the_token_is_held(group: Group) -> None:
    """Its term by an instating takeover would begin then."""
    one = begun(group)
    one.asked(group, AskReady(CYCLE, group.log.applied))
    assert sent(group, Ready) == [INCUMBENT]
    one = begun(group)
    group.station.now = one.until
    one.asked(group, AskReady(CYCLE, group.log.applied))
    assert sent(group, Ready) == []

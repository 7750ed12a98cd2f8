"""A log without what is needed no more recovers the same replica, whatever is written behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_common.errors import InputError
from trimtab_store.core.messages import (
    AcceptedAt,
    ChosenUpTo,
    ClaimMastership,
    GroupSnapshot,
    NoOp,
    Promise,
    Promised,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.paxos import LEARNT, PaxosLog, RetainedLog
from trimtab_store.core.settings import StoreSettings

MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            ("promise", "accept", "accept", "accept", "learn", "choose", "choose", "cut", "install")
        ),
        st.integers(1, 9),
        st.tuples(st.integers(1, 9), st.integers(0, 2)),
    ),
    max_size=60,
)


def history(moves: Iterable[tuple[str, int, tuple[int, int]]]) -> list[Any]:
    """Lines as a replica may write them: values above what is applied, snapshots that only rise."""
    lines: list[Any] = []
    applied, accepted, upto = 0, set[int](), 0
    for kind, count, ballot in moves:
        match kind:
            case "promise":
                lines.append(Promised(ballot))
            case "accept" | "learn":
                # Some of them twice, under another ballot; holes are left, too.
                slot = applied + 1 + count % 7
                accepted.add(slot)
                entry = ClaimMastership(len(lines), (1, 1), 0) if count % 2 else NoOp()
                lines.append(AcceptedAt(slot, LEARNT if kind == "learn" else ballot, entry))
            case "choose":
                upto = applied
                while upto + 1 in accepted and upto < applied + count:
                    upto += 1
                if upto > applied:
                    applied = upto
                    lines.append(ChosenUpTo(upto))
            case "cut" if applied:
                lines.append(GroupSnapshot(applied, (len(lines),)))
            case "install":
                applied += count
                lines.append(GroupSnapshot(applied, (len(lines),)))
    return lines


def recovered(lines: Iterable[Any]) -> tuple[Any, ...]:
    """All that a replica is after it has taken lines in: what it promised, accepted, and applied to what."""
    state: list[Any] = []

    def restore(value: tuple[Any, ...]) -> None:
        state[:] = value

    station = NodeContext(0, 3, 1, StoreSettings())
    replica = PaxosLog(station, 0, lambda slot, entry: state.append((slot, entry)), tuple, restore)
    replica.recover(lines)
    acceptor = replica.acceptor
    chosen = replica._chosen
    return acceptor.promised, acceptor.accepted, acceptor.base, replica.applied, chosen, state, station.orders


def needed(lines: Iterable[Any]) -> list[Any]:
    """What is kept of lines."""
    kept: RetainedLog[Any] = RetainedLog()
    for line in lines:
        kept.absorb(line, line)
    return [*kept.places(), *kept.state_records()]


@settings(max_examples=400, deadline=None)
@given(MOVES, st.integers(0, 60), st.integers(0, 60))
def test_a_replica_is_the_same_wherever_its_log_was_compacted(moves: Any, cut: int, again: int) -> None:
    """Once, or what was compacted again; with the rest behind it as it was written."""
    lines = history(moves)
    assert recovered(needed(lines)) == recovered(lines)
    cut, again = sorted((cut, again))
    once = needed(lines[:cut])
    assert recovered(once + lines[cut:]) == recovered(lines)
    assert recovered(needed(once + lines[cut:again]) + lines[again:]) == recovered(lines)


@settings(max_examples=200, deadline=None)
@given(MOVES)
def test_in_the_order_in_which_they_were_written_they_do_as_well(moves: Any) -> None:
    """As in a file that is copied: some values stand before a snapshot that does not cover them."""
    lines = history(moves)
    kept: RetainedLog[int] = RetainedLog()
    for place, line in enumerate(lines):
        kept.absorb(line, place)
    assert recovered(
        [*(lines[place] for place in sorted(kept.places())), *kept.state_records()]
    ) == recovered(lines)


@settings(max_examples=200, deadline=None)
@given(MOVES)
def test_freed_and_retained_lines_are_all_lines_written(moves: Any) -> None:
    """No line is retained and counted as free, and none is neither: the log's size depends on that."""
    kept, lines = RetainedLog[int](), history(moves)
    freed = [one for place, line in enumerate(lines) for one in kept.absorb(line, place)]
    assert sorted([*freed, *kept.places()]) == list(range(len(lines)))


def test_a_group_with_a_snapshot_keeps_little() -> None:
    """A thousand entries and a snapshot behind them: the snapshot, what is above it, and the promise."""
    lines: list[Any] = [Promised((3, 1))]
    for slot in range(1, 1001):
        lines += [AcceptedAt(slot, (4, 2), NoOp()), ChosenUpTo(slot)]
    lines += [GroupSnapshot(999, ("s",)), AcceptedAt(1001, (4, 2), NoOp())]
    last = AcceptedAt(1000, (4, 2), NoOp())
    assert needed(lines) == [GroupSnapshot(999, ("s",)), last, lines[-1], Promised((4, 2))]


def test_a_line_that_is_not_known_is_refused() -> None:
    """A new kind of line must declare its retention."""
    with pytest.raises(InputError, match="Promise is no line of a node's log"):
        RetainedLog[int]().absorb(Promise((1, 1), 1, ()), 0)

"""The search against all orders tried one by one, for histories so small that this can be done."""

from __future__ import annotations

from itertools import chain, combinations, permutations
from math import inf

from hypothesis import event, given, settings
from hypothesis import strategies as st

from simulate.linear import ClientOperation, check_linearizability
from simulate.masters.histories import (
    LogModel,
    MessageAppended,
    MessagesRead,
    OffsetAcknowledged,
    ReadStarted,
)

MESSAGES = st.sampled_from([("a", 1), ("a", 2), ("b", 1)])
READS = st.builds(
    MessagesRead, st.integers(0, 2), st.integers(1, 3), st.lists(MESSAGES, max_size=3, unique=True).map(tuple)
)
KEEPS = st.builds(OffsetAcknowledged, st.just("c"), st.integers(0, 2))
BEGINS = st.builds(ReadStarted, st.just("c"), READS)


@st.composite
def histories(draw: st.DrawFn) -> list[ClientOperation]:
    """Up to three messages, each appended once, and what was read and kept meanwhile, right or wrong."""
    appended = draw(st.lists(MESSAGES, max_size=3, unique=True))
    others = draw(st.lists(st.one_of(READS, KEEPS, BEGINS), max_size=3))
    found = []
    for what in [*map(MessageAppended, appended), *others]:
        called = draw(st.integers(0, 9))
        lost = isinstance(what, MessageAppended | OffsetAcknowledged) and draw(st.integers(0, 4)) == 0
        found.append(ClientOperation(what, called, inf if lost else called + draw(st.integers(0, 4))))
    return draw(st.permutations(found))


def explained(order: tuple[ClientOperation, ...]) -> bool:
    """Whether the operations can have happened just so."""
    for at, one in enumerate(order):
        if any(later.returned < one.called for later in order[at:]):
            return False
    # Without a history to look places up in: every place is tried.
    plain = LogModel([])
    state = plain.begin()
    for one in order:
        after = plain.after(state, one.what)
        if after is None:
            return False
        state = after
    return True


def by_all_orders(history: list[ClientOperation]) -> bool:
    """All orders of all that was answered, with any of what was not."""
    answered = [one for one in history if one.returned < inf]
    open_ = [one for one in history if one.returned == inf]
    some = chain.from_iterable(combinations(open_, many) for many in range(len(open_) + 1))
    return any(explained(order) for more in some for order in permutations([*answered, *more]))


@settings(max_examples=400, deadline=None)
@given(histories())
def test_the_search_agrees_with_all_orders(history: list[ClientOperation]) -> None:
    """Neither pruning, nor memory, nor the index of the history changes a verdict."""
    expected = by_all_orders(history)
    event(f"linearizable: {expected}")
    assert check_linearizability(history, LogModel(history)).linearizable is expected

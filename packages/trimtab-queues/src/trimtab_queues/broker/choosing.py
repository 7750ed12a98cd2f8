"""Which waiting messages go where some are to be moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence


def choose_waiting(
    candidates: Sequence[tuple[str, int, str]],
    in_flight: Callable[[str], int],
    messages: int,
    work: int | None,
) -> list[str]:
    """Names of messages to move; the same rule as `move.lua`.

    Parameters
    ----------
    candidates
        Name, microseconds of processing and affinity key (or "") of messages that wait, in the order in
        which they are considered.
    in_flight
        How many messages of a key there are, in work or waiting: all of them go, or none, so that order
        within a key survives.
    messages, work
        The most to take; microseconds, None for as much as there is.

    Returns
    -------
    list of str
        In the order of `candidates`. One that does not fit is passed over, and a smaller one may still go.
    """
    by_key = Counter(key for _, _, key in candidates if key)
    weight_of: Counter[str] = Counter()
    for _, weight, key in candidates:
        weight_of[key] += weight
    chosen: list[str] = []
    decided: dict[str, bool] = {}
    for name, weight, key in candidates:
        if key:
            if key not in decided:
                whole = by_key[key] == in_flight(key)
                fits = by_key[key] <= messages and (work is None or weight_of[key] <= work)
                decided[key] = whole and fits
                if decided[key]:
                    messages -= by_key[key]
                    work = None if work is None else work - weight_of[key]
            if decided[key]:
                chosen.append(name)
        elif messages >= 1 and (work is None or weight <= work):
            chosen.append(name)
            messages -= 1
            work = None if work is None else work - weight
    return chosen

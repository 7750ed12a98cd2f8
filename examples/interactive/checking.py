"""Held against the results: every accepted vote counts exactly once, each user's in order."""

from __future__ import annotations

import time
from collections import Counter, defaultdict

from redis import Redis

from interactive.load import BUSINESS, Book
from interactive.store import BASE

PATIENCE_SECONDS = 120.0


class Miscounted(AssertionError):
    """Results are not what was accepted."""


def journal(client: Redis) -> list[str]:
    """Ids in the order in which they were counted."""
    found: list[bytes] = client.lrange(f"{BASE}:{BUSINESS}:journal", 0, -1)
    return [one.decode() for one in found]


def wait_until_counted(url: str, book: Book) -> float:
    """Wait until all that was accepted is counted, or nothing more is; seconds since the call."""
    began = moved = time.monotonic()
    counted, accepted = -1, len(set(book.accepted))
    with Redis.from_url(url) as client:
        while counted < accepted and time.monotonic() - moved < PATIENCE_SECONDS:
            before, counted = counted, int(client.llen(f"{BASE}:{BUSINESS}:journal"))
            moved = time.monotonic() if counted > before else moved
            time.sleep(0.05)
    return time.monotonic() - began


def check(url: str, book: Book) -> dict[str, int]:
    """Compare results with the book of voters.

    A vote that was counted although its voter had no answer was sent again until it had one, so that there is
    none of these where voters were let finish.

    Returns
    -------
    dict of str to int
        Accepted, counted, lost, doubled, not_accepted (counted all the same), overtaken.

    Raises
    ------
    Miscounted
        If anything is lost, doubled, overtaken or miscounted.
    """
    with Redis.from_url(url) as client:
        ids = journal(client)
        totals, answers = (
            {key.decode(): int(one) for key, one in client.hgetall(f"{BASE}:{BUSINESS}:{what}").items()}
            for what in ("totals", "answers")
        )
    accepted, counted = Counter(book.accepted), Counter(ids)
    numbers: dict[str, list[int]] = defaultdict(list)
    for one in ids:
        user, _, number = one.rpartition("/")
        numbers[user].append(int(number))
    found = {
        "accepted": len(book.accepted),
        "counted": totals.get("counted", 0),
        "lost": len(accepted.keys() - counted.keys()),
        "doubled": len(ids) - len(counted) + len(book.accepted) - len(accepted),
        "not_accepted": len(counted.keys() - accepted.keys()),
        "overtaken": sum(one != sorted(one) for one in numbers.values()),
    }
    wrong = [name for name in ("lost", "doubled", "not_accepted", "overtaken") if found[name]]
    if wrong or answers != dict(book.answers) or found["counted"] != found["accepted"]:
        raise Miscounted(f"{found}; counted {answers}, totals {totals}, accepted {dict(book.answers)}")
    return found

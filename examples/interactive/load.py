"""Load: voters in bursts, and a book of what was accepted, against which results are held."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

BUSINESS, KEYWORD = "song-night", "SONG"
EACH = 5
"""Votes of one user; as many as the rules count."""
CHOICES = ("Aurora", "Blue Hour", "Cinder", "Driftwood")


@dataclass
class Book:
    """What voters know: every vote that was accepted, when, and what was refused or unanswered meanwhile."""

    accepted: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    again: Counter[str] = field(default_factory=Counter)

    def note(self, user: str, number: int, choice: int) -> None:
        """A vote was accepted."""
        self.accepted.append(f"sms/{BUSINESS}/{user}/{number}")
        self.answers[CHOICES[choice]] += 1


Vote = tuple[int, int]
"""User, number of the vote."""


def _form(vote: Vote) -> dict[str, str]:
    user, number = vote
    return {"from": f"+49{user:09d}", "id": str(number), "text": f"{KEYWORD} {_choice(vote) + 1}"}


def _choice(vote: Vote) -> int:
    return (0, 1, 1, 1, 2, 2, 3)[(vote[0] * 5 + vote[1] * 3) % 7]


class Centre:
    """A centre that collects votes of its own users and sends them, a batch or one at a time, in order.

    What is refused for now, or has no answer, is sent again under the same ids before anything newer.

    Parameters
    ----------
    users
        Its users, by number.
    batch
        Votes a request.
    """

    def __init__(
        self, session: aiohttp.ClientSession, url: str, users: range, batch: int, book: Book
    ) -> None:
        self._session, self._batch, self.book = session, batch, book
        self._url = f"{url}/messages/sms/batch" if batch > 1 else f"{url}/messages/sms"
        self._votes = ((user, number) for number in range(EACH) for user in users)

    async def send(self, votes_per_second: float, stop: asyncio.Event) -> None:
        """Send all votes at a pace, or until told to stop; what was begun is brought to its end."""
        began, sent, left = time.monotonic(), 0, []
        while not stop.is_set() or left:
            if not stop.is_set():
                left += [one for _, one in zip(range(self._batch - len(left)), self._votes, strict=False)]
            if not left:
                return
            posted = len(left)
            left = await self._post(left)
            sent += posted - len(left)
            early = sent / votes_per_second - (time.monotonic() - began)
            if early > 0 and not left:
                await asyncio.sleep(early)

    async def _post(self, votes: list[Vote]) -> list[Vote]:
        """Send votes; those that have to be sent again."""
        forms = [_form(one) for one in votes]
        at = time.monotonic()
        try:
            async with self._session.post(self._url, json=forms if self._batch > 1 else forms[0]) as answer:
                told = await answer.json()
                self.book.seconds.append(time.monotonic() - at)
        except (aiohttp.ClientError, TimeoutError) as error:
            self.book.again[type(error).__name__] += len(votes)
            await asyncio.sleep(0.1)
            return votes
        if self._batch > 1 and "refused" in told:
            refused = {one["at"]: one for one in told["refused"]}
        elif "error" in told:
            refused = {place: {"status": answer.status, **told} for place in range(len(votes))}
        else:
            refused = {}
        for place, vote in enumerate(votes):
            if place not in refused:
                self.book.note(f"tel:+49{vote[0]:09d}", vote[1], _choice(vote))
        for one in refused.values():
            if one["status"] not in (429, 503):
                raise AssertionError(f"a vote was refused for good: {one}")
            self.book.again[str(one["status"])] += 1
        if refused:
            await asyncio.sleep(min(1.0, float(answer.headers.get("Retry-After", 0.2))))
        return [vote for place, vote in enumerate(votes) if place in refused]


async def burst(
    url: str,
    votes: int,
    *,
    batch: int,
    centres: int,
    votes_per_second: float,
    stop: asyncio.Event | None = None,
    book: Book | None = None,
    first_user: int = 1,
) -> Book:
    """Send votes from several centres at once; the book of what was accepted."""
    book = book or Book()
    users = max(1, votes // EACH // centres)
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        ranges = [range(first_user + one * users, first_user + (one + 1) * users) for one in range(centres)]
        some = [Centre(session, url, one, batch, book) for one in ranges]
        stop = stop or asyncio.Event()
        await asyncio.gather(*(one.send(votes_per_second / centres, stop) for one in some))
    return book

"""What the system keeps on the server beside its queues: rules, states of flow, results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, OutOfMemoryError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoAnswer

from interactive.messages import STRANDS, Message
from interactive.rules import Effect, Rules, read_rules

T = TypeVar("T")
BASE = "{interactive}"
AWAY = (NoConnection, NoAnswer, BusyLoadingError, OutOfMemoryError, OSError)
"""What passes when the server is back, or has room again."""


class Store:
    """Rules, flow and results on one server; every result is written by one script, `apply.lua`."""

    def __init__(self, url: str) -> None:
        self.client = Redis.from_url(
            url, decode_responses=True, socket_timeout=10.0, retry=Retry(NoBackoff(), 0)
        )
        self._apply = self.client.register_script(Path(__file__).with_name("apply.lua").read_text())
        self._rules: dict[str, Rules] = {}

    async def close(self) -> None:
        """Let go of connections."""
        await self.client.aclose()

    async def publish(self, rules: Rules) -> None:
        """Give rules to every worker; those before stay known, for messages accepted under them."""
        await self.client.hset(f"{BASE}:rules", mapping={rules.version: rules.text, "now": rules.version})

    async def rules(self, version: str | None = None) -> Rules | None:
        """Rules of a version, by default those of now; None where there are none."""
        if version not in self._rules:
            version = version or await self.client.hget(f"{BASE}:rules", "now")
            text = await self.client.hget(f"{BASE}:rules", version) if version else None
            if version is None or text is None:
                return None
            self._rules[version] = read_rules(text)
        return self._rules[version]

    async def states(self) -> dict[str, str]:
        """Flow states by business."""
        return dict(await self.client.hgetall(f"{BASE}:flow"))

    async def set_state(self, business: str, state: str) -> None:
        """Open, pause or drain a business, in every gateway."""
        await self.client.hset(f"{BASE}:flow", business, state)

    async def passed(self, business: str, drain: str, strand: int) -> None:
        """Say that everything of a strand that was accepted before a drain is processed."""
        key = f"{BASE}:{business}:drain:{drain}"
        async with self.client.pipeline(transaction=True) as both:
            both.sadd(key, strand)
            both.expire(key, 3600)
            both.scard(key)
            strands = (await both.execute())[2]
        if strands == STRANDS and (await self.states()).get(business) == "draining":
            await self.set_state(business, "drained")

    async def apply(
        self,
        business: str,
        effects: Iterable[tuple[Message, Effect | None, str]],
        answers_per_user: int,
    ) -> int:
        """Apply effects that are not applied yet; how many those were.

        Parameters
        ----------
        effects
            Message, and its effect or None with the reason for which there is none.
        """
        rows = [
            [one.id, one.user, *((made.counter, made.points, made.text) if made else ("", 0, "")), error]
            for one, made, error in effects
        ]
        return int(await self._apply(keys=[f"{BASE}:{business}"], args=[json.dumps(rows), answers_per_user]))

    async def answer(self, business: str, question: str, text: str) -> bool:
        """The studio's answer to a question, by the question's id; False where there is no such question."""
        if not await self.client.sismember(f"{BASE}:{business}:asked", question):
            return False
        await self.client.hset(f"{BASE}:{business}:replies", question, text)
        return True

    async def results(self, businesses: Sequence[str]) -> dict[str, Any]:
        """What a page shows of each business."""
        async with self.client.pipeline(transaction=False) as all_at_once:
            for name in businesses:
                base = f"{BASE}:{name}"
                all_at_once.hgetall(f"{base}:totals").hgetall(f"{base}:answers")
                all_at_once.zrevrange(f"{base}:board", 0, 4, withscores=True)
                all_at_once.lrange(f"{base}:texts", -6, -1).hgetall(f"{base}:replies")
            flat = await all_at_once.execute()
        found = {}
        for place, name in enumerate(businesses):
            totals, answers, board, texts, replies = flat[5 * place : 5 * place + 5]
            shown = [json.loads(one) for one in reversed(texts)]
            found[name] = {
                "totals": {key: int(value) for key, value in totals.items()},
                "answers": {key: int(value) for key, value in answers.items()},
                # Everybody sees the page, and a user may be a telephone number.
                "board": [[f"…{user[-3:]}", int(points)] for user, points in board],
                "texts": [{**one, "reply": replies.get(one["id"], "")} for one in shown],
            }
        return found


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """The answer of a call that may be made twice, waiting while the server is away."""
    while True:
        try:
            return await call()
        except AWAY:
            await asyncio.sleep(0.1)

"""Flow control: who may come in now, by state and by rate; no clock of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interactive.messages import Message, Refused
from interactive.rules import Business

STATES: Final = ("open", "paused", "draining", "drained")
USERS_REMEMBERED = 200_000


class Bucket:
    """Tokens that come back at a rate; one second's worth of them, one at least, may be spent at once."""

    __slots__ = ("at", "tokens")

    def __init__(self, rate_per_second: float, at: float) -> None:
        self.tokens, self.at = max(1.0, rate_per_second), at

    def wait_seconds(self, rate_per_second: float, at: float) -> float:
        """Until a token is there; 0 where one is."""
        size = max(1.0, rate_per_second)
        self.tokens = min(size, self.tokens + max(0.0, at - self.at) * rate_per_second)
        self.at = at
        return 0.0 if self.tokens >= 1.0 else (1.0 - self.tokens) / rate_per_second


class Flow:
    """States of businesses, and the rates at which they and their users come.

    Attributes
    ----------
    states
        By business; one that is not named is open.
    """

    def __init__(self) -> None:
        self.states: Mapping[str, str] = {}
        self._businesses: dict[str, Bucket] = {}
        self._users: dict[tuple[str, str], Bucket] = {}

    def admit(self, message: Message, business: Business, at: float) -> None:
        """Let a message in.

        Raises
        ------
        Refused
            429 where it may come later, 409 where the business takes no more.
        """
        name = message.business
        state = self.states.get(name, "open")
        if state == "paused":
            raise Refused(429, f"{name} is paused: send it again later", 5.0)
        if state != "open":
            raise Refused(409, f"{name} is {state}: it takes no more messages")
        if len(self._users) > USERS_REMEMBERED:
            self._users.clear()  # a second's worth each; better than memory without an end
        rate, user_rate = business.limit_per_second, business.user_limit_per_second
        of_all = self._businesses.setdefault(name, Bucket(rate, at))
        of_user = self._users.setdefault((name, message.user), Bucket(user_rate, at))
        for bucket, limit, whose in ((of_user, user_rate, "one user"), (of_all, rate, "all users")):
            if wait := bucket.wait_seconds(limit, at):
                raise Refused(
                    429, f"{name} takes {limit:g} messages a second from {whose}: send it again later", wait
                )
        of_user.tokens -= 1.0
        of_all.tokens -= 1.0

"""Faults of requests to a simulated admin API, as a script: which requests, how, how often."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """The fate of a request."""

    REFUSED = "refused"
    """Answered with `Fault.status`; nothing is done."""
    EMPTY_YES = "empty yes"
    """Answered with yes; nothing is done."""
    CIRCLE = "circle"
    """Redirected to the next broker, as often as the fault says."""
    LOST = "lost"
    """The connection breaks before anything is done."""
    UNHEARD = "unheard"
    """It is done, and the connection breaks before the answer."""
    LATE = "late"
    """Answered after `Fault.seconds`; it is done."""
    MEANWHILE = "meanwhile"
    """Somebody else does something first (`Fault.deed`); then it goes its way."""
    LOST_HINT = "lost hint"
    """An unload's destination is forgotten."""


@dataclass
class Fault:
    """A rule for requests.

    Attributes
    ----------
    method, path
        Which requests: the method, and a regular expression that is searched in the path.
    times
        How often it strikes; it is used up then.
    skip
        How many matching requests go well before.
    broker
        Only at this broker, if any is named.
    """

    method: str
    path: str
    trouble: Trouble
    times: int = 1
    skip: int = 0
    status: int = 500
    seconds: float = 0.0
    deed: Callable[[], None] | None = None
    broker: str | None = None

    def strikes(self, method: str, path: str, broker: str) -> bool:
        """True if it strikes this request; one that it strikes is counted."""
        matches = (
            self.times > 0
            and method == self.method
            and self.broker in (None, broker)
            and re.search(self.path, path) is not None
        )
        if not matches:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


def struck(faults: list[Fault], method: str, path: str, broker: str) -> Fault | None:
    """The first fault that strikes a request."""
    return next((fault for fault in faults if fault.strikes(method, path, broker)), None)

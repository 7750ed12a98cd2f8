"""The interface between groups and the consensus engine that chooses the entries of their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from trimtab_store.core.messages import Entry, State
from trimtab_store.core.node_context import NodeContext

STORE: Final = -2
"""Who sends what a store of slots tells; nodes have numbers from 0 on."""


class GroupLog(Protocol):
    """The log of one group on one node: one entry per slot, the same on every node.

    A proposer learns the outcome from the applied entries, never from an answer:

    - COMMITTED: the entry itself was applied;
    - void: another entry was applied in its place, or the entry was applied but no longer counts, because the
    mastership that it expected has changed;
    - UNKNOWN: neither. **UNKNOWN is possibly chosen**, also at any later time.

    Any entry may be applied twice. An engine proposes an entry of unknown outcome again, in the original
    order, if it counts once (`counts_once`). It never does so with masterships: the term of a mastership that
    is chosen late is over, but everybody waits for it.

    Attributes
    ----------
    applied
        The last slot applied on this node.
    """

    @property
    def applied(self) -> int:
        """The last slot applied on this node."""

    @property
    def in_flight(self) -> tuple[Entry, ...]:
        """Entries that this node has sent, and that are neither known to be chosen nor abandoned."""

    @property
    def without_vote(self) -> str:
        """Why this node has no vote although it could have one; empty if it has one."""

    def recover(self, written: Iterable[object]) -> None:
        """Restore the log from what earlier processes wrote, or from what the store holds."""

    def propose(self, entry: Entry) -> None:
        """Propose an entry for some slot, if this node can."""

    def discard_pending(self, kind: type) -> None:
        """Discard waiting entries of a kind, which no node has received."""

    def catch_up(self, sender: int) -> None:
        """Request the entries that another node has and this node lacks, unless it is too early."""

    def received(self, sender: int, message: object) -> bool:
        """Handle a message of the log, from a node or from `STORE`; False if it is none."""

    def settle(self) -> None:
        """Decide entries whose proposer has failed, if they were open at the last call too.

        In a log with continuous proposals the next proposal does this.
        """

    def first_learned_at(self, slot: int) -> float:
        """Time at which this node first had the entry of a slot, or later; never before it was proposed."""

    def tick(self) -> None:
        """Send what may be sent now, and repeat what was not answered."""

    def next_deadline(self) -> float:
        """Time at which `tick` must run next."""


class CatchUpRetry:
    """Intervals at which a node that is behind requests entries.

    An answer may be large, and wait at a slow node for longer than `retry_seconds`. Requests at this interval
    would fetch the same entries repeatedly, and the node would never catch up. So the node waits as long as
    the previous answer took, and twice as long after each missing answer, up to `longest_seconds`. After an
    applied entry it may request again after `retry_seconds`.

    Parameters
    ----------
    longest_seconds
        The longest interval.

    Attributes
    ----------
    requested_at
        Time of the last request.
    """

    __slots__ = ("_applied", "_context", "_first_at", "_longest_seconds", "_wait", "requested_at")

    def __init__(self, context: NodeContext, longest_seconds: float) -> None:
        self._context, self._longest_seconds = context, longest_seconds
        self.requested_at, self._first_at, self._applied, self._wait = -inf, -inf, -1, 0.0

    def may_ask_at(self, applied: int) -> float:
        """Earliest time of the next request."""
        retry_seconds = self._context.settings.retry_seconds
        return self.requested_at + (
            retry_seconds if applied > self._applied else max(self._wait, retry_seconds)
        )

    def ask(self, applied: int) -> bool:
        """Whether to send a request now; if so, its time is noted."""
        now, settings = self._context.now, self._context.settings
        if now < self.may_ask_at(applied):
            return False
        if applied > self._applied:
            # After a longer silence it is another time that the node is behind.
            wait = now - self._first_at if now - self.requested_at <= 2 * settings.lease_seconds else 0.0
            self._applied, self._first_at = applied, now
        else:
            wait = 2 * self._wait
        self._wait = min(max(wait, settings.retry_seconds), self._longest_seconds)
        self.requested_at = now
        return True


MakeLog = Callable[
    [
        NodeContext,
        int,
        Callable[[int, Entry], None],
        Callable[[], State],
        Callable[[State], None],
    ],
    GroupLog,
]
"""Station, group, and three functions: `apply`, called with every chosen slot and entry, in order, once;
`snapshot`, the state after the last applied slot as a value; `restore`, the inverse."""


@dataclass(frozen=True, slots=True)
class ConsensusEngine:
    """The engine that chooses the entries of logs.

    Attributes
    ----------
    log
        Creates the log of a group.
    max_nodes
        Maximum number of nodes of a cluster; None for no limit.
    """

    name: str
    log: MakeLog
    max_nodes: int | None

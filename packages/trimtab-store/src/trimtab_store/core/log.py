"""The seam between groups and the engine that chooses what stands in their logs."""

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
    """The log of one group on one node: one value a slot, the same on every node.

    Whoever proposes hears of the outcome by what is applied, never by an answer:

    - COMMITTED: the entry itself was applied;
    - void: another one was applied in its place, or the entry was applied and does not count any more, since
      the mastership that it expected has changed;
    - UNKNOWN: neither, for now or for good. **UNKNOWN is possibly chosen**, in any later moment too.

    Any entry may be applied twice. An engine proposes an entry of unknown outcome again if it counts once
    (`counts_once`), in the order in which they came. It never does so with masterships: the term of one that
    is chosen late is over by then, and everybody waits for it.

    Attributes
    ----------
    applied
        The last slot that was applied here.
    """

    @property
    def applied(self) -> int:
        """The last slot that was applied here."""

    @property
    def in_flight(self) -> tuple[Entry, ...]:
        """Entries of this node that have left it, and are neither known to be chosen nor given up."""

    @property
    def without_vote(self) -> str:
        """Why this node does not count in what is chosen, though it could; empty if it does."""

    def recover(self, written: Iterable[object]) -> None:
        """Take in what there was when this life began: what former lives wrote, or what the store holds."""

    def propose(self, entry: Entry) -> None:
        """Have an entry chosen in some slot, if this node can."""

    def discard_pending(self, kind: type) -> None:
        """Forget entries of a kind that wait for their turn; nobody has seen them."""

    def catch_up(self, sender: int) -> None:
        """A node has more of the log than this one: learn it, unless it is too early to ask."""

    def received(self, sender: int, message: object) -> bool:
        """Take in a message of the log, from a node or from `STORE`; False if it is none."""

    def settle(self) -> None:
        """Have decided what was proposed and whose proposer has gone, if it was so at the last call, too.

        In a log in which something is proposed all the time the next proposal does that.
        """

    def first_learned_at(self, slot: int) -> float:
        """When this node first had the value of a slot, or a later moment; never before that was proposed."""

    def tick(self) -> None:
        """Do what is due: send what may be sent, and again what was not answered."""

    def next_deadline(self) -> float:
        """When to go on though nothing happened."""


class CatchUpRetry:
    """When a node that is behind may ask again for what was chosen.

    An answer may be large, and wait behind others at a slow node for longer than `retry_seconds`. If the node
    asked that often, the same entries would come to it again and again, and it would never be done with them.
    So it waits for an answer as long as the one before it took, and twice as long each time that nothing
    came, up to `longest_seconds`. Once something was applied it may ask on after `retry_seconds`.

    Parameters
    ----------
    longest_seconds
        The longest time between two questions.

    Attributes
    ----------
    requested_at
        When this node asked last.
    """

    __slots__ = ("_applied", "_context", "_first_at", "_longest_seconds", "_wait", "requested_at")

    def __init__(self, context: NodeContext, longest_seconds: float) -> None:
        self._context, self._longest_seconds = context, longest_seconds
        self.requested_at, self._first_at, self._applied, self._wait = -inf, -inf, -1, 0.0

    def may_ask_at(self, applied: int) -> float:
        """From when on it may ask."""
        retry_seconds = self._context.settings.retry_seconds
        return self.requested_at + (
            retry_seconds if applied > self._applied else max(self._wait, retry_seconds)
        )

    def ask(self, applied: int) -> bool:
        """Whether to ask now; if so, that counts as asked."""
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
    """What chooses.

    Attributes
    ----------
    log
        Makes the log of a group.
    max_nodes
        How many nodes a cluster may have; None for as many as are wanted.
    """

    name: str
    log: MakeLog
    max_nodes: int | None

"""Steps and states of executions of the level `masters`: one step for each mastership."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from trimtab.act.execution.asked import AskedRecord
from trimtab.act.execution.messages import Command, Event, Failure, Look
from trimtab.act.execution.published import KeptPublishing, Publishing
from trimtab.act.masters.settings import TakeoverSettings
from trimtab.act.port import ClaimPort


@dataclass(frozen=True, slots=True)
class TakeoverStep:
    """One mastership that is to go to a node.

    Attributes
    ----------
    source, target
        Names of nodes; source is None where nobody was master.
    order
        Of the plan's move.
    """

    number: int
    group: str
    source: str | None
    target: str
    order: int
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """The node that is to be master."""
        return (self.target,)

    def __str__(self) -> str:
        return f"{self.group} to node {self.target}"


@dataclass(frozen=True, slots=True)
class TakeoverRecord(AskedRecord[TakeoverStep]):
    """A step and how far it is."""


@dataclass(frozen=True)
class Seen:
    """One look.

    Attributes
    ----------
    cluster, name
        The cluster's own id, and the name under which its samples are filed; empty where that is not known.
    version
        Of what is published; 0 where nothing is.
    masters
        Group to its master; None for nobody.
    able
        Group to the nodes that could be its master now.
    alive
        Nodes that answer.
    hindered
        Group to why no other node can be its master now, where the system tells more than that they are down
        or behind.
    """

    cluster: str
    name: str
    version: int
    masters: Mapping[str, str | None]
    able: Mapping[str, frozenset[str]] = field(default_factory=dict)
    alive: frozenset[str] = frozenset()
    hindered: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KeptTakeovers(KeptPublishing[TakeoverRecord, TakeoverSettings]):
    """The part that the journal keeps."""


@dataclass(frozen=True, kw_only=True)
class TakeoverState(KeptTakeovers, Publishing[TakeoverRecord, TakeoverSettings]):
    """Everything the state machine knows; `seen` is the last look."""

    level: ClassVar[str] = "masters"
    kept: ClassVar[type[KeptTakeovers]] = KeptTakeovers

    seen: Seen | None = None


@dataclass(frozen=True)
class LookAtMasters(Look):
    """Look who is master of these groups. Answer: `MastersSeen`."""

    groups: tuple[str, ...]


@dataclass(frozen=True)
class AskFor(Command):
    """Ask that nodes become masters, over a version of what is published. Answer: `Asked`."""

    base: int
    targets: Mapping[str, str]


@dataclass(frozen=True)
class MastersSeen(Event):
    """Answer to `LookAtMasters`."""

    seen: Seen


@dataclass(frozen=True)
class Answer:
    """What came of asking.

    Attributes
    ----------
    version
        Of what was published; None where somebody was faster, and nothing was.
    failures
        Group to why it was refused.
    """

    version: int | None
    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked(Event):
    """Answer to `AskFor`."""

    answer: Answer


class MastersPort(ClaimPort, Protocol):
    """One cluster to act on."""

    def observe(self, groups: Collection[str]) -> Seen:
        """See who is master of these groups; one that does not exist is left out."""
        ...

    def ask_for(self, base: int, targets: Mapping[str, str]) -> Answer:
        """Ask that nodes become masters of groups: what was asked of others before stays asked."""
        ...

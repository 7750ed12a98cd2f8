"""Steps and states of executions of the level `queues`: one step for each weight or setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from trimtab.act.execution.asked import AskedRecord
from trimtab.act.execution.messages import Command, Event, Look
from trimtab.act.execution.published import KeptPublishing, Publishing
from trimtab.act.execution.settings import Patience
from trimtab.act.port import ClaimPort

Value = float | str
Table = Mapping[str, Value]
"""What is published, by `kind/name`."""


@dataclass(frozen=True, slots=True)
class PublishStep:
    """One weight or setting to be published.

    Attributes
    ----------
    key
        `weight/class` or `setting/name`.
    after
        Its value; None: it is published no more.
    order
        Of the plan's move; 0 for what an older plan takes back.
    """

    number: int
    key: str
    after: Value | None
    order: int
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """None: processes take up what is published when they see it."""
        return ()


@dataclass(frozen=True, slots=True)
class PublishRecord(AskedRecord[PublishStep]):
    """A step and how far it is."""


@dataclass(frozen=True, kw_only=True)
class KeptWeights(KeptPublishing[PublishRecord, Patience]):
    """The part that the journal keeps."""


@dataclass(frozen=True, kw_only=True)
class PublishingState(KeptWeights, Publishing[PublishRecord, Patience]):
    """Everything the state machine knows; `seen` is what was published at the last look."""

    level: ClassVar[str] = "queues"
    kept: ClassVar[type[KeptWeights]] = KeptWeights

    seen: Seen | None = None


@dataclass(frozen=True)
class Seen:
    """One look.

    Attributes
    ----------
    cluster
        The set of queues and its server.
    name
        Under which its samples are filed.
    version, table
        What is published; 0 and nothing where nothing is.
    history
        Tables of all versions that the server keeps.
    """

    cluster: str
    name: str
    version: int
    table: Table
    history: Mapping[int, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class LookAtPublished(Look):
    """Look at what is published. Answer: `PublishedSeen`."""


@dataclass(frozen=True)
class Publish(Command):
    """Publish these changes over a version. Answer: `PublishTold`."""

    base: int
    changes: Mapping[str, Value | None]


@dataclass(frozen=True)
class PublishedSeen(Event):
    """Answer to `LookAtPublished`."""

    seen: Seen


class QueuesPort(ClaimPort, Protocol):
    """One set of queues to act on."""

    def observe(self) -> Seen:
        """What is published."""
        ...

    def publish(self, base: int, changes: Mapping[str, Value | None]) -> int | None:
        """Publish changes over a version; its number, or None where that version is the newest no more."""
        ...

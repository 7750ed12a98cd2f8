"""The settings of executions of the balancer `keys`, below `[execution.keys]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.settings import RetryPolicy, require_above_zero


@dataclass(frozen=True)
class TablePublishingSettings:
    """Patience with those who follow tables.

    Attributes
    ----------
    follow_timeout_seconds
        How long to wait until every producer and consumer follows a table, or every consumer has the
        partitions that were added. At least as long as a process that was killed counts: five times the time
        between its heartbeats, 15 s where processes are few and 100 s at most.
    drain_timeout_seconds
        How long to wait until consumers have passed what was written before. After that the earlier
        partitions stay named in the table, which costs some bytes a record, and a later execution takes them
        out.
    allow_unverified
        Publish although nobody can be seen to keep order: tables in a file have no heartbeats, groups of the
        newer protocol (KIP-848) tell no members, and of a group that is down nobody is there. Whoever sets it
        vouches for every producer and consumer.
    overwrite_invalid
        Publish although what was published last cannot be read, for one that was torn or edited.
    """

    follow_timeout_seconds: float = 120.0
    drain_timeout_seconds: float = 300.0
    allow_unverified: bool = False
    overwrite_invalid: bool = False

    def __post_init__(self) -> None:
        """Refuse times that no execution could work with."""
        require_above_zero(self, "execution.keys", "follow_timeout_seconds", "drain_timeout_seconds")


@dataclass(frozen=True)
class KeysExecutionSettings(RetryPolicy):
    """The settings of an execution that publishes routing tables."""

    table: ClassVar[str] = "keys"

    publishing: TablePublishingSettings = field(default_factory=TablePublishingSettings)

"""The settings of executions of the balancer `keys`, below `[execution.keys]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.settings import RetryPolicy, require_above_zero


@dataclass(frozen=True)
class TablePublishingSettings:
    """Time-outs and checks of the publication of routing tables.

    Attributes
    ----------
    follow_timeout_seconds
        Time to wait until every producer and consumer follows a table, or every consumer has the added
        partitions. It must be at least five heartbeat intervals (15 s with few processes, at most 100 s), the
        time for which a killed process counts.
    drain_timeout_seconds
        Time to wait until consumers have passed the older records. After that the earlier partitions stay in
        the table, which costs some bytes per record; a later execution removes them.
    allow_unverified
        Publish even if consumers' ordering support cannot be verified: with tables in a file (no heartbeats),
        groups of the newer protocol (KIP-848, no member list), or groups that are down. You are responsible
        for every producer and consumer.
    overwrite_invalid
        Publish even if the last published table is unreadable, for example truncated or edited.
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

"""The settings of executions of the balancer `masters`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.settings import RetryPolicy, require_above_zero


@dataclass(frozen=True)
class TransferLimits:
    """Limits and time-outs of transfers.

    Attributes
    ----------
    max_in_flight
        Maximum number of requested and unconfirmed transfers. A store of Paxos groups executes them one by
        one.
    transfer_timeout_seconds
        Time after which an unconfirmed transfer is requested again.
    """

    max_in_flight: int = 4
    transfer_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        require_above_zero(self, "execution.masters", "max_in_flight", "transfer_timeout_seconds")


@dataclass(frozen=True)
class TransferSettings(RetryPolicy):
    """The settings of an execution that hands masterships over."""

    table: ClassVar[str] = "masters"

    masters: TransferLimits = field(default_factory=TransferLimits)

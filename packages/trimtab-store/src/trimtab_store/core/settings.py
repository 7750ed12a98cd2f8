"""Settings of groups and their masters, the same on every node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import inf
from typing import Final

from trimtab_common.errors import SettingsError

MAX_VOTERS = 5
_ABOVE_ZERO: Final = (
    "lease_seconds", "renewal_seconds", "failover_seconds", "propose_seconds", "retry_seconds",
    "cycle_seconds", "sync_seconds",
)  # fmt: skip
_ZERO_TOO: Final = ("upload_seconds", "backoff_seconds", "rest_seconds", "batch_seconds", "max_lag_entries")
_SHARES: Final = ("drift", "margin")
_MINIMA: Final = {"batch_bytes": 1, "window": 1, "snapshot_entries": 2, "keep_bytes": 1}
"""A log is cut off in its half, so that two entries are the fewest."""
_SHARED: Final = ("lease_seconds", "drift", "margin", "cycle_seconds", "scheme", "keep_bytes")


class TransferScheme(IntEnum):
    """How a mastership changes hands once the current master has proposed it.

    The first three are those of the source; with the fourth the preferred node is master by the proposal
    itself.
    """

    AWAIT = 1
    ADVANCE = 2
    EXPIRE = 3
    INSTATE = 4


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Times and sizes of a cluster of groups.

    Attributes
    ----------
    lease_seconds, renewal_seconds
        L and R of the paper: the lease of a mastership, and the interval of its renewal.
    drift
        Maximum relative error of any clock.
    margin
        Share of the lease by which the master's own term is shorter than the others' waiting time.
    failover_seconds
        Time that the engine needs to have a proposer again.
    propose_seconds
        Time after which the result of a mastership proposal is UNKNOWN, and another may be made.
    retry_seconds
        Time without a response after which a message is sent again.
    scheme
        Scheme of leader transfers.
    cycle_seconds
        Maximum time of a transfer; a node holds the cluster's token no longer.
    upload_seconds
        Time for consumers to upload their offsets in a transfer.
    backoff_seconds
        Pause of a group after a failed transfer.
    rest_seconds
        Time for which a group does not return to a node that took it over and lost it within 40 times this
        time. It is eight times as long after each further consecutive loss, at most 256 times. 0: no rest.
    sync_seconds
        Interval of proposals of offsets.
    max_lag_entries
        Maximum replication lag (entries) of a preferred node; it is rejected above it.
    batch_seconds, batch_bytes
        A batch is proposed when either is reached.
    window
        Maximum number of proposals of a group in flight.
    snapshot_entries
        Number of entries after which a snapshot replaces the log of a group.
    keep_bytes
        Maximum bytes of a group's messages. Above it the oldest messages of its largest topics are removed.
    """

    lease_seconds: float = 10.0
    renewal_seconds: float = 2.5
    drift: float = 0.005
    margin: float = 0.02
    failover_seconds: float = 1.0
    propose_seconds: float = 1.0
    retry_seconds: float = 0.2
    scheme: TransferScheme = TransferScheme.EXPIRE
    cycle_seconds: float = 20.0
    upload_seconds: float = 1.0
    backoff_seconds: float = 15.0
    rest_seconds: float = 15.0
    sync_seconds: float = 1.0
    max_lag_entries: int = 64
    batch_seconds: float = 0.002
    batch_bytes: int = 65536
    window: int = 8
    snapshot_entries: int = 1000
    keep_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        """Refuse what would allow two masters, or none for good.

        Raises
        ------
        SettingsError
            If a value is out of range, or a bound of the protocol is not kept.
        """
        self._check_ranges()
        least = 2 * self.renewal_seconds + 2 * self.failover_seconds
        if self.lease_seconds < least:
            raise SettingsError(
                f"masters.lease_seconds is {self.lease_seconds:g}, expected {least:g} or more "
                "(2 R + 2 x failover): a master could lose its term between two renewals; raise it"
            )
        if self.margin < 2 * self.drift:
            raise SettingsError(
                f"masters.margin is {self.margin:g}, expected {2 * self.drift:g} or more "
                "(twice masters.drift): a slow clock beside a fast one would make two masters"
            )
        least = self.lease_seconds + 2 * self.renewal_seconds
        if self.cycle_seconds < least:
            raise SettingsError(
                f"masters.cycle_seconds is {self.cycle_seconds:g}, expected {least:g} or more (L + 2 R): "
                "a transfer by the first scheme would not end in time; raise it"
            )

    def _check_ranges(self) -> None:
        # Written so that NaN, with which every comparison is false, is refused everywhere.
        for name in _ABOVE_ZERO:
            self._expect(name, 0 < getattr(self, name) < inf, "a finite number above 0")
        for name in _ZERO_TOO:
            self._expect(name, 0 <= getattr(self, name) < inf, "a finite number, 0 or more")
        for name in _SHARES:
            self._expect(name, 0 <= getattr(self, name) < 1, "a share, 0 or more and below 1")
        for name, least in _MINIMA.items():
            self._expect(name, least <= getattr(self, name) < inf, f"a whole number, {least} or more")

    def _expect(self, name: str, retained: bool, expected: str) -> None:
        if not retained:
            raise SettingsError(f"masters.{name} is {getattr(self, name):g}, expected {expected}: correct it")

    @property
    def shared(self) -> dict[str, float]:
        """What nodes must have alike: with other terms two are masters, or keep other messages."""
        return {name: getattr(self, name) for name in _SHARED}

"""Time-outs and bounds of the order guard."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from trimtab_common.errors import SettingsError


@dataclass(frozen=True, slots=True)
class OrderingConfig:
    """Settings of the order guard.

    Attributes
    ----------
    switch_seconds
        A producer that cannot change to a new table within it goes on with the old one, and tries again at
        the next table.
    delivery_seconds
        After so long a client gives a record up: it will not be appended any more (`delivery.timeout.ms`).
    gap_seconds
        A record that waits so long for one before it in its stream has its producer's partitions searched;
        longer than `delivery_seconds`, or the one before it might still come.
    fence_seconds
        A record that waits so long for another partition has that one's end looked at, and again each time
        as much has passed: what was lost with a leader will not be consumed.
    held_records
        A partition of which so many records have been received and wait is fetched no further until half of
        them wait no more. After `gap_seconds` in that state it is, by one batch: memory is spared, but
        nothing may wait for ever for what was not fetched.
    run_records
        Records of a split key that go to one partition before another is chosen. From run to run the turn
        goes to another consumer, which has to hear of it: with runs of 1 a key is as fast as such news.

    Raises
    ------
    SettingsError
        If one is not above 0, or a gap is given up before a delivery.
    """

    switch_seconds: float = 5.0
    delivery_seconds: float = 120.0
    gap_seconds: float = 150.0
    fence_seconds: float = 30.0
    held_records: int = 100_000
    run_records: int = 16

    def __post_init__(self) -> None:
        for name in ("switch_seconds", "delivery_seconds", "gap_seconds", "fence_seconds"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise SettingsError(f"OrderingConfig.{name} is {value!r}, expected seconds above 0")
        for name in ("held_records", "run_records"):
            if getattr(self, name) < 1:
                raise SettingsError(f"OrderingConfig.{name} is {getattr(self, name)}, expected 1 or more")
        if self.gap_seconds <= self.delivery_seconds:
            raise SettingsError(
                f"OrderingConfig.gap_seconds is {self.gap_seconds:g}, expected more than delivery_seconds, "
                f"{self.delivery_seconds:g}: what is given up could still arrive"
            )

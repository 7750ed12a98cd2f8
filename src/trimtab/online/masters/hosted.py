"""What a takeover sees of the group that it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from trimtab.online.masters.entries import Nonce
from trimtab.online.masters.lease import Lease
from trimtab.online.masters.log import GroupLog
from trimtab.online.masters.state import GroupState
from trimtab.online.masters.station import Station


class Hosted(Protocol):
    """A group on a node; `Group` is one, and says what each of these is."""

    station: Station
    number: int
    state: GroupState
    lease: Lease
    log: GroupLog
    consumers: dict[tuple[str, str], str]
    uploads: dict[tuple[str, str], tuple[str, int]]
    asked: dict[Nonce, float]

    @property
    def unanswered(self) -> Mapping[tuple[str, str, int], str]:
        """Messages that are batched or proposed."""

    def sync_offsets(self) -> None:
        """Propose the offsets that were handed in."""

    def flush(self) -> None:
        """Propose the batch."""

    def handed_over(self) -> None:
        """Nothing is left of the takeover here."""

"""What a takeover sees of the group that it runs in."""

from __future__ import annotations

from typing import Protocol

from trimtab.online.masters.entries import Nonce
from trimtab.online.masters.intake import Intake
from trimtab.online.masters.lease import Lease
from trimtab.online.masters.log import GroupLog
from trimtab.online.masters.readers import Readers
from trimtab.online.masters.state import GroupState
from trimtab.online.masters.station import Station


class Hosted(Protocol):
    """A group on a node; `Group` is one, and says what each of these is."""

    station: Station
    number: int
    state: GroupState
    lease: Lease
    log: GroupLog
    intake: Intake
    readers: Readers
    asked: dict[Nonce, float]

    def handed_over(self) -> None:
        """Nothing is left of the takeover here."""

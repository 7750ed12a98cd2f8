"""A takeover at the node that is master until then."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from trimtab.online.masters.entries import Nonce, TakeOver
from trimtab.online.masters.hosted import Hosted
from trimtab.online.masters.messages import AskReady, Ended, Ready, Start
from trimtab.online.masters.state import NOBODY


class Phase(Enum):
    """How far it is."""

    UPLOADING = "consumers hand in their offsets"
    SYNCING = "offsets are proposed"
    CHECKING = "the ideal node is asked whether it is caught up"
    DRAINING = "batches under way finish, new messages are forwarded"
    HANDING = "the takeover is proposed, and authority given up"


@dataclass(slots=True)
class Incumbent:
    """One takeover; with it all its flags go.

    Attributes
    ----------
    cycle
        Version of the token under which the ideal node acts.
    until
        Bound, on this node's clock: no later than the token expires.
    fence
        The mastership's, when it began: another one means that the master has drifted.
    waiting
        Consumers, each (consumer, topic), whose offsets are not here yet.
    """

    cycle: int
    ideal: int
    until: float
    fence: int
    upload_until: float
    waiting: set[tuple[str, str]]
    phase: Phase = Phase.UPLOADING
    clean: bool = False
    asked_at: float = field(default=float("-inf"))

    @classmethod
    def begin(cls, group: Hosted, sender: int, start: Start) -> Incumbent | None:
        """Begin what the ideal node asks for; None where this node is no master, or it is too late.

        The stamp is this node's own, from before the ideal node looked at what is left of its token: counted
        from there the bound is never later than the token's end, however long messages took.
        """
        now, settings = group.station.now, group.station.settings
        until = start.stamp + start.seconds * (1 - settings.margin)
        stale = start.life != group.station.life or now >= until
        if stale or not group.lease.held or group.state.ideal != NOBODY:
            return None
        asked = group.readers.ask_all(start.cycle)
        upload_until = now + settings.upload_seconds
        return cls(start.cycle, sender, until, group.state.fence, upload_until, asked)

    @property
    def forwards(self) -> bool:
        """Whether messages that come are sent on to the ideal node."""
        return self.phase in (Phase.DRAINING, Phase.HANDING)

    def step(self, group: Hosted) -> None:
        """Go as far as can be gone now."""
        now, settings = group.station.now, group.station.settings
        if now >= self.until or (self.phase is not Phase.HANDING and group.state.fence != self.fence):
            self.end(group)
            return
        if self.phase is Phase.UPLOADING and (not self.waiting or now >= self.upload_until):
            self.clean = not self.waiting and group.readers.all_known
            self.phase = Phase.SYNCING
            group.readers.sync_offsets()
        if self.phase is Phase.SYNCING and not group.readers.uploads:
            self.phase = Phase.CHECKING
        if self.phase is Phase.CHECKING and now - self.asked_at >= settings.retry_seconds:
            self.asked_at = now
            group.station.send(self.ideal, group.number, AskReady(self.cycle, group.log.applied))
        if self.phase is Phase.DRAINING and not group.intake.unanswered and not group.asked:
            self._hand_over(group)

    def ready(self, group: Hosted, answer: Ready) -> None:
        """The ideal node is caught up: from now on it is handed over, if this node is still master."""
        if self.phase is Phase.CHECKING and group.lease.held and answer.cycle == self.cycle:
            self.phase = Phase.DRAINING
            self._nonce = answer.nonce
            group.intake.flush()
            self.step(group)

    _nonce: Nonce = (0, 0)

    def _hand_over(self, group: Hosted) -> None:
        # First give up, then propose: whether it will be chosen cannot be known here in time.
        if not group.lease.held:
            self.end(group)
            return
        self.phase = Phase.HANDING
        group.lease.give_up()
        state, scheme = group.state, group.station.settings.scheme
        group.log.propose(TakeOver(group.station.node, self.ideal, state.version, int(scheme), self._nonce))

    def end(self, group: Hosted) -> None:
        """Nothing is left of it here."""
        group.handed_over()
        group.log.withdraw(TakeOver)
        group.station.send(self.ideal, group.number, Ended(self.cycle))

"""A network that loses, delays, doubles and reorders, and that can be cut in one direction."""

from __future__ import annotations

from random import Random

Address = int | str
RETRANSMIT_SECONDS = 0.2


def _place(address: Address) -> Address:
    """Where it is: lives of one client follow one another in the same place."""
    return address if isinstance(address, int) else address.partition("#")[0]


class SimulatedNetwork:
    """What becomes of messages.

    Attributes
    ----------
    latency_seconds
        Mean; each message draws its own, so that they overtake one another.
    loss, double
        Chances.
    delay_seconds
        The most that is added to one message in ten.
    cut
        Directions, each (sender, receiver), in which nothing gets through; of clients without their lives.
    """

    __slots__ = ("_chance", "cut", "delay_seconds", "double", "latency_seconds", "loss")

    def __init__(self, chance: Random, latency_seconds: float) -> None:
        self._chance, self.latency_seconds = chance, latency_seconds
        self.loss = self.double = self.delay_seconds = 0.0
        self.cut: set[tuple[Address, Address]] = set()

    def heal(self) -> None:
        """Work as it should."""
        self.loss = self.double = self.delay_seconds = 0.0
        self.cut.clear()

    def delays(self, sender: Address, receiver: Address) -> tuple[float, ...]:
        """Seconds until each copy of a message arrives; none if it is lost."""
        if sender == receiver:
            return (0.0,)
        if self._cut_off(sender, receiver) or (self.loss and self._chance.random() < self.loss):
            return ()
        once = self._delay()
        if self.double and self._chance.random() < self.double:
            return once, self._delay()
        return (once,)

    def delay_of_connection(self, sender: Address, receiver: Address) -> float | None:
        """Seconds until a message arrives over a connection, which sends again what is lost; None if cut."""
        if self._cut_off(sender, receiver):
            return None
        lost = self.loss and self._chance.random() < self.loss
        return self._delay() + (RETRANSMIT_SECONDS if lost else 0.0)

    def _cut_off(self, sender: Address, receiver: Address) -> bool:
        return bool(self.cut) and (_place(sender), _place(receiver)) in self.cut

    def _delay(self) -> float:
        delay = self.latency_seconds * (0.5 + self._chance.random())
        if self.delay_seconds and self._chance.random() < 0.1:
            delay += self._chance.random() * self.delay_seconds
        return delay

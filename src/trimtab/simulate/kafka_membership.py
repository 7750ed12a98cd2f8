"""Which brokers the controller believes in: sessions that expire, brokers that register again."""

from collections.abc import Iterator, Mapping

from trimtab.simulate.kafka_state import SimulatedBroker

SESSION_SECONDS = 6.0
"""Silence after which the controller fences a broker (`broker.session.timeout.ms` of the sandbox)."""
START_SECONDS = 1.7
"""From starting a broker's process until it is unfenced."""


class Membership:
    """Sessions of the brokers of one cluster."""

    def __init__(self, brokers: Mapping[int, SimulatedBroker]) -> None:
        self._brokers = brokers

    def kill(self, broker: int, now: float) -> bool:
        """End the process; the controller notices when its session expires."""
        dead = self._brokers[broker]
        if not dead.running:
            return False
        dead.running, dead.unfence_at = False, None
        dead.fence_at = now + SESSION_SECONDS
        return True

    def start(self, broker: int, now: float) -> bool:
        """Start the process again; before its old session has expired it has to wait for that."""
        dead = self._brokers[broker]
        if dead.running or dead.unfence_at is not None:
            return False
        dead.unfence_at = (now if dead.fence_at is None else dead.fence_at) + START_SECONDS
        return True

    def next_change(self) -> Iterator[float]:
        """Virtual times at which a broker is to be fenced or unfenced."""
        for broker in self._brokers.values():
            yield from (at for at in (broker.fence_at, broker.unfence_at) if at is not None)

    def newly_fenced(self, now: float) -> list[SimulatedBroker]:
        """Fence every broker whose session has expired."""
        due = [b for b in self._brokers.values() if b.fence_at is not None and b.fence_at <= now]
        for broker in due:
            broker.fenced, broker.fence_at = True, None
        return due

    def newly_unfenced(self, now: float) -> list[SimulatedBroker]:
        """Unfence every broker that has started again."""
        due = [b for b in self._brokers.values() if b.unfence_at is not None and b.unfence_at <= now]
        for broker in due:
            broker.running, broker.fenced, broker.unfence_at = True, False, None
        return due

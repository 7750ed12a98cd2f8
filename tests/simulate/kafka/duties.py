"""Duties of a cluster that nobody asks for: fencing brokers, joining in sync, finishing reassignments."""

from simulate.kafka.assignment import Leaders, finish_reassignment
from simulate.kafka.copying import Copying
from simulate.kafka.shared import ClusterState
from simulate.kafka.state import SimulatedBroker

SESSION_SECONDS = 6.0
"""Silence after which the controller fences a broker (`broker.session.timeout.ms` of the sandbox)."""
START_SECONDS = 1.7
"""From starting a broker's process until it is unfenced."""


class Membership:
    """Sessions of the brokers of one cluster, and its controller's absences."""

    def __init__(self, state: ClusterState) -> None:
        self._brokers = state.brokers
        self._controller_back_at: float | None = None

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

    def restart_controller(self, back_at: float) -> None:
        """No controller until this virtual time."""
        self._controller_back_at = back_at

    @property
    def controller_available(self) -> bool:
        """True while there is a controller, as far as `controller_returns` has let it back."""
        return self._controller_back_at is None

    def controller_returns(self, now: float) -> bool:
        """Let the controller back when its time has come; True only at that moment."""
        if self._controller_back_at is None or now < self._controller_back_at:
            return False
        self._controller_back_at = None
        return True

    def next_changes(self) -> list[float]:
        """Virtual times at which a broker is to be fenced or unfenced, or the controller is back."""
        due = [
            at
            for broker in self._brokers.values()
            for at in (broker.fence_at, broker.unfence_at)
            if at is not None
        ]
        if self._controller_back_at is None:
            return due
        # Without a controller nobody is fenced and nobody joins an in-sync set.
        return [max(at, self._controller_back_at) for at in due] + [self._controller_back_at]

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


class Duties:
    """The controller's duties in one cluster, left undone while there is no controller."""

    def __init__(
        self, state: ClusterState, membership: Membership, copying: Copying, leaders: Leaders
    ) -> None:
        self._partitions, self._history = state.partitions, state.history
        self._membership = membership
        self._copying = copying
        self._leaders = leaders

    def perform(self) -> None:
        """Do everything that is due at this instant."""
        if self._membership.controller_returns(self._history.now):
            self._history.note("cluster", "controller_back", None)
        if self._membership.controller_available:
            self._fence()
            self._unfence()
            self._join_in_sync()
            self._finish_reassignments()

    def _fence(self) -> None:
        for broker in self._membership.newly_fenced(self._history.now):
            for partition in self._partitions.values():
                self._leaders.leave_in_sync(partition, broker.id)
            self._history.note("cluster", "fence", broker.id)

    def _unfence(self) -> None:
        for broker in self._membership.newly_unfenced(self._history.now):
            for partition in self._partitions.values():
                if partition.leader is None:
                    self._leaders.elect(partition)
            self._history.note("cluster", "unfence", broker.id)

    def _join_in_sync(self) -> None:
        for partition, replica in self._copying.caught_up():
            partition.in_sync.append(replica)
            if partition.leader is None:
                self._leaders.elect(partition)

    def _finish_reassignments(self) -> None:
        for partition in self._partitions.values():
            dropped = finish_reassignment(partition)
            if dropped is not None:
                partition.drop_replicas(dropped)
                self._leaders.elect(partition)
                self._history.note("cluster", "finish", partition.name, tuple(partition.replicas))

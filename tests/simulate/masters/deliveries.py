"""I4, and I5 as clients see it: what was acknowledged stays, and consumers go on where they were."""

from __future__ import annotations

from collections.abc import Callable

from simulate.masters.clients import SimulatedStoreConsumer
from simulate.masters.logs import AppliedLogs
from simulate.masters.machine import SimulatedNode, StoreWorldProtocol
from trimtab_store.core.entries import MessageRecord
from trimtab_store.core.messages import FetchResponse, ProduceResponse, SendMessage
from trimtab_store.core.state import GroupState


class DeliveryChecker:
    """Messages as producers and consumers were told of them.

    Attributes
    ----------
    clean
        Clean transfers that consumers went through.
    """

    def __init__(
        self, world: StoreWorldProtocol, logs: AppliedLogs, broken: Callable[[str, str], None]
    ) -> None:
        self._world, self._logs, self._broken = world, logs, broken
        self._stored: dict[tuple[int, str, str], int] = {}
        self._read: dict[tuple[int, str, int], MessageRecord] = {}
        self._fences: dict[tuple[int | str, int], int] = {}
        self._started = set[str]()
        self.clean = 0

    def sent(self, machine: SimulatedNode, order: SendMessage) -> None:
        """A master answers a consumer: under which fence, for what it holds may be another one's soon."""
        message = order.message
        if isinstance(message, FetchResponse) and message.verdict == "stored":
            state = self._world.state(machine.number, order.group)
            self._fences[order.to, message.number] = state.fence
            consumer = self._world.clients.get(order.to) if isinstance(order.to, str) else None
            if isinstance(consumer, SimulatedStoreConsumer) and consumer.client not in self._started:
                # A life begins here, though the answer may be lost. Without a clean transfer in between, what
                # the life before it did not hand in comes again.
                self._started.add(consumer.client)
                if not self._is_clean(consumer, state.fence):
                    consumer.worked_off = min(consumer.worked_off, message.offset)

    def _is_clean(self, consumer: SimulatedStoreConsumer, fence: int) -> bool:
        """Whether a clean transfer lies between the master that answered a consumer last and this one."""
        return self._logs.switches.get((consumer.group, fence)) == (consumer.fence, True)

    def stored(self, group: int, message: ProduceResponse) -> None:
        """A producer was told that its message is stored."""
        key = group, message.topic, message.producer
        self._stored[key] = max(self._stored.get(key, 0), message.sequence)

    def pulled(self, consumer: SimulatedStoreConsumer, message: FetchResponse, *, fresh: bool) -> None:
        """A consumer got messages."""
        fence = self._fences[consumer.client, message.number]
        clean = self._is_clean(consumer, fence)
        self.clean += clean
        if fresh:
            # What is kept while the answer is under way may have overtaken it.
            if message.offset < consumer.stored_before:
                self._broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and {consumer.stored_before} was kept"
                )
            if message.offset > consumer.reached:
                self._broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and had got those before "
                    f"{consumer.reached}"
                )  # fmt: skip
            if clean and message.offset < consumer.worked_off:
                self._broken(
                    "I5", f"{consumer.name} gets {message.offset} again after a clean transfer, "
                    f"and those before {consumer.worked_off} were worked off"
                )  # fmt: skip
        consumer.fence = fence
        for offset, record in enumerate(message.records, message.offset):
            known = self._read.setdefault((consumer.group, message.topic, offset), record)
            if known != record:
                self._broken("I4", f"{consumer.name} read {record} at {offset}, and {known} stood there")

    def ended(self, number: int, state: GroupState) -> None:
        """All is quiet: everything that was acknowledged is in the group's state."""
        for (group, topic, producer), last in self._stored.items():
            if group != number:
                continue
            there = [one.sequence for one in state.topics.get(topic, []) if one.producer == producer]
            if there != list(range(1, len(there) + 1)) or len(there) < last:
                self._broken(
                    "I4", f"of {producer} {last} were acknowledged, and {there[-5:]} are the last there"
                )

    def all_ended(self) -> None:
        """What was read is there too."""
        for (number, topic, offset), record in self._read.items():
            if self._world.state(0, number).topics[topic][offset] != record:
                self._broken("I4", f"what was read at {offset} of {topic} is not there")

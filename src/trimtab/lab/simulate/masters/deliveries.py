"""I4, and I5 as clients see it: what was acknowledged stays, and consumers go on where they were."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.lab.simulate.masters.clients import Consumer
from trimtab.lab.simulate.masters.logs import Logs
from trimtab.lab.simulate.masters.machine import Machine, Stage
from trimtab.online.masters.entries import Record
from trimtab.online.masters.messages import Published, Pulled, Send
from trimtab.online.masters.state import GroupState


class Deliveries:
    """Messages as producers and consumers were told of them.

    Attributes
    ----------
    clean
        Clean takeovers that consumers went through.
    """

    def __init__(self, world: Stage, logs: Logs, broken: Callable[[str, str], None]) -> None:
        self._world, self._logs, self._broken = world, logs, broken
        self._stored: dict[tuple[int, str, str], int] = {}
        self._read: dict[tuple[int, str, int], Record] = {}
        self._fences: dict[tuple[int | str, int], int] = {}
        self._begun: dict[int | str, int] = {}
        self.clean = 0

    def sent(self, machine: Machine, order: Send) -> None:
        """A master answers a consumer: under which fence, for what it holds may be another one's soon."""
        message = order.message
        if isinstance(message, Pulled) and message.verdict == "stored":
            state = self._world.state(machine.number, order.group)
            self._fences[order.to, message.number] = state.fence
            self._begun.setdefault(order.to, state.fence)

    def stored(self, group: int, message: Published) -> None:
        """A producer was told that its message is stored."""
        key = group, message.topic, message.producer
        self._stored[key] = max(self._stored.get(key, 0), message.sequence)

    def pulled(self, consumer: Consumer, message: Pulled, *, fresh: bool) -> None:
        """A consumer got messages."""
        fence = self._fences[consumer.client, message.number]
        clean = self._logs.switches.get((consumer.group, fence)) == (consumer.fence, True)
        self.clean += clean
        if fresh:
            # What is kept while the answer is under way may have overtaken it.
            if message.offset < consumer.kept_before:
                self._broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and {consumer.kept_before} was kept"
                )
            if message.offset > consumer.reached:
                self._broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and had got those before "
                    f"{consumer.reached}"
                )  # fmt: skip
            # A life that the incumbent has begun, though its answer was lost, has handed in all that it had.
            # What the life before it did not hand in comes again, takeover or not.
            clean = clean and self._begun[consumer.client] == fence
            if clean and message.offset < consumer.worked_off:
                self._broken(
                    "I5", f"{consumer.name} gets {message.offset} again after a clean takeover, "
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

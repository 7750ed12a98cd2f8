"""An asynchronous consumer: messages in their order, and an offset that the cluster keeps."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

from trimtab.dataplane.masters.client import Client, check_name
from trimtab.dataplane.masters.cluster import MastersCluster
from trimtab.online.masters.messages import OffsetKept, Pulled, Send
from trimtab.online.masters.reading import Reading


class Message(NamedTuple):
    """A message of a topic: its place there, who sent it as which of its own, and what it holds."""

    offset: int
    producer: str
    sequence: int
    payload: bytes


class Consumer(Client):
    """Reads one topic of a cluster, through redirects, takeovers and the death of masters.

    It begins at the offset that was kept for its name, at 0 for a new one, and gets each message once from
    there on. What the cluster keeps no more is passed over: the offset rises by more than one. What was
    handed out and not told `done` is handed out again to the next consumer of the name.

    When it is closed it hands in what is done, and tells the master that it leaves: no takeover waits for it.

    Parameters
    ----------
    name
        Under it the offset is kept; one consumer of a name reads at a time.
    most
        Messages that may wait here for the program.
    patience_seconds
        If no master answers for that long, the program gets a `ConnectError`; None for never.
    closing_seconds
        It is closed after that long at the latest, whether or not a master has heard of it.

    Raises
    ------
    InputError
        If its name, or that of the topic, is too long.
    """

    def __init__(
        self,
        cluster: MastersCluster,
        topic: str,
        name: str,
        *,
        most: int = 200,
        patience_seconds: float | None = 60.0,
        closing_seconds: float = 5.0,
    ) -> None:
        check_name("a consumer", name)
        super().__init__(cluster, topic, patience_seconds)
        self._reading = Reading(
            self._client,
            self._group,
            topic,
            name,
            nodes=len(cluster.addresses),
            master=self._group % len(cluster.addresses),
            most=most,
        )
        self._name, self._closing = name, closing_seconds
        self._messages: deque[Message] = deque()
        self._changed = asyncio.Event()
        self._heard_at = float("-inf")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say goodbye, and end all connections."""
        try:
            # Where nobody has ever answered, or nobody is there, nobody waits for this one either.
            if self._reading.position is not None and not all(link.trouble for link in self._links):
                self._reading.leave(self._now)
                self._go_on()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._closing):
                        while not self._reading.left:
                            self._changed.clear()
                            await self._changed.wait()
        finally:
            await super().__aexit__(kind, error, trace)

    @property
    def kept(self) -> int:
        """All messages before this offset are kept as worked off, as far as is known here."""
        return self._reading.kept

    async def take(self) -> Message:
        """The next message, as soon as there is one.

        Raises
        ------
        ConnectError
            If no master answers.
        """
        while not self._messages:
            await self._change()
        message = self._messages.popleft()
        self._reading.room += 1
        self._go_on()
        return message

    async def __aiter__(self) -> AsyncIterator[Message]:
        """All messages, as they come; errors as in `take`."""
        while True:
            yield await self.take()

    def done(self, message: Message) -> None:
        """Tell that a message and all before it are worked off; the offset is kept within a second or so."""
        self._reading.work_off(self._now, message.offset + 1)
        self._go_on()

    async def keep(self) -> None:
        """Wait until the offset behind the last message that is done is kept; errors as in `take`."""
        wanted = self._reading.done
        self._reading.keep_now(self._now)
        self._go_on()
        while self._reading.kept < wanted:
            await self._change()

    async def _change(self) -> None:
        """Wait for a message or a kept offset; errors as in `take`."""
        self._changed.clear()
        begun = self._now
        while True:
            until = None if self._patience is None else max(begun, self._heard_at) + self._patience
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
                    return
            except TimeoutError:
                if self._heard_at <= begun or self._now >= self._heard_at + (self._patience or 0):
                    raise self._silence(f"a question of consumer {self._name}") from None

    def _due(self) -> float:
        return self._reading.due()

    def _woken(self, now: float) -> Sequence[Send]:
        return self._reading.go_on(now)

    def _heard(self, now: float, node: int, message: Any) -> Sequence[Send]:
        kept = self._reading.kept
        orders, records = self._reading.received(now, node, message)
        if isinstance(message, Pulled | OffsetKept) and getattr(message, "verdict", "stored") == "stored":
            self._heard_at = now
        start = (self._reading.position or 0) - len(records)
        self._messages.extend(
            Message(offset, record.producer, record.sequence, record.payload)
            for offset, record in enumerate(records, start)
        )
        if records or self._reading.kept > kept or self._reading.left:
            self._changed.set()
        return orders

    def _lost(self, now: float, node: int) -> None:
        self._reading.lost(now, node)

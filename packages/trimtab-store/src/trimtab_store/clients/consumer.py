"""An asynchronous consumer: messages in their order, and an offset that the cluster keeps."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from trimtab_store.clients.cluster import StoreClient, StoreConfig, check_name
from trimtab_store.core.client_sessions import ConsumerSession
from trimtab_store.core.messages import FetchResponse, OffsetCommitted, SendMessage


class StoredMessage(NamedTuple):
    """A message of a topic: its place there, who sent it as which of its own, and what it holds."""

    offset: int
    producer: str
    sequence: int
    payload: bytes


class Consumer(StoreClient):
    """Reads one topic of a cluster, through redirects, transfers and the death of masters.

    It begins at the offset that was kept for its name, at 0 for a new one, and gets each message once from
    there on. What the cluster keeps no more is passed over: the offset rises by more than one. What was
    handed out and not told `done` is handed out again to the next consumer of the name.

    When it is closed it hands in what is done, and tells the master that it leaves: no transfer waits for it.

    Parameters
    ----------
    name
        Under it the offset is kept; one consumer of a name reads at a time.
    max_messages
        Messages that may wait here for the program.
    timeout_seconds
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
        cluster: StoreConfig,
        topic: str,
        name: str,
        *,
        max_messages: int = 200,
        timeout_seconds: float | None = 60.0,
        closing_seconds: float = 5.0,
    ) -> None:
        check_name("a consumer", name)
        super().__init__(cluster, topic, timeout_seconds)
        self._reading = ConsumerSession(
            self._client,
            self._group,
            topic,
            name,
            nodes=len(cluster.addresses),
            master=self._group % len(cluster.addresses),
            max_messages=max_messages,
        )
        self._name, self._closing = name, closing_seconds
        self._messages: deque[StoredMessage] = deque()
        self._changed = asyncio.Event()
        self._response_at = float("-inf")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say goodbye, and end all connections."""
        try:
            # Where nobody has ever answered, or nobody is there, nobody waits for this one either.
            if self._reading.position is not None and not all(link.trouble for link in self._links):
                self._reading.leave(self._now)
                self._tick()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._closing):
                        while not self._reading.left:
                            self._changed.clear()
                            await self._changed.wait()
        finally:
            await super().__aexit__(kind, error, trace)

    @property
    def committed_offset(self) -> int:
        """All messages before this offset are kept as worked off, as far as is known here."""
        return self._reading.committed_offset

    async def receive(self) -> StoredMessage:
        """The next message, as soon as there is one.

        Raises
        ------
        ConnectError
            If no master answers.
        """
        while not self._messages:
            await self._change()
        message = self._messages.popleft()
        self._reading.has_capacity += 1
        self._tick()
        return message

    async def __aiter__(self) -> AsyncIterator[StoredMessage]:
        """All messages, as they come; errors as in `take`."""
        while True:
            yield await self.receive()

    def done(self, message: StoredMessage) -> None:
        """Tell that a message and all before it are worked off; the offset is kept within a second or so."""
        self._reading.work_off(self._now, message.offset + 1)
        self._tick()

    async def keep(self) -> None:
        """Wait until the offset behind the last message that is done is kept; errors as in `take`."""
        wanted = self._reading.done
        self._reading.keep_now(self._now)
        self._tick()
        while self._reading.committed_offset < wanted:
            await self._change()

    async def _change(self) -> None:
        """Wait for a message or a kept offset; errors as in `take`."""
        self._changed.clear()
        begun = self._now
        while True:
            until = None if self._timeout is None else max(begun, self._response_at) + self._timeout
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
                    return
            except TimeoutError:
                if self._response_at <= begun or self._now >= self._response_at + (self._timeout or 0):
                    raise self._silence(f"a question of consumer {self._name}") from None

    def _next_deadline(self) -> float:
        return self._reading.next_deadline()

    def _woken(self, now: float) -> Sequence[SendMessage]:
        return self._reading.tick(now)

    def _handle_response(self, now: float, node: int, message: object) -> Sequence[SendMessage]:
        kept = self._reading.committed_offset
        orders, records = self._reading.received(now, node, message)
        if (
            isinstance(message, FetchResponse | OffsetCommitted)
            and getattr(message, "verdict", "stored") == "stored"
        ):
            self._response_at = now
        start = (self._reading.position or 0) - len(records)
        self._messages.extend(
            StoredMessage(offset, record.producer, record.sequence, record.payload)
            for offset, record in enumerate(records, start)
        )
        if records or self._reading.committed_offset > kept or self._reading.left:
            self._changed.set()
        return orders

    def _lost(self, now: float, node: int) -> None:
        self._reading.lost(now, node)

"""An asynchronous producer: every message is stored once, and in the order in which it was given."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from trimtab_common.errors import ConnectError, InputError
from trimtab_store.clients.cluster import StoreClient, StoreConfig
from trimtab_store.core.client_sessions import ProducerSession
from trimtab_store.core.messages import PAYLOAD_BYTES, MessageRecord, ProduceResponse, SendMessage


class Producer(StoreClient):
    """Sends to one topic of a cluster, through redirects, transfers and the death of masters.

    A message that is acknowledged is on the disks of a majority. One that is not, when the program or the
    producer ends, may be stored or not.

    Parameters
    ----------
    window
        Messages that may be unacknowledged at once; whoever has more waits.
    timeout_seconds
        If nothing is acknowledged for that long, all that is open fails with `ConnectError`, and so does
        whatever comes later; None for never.

    Attributes
    ----------
    name
        Under it the messages are counted. Drawn anew for each producer: numbers of another life are not known
        here.

    Raises
    ------
    InputError
        If the name of the topic is too long.
    """

    def __init__(
        self,
        cluster: StoreConfig,
        topic: str,
        *,
        window: int = 256,
        timeout_seconds: float | None = 60.0,
    ) -> None:
        super().__init__(cluster, topic, timeout_seconds)
        self.name = secrets.token_hex(8)
        self._sending = ProducerSession(
            self._client,
            self._group,
            topic,
            self.name,
            nodes=len(cluster.addresses),
            master=self._group % len(cluster.addresses),
        )
        self._room = asyncio.Semaphore(window)
        self._futures: dict[int, asyncio.Future[int]] = {}
        self._response_at = float("-inf")
        self._failed: ConnectError | InputError | None = None

    @property
    def counts(self) -> tuple[int, int]:
        """Messages that were given to it so far, and how often any of them was sent."""
        return self._sending.last, self._sending.sent

    async def send(self, payload: bytes) -> int:
        """Have a message stored; its sequence, from 1 on.

        Raises
        ------
        ConnectError
            If nobody acknowledged it in time: it may be stored or not.
        InputError
            If it is no bytes, or too large; or if a node refuses it, by a lower limit than is known here.
        """
        return await asyncio.shield(await self.post(payload))

    async def post(self, payload: bytes) -> asyncio.Future[int]:
        """Send a message as soon as there is room; a future of its sequence, done when it is stored.

        Raises
        ------
        ConnectError
            If the producer has failed before.
        InputError
            If it is no bytes, or too large; or if a node has refused one before.
        """
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise InputError(
                f"a message for topic {self._topic} is a {type(payload).__name__}, expected bytes: encode it"
            )
        if len(payload) > PAYLOAD_BYTES:
            raise InputError(
                f"a message for topic {self._topic} has {len(payload):,} bytes, expected {PAYLOAD_BYTES:,} "
                "or fewer: send it in parts"
            )
        await self._room.acquire()
        if self._failed is not None:
            self._room.release()
            raise self._failed
        if not self._futures:
            self._response_at = self._now
        orders = self._sending.post(self._now, payload)
        future = asyncio.get_running_loop().create_future()
        self._futures[self._sending.last] = future
        self._carry_out(orders)
        self._tick()
        return future

    async def flush(self) -> None:
        """Wait until everything is acknowledged; errors as in `send`."""
        await asyncio.gather(*map(asyncio.shield, self._futures.values()))

    def _next_deadline(self) -> float:
        if self._futures and self._timeout is not None:
            return min(self._sending.next_deadline(), self._response_at + self._timeout)
        return self._sending.next_deadline()

    def _woken(self, now: float) -> Sequence[SendMessage]:
        if self._futures and self._timeout is not None and now >= self._response_at + self._timeout:
            self._fail(self._silence("a message"))
        return self._sending.tick(now) if self._sending.next_deadline() <= now else ()

    def _handle_response(self, now: float, node: int, message: object) -> Sequence[SendMessage]:
        if isinstance(message, ProduceResponse):
            for sequence in self._sending.received(now, node, message):
                self._response_at = now
                self._room.release()
                future = self._futures.pop(sequence)
                if not future.done():
                    future.set_result(sequence)
            if self._sending.unfit is not None and self._failed is None:
                self._fail(self._refused(node, self._sending.open[self._sending.unfit]))
        return ()

    def _refused(self, node: int, record: MessageRecord) -> InputError:
        return InputError(
            f"message {record.sequence} of topic {self._topic} has {len(record.payload):,} bytes, and node "
            f"{node} refuses it for good: send it in parts, or run the same version of trimtab there and here"
        )

    def _fail(self, error: ConnectError | InputError) -> None:
        """Nothing more of what is open will be known, or stored."""
        self._failed = error
        self._sending.open.clear()
        futures, self._futures = self._futures, {}
        for future in futures.values():
            self._room.release()
            if not future.done():
                future.set_exception(error)

    def _lost(self, now: float, node: int) -> None:
        self._sending.lost(now, node)

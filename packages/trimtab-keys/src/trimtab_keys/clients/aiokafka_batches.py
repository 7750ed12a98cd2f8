"""Batches of aiokafka's producer that keep a delivery time-out, which it only knows while there is no leader.

Its idempotent producer sends a batch again and again until it is acknowledged, however old it is; and where
one fails that had been numbered for its partition, all later ones of that partition are refused for ever,
since brokers miss its numbers. Written against 0.14.0, whose accumulator is no public interface.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaTimeoutError
from aiokafka.producer.message_accumulator import MessageAccumulator, MessageBatch
from aiokafka.producer.transaction_manager import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PidAndEpoch

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer

POLL_SECONDS: Final = 1.0
"""Time between two looks for what is too old, besides that before each request."""


class _TrackedBatch(MessageBatch):  # type: ignore[misc]
    """A batch that tells when its numbers are lost."""

    numbered = False
    accumulator: DeadlineAccumulator

    def set_producer_state(self, *state: Any, **named: Any) -> None:
        """It is numbered now, to be sent for the first time."""
        self.numbered = True
        super().set_producer_state(*state, **named)

    def failure(self, exception: BaseException) -> None:
        """It is given up."""
        if self.numbered and not self.future.done():
            self.accumulator.numbers_lost = True
        super().failure(exception)


class DeadlineAccumulator(MessageAccumulator):  # type: ignore[misc]
    """An accumulator out of which no batch is sent that is older than the delivery time-out.

    Attributes
    ----------
    numbers_lost
        Whether the producer needs a new id, under which numbers begin anew.
    """

    numbers_lost = False

    @classmethod
    def of(cls, producer: AIOKafkaProducer, delivery_seconds: float) -> DeadlineAccumulator:
        """Turn the accumulator of an idempotent producer into one, before anything is sent."""
        made = producer._message_accumulator
        made.__class__ = cls
        made._batch_ttl = delivery_seconds
        return made  # type: ignore[no-any-return]

    def drain_by_nodes(
        self, ignore_nodes: Collection[int], muted_partitions: Collection[Any] = frozenset()
    ) -> tuple[Any, bool]:
        """What is to be sent now, by node; nothing where the producer needs a new id first."""
        self.expire()
        if not self.numbers_lost:
            return super().drain_by_nodes(ignore_nodes, muted_partitions)  # type: ignore[no-any-return]
        self.numbers_lost = False
        self._txn_manager._pid_and_epoch = PidAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._txn_manager._pid_waiter = self._loop.create_future()
        self._txn_manager._sequence_numbers.clear()
        # The sender goes round again at once, and asks for an id before all else. What is on its way under
        # the old one goes on under it.
        self._wakeup(self._waiter_future)
        return {}, False

    def expire(self) -> None:
        """Give up what has waited for too long, but for what is being sent: its request has a time-out."""
        for partition in list(self._batches):
            waiting = self._batches[partition]
            while waiting and waiting[0].expired():
                batch = waiting.popleft()
                if batch.numbered:
                    # As when it is sent again: it takes itself out of these as it ends.
                    self._pending_batches.add(batch)
                # Whoever waits for room goes on, in a new batch.
                batch.drain_ready()
                batch.failure(
                    KafkaTimeoutError(f"not acknowledged within {self._batch_ttl:g} s (delivery_seconds)")
                )
            if not waiting:
                del self._batches[partition]

    async def keep(self) -> None:
        """Expire again and again: without an id, or an answer, the sender does not come by."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.expire()

    def _append_batch(self, builder: Any, tp: Any) -> Any:
        batch = super()._append_batch(builder, tp)
        batch.__class__, batch.accumulator = _TrackedBatch, self
        return batch

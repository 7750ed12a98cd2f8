"""Reading back what a load has written to Kafka, as far as retention has left it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from trimtab.lab.sandbox.log_check import ReadBackLog
from trimtab.lab.sandbox.stamps import RecordRun, RecordRuns, number_of
from trimtab.model.errors import SandboxError
from trimtab.systems.kafka.client import consumer

if TYPE_CHECKING:
    from trimtab.systems.kafka.settings import KafkaConnection

TIMEOUT_SECONDS = 30.0
POLL_MS = 500


def read_back(
    connection: KafkaConnection, run: str, confirmed: Mapping[str, list[RecordRun]]
) -> dict[str, ReadBackLog]:
    """The logs of a load that has ended.

    Parameters
    ----------
    run
        The stamp of its records; others are passed over.
    confirmed
        By `topic:partition`; each log is read from the first of these on.

    Raises
    ------
    SandboxError
        If brokers hand nothing out for half a minute.
    """
    from kafka import TopicPartition

    if not confirmed:
        return {}
    client = consumer(connection, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        keys = {TopicPartition(*_split(key)): key for key in confirmed}
        client.assign(list(keys))
        ends, begins = client.end_offsets(list(keys)), client.beginning_offsets(list(keys))
        for where, key in keys.items():
            first = min(stretch.place or 0 for stretch in confirmed[key])
            client.seek(where, max(begins[where], min(first, ends[where])))
        found = RecordRuns()
        heard = time.monotonic()
        while left := [where for where in keys if client.position(where) < ends[where]]:
            for where, batch in client.poll(timeout_ms=POLL_MS, max_records=5_000).items():
                heard = time.monotonic()
                for record in batch:
                    if (number := number_of(run, record.value)) is not None:
                        found.add(keys[where], number, record.offset)
            if time.monotonic() - heard > TIMEOUT_SECONDS:
                raise SandboxError(
                    f"the log of {keys[left[0]]} cannot be read back: nothing for {TIMEOUT_SECONDS:g} s"
                )
        # Retention goes on meanwhile: what it removed before we came to it is not lost.
        begins, records = client.beginning_offsets(list(keys)), found.take()
        return {key: ReadBackLog(begins[where], records.get(key, [])) for where, key in keys.items()}
    finally:
        client.close()


def _split(key: str) -> tuple[str, int]:
    topic, _, partition = key.rpartition(":")
    return topic, int(partition)

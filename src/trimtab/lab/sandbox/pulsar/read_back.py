"""Reading back what a load has written to Pulsar, as far as retention has left it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from trimtab.lab.sandbox.log_check import ReadBackLog
from trimtab.lab.sandbox.stamps import RecordRun, RecordRuns, number_of, pulsar_place
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.client import pulsar_client
from trimtab.systems.pulsar.http import topic_path

if TYPE_CHECKING:
    from trimtab.systems.pulsar.settings import PulsarConnection

TIMEOUT_MS = 30_000


class TopicLedger(msgspec.Struct):
    """A piece of a topic's log."""

    ledger: int = msgspec.field(name="ledgerId")


class InternalStats(msgspec.Struct):
    """The ledgers that a topic still has."""

    ledgers: list[TopicLedger]


def read_back(
    connection: PulsarConnection, run: str, confirmed: Mapping[str, list[RecordRun]]
) -> dict[str, ReadBackLog]:
    """The topics of a load that has ended.

    Parameters
    ----------
    run
        The stamp of its messages; others are passed over.
    confirmed
        By the full names of topics.

    Raises
    ------
    SandboxError
        If a topic cannot be read to its end.
    """
    import pulsar

    found = RecordRuns()
    begins = {}
    client = pulsar_client(connection)
    try:
        with PulsarAdmin(connection) as admin:
            for topic in confirmed:
                told = admin.get_json(f"{topic_path(topic)}/internalStats", InternalStats)
                begins[topic] = min((ledger.ledger for ledger in told.ledgers), default=0) << 32
                reader = client.create_reader(topic, pulsar.MessageId.earliest)
                while reader.has_message_available():
                    message = reader.read_next(TIMEOUT_MS)
                    at, number = message.message_id(), number_of(run, message.data())
                    if number is not None:
                        found.add(topic, number, pulsar_place(at.ledger_id(), at.entry_id()))
                reader.close()
    except pulsar.PulsarException as error:
        raise SandboxError(f"{topic} cannot be read back: {error}") from error
    finally:
        client.close()
    records = found.take()
    return {
        topic: ReadBackLog(begin, records.get(topic, []), gapless=False) for topic, begin in begins.items()
    }

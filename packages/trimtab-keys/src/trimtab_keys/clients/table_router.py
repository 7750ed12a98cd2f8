"""What a producer of any client goes by: its `OrderedProducer`, kept up to date by a `TableFollower`."""

from __future__ import annotations

import threading
from typing import Final
from uuid import uuid4

from trimtab_common.errors import InputError
from trimtab_keys.clients.follower import TableFollower
from trimtab_keys.clients.metadata_connection import MetadataConnection, TopicDescription
from trimtab_keys.clients.ordered_producer import OrderedProducer, ProducerAdapter
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order.sender import OrderedSender
from trimtab_keys.format.heartbeat import ClientHeartbeat
from trimtab_keys.format.table import PublishedTable

CLOSE_SECONDS: Final = 5.0
"""A client that refuses fills as it is closed gets so long to make room; who waits for them has its gap."""


class TableRouter:
    """Where records go, from the first on.

    Parameters
    ----------
    settings
        Where tables are.
    topic
        Of the records.
    client
        Name of the client, for heartbeats.
    adapter
        The client's producer.

    Attributes
    ----------
    sending
        Places records.
    """

    def __init__(self, settings: RoutingConfig, topic: str, client: str, adapter: ProducerAdapter) -> None:
        self._topic, self._client, self._adapter, self._base = topic, client, adapter, settings.base
        self._process = uuid4().hex
        self._sending: OrderedProducer | None = None
        self._settled = threading.Event()
        self.follower = TableFollower(settings, topic, self._turn, self._send_heartbeat)
        self.follower.start()
        table, seen = self.follower.table, self.follower.description
        count = seen.partitions if seen is not None else adapter.partitions(1)
        base = table.table.base if table is not None else settings.base or count
        sender = OrderedSender(base, settings.ordering)
        self.sending = self._sending = OrderedProducer(sender, self._process, settings.retry_seconds)
        if table is not None:
            # What earlier runs sent goes first only if this one reads a table before it sends.
            self._settled.wait(settings.start_seconds)

    def check(self) -> None:
        """Refuse to send to a topic that is another one than it was.

        Raises
        ------
        InputError
            If it was deleted and made anew: fences name offsets of the old one.
        """
        if self.follower.recreated is not None:
            raise InputError(
                f"topic {self._topic} was deleted and made anew since this producer began (its id is "
                f"{self.follower.recreated}): make the producer anew, and plan its keys anew"
            )

    def close(self) -> None:
        """End the thread, and fill the places of what failed until now; the client is to be flushed then."""
        self.follower.stop()
        if self.sending.fill_gap(self._adapter):
            self._adapter.flush(CLOSE_SECONDS)
            self.sending.fill_gap(self._adapter)

    def _turn(
        self, table: PublishedTable | None, topic: TopicDescription, side: MetadataConnection
    ) -> str | None:
        sending = self._sending
        if sending is None:
            return None
        if self.follower.recreated is not None:
            sending.forget()  # so that all records come by `check`
            return None
        sending.fill_gap(self._adapter)
        if table is None:
            return self._grown(topic, sending.base)
        if table.table.base != sending.base:
            return (
                f"table {table.table.version} divides by {table.table.base} partitions, this producer by "
                f"{sending.base} since it began without a table; start it anew"
            )
        if table.table.partitions > topic.partitions:
            return (
                f"table {table.table.version} names {table.table.partitions} partitions, the topic has "
                f"{topic.partitions}; plan and apply anew"
            )
        sending.topic_id = topic.topic_id
        followed = sending.follow(table.table, self._adapter, side.ends)
        self._settled.set()
        return None if followed else f"changing to table {table.table.version} was given up for now"

    def _grown(self, topic: TopicDescription, base: int) -> str | None:
        """What to say while no table names the base and partitions were added: the next run divides by more.

        Of a run before nothing is known: only who began before the partitions came can say it.
        """
        if self._base is not None or topic.partitions <= base:
            return None
        return (
            f"topic {self._topic} has {topic.partitions} partitions now, and this producer's hash divides by "
            f"the {base} that it began with; one that starts anew would divide by {topic.partitions}, and "
            f"nearly all keys would move without order: give base={base} in RoutingConfig, or publish a table"
        )

    def _send_heartbeat(self) -> ClientHeartbeat:
        sending = self._sending
        return ClientHeartbeat(
            process=self._process,
            role="producer",
            client=self._client,
            topic=self._topic,
            topic_id="",
            at=0.0,
            version=0 if sending is None else sending.version,
            partitions=0 if sending is None else self._adapter.partitions(0),
            wrapped=True,
        )

"""Admin calls of tests to clusters whose brokers are killed and started again meanwhile."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from kafka.errors import KafkaError, UnknownBrokerIdError, UnknownTopicOrPartitionError

from trimtab.systems.kafka.client import admin_client
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_common.errors import ConnectError

PATIENCE_SECONDS = 120.0
"""How long a busy machine may take for anything; costs nothing where it does not."""

T = TypeVar("T")


def ask(connection: KafkaConnection, call: Callable[[Any], T]) -> T:
    """What a new client is told, tried again by another while brokers come and go.

    A client that has lived through the death of a broker keeps away from it for up to half a minute, and may
    not know for minutes that it is back.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with closing(admin_client(connection)) as admin:
                return call(admin)
        except (KafkaError, ConnectError) as error:
            passing = isinstance(error, ConnectError | UnknownBrokerIdError) or getattr(
                error, "retriable", False
            )
            if isinstance(error, UnknownTopicOrPartitionError) or not passing or time.monotonic() > deadline:
                raise
        time.sleep(0.2)

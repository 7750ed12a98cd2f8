"""Collectors of Pulsar: over its brokers' web service, and over what they publish on topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Final

from trimtab.connect.pulsar.admin import PulsarAdmin, PulsarConnection
from trimtab.observe.collect.capacity import CapacitySettings
from trimtab.observe.collect.collecting import Collecting
from trimtab.observe.collect.pulsar.collector import PulsarCollector
from trimtab.observe.collect.pulsar.raw import COLUMNS
from trimtab.observe.collect.pulsar.recording import RecordingLanding
from trimtab.observe.collect.settings import CollectSettings


@contextmanager
def open_collector(
    connection: PulsarConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[PulsarCollector]:
    """A collector on a connection of its own.

    Raises
    ------
    ConnectError
        If no broker can be reached now, or they refuse us.
    """
    patient = replace(connection, timeout_seconds=settings.patience_seconds)
    with PulsarAdmin(patient) as admin, closing(PulsarCollector(admin, settings, capacity)) as collector:
        admin.brokers()
        yield collector


COLLECTING: Final = Collecting(COLUMNS, open_collector, recorder=RecordingLanding)

"""The status of boxes, without a lake."""

from __future__ import annotations

from trimtab.observe.collect.sampler import TickSample
from trimtab.observe.collect.settings import CollectSettings
from trimtab.systems.boxes.sampler import BoxesCollector
from trimtab.systems.boxes.settings import BoxesConnection


def read_status(connection: BoxesConnection, settings: CollectSettings) -> TickSample:
    """The samples of this moment."""
    return BoxesCollector(connection.path).sample()

"""One look at boxes without a lake."""

from __future__ import annotations

from pathlib import Path

from trimtab.observe.collect.boxes.collecting import BoxesCollector
from trimtab.observe.collect.collecting import TickSample
from trimtab.observe.collect.settings import CollectSettings


def look(path: Path, settings: CollectSettings) -> TickSample:
    """The samples of this moment."""
    return BoxesCollector(path).sample()

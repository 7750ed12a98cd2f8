"""Settings of producers and consumers that follow routing tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from trimtab.model.errors import SettingsError
from trimtab.online.keys.order.settings import Guarding


@dataclass(frozen=True, slots=True)
class Following:
    """Where routing tables are, and how they are followed.

    Attributes
    ----------
    connection
        Keyword arguments of kafka-python's clients (`bootstrap_servers`, security): of a connection beside
        that of the application, over which tables are read and offsets are asked for.
    tables_topic
        The compacted topic that tables are published to, and heartbeats told on.
    table_file
        A file instead, read again when it changes.
    base
        Partitions that the hash divides by while no table was read; None for those that the topic has then.
    start_seconds
        A producer waits so long for its first table before it begins by the plain hash.
    read_seconds
        Time between two looks at a file, and at what the topic is.
    retry_seconds
        A change to a table that was given up is tried again after so long.
    beat_seconds
        Time between two heartbeats.
    guarding
        Time-outs of the order guard; `switch_seconds` is the longest that a send waits for a change.

    Raises
    ------
    SettingsError
        If a time is not above 0, or both places are given.
    """

    connection: Mapping[str, Any]
    tables_topic: str | None = None
    table_file: Path | None = None
    base: int | None = None
    start_seconds: float = 5.0
    read_seconds: float = 2.0
    retry_seconds: float = 30.0
    beat_seconds: float = 3.0
    guarding: Guarding = field(default_factory=Guarding)

    def __post_init__(self) -> None:
        for name in ("start_seconds", "read_seconds", "retry_seconds", "beat_seconds"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise SettingsError(f"Following.{name} is {value!r}, expected seconds above 0")
        if self.base is not None and self.base < 1:
            raise SettingsError(f"Following.base is {self.base}, expected 1 partition or more")
        if self.tables_topic is not None and self.table_file is not None:
            raise SettingsError(
                f"Following: tables come from {self.tables_topic} and from {self.table_file}; name one place"
            )

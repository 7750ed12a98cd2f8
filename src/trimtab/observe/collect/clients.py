"""Samples that producers and consumers take of themselves: files of JSON lines that they append to.

A line is one client at one instant, with totals since it started::

    {"client": "orders-writer", "at": "2026-11-21T05:00:00Z",
     "offered_bytes_total": 910, "served_bytes_total": 900, "errors_total": 0, "late_total": 0,
     "latency_p50_ms": 2.1, "latency_p99_ms": 9.8}

or one client in one interval, as the sandbox's load writes them::

    {"client": "producer", "at": 1795237200.0, "seconds": 1.0,
     "planned": {"orders:0": {"records": 10, "bytes": 910}},
     "done": {"orders:0": {"records": 10, "bytes": 900}},
     "errors": 0, "late_records": 0, "latency_p50_ms": 2.1, "latency_p99_ms": 9.8}

`at` is RFC 3339, or seconds, milliseconds or microseconds since 1970. Fields that are not there stay empty;
others are not read.
"""

from __future__ import annotations

import datetime
import glob
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.files.head import unit_seconds
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder, whole_number
from trimtab.observe.lake.columns import Row

TOTALS = ("offered_bytes_total", "served_bytes_total", "errors_total", "late_total")
LATENCIES = ("latency_p50_ms", "latency_p99_ms")


@dataclass
class _Client:
    """The newest that is known of one client."""

    at: datetime.datetime
    totals: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, float] = field(default_factory=dict)


@dataclass
class _FollowedFile:
    """The part of one file that has been read; the inode tells a file from the one that replaces it."""

    inode: int
    offset: int = 0


class ClientFiles:
    """Follows files of client samples.

    Parameters
    ----------
    patterns
        Names of files, or glob patterns of them; looked up anew at every reading.
    """

    def __init__(self, patterns: Iterable[Path]) -> None:
        self._patterns = tuple(patterns)
        self._files: dict[str, _FollowedFile] = {}
        self._clients: dict[str, _Client] = {}

    def read(self, not_before: datetime.datetime) -> tuple[RowBatch, tuple[str, ...]]:
        """The lines that are new since the last reading.

        Parameters
        ----------
        not_before
            Clients whose newest line is older are gone, and left out.

        Returns
        -------
        tuple[Batch, tuple[str, ...]]
            One row of kind `client` per client, and what was wrong with files, one sentence each.
        """
        problems = []
        for pattern in self._patterns:
            paths = sorted(glob.glob(str(pattern)))
            if not paths:
                problems.append(f"no file of client samples matches {pattern}")
            for path in paths:
                problems += self._follow(path)
        writer = RowBatchBuilder("client", "client", "sampled_at", *TOTALS, *LATENCIES)
        for name, client in sorted(self._clients.items()):
            if client.at >= not_before:
                totals = (whole_number(client.totals.get(column)) for column in TOTALS)
                writer.add(name, client.at, *totals, *(client.latencies.get(column) for column in LATENCIES))
        return writer.batch(), tuple(problems)

    def _follow(self, path: str) -> list[str]:
        unreadable = 0
        try:
            with open(path, "rb") as file:
                inode, size = _identity(path)
                seen = self._files.get(path)
                if seen is None or seen.inode != inode or seen.offset > size:
                    seen = self._files[path] = _FollowedFile(inode)
                file.seek(seen.offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        # Still being written: read it next time.
                        break
                    seen.offset += len(line)
                    unreadable += not self._absorb(line)
        except OSError as error:
            return [f"client samples in {path} cannot be read: {error.strerror}"]
        return (
            [f"{unreadable} lines of client samples in {path} have not the documented shape"]
            if unreadable
            else []
        )

    def _absorb(self, line: bytes) -> bool:
        """Take one line in; False if it is not a sample."""
        try:
            found = json.loads(line)
            name, at = found["client"], _instant(found["at"])
            if not isinstance(name, str) or not name:
                return False
            latencies = _numbers(found, LATENCIES)
            if "planned" in found or "done" in found:
                at += datetime.timedelta(seconds=float(found.get("seconds", 0.0)))
                totals = self._clients[name].totals if name in self._clients else dict.fromkeys(TOTALS, 0.0)
                totals = {column: totals.get(column, 0.0) + more for column, more in _interval(found).items()}
            else:
                totals = _numbers(found, TOTALS)
        except (ValueError, OverflowError, KeyError, TypeError, AttributeError):
            return False
        if name not in self._clients or at >= self._clients[name].at:
            self._clients[name] = _Client(at, totals, latencies)
        return True


def _identity(path: str) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_ino, status.st_size


def _interval(found: Row) -> dict[str, float]:
    values = (
        sum(part["bytes"] for part in found.get("planned", {}).values()),
        sum(part["bytes"] for part in found.get("done", {}).values()),
        float(found.get("errors", 0)),
        float(found.get("late_records", 0)),
    )
    return dict(zip(TOTALS, values, strict=True))


def _instant(at: object) -> datetime.datetime:
    if isinstance(at, str):
        instant = datetime.datetime.fromisoformat(at)
        return instant if instant.tzinfo else instant.replace(tzinfo=datetime.UTC)
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise TypeError(at)
    return datetime.datetime.fromtimestamp(at * unit_seconds(at), datetime.UTC)


def _numbers(found: Row, names: tuple[str, ...]) -> dict[str, float]:
    values = {name: float(found[name]) for name in names if found.get(name) is not None}
    return {name: value for name, value in values.items() if math.isfinite(value) and value >= 0}

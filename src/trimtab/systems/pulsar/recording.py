"""Ticks as a recording that `trimtab replay bundles` reads: `trimtab/pulsar-reports/1`, a line a tick."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trimtab.files.bundles.reports import report_line
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import COLUMNS
from trimtab.observe.bundles.recorded import reports_of
from trimtab.observe.collect.sinks import RowBatch, SampleSink
from trimtab_common.errors import InputError

_EMPTY: dict[str, Any] = {name: None for name, _ in COLUMNS}


class _Line(msgspec.Struct):
    at: datetime.datetime


class RecordingSink:
    """Lands samples where they belong, and the reports among them in a file as well.

    Parameters
    ----------
    sink
        Where they belong.
    path
        The recording; one that is there is continued. A line that a killed collector left half written is
        removed.

    Raises
    ------
    InputError
        If the file is no recording.
    ObserveError
        If it cannot be written.
    """

    def __init__(self, sink: SampleSink, path: Path) -> None:
        self._sink = sink
        self._path = path
        try:
            self._last = _end_of(path)
            self._file = path.open("ab")
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, batches: Sequence[RowBatch], cluster: str, tick: datetime.datetime) -> None:
        """Keep them; a tick that is not later than the last recorded one is not recorded again."""
        self._sink.write(batches, cluster, tick)
        if self._last is not None and tick <= self._last:
            return
        kinds = ("pulsar_broker", "pulsar_bundle")
        rows = [_EMPTY | row for batch in batches if batch.kind in kinds for row in batch.rows()]
        reports = reports_of(rows)
        if not reports:
            return
        line = report_line(ReportTick(tick.timestamp(), reports)).encode()
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error
        self._last = tick

    def close(self) -> None:
        """Close the file, and what is below."""
        self._file.close()
        self._sink.close()

    def _unwritable(self, error: OSError) -> ObserveError:
        return ObserveError(
            f"the recording {self._path} cannot be written ({error.strerror or error}): free space there, or "
            "name another file with --record"
        )


def _end_of(path: Path) -> datetime.datetime | None:
    """The last tick of a recording; None if it is empty or not there."""
    if not path.exists() or not path.stat().st_size:
        return None
    with path.open("rb+") as file:
        last, end = b"", 0
        for line in file:
            if not line.endswith(b"\n"):
                file.truncate(end)
                break
            last, end = line, end + len(line)
    try:
        return msgspec.json.decode(last, type=_Line).at if last else None
    except msgspec.MsgspecError as error:
        raise InputError(
            f"{path} is there and is no recording of load reports ({error}): name another file with --record"
        ) from error

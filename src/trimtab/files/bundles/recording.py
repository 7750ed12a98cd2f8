"""A recording of load reports as it lies there: one file, or a folder of files by date."""

import stat
from collections.abc import Iterator
from pathlib import Path

from trimtab.files.bundles.reports import read_reports
from trimtab.files.head import time_text
from trimtab.model.bundles.reports import ReportTick
from trimtab_common.errors import InputError
from trimtab_common.files import reading

ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".ndjson", ".ndjson.gz")
"""Of files in a folder that belong to a recording."""


def recording_files(path: Path) -> tuple[Path, ...]:
    """The files of a recording, in the order in which they are read.

    Parameters
    ----------
    path
        A file, or a folder: all files below it with one of `ENDINGS`, by their paths within it, so that names
        that begin with the date (`2026-11-21.jsonl.gz`, `2026-11/21.jsonl`) come in order of time. Hidden
        ones are passed over, whoever is still writing them.

    Raises
    ------
    InputError
        If there is no such file or folder, or the folder holds none.
    """
    with reading(path):
        if not stat.S_ISDIR(path.stat().st_mode):
            return (path,)
        found = sorted(
            one.relative_to(path).parts
            for one in path.rglob("*")
            if one.name.endswith(ENDINGS)
            and one.is_file()
            and not any(part.startswith(".") for part in one.relative_to(path).parts)
        )
    if not found:
        raise InputError(
            f"{path}: holds no recording, expected files that end with {', '.join(ENDINGS[:2])} or the like; "
            "name the folder that was recorded into"
        )
    return tuple(path.joinpath(*parts) for parts in found)


def read_recording(path: Path) -> Iterator[ReportTick]:
    """The ticks of all `recording_files`, one at a time; no more than one is in memory.

    Raises
    ------
    InputError
        As `trimtab.files.bundles.reports.read_reports`, and if a file begins earlier than the one before it
        ends.
    """
    before: tuple[float, Path] | None = None
    for file in recording_files(path):
        for tick in read_reports(file):
            if before is not None and tick.at < before[0]:
                raise InputError(
                    f"{file}: holds a tick of {time_text(tick.at)}, earlier than {time_text(before[0])} in "
                    f"{before[1].name} before it; name the files so that their order is that of time"
                )
            before = tick.at, file
            yield tick

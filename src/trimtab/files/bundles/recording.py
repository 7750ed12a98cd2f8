"""Files for replays: recordings of load reports, and lists of strategies with their settings."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from trimtab.files.bundles.reports import read_reports
from trimtab.files.head import time_text
from trimtab.model.bundles.reports import ReportTick
from trimtab_common.documents import quote, shape_of
from trimtab_common.errors import InputError, SettingsError, did_you_mean
from trimtab_common.files import read_bytes, reading

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


T = TypeVar("T", bound=Struct)


class ScenarioSettings(Struct, frozen=True):
    """Settings as they were written, `[strategies.NAME]`: of one strategy, or those of all.

    Attributes
    ----------
    strategy
        The shedder's name; empty for those of all.
    placement, variant, seed
        None where nothing was said.
    options
        Pulsar's options by name, as `broker.conf` would hold them.
    """

    strategy: str = ""
    placement: str | None = None
    variant: str | None = None
    seed: Annotated[int, Meta(ge=0)] | None = None
    options: dict[str, Any] = {}


class ScenarioFile(Struct):
    """The whole file: what is said of all strategies, and a table for each."""

    strategies: dict[str, dict[str, Any]] = {}
    placement: str | None = None
    variant: str | None = None
    seed: Annotated[int, Meta(ge=0)] | None = None
    options: dict[str, Any] = {}


NO_SETTINGS = ScenarioSettings()


def read_scenarios(path: Path) -> tuple[ScenarioSettings, dict[str, ScenarioSettings]]:
    """Options for all strategies, and those for each by the name of its table.

    Parameters
    ----------
    path
        ::

            placement = "LeastLongTermMessageRate"

            [options]
            loadBalancerSheddingGracePeriodMinutes = 10

            [strategies.ThresholdShedder]

            [strategies.quick]
            strategy = "ThresholdShedder"
            options = { loadBalancerHistoryResourcePercentage = 0.5 }

    Raises
    ------
    InputError
        If it cannot be read.
    SettingsError
        If it is no TOML, has a key that nobody reads or a value that does not fit, or names no strategy.
    """
    try:
        tree = tomllib.loads(read_bytes(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise SettingsError(f"{path}: is not sound TOML ({fault}); correct it there") from None
    table = _converted(path, "", tree, ScenarioFile)
    if not table.strategies:
        raise SettingsError(f"{path}: names no strategy; add a table such as [strategies.ThresholdShedder]")
    found = {}
    for name, given in table.strategies.items():
        place = f"strategies.{name}."
        one = _converted(path, place, given, ScenarioSettings)
        found[name] = _overrides(path, place, one, one.strategy or name)
    return _overrides(path, "", table, ""), found


def _overrides(
    path: Path, place: str, table: ScenarioFile | ScenarioSettings, strategy: str
) -> ScenarioSettings:
    options = {name: _text(f"{path}: {place}options.{name}", value) for name, value in table.options.items()}
    return ScenarioSettings(strategy, table.placement, table.variant, table.seed, options)


def _text(subject: str, value: object) -> str:
    """The value as `broker.conf` would hold it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    raise SettingsError(
        f"{subject} is {quote(value)}, expected a number, text, true or false; correct it there"
    )


def _converted(path: Path, place: str, tree: dict[str, Any], kind: type[T]) -> T:
    known = kind.__struct_fields__
    for name in tree:
        if name not in known:
            remedy = did_you_mean(name, known, f"known are {', '.join(known)}")
            raise SettingsError(f"{path}: {place}{name} is not a setting of a scenario; {remedy}")
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as fault:
        expected, below = shape_of(fault, kind)
        name = below.removeprefix(".").partition("[")[0]
        found = tree[name]
        if below.endswith("[...]"):
            found = next((one for one in found.values() if not isinstance(one, dict)), found)
        raise SettingsError(
            f"{path}: {place}{name} is {quote(found)}, expected {expected.removesuffix(' or null')}; "
            "correct it there"
        ) from None

"""What replays of all balancers share: the ends of a period, the recording's place, how results are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.balancers.balancer import OptionValues
from trimtab.files.head import instant
from trimtab.report.formats import print_progress
from trimtab.report.tables import print_wide
from trimtab_common.errors import SettingsError
from trimtab_common.files import writing

if TYPE_CHECKING:
    from rich.console import RenderableType

Replay = Callable[[OptionValues], int]
"""Replays a recording by the values of options, shows the figures of each strategy, and gives the exit code.

It raises `SettingsError` if options contradict one another or a name is unknown, and another `TrimtabError`
if the recording is invalid or a file cannot be written.
"""
Draw = Callable[[Path, str], Iterable[Path]]
"""Draws into a folder, under a name without suffix; the files written."""


def bounds(values: OptionValues) -> tuple[float | None, float | None]:
    """`--since` and `--until`, seconds since 1970; None for one that is not given."""
    found = [instant(f"--{name}", values[name]) for name in ("since", "until")]
    since, until = (None if one is None else one.timestamp() for one in found)
    return since, until


def recording_option(values: OptionValues, option: str, noun: str, what: str) -> Path | None:
    """The recording in files that an option names; None where a lake is named instead.

    Parameters
    ----------
    noun, what
        What can be named by the option, and what it is, for people.

    Raises
    ------
    SettingsError
        If both are named, or neither.
    """
    file: Path | None = values[option]
    in_lake = values["lake"] is not None or values["cluster"] is not None
    if file is not None and in_lake:
        raise SettingsError(f"--{option} is {what}, --lake and --cluster are not: name one")
    if file is None and not in_lake:
        raise SettingsError(f"nothing to replay: name {noun} by --{option}, or a lake by --lake")
    return file


def show(
    values: OptionValues,
    draw: Draw,
    document: Callable[[], object],
    text: Callable[[], Iterable[RenderableType]],
) -> None:
    """The picture first, so that nothing is said of one that could not be written; then JSON, or a text.

    Parameters
    ----------
    values
        The value of every option, by its name; `chart` and `json` are asked for here.
    draw
        Draws the picture, if one is asked for.
    """
    chart: Path | None = values["chart"]
    if chart is not None:
        with writing(chart):
            stem = chart.stem if chart.suffix in (".svg", ".png") else chart.name
            drawn = draw(chart.parent, stem)
        print_progress(f"drew {' and '.join(map(str, drawn))}")
    if values["json"]:
        print(json.dumps(document(), ensure_ascii=False, indent=1))
    else:
        print_wide(text())

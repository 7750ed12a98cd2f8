"""`replay keys`: recorded keys, the consumers that all policies share, and what is shown in the end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from trimtab.files.keys.records import read_records
from trimtab.files.keys.settings import SECTION
from trimtab.history.keys.compare import Setting, compare, default_schemes
from trimtab.history.keys.consumers import Capacity
from trimtab.history.keys.course import World
from trimtab.history.keys.law import parsed, stream_of
from trimtab.history.keys.stream import KeyStream
from trimtab.levels.replays import Draw, bounds, show
from trimtab.levels.settings import read_settings
from trimtab.model.errors import InputError, SettingsError
from trimtab.report.formats import counted
from trimtab.report.keys.replay_text import replay_document, replay_text
from trimtab.report.saying import say


def replayed(given: Mapping[str, Any]) -> int:
    """Send recorded records by policies, and show what each would have made of them.

    Parameters
    ----------
    given
        The value of every option, by its name.

    Returns
    -------
    int
        Exit code.

    Raises
    ------
    SettingsError
        If options contradict one another, or a policy is not known.
    TrimtabError
        If the recording does not hold what it should, or a file cannot be written.
    """
    settings = read_settings(given["settings"], given["set"], os.environ).of(SECTION)
    stream, name, keyless = _stream(given)
    lasted = max(stream.at[-1] - stream.at[0], 1e-9)
    partitions, each = given["partitions"], given["consumer_rate"]
    per_second = len(stream.at) / lasted
    if each is None:
        each = per_second / (partitions * settings.theta[0])
    world = World(partitions, Capacity(each), spare=partitions, seed=given["seed"])
    setting = Setting(world=world, settings=settings, plan_seconds=given["plan_seconds"])
    found = compare(stream, given["policy"] or default_schemes(), setting, lambda one: say(f"runs {one}"))
    use = per_second / (partitions * each)
    left_out = f"; {keyless:,} without a key left out" if keyless else ""
    how = (
        f"{counted(partitions, 'partition')}, a consumer each at {each:,.4g} records/s, together used to "
        f"{use:.0%}{left_out}"
    )

    def draw() -> Draw:
        from trimtab.report.keys.replay_chart import draw_replay

        return lambda folder, stem: draw_replay(found, folder, stem, f"Keys of {name}")

    show(given, draw, lambda: replay_document(stream, found), lambda: replay_text(stream, found, how))
    return 0


def _stream(given: Mapping[str, Any]) -> tuple[KeyStream, str, int]:
    """The records asked for, a name for them, and how many were left out."""
    file, law = given["records"], given["law"]
    if (file is None) == (law is None):
        raise SettingsError(
            "nothing to replay: name a file by --records, or a law of keys by --law, like zipf:1.2"
            if file is None
            else "--records is a recording and --law is none: name one"
        )
    if file is None:
        drawn = stream_of(parsed(law), given["rate"], given["seconds"], given["producers"], given["seed"])
        return drawn, f"{law}, drawn", 0
    found = read_records(file).between(*bounds(given))
    if not len(found):
        raise InputError(f"{file}: holds no record in that period; correct --since and --until")
    at = (found.at - found.at[0]).tolist()
    stream = KeyStream(at, found.which.tolist(), found.keys, producers=given["producers"])
    return stream, file.name, found.keyless

"""`replay keys`: recorded keys, the consumers that all policies share, and what is shown in the end."""

from __future__ import annotations

import os

from trimtab.balancers.balancer import OptionValues
from trimtab.balancers.planning import bounds, show
from trimtab.balancers.settings import read_settings
from trimtab.files.keys.formats import read_records
from trimtab.files.keys.settings import SECTION
from trimtab.history.keys.compare import KeysScenario, compare, default_schemes
from trimtab.history.keys.simulation import (
    ConsumerCapacity,
    KeysSimulationSettings,
    KeyStream,
    drawn_stream,
    parse_zipf,
)
from trimtab.report.formats import counted, print_progress
from trimtab.report.keys import draw_replay, replay_document, replay_text
from trimtab_common.errors import InputError, SettingsError


def replayed(values: OptionValues) -> int:
    """Send recorded records by policies, and show what each would have made of them. See `Replay`."""
    settings = read_settings(values["settings"], values["set"], os.environ).of(SECTION)
    stream, name, keyless = _stream(values)
    lasted = max(stream.at[-1] - stream.at[0], 1e-9)
    partitions, each = values["partitions"], values["consumer_rate"]
    per_second = len(stream.at) / lasted
    if each is None:
        each = per_second / (partitions * settings.theta[0])
    world = KeysSimulationSettings(partitions, ConsumerCapacity(each), spare=partitions, seed=values["seed"])
    setting = KeysScenario(world=world, settings=settings, plan_seconds=values["plan_interval"])
    found = compare(
        stream, values["policy"] or default_schemes(), setting, lambda one: print_progress(f"runs {one}")
    )
    use = per_second / (partitions * each)
    left_out = f"; {keyless:,} without a key left out" if keyless else ""
    how = (
        f"{counted(partitions, 'partition')}, a consumer each at {each:,.4g} records/s, together used to "
        f"{use:.0%}{left_out}"
    )

    show(
        values,
        lambda folder, stem: draw_replay(found, folder, stem, f"Keys of {name}"),
        lambda: replay_document(stream, found),
        lambda: replay_text(stream, found, how),
    )
    return 0


def _stream(values: OptionValues) -> tuple[KeyStream, str, int]:
    """The records asked for, a name for them, and how many were left out."""
    file, law = values["records"], values["key_distribution"]
    if (file is None) == (law is None):
        raise SettingsError(
            "nothing to replay: name a file by --records, or a law of keys by --key-distribution, like "
            "zipf:1.2"
            if file is None
            else "--records is a recording and --key-distribution is none: name one"
        )
    if file is None:
        drawn = drawn_stream(
            parse_zipf(law), values["rate"], values["seconds"], values["producers"], values["seed"]
        )
        return drawn, f"{law}, drawn", 0
    found = read_records(file).between(*bounds(values))
    if not len(found):
        raise InputError(f"{file}: holds no record in that period; correct --since and --until")
    at = (found.at - found.at[0]).tolist()
    stream = KeyStream(at, found.which.tolist(), found.keys, producers=values["producers"])
    return stream, file.name, found.keyless

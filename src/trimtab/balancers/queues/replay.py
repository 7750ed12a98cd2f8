"""`replay queues`: recorded arrivals, the world that policies share, and what is shown in the end."""

from __future__ import annotations

import os
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from trimtab.balancers.balancer import OptionValues
from trimtab.balancers.planning import bounds, recording_option, show
from trimtab.balancers.queues import WeightSource
from trimtab.balancers.settings import read_settings
from trimtab.files.head import instant
from trimtab.files.machine import lake_place
from trimtab.files.queues import read_arrivals
from trimtab.history.queues.compare import QueuesScenario, compare, default_schemes
from trimtab.report.formats import counted, print_progress
from trimtab.report.queues import draw_replay, replay_document, replay_text
from trimtab_common.errors import InputError, SettingsError
from trimtab_queues.format.documents import SECTION

if TYPE_CHECKING:
    from trimtab.model.load import FloatArray
    from trimtab.model.queues import Arrivals
    from trimtab_queues.format.documents import QueuesSettings


def replayed(values: OptionValues) -> int:
    """Dispatch recorded arrivals by policies, and show what each would have made of them. See `Replay`."""
    settings = read_settings(values["settings"], values["set"], os.environ).of(SECTION)
    arrivals, name = _recording(values)
    weights = _weights(arrivals, values["weights"], settings)
    speed = _speed(values, arrivals, settings)
    setting = QueuesScenario(
        speed=speed,
        capacity=arrivals.capacity or settings.capacity,
        weights=weights,
        scheduling=settings.scheduling,
        seed=values["seed"],
    )
    found = compare(
        arrivals, values["policy"] or default_schemes(), setting, lambda one: print_progress(f"runs {one}")
    )
    use = float(arrivals.seconds.sum()) / sum(speed) / max(float(arrivals.at[-1] - arrivals.at[0]), 1e-9)
    queues = counted(len(speed), "queue")
    how = f"{queues}, load {use:.0%} of what the workers can do in that time; weights {values['weights']}"

    show(
        values,
        lambda folder, stem: draw_replay(found, folder, stem, f"Policies on {name}"),
        lambda: replay_document(arrivals, found),
        lambda: replay_text(arrivals, found, how),
    )
    return 0


def _recording(values: OptionValues) -> tuple[Arrivals, str]:
    """The arrivals asked for, and a name for them."""
    file = recording_option(values, "arrivals", "a file", "a file")
    if file is not None:
        found = read_arrivals(file).between(*bounds(values))
        if not len(found):
            raise InputError(f"{file}: holds no message in that period; correct --since and --until")
        return found, file.name
    from trimtab.history.queues.recording import lake_arrivals

    place, cluster = lake_place(values["lake"]), values["cluster"]
    since, until = instant("--since", values["since"]), instant("--until", values["until"])
    return lake_arrivals(place, cluster, since, until, values["seed"]), cluster or place.name


def _weights(arrivals: Arrivals, weights: WeightSource, settings: QueuesSettings) -> FloatArray:
    """Seconds by which each message is dispatched, shape (messages,)."""
    if weights is WeightSource.EXACT:
        return arrivals.seconds
    if weights is WeightSource.LEARNED:
        return arrivals.mean_seconds()[arrivals.of_class]
    told = {**arrivals.weights, **settings.weights}
    by_class = np.array([told.get(name, settings.default_weight) for name in arrivals.classes])
    found: FloatArray = by_class[arrivals.of_class]
    return found


def _speed(values: OptionValues, arrivals: Arrivals, settings: QueuesSettings) -> list[float]:
    """Seconds of work that each worker does in a second; there are as many queues."""
    text, queues = values["speed"], values["queues"]
    if text is None:
        return [1.0] * (queues or arrivals.queues or settings.queues)
    try:
        speed = [float(one) for one in text.split(",")]
    except ValueError:
        speed = []
    if not speed or not all(isfinite(one) and one > 0 for one in speed):
        raise SettingsError(f"--speed is {text!r}: write a number above 0 for each worker, as 1,1,0.5")
    if queues not in (None, len(speed)):
        raise SettingsError(f"--speed names {len(speed)} workers and --queues {queues}: name as many, or one")
    return speed

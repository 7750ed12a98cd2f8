"""Comparison of strategies on recorded loads of partitions: tables, JSON and a picture."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from trimtab.files.head import time_text
from trimtab.model.load import resource_name
from trimtab.model.replicas.settings import RESOURCES
from trimtab.report.charts import OVERLOADED, UNMOVED, StairPanel, draw_over_time, save_figure
from trimtab.report.formats import bytes_text, counted, duration_text, figure_text, known_value
from trimtab.report.tables import Column, comparison_table, figures_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from trimtab.history.replicas.replay import ReplicasReplayEffect
    from trimtab.history.replicas.spark import ScenarioComparison


def replay_text(comparison: ScenarioComparison) -> Iterator[RenderableType]:
    """A table with a row for each strategy, the recording as it is first."""
    first = next(iter(comparison.effects.values()))
    theta = comparison.measured_by.theta
    limit = figure_text(theta[0], ".0%") if len(set(theta)) == 1 else "θ"
    held = comparison.held_bytes or np.nan
    yield (
        f"{counted(len(first.at), 'step')} of {duration_text(first.step_seconds)} to "
        f"{time_text(first.at[-1])}"
    )
    columns: list[Column[ReplicasReplayEffect]] = [
        (f"time above {limit}", lambda one: _duration(one.seconds_above)),
        ("brokers × time", lambda one: _duration(one.broker_seconds_above)),
        ("peak", lambda one: figure_text(highest(one.peak), ".0%")),
        ("γ mean", lambda one: figure_text(mean(one.gamma), ".0%")),
        ("γ worst", lambda one: figure_text(highest(one.gamma), ".0%")),
        ("σ mean", lambda one: figure_text(mean(one.sigma), ".4f")),
        ("plans", lambda one: f"{one.plans.sum():,}"),
        ("replicas", lambda one: f"{one.replicas.sum():,}"),
        ("twice", lambda one: f"{one.moved_twice.sum():,}"),
        ("leaders", lambda one: f"{one.leaders.sum():,}"),
        ("copied", lambda one: bytes_text(float(one.copied_bytes.sum()))),
        ("of all", lambda one: figure_text(float(one.copied_bytes.sum()) / held, ".0%")),
    ]
    yield comparison_table("strategy", comparison.effects, columns)
    yield (
        "[dim]peak: of the fullest broker and resource; γ, σ: of the worst broker and resource of each step; "
        "twice: replicas moved again within a day; of all: bytes copied, as a share of all bytes held; "
        "the load of copies is in all figures[/]"
    )
    if comparison.errors:
        off = figures_table(["expected a day ahead"], [resource_name(one) for one in RESOURCES])
        for way, share in comparison.errors.items():
            off.add_row(way, *(figure_text(one, ".1%") for one in share.tolist()))
        yield off
        yield "[dim]error: Σ|expected − actual| / Σ actual, leaders' loads of all partitions and hours[/]"


def _duration(seconds: float) -> str:
    return duration_text(seconds) if seconds else "0 s"


def replay_document(comparison: ScenarioComparison) -> dict[str, object]:
    """The same figures as plain JSON values, with those of every step."""
    return {
        "theta": dict(zip(RESOURCES, comparison.measured_by.theta, strict=True)),
        "held_bytes": comparison.held_bytes,
        "errors": {
            way: dict(zip(RESOURCES, map(known_value, share.tolist()), strict=True))
            for way, share in comparison.errors.items()
        },
        "strategies": [{"name": name, **_document(one)} for name, one in comparison.effects.items()],
    }


def _document(effect: ReplicasReplayEffect) -> dict[str, object]:
    return {
        "seconds_above_theta": effect.seconds_above,
        "broker_seconds_above_theta": effect.broker_seconds_above,
        "peak_usage": known_value(highest(effect.peak)),
        "gamma_mean": known_value(mean(effect.gamma)),
        "gamma_worst": known_value(highest(effect.gamma)),
        "sigma_mean": known_value(mean(effect.sigma)),
        "plans": int(effect.plans.sum()),
        "replicas_moved": int(effect.replicas.sum()),
        "replicas_moved_twice": int(effect.moved_twice.sum()),
        "leaders_moved": int(effect.leaders.sum()),
        "copied_bytes": float(effect.copied_bytes.sum()),
        "over_time": {
            "at": [time_text(one) for one in effect.at.tolist()],
            "brokers_above_theta": effect.above.tolist(),
            "peak_usage": [known_value(one) for one in effect.peak.tolist()],
            "gamma": [known_value(one) for one in effect.gamma.tolist()],
            "sigma": [known_value(one) for one in effect.sigma.tolist()],
            "replicas_moved": effect.replicas.tolist(),
            "copied_bytes": effect.copied_bytes.tolist(),
        },
    }


def mean(values: np.ndarray) -> float:
    """The mean of the known values; NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def highest(values: np.ndarray) -> float:
    """The highest of the known values; NaN if there are none."""
    return float(np.fmax.reduce(values, initial=np.nan))


def draw_replay(comparison: ScenarioComparison, folder: Path, name: str, title: str) -> tuple[Path, Path]:
    """Draw the usage of the fullest broker, the worst γ, and the bytes copied, over time.

    Parameters
    ----------
    comparison
        The figures; the recording as it is is the grey line behind each strategy's.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written atomically.
    title
        A line above the picture.
    """
    from matplotlib.patches import Patch

    unmoved = comparison.effects[UNMOVED]
    effects = {name: one for name, one in comparison.effects.items() if name != UNMOVED}
    theta = max(comparison.measured_by.theta)
    columns: tuple[StairPanel[ReplicasReplayEffect], ...] = (
        StairPanel(
            "usage of the fullest broker and resource",
            lambda one: one.peak,
            limit=theta,
            form="{:.0%}".format,
        ),
        StairPanel("worst distance γ from the mean", lambda one: one.gamma, form="{:.0%}".format),
        StairPanel(
            "bytes copied so far", lambda one: np.cumsum(one.copied_bytes), compared=False, form=bytes_text
        ),
    )
    figure = draw_over_time(
        effects or {UNMOVED: unmoved},
        unmoved,
        unmoved.at,
        columns,
        _summary,
        title,
        _title(comparison),
        [Patch(color=OVERLOADED, alpha=0.45, label=f"above θ ({theta:.0%})")],
    )
    return save_figure(figure, folder, name)


def _title(comparison: ScenarioComparison) -> str:
    unmoved = comparison.effects[UNMOVED]
    begin = datetime.datetime.fromtimestamp(float(unmoved.at[0]), datetime.UTC)
    words = (
        f"{len(unmoved.at):,} steps of {duration_text(unmoved.step_seconds)} from {begin:%Y-%m-%d %H:%M} UTC"
    )
    return f"{words}; {UNMOVED}: {_balance(unmoved)}"


def _summary(effect: ReplicasReplayEffect) -> str:
    return (
        f"{_balance(effect)} · {effect.replicas.sum():,} replicas moved, {effect.moved_twice.sum():,} twice"
        f" · {bytes_text(float(effect.copied_bytes.sum()))} copied"
    )


def _balance(effect: ReplicasReplayEffect) -> str:
    return f"above θ for {_duration(effect.seconds_above)}, γ {mean(effect.gamma):.0%} in the mean"

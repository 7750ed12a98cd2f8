"""Strategies side by side over recorded loads of partitions, as a table and as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.markup import escape

from trimtab.files.head import time_text
from trimtab.model.load import resource_name
from trimtab.model.replicas.resources import RESOURCES
from trimtab.report.formats import bytes_text, counted, duration_text, figure_text, known_value
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.history.replicas.effect import ReplicasReplayEffect
    from trimtab.history.replicas.spark import ScenarioComparison

NOTHING: Final = "nothing moved"


def replay_text(comparison: ScenarioComparison) -> Iterator[RenderableType]:
    """A row for each scenario, that in which nothing is moved first."""
    first = next(iter(comparison.effects.values()))
    theta = comparison.measured_by.theta
    limit = figure_text(theta[0], ".0%") if len(set(theta)) == 1 else "θ"
    yield (
        f"{counted(len(first.at), 'step')} of {duration_text(first.step_seconds)} to "
        f"{time_text(first.at[-1])}"
    )
    table = figures_table(
        ["strategy"],
        [f"time above {limit}", "brokers × time", "peak", "γ mean", "γ worst", "σ mean", "plans", "replicas",
         "twice", "leaders", "copied", "of all"],
    )  # fmt: skip
    table.columns[0].no_wrap = True
    for name, effect in comparison.effects.items():
        copied = float(effect.copied_bytes.sum())
        table.add_row(
            escape(name),
            duration_text(effect.seconds_above) if effect.seconds_above else "0 s",
            duration_text(effect.broker_seconds_above) if effect.broker_seconds_above else "0 s",
            figure_text(highest(effect.peak), ".0%"),
            figure_text(mean(effect.gamma), ".0%"),
            figure_text(highest(effect.gamma), ".0%"),
            figure_text(mean(effect.sigma), ".4f"),
            f"{effect.plans.sum():,}",
            f"{effect.replicas.sum():,}",
            f"{effect.moved_twice.sum():,}",
            f"{effect.leaders.sum():,}",
            bytes_text(copied),
            figure_text(copied / comparison.held_bytes if comparison.held_bytes else np.nan, ".0%"),
        )
    yield table
    yield (
        "[dim]peak: of the fullest broker and resource; γ, σ: of the worst broker and resource of each step; "
        "twice: replicas that go on within a day of coming; of all: bytes copied, in parts of all held; "
        "the load of copies is in all figures[/]"
    )
    if comparison.errors:
        off = figures_table(["expected a day ahead"], [resource_name(one) for one in RESOURCES])
        for way, share in comparison.errors.items():
            off.add_row(way, *(figure_text(one, ".1%") for one in share.tolist()))
        yield off
        yield "[dim]error: Σ|expected − actual| / Σ actual, leaders' loads of all partitions and hours[/]"


def replay_document(comparison: ScenarioComparison) -> dict[str, Any]:
    """The same as plain JSON values, with the figures of every step."""
    return {
        "theta": dict(zip(RESOURCES, comparison.measured_by.theta, strict=True)),
        "held_bytes": comparison.held_bytes,
        "errors": {
            way: dict(zip(RESOURCES, map(known_value, share.tolist()), strict=True))
            for way, share in comparison.errors.items()
        },
        "strategies": [{"name": name, **_document(one)} for name, one in comparison.effects.items()],
    }


def _document(effect: ReplicasReplayEffect) -> dict[str, Any]:
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
    """Mean of what is known; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def highest(values: np.ndarray) -> float:
    """The highest of what is known; NaN where nothing is."""
    return float(np.fmax.reduce(values, initial=np.nan))

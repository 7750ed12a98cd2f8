"""The text of `trimtab status`: the heat map, the measures with which goals hold, age and quality."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.report.formats import broker_name, known_value, resource_name
from trimtab.report.tables import figures_table
from trimtab.report.terminal_heatmap import Cells, terminal_heatmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from trimtab.model.load import FloatArray
    from trimtab.observe.status import BrokerState, ClusterStatus

SHOWN = 40
"""Rows of the heat map; of larger clusters the brokers that deviate most."""

STALE_SECONDS = 600.0

CPU_WORDS = {
    "measured": "CPU by a fitted model",
    "shares": "CPU by fixed shares",
    "absent": "no CPU signal: three resources",
}


def status_text(
    status: ClusterStatus, now: datetime.datetime, every: bool = False
) -> Iterator[RenderableType]:
    """Everything about a cluster, top to bottom.

    Parameters
    ----------
    now
        What ages are counted to.
    every
        Show all brokers, however many.
    """
    yield _head(status, now)
    rows, hidden = worst_rows(status.deviation, every)
    names = [broker_text(status.brokers[row]) for row in rows]
    yield terminal_heatmap(
        names,
        Cells(status.usage[rows], status.deviation[rows]),
        columns=[resource_name(name) for name in status.resources],
        epsilon=np.nan_to_num(status.epsilon, nan=0.1),
    )
    if hidden:
        yield f"[dim]{hidden} more brokers deviate less; --all shows them[/]"
    yield ""
    yield _measures(status)
    yield from _remarks(status, now)


def status_document(status: ClusterStatus, now: datetime.datetime) -> dict[str, Any]:
    """The same as plain JSON values; what is not known is null."""
    return {
        "level": status.level,
        "cluster": status.cluster,
        "at": _rfc3339(status.last_tick),
        "newest_tick": _rfc3339(status.newest_tick),
        "age_seconds": round((now - status.last_tick).total_seconds(), 3),
        "ticks": status.ticks,
        "resources": {
            name: {
                "sigma": known_value(status.sigma[place]),
                "eta": known_value(status.eta[place]),
                "worst_deviation": known_value(status.worst_deviation[place]),
                "epsilon": known_value(status.epsilon[place]),
                "peak_usage": known_value(status.peak_usage[place]),
                "theta": known_value(status.theta[place]),
                "holds": _holds(status, place),
            }
            for place, name in enumerate(status.resources)
        },
        "brokers": [
            {
                "id": broker.id,
                "host": broker.host,
                "rack": broker.rack,
                "state": broker.state,
                "usage": _by_resource(status.resources, status.usage[row]),
                "deviation": _by_resource(status.resources, status.deviation[row]),
            }
            for row, broker in enumerate(status.brokers)
        ],
        "traffic_collapse": status.traffic_collapse,
        "quality": status.quality,
    }


def _head(status: ClusterStatus, now: datetime.datetime) -> str:
    age = _seconds_text((now - status.last_tick).total_seconds())
    ticks = "1 tick" if status.ticks == 1 else f"{status.ticks} ticks"
    line = (
        f"[bold]{status.cluster}[/]: {len(status.brokers)} brokers, {ticks} up to "
        f"{status.last_tick:%Y-%m-%d %H:%M:%S} UTC, {age} ago"
    )
    quality = status.quality
    if "valid_share" in quality:
        line += f"; {quality['valid_share']:.0%} of samples valid"
    if quality.get("cpu") in CPU_WORDS:
        line += f"; {CPU_WORDS[quality['cpu']]}"
    return line


def _measures(status: ClusterStatus) -> Table:
    table = figures_table(["resource"], ["peak", "θ", "worst γ", "ε", "σ", "η"])
    table.add_column("")
    for place, name in enumerate(status.resources):
        if np.isnan(status.sigma[place]):
            table.add_row(resource_name(name), *["–"] * 6, "[dim]not measured[/]")
            continue
        broken = _broken(status, place)
        table.add_row(
            resource_name(name),
            _figure(status.peak_usage[place], "{:.0%}", "theta" in broken),
            _figure(status.theta[place], "{:.0%}", None),
            _figure(status.worst_deviation[place], "{:.1%}", "epsilon" in broken),
            _figure(status.epsilon[place], "{:.1%}", None),
            _figure(status.sigma[place], "{:.4f}", None),
            _figure(status.eta[place], "{:.4f}", None),
            "[red]not level[/]" if broken else "[green]level[/]",
        )
    return table


def _remarks(status: ClusterStatus, now: datetime.datetime) -> Iterator[str]:
    for broker in status.brokers:
        if broker.state != "alive":
            yield f"[red]![/] {broker_name(broker.id)} is {broker.state}"
    if status.traffic_collapse:
        yield "[red]![/] clients are served less than half of what they offer"
    if (now - status.last_tick).total_seconds() > STALE_SECONDS:
        yield "[yellow]![/] these figures are old: let `trimtab collect` and `trimtab pipeline stream` run"
    lag = (status.newest_tick - status.last_tick).total_seconds()
    if lag > 0:
        yield f"[yellow]![/] the newest {_seconds_text(lag)} of samples lack a broker; figures end before"
    held = {name: _holds(status, place) or {} for place, name in enumerate(status.resources)}
    uneven = [resource_name(name) for place, name in enumerate(status.resources) if _broken(status, place)]
    if uneven:
        helps = f"`trimtab plan {status.level}` finds the fewest moves that help."
        yield f"{', '.join(uneven)}: not level. {helps}"
    elif any(held.values()):
        yield "Everything that is measured is level."


def _broken(status: ClusterStatus, place: int) -> list[str]:
    """The goals that one resource misses: those of planners. η is shown, and decides nothing."""
    held = _holds(status, place) or {}
    return [goal for goal in ("theta", "epsilon") if held.get(goal) is False]


def _holds(status: ClusterStatus, place: int) -> dict[str, bool | None] | None:
    """θ, ε and η of one resource as held or not; None where a figure is not known."""
    if np.isnan(status.sigma[place]):
        return None
    pairs = {
        "theta": (status.peak_usage[place], status.theta[place]),
        "epsilon": (status.worst_deviation[place], status.epsilon[place]),
        "eta": (status.sigma[place], status.eta[place]),
    }
    return {
        goal: None if np.isnan(value) or np.isnan(limit) else bool(value <= limit)
        for goal, (value, limit) in pairs.items()
    }


def worst_rows(deviation: FloatArray, every: bool) -> tuple[Sequence[int], int]:
    """Rows to show, in their own order, and how many are left out."""
    worst = np.abs(np.nan_to_num(deviation)).max(axis=1, initial=0.0)
    if every or len(worst) <= SHOWN:
        return list(range(len(worst))), 0
    chosen = np.argsort(-worst, kind="stable")[:SHOWN]
    return sorted(chosen.tolist()), len(worst) - SHOWN


def broker_text(broker: BrokerState) -> str:
    """A broker as rows are called, with its state where that matters."""
    state = "" if broker.state == "alive" else f" ({broker.state})"
    host = "" if broker.host is None else f" {broker.host}"
    return f"{broker_name(broker.id)}{host}{state}"


def _figure(value: float, form: str, broken: bool | None) -> str:
    if np.isnan(value):
        return "–"
    text = form.format(value)
    return f"[dim]{text}[/]" if broken is None else f"[red]{text}[/]" if broken else f"[green]{text}[/]"


def _seconds_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _by_resource(resources: Sequence[str], values: FloatArray) -> dict[str, float | None]:
    return {name: known_value(value) for name, value in zip(resources, values, strict=True)}


def _rfc3339(at: datetime.datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")

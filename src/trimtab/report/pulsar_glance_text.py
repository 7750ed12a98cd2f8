"""What `trimtab status --pulsar-admin` shows: ownership and traffic, as the brokers themselves tell them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trimtab.report.status_text import known_value, worst_rows
from trimtab.report.terminal_heatmap import Cells, terminal_heatmap

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.observe.collect.pulsar.glance import PulsarBroker, PulsarGlance


def pulsar_glance_text(glance: PulsarGlance, every: bool = False) -> Iterator[RenderableType]:
    """What one moment tells: who owns how many bundles, and what they carry."""
    versions = ", ".join(glance.versions)
    manager = f"load manager {glance.load_manager or 'not told'}"
    yield (
        f"[bold]{glance.cluster}[/]: {len(glance.brokers)} brokers, {glance.bundles:,} bundles, "
        f"{glance.topics:,} topics; Pulsar{f' {versions}' if versions else ''}, {manager}; straight from the "
        "brokers"
    )
    rows, hidden = worst_rows(glance.deviation, every)
    yield terminal_heatmap(
        [_name(glance.brokers[row]) for row in rows],
        Cells(glance.values[rows] / [1e3, 1, 1, 1], glance.deviation[rows], percent=False),
        columns=("traffic kB/s", "messages/s", "bundles", "sessions"),
    )
    if hidden:
        yield f"[dim]{hidden} more brokers deviate less; --all shows them[/]"
    yield ""
    for problem in glance.problems:
        yield f"[yellow]![/] {problem}"
    if glance.unowned:
        yield (
            f"[dim]{glance.unowned} of {glance.bundles} bundles have no owner: no client has asked for a "
            "topic of theirs[/]"
        )
    yield from _switches(glance)
    yield (
        "[dim]Usage over capacity needs samples: `trimtab collect`, then `trimtab pipeline run`, then "
        "`trimtab status`.[/]"
    )


def _switches(glance: PulsarGlance) -> Iterator[str]:
    """What Pulsar does by itself."""
    from trimtab.observe.collect.pulsar.glance import SHEDDER, SWITCHES

    for what, setting in SWITCHES.items():
        told = glance.setting(setting)
        if len(told) > 1:
            yield (
                f"[yellow]![/] {what}: on in some brokers, off in others ({setting}); they read it from "
                "their own files or from the cluster's dynamic configuration"
            )
        elif told:
            strategy = ", ".join(name.rpartition(".")[2] for name in glance.setting(SHEDDER))
            by = f", by {strategy}" if what == "shedding" and told == ("true",) and strategy else ""
            yield f"{what}: {'on' if told == ('true',) else 'off'}{by}"
        else:
            yield f"[dim]{what}: not told; it takes the rights of a superuser[/]"


def pulsar_glance_document(glance: PulsarGlance) -> dict[str, Any]:
    """The same as plain JSON values."""
    from trimtab.observe.collect.pulsar.glance import SHEDDER, SWITCHES

    names = ("throughput_bytes_per_second", "messages_per_second", "bundles", "sessions")
    return {
        "cluster": glance.cluster,
        "level": "bundles",
        "source": "admin",
        "load_manager": glance.load_manager,
        "versions": list(glance.versions),
        "bundles": glance.bundles,
        "unowned_bundles": glance.unowned,
        "topics": glance.topics,
        "settings": {name: list(glance.setting(name)) for name in (*SWITCHES.values(), SHEDDER)},
        "brokers": [
            {"id": broker.name, "state": broker.state, "leader": broker.is_leader}
            | {name: known_value(glance.values[row, place]) for place, name in enumerate(names)}
            for row, broker in enumerate(glance.brokers)
        ],
        "problems": list(glance.problems),
    }


def _name(broker: PulsarBroker) -> str:
    notes = [broker.state] if broker.state != "alive" else []
    notes += ["leader"] if broker.is_leader else []
    return f"broker {broker.name}" + (f" ({', '.join(notes)})" if notes else "")

"""`trimtab collect`: sample a cluster into the lake at regular intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.cli.options import LAKE, SET, SETTINGS, command_context, connection_options, with_options

app = typer.Typer()


def collect(
    interval: float | None = typer.Option(None, "--interval", help="Seconds between two ticks; default: 30."),
    ticks: int | None = typer.Option(None, "--ticks", min=1, help="Number of ticks; default: no limit."),
    to: str = typer.Option(
        "lake",
        "--sink",
        help="Destination: lake, or kafka:TOPIC, a topic of the Kafka cluster in the settings.",
    ),
    record: Path | None = typer.Option(
        None, "--record", help="Pulsar: also append load reports to this file, for trimtab replay."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Sample a cluster until Ctrl-C. Installs nothing on the brokers.

    Kafka: placement, sizes, offsets, consumer groups, and metrics if the brokers have an exporter. Pulsar
    (--pulsar-admin, or pulsar.admin in the settings): load reports, bundles and their owners, topics,
    policies.
    """
    from trimtab.cli.bodies import collect as body

    if interval is not None:
        overrides = [*overrides, f"collect.interval_seconds={interval}"]
    where = command_context(lake, settings, overrides, values)
    body.collect(where, to=to, record=record, ticks=ticks)


app.command()(with_options(collect, connection_options()))

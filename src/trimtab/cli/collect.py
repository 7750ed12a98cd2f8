"""`trimtab collect`: sample a cluster into the lake, tick after tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.cli.options import LAKE, SET, SETTINGS, command_context, connection_options, with_options

app = typer.Typer()


def collect(
    interval: float | None = typer.Option(None, "--interval", help="Seconds between two ticks; default 30."),
    ticks: int | None = typer.Option(None, "--ticks", min=1, help="End after so many ticks; default: never."),
    to: str = typer.Option(
        "lake", "--sink", help="lake, or kafka:TOPIC for a topic of the Kafka cluster of the settings."
    ),
    record: Path | None = typer.Option(
        None, "--record", help="Pulsar: also add load reports to this file, for trimtab replay."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Sample a cluster from outside, no agent needed. Stop it with Ctrl-C.

    Of Kafka: placement, sizes, offsets, groups, and metrics where the brokers have an exporter. Of Pulsar
    (--pulsar-admin, or pulsar.admin in the settings): load reports, bundles and their owners, topics,
    policies.
    """
    from trimtab.cli.bodies import collect as body

    if interval is not None:
        overrides = [*overrides, f"collect.interval_seconds={interval}"]
    where = command_context(lake, settings, overrides, values)
    body.collect(where, to=to, record=record, ticks=ticks)


app.command()(with_options(collect, connection_options()))

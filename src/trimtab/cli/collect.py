"""`trimtab collect`: sample a cluster into the lake at regular intervals."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import CLUSTER, LAKE, SET, SETTINGS, command_context

app = typer.Typer()


def collect(
    interval: float | None = typer.Option(None, "--interval", help="Seconds between two ticks; default: 30."),
    ticks: int | None = typer.Option(None, "--ticks", min=1, help="Number of ticks; default: no limit."),
    to: str = typer.Option(
        "lake",
        "--sink",
        help="Destination: lake, or a topic of Kafka: kafka:TOPIC, or kafka:CLUSTER/TOPIC if the "
        "settings name several Kafka clusters.",
    ),
    record: Path | None = typer.Option(
        None, "--record", help="Pulsar: also append load reports to this file, for trimtab replay."
    ),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Sample a cluster until Ctrl-C. Installs nothing on the brokers.

    Kafka: placement, sizes, offsets, consumer groups, and metrics if the brokers have an exporter. Pulsar:
    load reports, bundles and their owners, topics, policies. Redis: counters of queues. A store: masters.
    """
    from trimtab.cli.bodies import collect as body

    if interval is not None:
        overrides = [*overrides, f"collect.interval_seconds={interval}"]
    where = command_context(lake, settings, overrides, cluster)
    body.collect(where, to=to, record=record, ticks=ticks)


app.command()(collect)

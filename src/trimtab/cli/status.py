"""`trimtab status`: show the load of a cluster, from the lake or directly from its brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.cli.options import (
    CLUSTER,
    JSON,
    LAKE,
    SET,
    SETTINGS,
    command_context,
    connection_options,
    reading_options,
    with_options,
)

app = typer.Typer()


def status(
    lake: Path | None = LAKE,
    cluster: str | None = CLUSTER,
    watch: bool = typer.Option(
        False, "--watch", help="Keep running, and print again when there is new data."
    ),
    as_json: bool = JSON,
    every: bool = typer.Option(False, "--all", help="Show all brokers or queues."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Show the load as a heat map of brokers and resources, and the goals that hold.

    Reads the output of `trimtab pipeline`; starts no JVM and sends no request to a cluster. With the address
    of a cluster (--bootstrap, --pulsar-admin, --queues) it shows the current placement from that cluster
    instead. With --keys it shows the last reading of a topic: hot keys, and the balance over its partitions.
    """
    from trimtab.cli.bodies import status as body

    where = command_context(lake, settings, overrides, values)
    body.show(body.status_source(where, cluster, every=every), watch=watch, as_json=as_json)


app.command()(with_options(status, [*reading_options(), *connection_options()]))

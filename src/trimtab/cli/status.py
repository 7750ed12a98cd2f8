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
    reading_options,
    with_options,
)

app = typer.Typer()


def status(
    lake: Path | None = LAKE,
    cluster: str | None = CLUSTER,
    live: bool = typer.Option(
        False, "--live", help="Ask the cluster itself; implied if --cluster is an address."
    ),
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

    Reads the output of `trimtab pipeline`; starts no JVM and sends no request to a cluster. With --live, or
    with an address as --cluster, it shows the current placement from that cluster instead. With --keys it
    shows the last reading of a topic: hot keys, and the balance over its partitions.
    """
    from trimtab.cli.bodies import status as body

    where = command_context(lake, settings, overrides, cluster, values)
    body.show(body.status_source(where, live=live, every=every), watch=watch, as_json=as_json)


app.command()(with_options(status, reading_options()))

"""`trimtab status`: how even a cluster is now, from the lake or straight from its brokers."""

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
    watch: bool = typer.Option(False, "--watch", help="Stay, and show anew whenever there is something new."),
    as_json: bool = JSON,
    every: bool = typer.Option(False, "--all", help="Show all brokers or queues, however many."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    *,
    values: dict[str, Any],
) -> None:
    """Show where the load is: a heat map of brokers and resources, and which goals hold.

    Reads what `trimtab pipeline` made of the samples; starts no JVM and asks no cluster. With the address of
    one (--bootstrap, --pulsar-admin, --queues) it asks that instead: what lies where at this moment.
    With --keys it shows a topic as it was last read: which keys, and how balanced they are over its
    partitions.
    """
    from trimtab.cli.bodies import status as body

    where = command_context(lake, settings, overrides, values)
    body.show(body.status_source(where, cluster, every=every), watch=watch, as_json=as_json)


app.command()(with_options(status, [*reading_options(), *connection_options()]))

"""`trimtab status`: how even a cluster is now, from the lake or straight from its brokers."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.cli.options import (
    CLUSTER,
    LAKE,
    SET,
    SETTINGS,
    kafka_connection,
    lake_path,
    pulsar_connection,
    read_settings,
)
from trimtab.model.errors import SettingsError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.observe.collect.glance import Glance
    from trimtab.observe.collect.pulsar.glance import PulsarGlance

app = typer.Typer()

WATCH_SECONDS = 2.0


@app.command()
def status(
    lake: Path | None = LAKE,
    cluster: str | None = CLUSTER,
    bootstrap: str | None = typer.Option(
        None, "--bootstrap", help="Ask these brokers instead of the lake: placement and sizes only."
    ),
    pulsar_admin: str | None = typer.Option(
        None,
        "--pulsar-admin",
        help="Ask these Pulsar brokers instead of the lake: owners and traffic of this moment.",
    ),
    watch: bool = typer.Option(False, "--watch", help="Stay, and show anew whenever there is something new."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document instead."),
    every: bool = typer.Option(False, "--all", help="Show all brokers, however many."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Show where the load is: a heat map of brokers and resources, and which goals hold.

    Reads what `trimtab pipeline` made of the samples; starts no JVM and asks no broker, except with
    --bootstrap or --pulsar-admin.
    """

    def from_lake() -> tuple[dict[str, Any], Iterable[RenderableType]]:
        from trimtab.observe.lake import Lake
        from trimtab.observe.status import read_statuses
        from trimtab.report.status_text import status_document, status_text

        found, now = read_statuses(Lake(lake_path(lake)), cluster), datetime.datetime.now(datetime.UTC)
        documents = [status_document(one, now) for one in found]
        texts = [part for one in found for part in (*status_text(one, now, every), "")][:-1]
        return documents[0] if len(documents) == 1 else {"clusters": documents}, texts

    def from_brokers() -> tuple[dict[str, Any], Iterable[RenderableType]]:
        from trimtab.report.glance_text import glance_document, glance_text

        found = _glance(bootstrap, settings, overrides)
        return glance_document(found), glance_text(found, every)

    def from_pulsar() -> tuple[dict[str, Any], Iterable[RenderableType]]:
        from trimtab.report.pulsar_glance_text import pulsar_glance_document, pulsar_glance_text

        found = _pulsar_glance(pulsar_admin, settings, overrides)
        return pulsar_glance_document(found), pulsar_glance_text(found, every)

    if bootstrap is not None and pulsar_admin is not None:
        raise SettingsError("--bootstrap and --pulsar-admin name two clusters: look at one at a time")
    look = from_brokers if bootstrap is not None else from_pulsar if pulsar_admin is not None else from_lake
    if as_json:
        typer.echo(json.dumps(look()[0], indent=1))
    elif watch:
        _watch(look)
    else:
        _print(look()[1])


def _glance(bootstrap: str | None, settings: Path | None, overrides: list[str]) -> Glance:
    from trimtab.observe.collect.capacity import CapacitySettings
    from trimtab.observe.collect.glance import glance
    from trimtab.observe.collect.run import open_collector
    from trimtab.observe.collect.settings import CollectSettings

    found = read_settings(settings, overrides)
    given = found.section("collect", CollectSettings)
    how = replace(given, groups=False, prometheus=None, client_samples=())
    with open_collector(kafka_connection(found, bootstrap), how, CapacitySettings()) as collector:
        return glance(collector.sample())


def _pulsar_glance(address: str | None, settings: Path | None, overrides: list[str]) -> PulsarGlance:
    from trimtab.connect.pulsar import PulsarAdmin
    from trimtab.observe.collect.capacity import CapacitySettings
    from trimtab.observe.collect.pulsar.collector import PulsarCollector
    from trimtab.observe.collect.pulsar.glance import pulsar_glance
    from trimtab.observe.collect.settings import CollectSettings

    found = read_settings(settings, overrides)
    how = found.section("collect", CollectSettings)
    with (
        PulsarAdmin(pulsar_connection(found, address)) as admin,
        closing(PulsarCollector(admin, how, CapacitySettings(), listen=False)) as collector,
    ):
        return pulsar_glance(collector.sample(), admin)


def _watch(look: Callable[[], tuple[dict[str, Any], Iterable[RenderableType]]]) -> None:
    import time

    from rich.console import Console, Group
    from rich.live import Live

    from trimtab.model.errors import ObserveError

    with (
        suppress(KeyboardInterrupt),
        Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="visible") as live,
    ):
        while True:
            try:
                live.update(Group(*look()[1]), refresh=True)
            except ObserveError as error:
                # The pipeline may publish its first tables while we wait.
                live.update(f"[yellow]![/] {error}", refresh=True)
            time.sleep(WATCH_SECONDS)


def _print(parts: Iterable[RenderableType]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))

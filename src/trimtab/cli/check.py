"""Everything that later commands need, looked at part by part, whatever levels and systems there are."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import typer

from trimtab.balancers import BALANCERS, System, systems
from trimtab.balancers.clusters import cluster_named
from trimtab.balancers.settings import SECTIONS, execution_table
from trimtab.cli.context import CommandContext
from trimtab.files.checks import bound, folder_findings
from trimtab.files.machine import state_folder
from trimtab.jars import spark_findings
from trimtab.model.errors import Finding, broken, exit_code_of, fine, missing
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.lake import Lake, lake_age
from trimtab.report.formats import fitted
from trimtab.report.status_text import check_lines, lake_finding
from trimtab_common.errors import SettingsError, TrimtabError
from trimtab_common.settings import CLUSTERS, Settings, check_section, read_unchecked, settings_file

PART = "settings"
ANOTHER_LAKE = "name another with --lake or TRIMTAB_LAKE"


def check(context: CommandContext, *, as_json: bool) -> None:
    """Body of `trimtab check`: run all checks and print the results."""
    found = []
    for finding in _findings(context):
        found.append(finding)
        if not as_json:
            before = found[-2].part if len(found) > 1 else None
            print(fitted("\n".join(check_lines(finding, before)), sys.stdout), flush=True)
    code = exit_code_of(found)
    if as_json:
        print(json.dumps({"exit_code": code, "findings": [asdict(one) for one in found]}, indent=1))
    else:
        print(
            "\n"
            + ("All is fine.", "Nothing is broken; ! says what is missing.", "✗ says what is broken.")[code]
        )
    if code:
        raise typer.Exit(code)


class _ParsedSettings(NamedTuple):
    """The settings without what is at fault, and the connections that they describe, by system."""

    collect: CollectSettings
    capacity: CapacitySettings
    max_plan_age_seconds: float
    connections: list[tuple[System, Any]]


def _findings(context: CommandContext) -> Iterator[Finding]:
    read: list[_ParsedSettings] = []
    yield from _settings(context, read.append)
    yield from folder_findings("lake", context.lake, ANOTHER_LAKE)
    yield from folder_findings("state", state_folder(), "name another with TRIMTAB_STATE")
    yield from spark_findings()
    for found in read:
        for system, connection in found.connections:
            yield from _cluster(system, connection, found)
        yield from _lake(context, found)


def _settings(context: CommandContext, done: Callable[[_ParsedSettings], None]) -> Iterator[Finding]:
    """Every fault of every section; `done` is given what is sound."""
    faults: list[str] = []
    try:
        settings = read_unchecked(
            context.settings, context.overrides, os.environ, SECTIONS, lambda fault: faults.append(str(fault))
        )
    except SettingsError as error:
        yield broken(PART, "file", str(error))
        return
    kinds: dict[str, Callable[[Settings], Any]] = {
        name: partial(check_section, section=section() if callable(section) else section)
        for name, section in SECTIONS.items()
        if section is not None
    }
    made: dict[str, Any] = {}
    for section, bind in kinds.items():
        found, made[section] = bound(settings, section, bind)
        faults += found
    connections: list[tuple[System, Any]] = []
    asked = [context.choice] if context.choice else [(name, "") for name in settings.values(CLUSTERS)]
    for choice in asked:
        found, connection = bound(settings, CLUSTERS, partial(_reached, choice=choice))
        faults += [one for one in found if one not in faults]
        if connection is not None:
            connections.append(connection)
    for fault in faults:
        yield broken(PART, "fault", fault)
    if not faults:
        file = settings_file(context.settings, os.environ)
        named = ", ".join(f"[{name}]" for name in SECTIONS if settings.values(name))
        yield fine(PART, str(file or "no file"), f"{named or 'all by default'}")
    if not asked:
        yield missing(
            PART,
            "cluster",
            "none is named: nothing can be collected or applied",
            f"add [clusters.NAME] to the settings, or give --cluster {systems()[0].address.example}",
        )
    done(
        _ParsedSettings(
            made["collect"] or CollectSettings(),
            made["capacity"] or CapacitySettings(),
            (made["execution"] or execution_table()()).max_plan_age_seconds,
            connections,
        )
    )


def _reached(settings: Settings, choice: tuple[str, str]) -> tuple[System, Any]:
    """The system of a cluster, and a connection to it."""
    found = cluster_named(settings, *choice)
    return found.system, found.connection()


def _cluster(system: System, connection: Any, read: _ParsedSettings) -> Iterator[Finding]:
    if system.checking is None:
        return
    try:
        yield from system.checking()(connection, read.collect, read.capacity)
    except TrimtabError as error:
        yield broken(system.title, "cluster", str(error))


def _lake(context: CommandContext, read: _ParsedSettings) -> Iterator[Finding]:
    """The age of what the lake holds, on the balancers of the clusters that are named, or on all."""
    named = [system for system, _ in read.connections]
    for level in BALANCERS.values():
        if named and level.system not in named:
            continue
        try:
            age = lake_age(Lake(context.lake, level.pipeline()))
        except (TrimtabError, OSError) as error:
            yield broken("lake", level.name, str(error), ANOTHER_LAKE)
            continue
        if level.direct_source_option is not None and age.samples_at is None:
            continue  # it is read on request alone, and nobody has asked
        yield lake_finding(level.name, age, time.time(), read.max_plan_age_seconds)

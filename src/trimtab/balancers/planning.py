"""What plans and replays of all balancers share: inputs named by options, and how results are shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.balancers import BALANCER_NAMES, BALANCERS, balancer_named
from trimtab.balancers.balancer import (
    Balancer,
    OptionValues,
    Planner,
    PlanRequest,
    PlanResult,
    setting_overrides,
)
from trimtab.balancers.settings import read_settings
from trimtab.files.document import JsonDocument
from trimtab.files.head import instant
from trimtab.files.plan_format import balancer_of, open_plan
from trimtab.files.store import Location
from trimtab.model.errors import PlanError
from trimtab.observe.lake.lake import Lake
from trimtab.report.formats import print_progress
from trimtab.report.tables import print_wide
from trimtab_common.errors import InputError, SettingsError
from trimtab_common.files import writing
from trimtab_common.settings import Overrides

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.observe.lake.open_tables import OpenTables


Replay = Callable[[OptionValues], int]
"""Replays a recording by the values of options, shows the figures of each strategy, and gives the exit code.

It raises `SettingsError` if options contradict one another or a name is unknown, and another `TrimtabError`
if the recording is invalid or a file cannot be written.
"""
Draw = Callable[[Path, str], Iterable[Path]]
"""Draws into a folder, under a name without suffix; the files written."""


def bounds(values: OptionValues) -> tuple[float | None, float | None]:
    """`--since` and `--until`, seconds since 1970; None for one that is not given."""
    found = [instant(f"--{name}", values[name]) for name in ("since", "until")]
    since, until = (None if one is None else one.timestamp() for one in found)
    return since, until


def recording_option(values: OptionValues, option: str, noun: str, what: str) -> Path | None:
    """The recording in files that an option names; None where a lake is named instead.

    Parameters
    ----------
    noun, what
        What can be named by the option, and what it is, for people.

    Raises
    ------
    SettingsError
        If both are named, or neither.
    """
    file: Path | None = values[option]
    in_lake = values["lake"] is not None or values["cluster"] is not None
    if file is not None and in_lake:
        raise SettingsError(f"--{option} is {what}, --lake and --cluster are not: name one")
    if file is None and not in_lake:
        raise SettingsError(f"nothing to replay: name {noun} by --{option}, or a lake by --lake")
    return file


def show(
    values: OptionValues,
    draw: Draw,
    document: Callable[[], object],
    text: Callable[[], Iterable[RenderableType]],
) -> None:
    """The picture first, so that nothing is said of one that could not be written; then JSON, or a text.

    Parameters
    ----------
    values
        The value of every option, by its name; `chart` and `json` are asked for here.
    draw
        Draws the picture, if one is asked for.
    """
    chart: Path | None = values["chart"]
    if chart is not None:
        with writing(chart):
            stem = chart.stem if chart.suffix in (".svg", ".png") else chart.name
            drawn = draw(chart.parent, stem)
        print_progress(f"drew {' and '.join(map(str, drawn))}")
    if values["json"]:
        print(json.dumps(document(), ensure_ascii=False, indent=1))
    else:
        print_wide(text())


def open_tables(lake: Location, balancer: str | None) -> OpenTables:
    """The tables published last.

    Parameters
    ----------
    lake
        The lake's folder or address.
    balancer
        Whose; None where the lake holds those of one balancer only.

    Raises
    ------
    InputError
        If the lake has no tables of the balancer, or of several where none is named.
    """
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.open_tables import OpenTables

    asked = [balancer_named(balancer, "balancer")] if balancer is not None else list(BALANCERS.values())
    found = [OpenTables(Lake(lake, one.pipeline())) for one in asked]
    held = [one for one in found if one.manifest.version]
    if not held:
        whose = "" if balancer is None else f" of level {balancer}"
        raise InputError(
            f"lake {lake} holds no tables{whose}: collect samples, then run `trimtab pipeline run`"
        )
    if len(held) > 1:
        names = " and ".join(one.lake.balancer.name for one in held)
        raise InputError(f"lake {lake} holds tables of balancers {names}: say which by balancer")
    return held[0]


def plan_balancer(balancer: Balancer, request: PlanRequest) -> PlanResult:
    """The plan of a balancer, by the balancer's own way where it has one.

    Raises
    ------
    TrimtabError
        If there is nothing to plan from, or a setting or a name is wrong.
    """
    if balancer.make_plan is not None:
        return balancer.make_plan()(request)
    words: Overrides = (*request.overrides, *setting_overrides(balancer.plan_options, request.own))
    settings = read_settings(request.settings, words, os.environ).of(balancer.settings())
    if request.strategy is not None:
        settings = replace(settings, strategy=request.strategy)
    snapshot = snapshot_on(
        balancer, request.own.get("system"), request.snapshot, request.lake, request.cluster
    )
    planner = planner_of(balancer, settings.strategy)
    request.loaded()
    return PlanResult(plan=planner(snapshot, settings), snapshot=snapshot)


def planner_of(balancer: Balancer, strategy: str) -> Planner:
    """The planner of a balancer by the name of its strategy.

    Raises
    ------
    PlanError
        If there is none of that name.
    """
    if strategy not in balancer.planners:
        raise PlanError(f"strategy {strategy!r} is not known; choose one of {', '.join(balancer.planners)}")
    return balancer.planners[strategy]()


def opened_plan(path: Path) -> tuple[Balancer, JsonDocument]:
    """A plan file that is read so far that its level is known; `from_document` of the balancer's plans reads
    on.

    Raises
    ------
    InputError
        If it is no plan, or of no balancer that there is.
    """
    document = open_plan(path)
    return BALANCERS[balancer_of(document, BALANCER_NAMES)], document


def snapshot_on(
    balancer: Balancer, system: str | None, path: Path | None, lake: Location, cluster: str | None
) -> Any:
    """The snapshot of a balancer on one of its systems, as `snapshot_of`; None for its own system.

    Raises
    ------
    TrimtabError
        As `snapshot_of`, or if the balancer does not act on the system.
    """
    binding = balancer.binding(system)
    if binding is None:
        return snapshot_of(balancer, path, lake, cluster)
    first = next(one for one in BALANCERS.values() if one.system is binding.system)
    return binding.as_balancer_snapshot()(snapshot_of(first, path, lake, cluster))


def snapshot_of(balancer: Balancer, path: Path | None, lake: Location, cluster: str | None) -> Any:
    """A snapshot out of a file or folder, or else the newest of the lake.

    Raises
    ------
    InputError
        If it is of another cluster than the one that is asked for.
    ObserveError
        If the lake holds none.
    """
    source = path if path is not None else Lake(lake, balancer.pipeline()).newest_snapshot(cluster)
    found = balancer.snapshot().read(source)
    if cluster is not None and found.reference.cluster != cluster:
        raise InputError(
            f"{source}: is a snapshot of cluster {found.reference.cluster}, not of {cluster}; name another"
        )
    return found

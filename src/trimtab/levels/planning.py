"""From a request to a plan, whatever the level: the snapshot that is meant, its settings, its planner."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import level_of, open_plan
from trimtab.files.settings import Overrides
from trimtab.files.store import Place
from trimtab.levels import LEVELS, ROWS
from trimtab.levels.level import Level, PlanAsked, Planned, Planner, words_of
from trimtab.levels.settings import read_settings
from trimtab.model.errors import InputError, PlanError
from trimtab.observe.lake import Lake


def plan_level(level: Level, asked: PlanAsked) -> Planned:
    """The plan of a level, by the level's own way where it has one.

    Raises
    ------
    TrimtabError
        If there is nothing to plan from, or a setting or a name is wrong.
    """
    if level.planning is not None:
        return level.planning()(asked)
    options = () if level.plan_options is None else level.plan_options()
    words: Overrides = (*asked.words, *words_of(options, asked.own))
    settings = read_settings(asked.settings, words, os.environ).of(level.settings())
    if asked.strategy is not None:
        settings = replace(settings, strategy=asked.strategy)
    seat = level.seat(asked.own.get("system"))
    if seat is None:
        snapshot = snapshot_of(level, asked.snapshot, asked.lake, asked.cluster)
    else:
        first = next(one for one in LEVELS.values() if one.system is seat.system)
        snapshot = seat.seen()(snapshot_of(first, asked.snapshot, asked.lake, asked.cluster))
    planner = planner_of(level, settings.strategy)
    asked.loaded()
    return Planned(plan=planner(snapshot, settings), snapshot=snapshot)


def planner_of(level: Level, strategy: str) -> Planner:
    """The planner of a level by the name of its strategy.

    Raises
    ------
    PlanError
        If there is none of that name.
    """
    if strategy not in level.planners:
        raise PlanError(f"strategy {strategy!r} is not known; choose one of {', '.join(level.planners)}")
    return level.planners[strategy]()


def opened_plan(path: Path) -> tuple[Level, JsonDocument]:
    """A plan file that is read so far that its level is known; `from_document` of the level's plans reads on.

    Raises
    ------
    InputError
        If it is no plan, or of no level that there is.
    """
    document = open_plan(path)
    return LEVELS[level_of(document, ROWS)], document


def snapshot_of(level: Level, path: Path | None, lake: Place, cluster: str | None) -> Any:
    """A snapshot out of a file or folder, or else the newest of the lake.

    Raises
    ------
    InputError
        If it is of another cluster than the one that is asked for.
    ObserveError
        If the lake holds none.
    """
    source = path if path is not None else Lake(lake, level.pipeline()).newest_snapshot(cluster)
    found = level.snapshot().read(source)
    if cluster is not None and found.reference.cluster != cluster:
        raise InputError(
            f"{source}: is a snapshot of cluster {found.reference.cluster}, not of {cluster}; name another"
        )
    return found

"""A level as a value: one place where load piles up, and the names of its parts in every room.

A row holds names only, so that the table of levels costs nothing to read: `trimtab --help` shows every level
without loading one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trimtab.levels.part import Part
from trimtab.levels.system import Option, System

if TYPE_CHECKING:
    from trimtab.act.acting import AnyActing
    from trimtab.files.binding import Section
    from trimtab.files.plan_format import PlanFormat
    from trimtab.files.snapshot_format import SnapshotFormat
    from trimtab.levels.asking import PlanAsked, Planned
    from trimtab.observe.level_pipeline import LevelPipeline
    from trimtab.report.words import Words

Planner = Callable[[Any, Any], Any]
"""Snapshot and settings of a level to its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level.

    Attributes
    ----------
    name, title
        As in commands and settings, and for people.
    system
        On which it acts, with its connection and its collector.
    moves, across, trigger
        The thing that is moved, between what it is moved, and the event that starts a turn.
    settings
        Files: the section of `trimtab.toml` that a planner is asked by.
    snapshot, plan
        Files: how its snapshots and plans are read and written.
    pipeline
        Observe: its samples, tables and snapshots in a lake, and the transformations that make them.
    planners
        Plan: its strategies by name; the setting `strategy`, or `--strategy`, chooses.
    acting
        Act: how a plan becomes an execution.
    open
        Act: the system as a port to act through, from a connection and a clock.
    words
        Report: what people read.
    glance
        Observe: one look at a cluster without a lake, from a connection and the settings of collectors.
    pace
        For operators: the setting that limits what an execution does to clients and brokers.
    planning
        A way of its own from what was asked to a plan, where a snapshot is not all that it plans from.
    strategy_help, set_help
        What can be written after `--strategy` and `--set` of `trimtab plan NAME`, one sentence each.
    plan_options, apply_options
        Options of `trimtab plan NAME` and `trimtab apply` that only this level has.
    forms
        Forms of a plan that tools of the system take, by the name that `--format` gives them.
    replay, replay_options
        Recorded load through strategies, and the options of that; its answer is an exit code.
    figures
        A recording, names of strategies and further choices to a row of figures for each strategy.
    """

    name: str
    title: str
    system: System
    moves: str
    across: str
    trigger: str
    settings: Part[Section[Any]]
    snapshot: Part[SnapshotFormat[Any]]
    plan: Part[PlanFormat[Any]]
    pipeline: Part[LevelPipeline]
    planners: Mapping[str, Part[Planner]]
    acting: Part[AnyActing]
    open: Part[Callable[[Any, Callable[[], float]], AbstractContextManager[Any]]]
    words: Part[Words]
    pace: str
    glance: Part[Callable[[Any, Any], Any]] | None = None
    planning: Part[Callable[[PlanAsked], Planned]] | None = None
    strategy_help: str
    set_help: str
    plan_options: Part[tuple[Option, ...]] | None = None
    apply_options: tuple[Option, ...] = ()
    forms: Mapping[str, Part[Callable[[Any], tuple[str, str]]]] = field(default_factory=dict)
    replay: Part[Callable[[Mapping[str, Any]], int]] | None = None
    replay_options: Part[tuple[Option, ...]] | None = None
    figures: Part[Callable[..., Mapping[str, Mapping[str, float | None]]]] | None = None

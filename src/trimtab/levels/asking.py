"""Requests to a level and its answers: what was asked for on a command line or from Python, as values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.files.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAsked:
    """A request for a plan.

    Attributes
    ----------
    snapshot
        A file or folder to plan from; None for the newest of the lake.
    lake
        The lake's folder.
    cluster
        The cluster that is meant; None where there is but one.
    strategy
        Name of a planner; None for that of the settings.
    writes
        Whether the plan is to be kept in a file, so that there must be exactly one.
    words
        Overrides of settings as given, `section.key=value`; a level may take further words here.
    own
        Values of the options that only this level has.
    read
        Overrides to the settings in force: defaults, file, environment, overrides.
    sections
        Names of the sections that a word of ours may begin with.
    loaded
        Called once the planner is loaded, before it plans: a compiled one may have to be compiled first.
    """

    snapshot: Path | None
    lake: Path
    cluster: str | None = None
    strategy: str | None = None
    writes: bool = False
    words: tuple[str, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Sequence[str]], Settings]
    sections: Collection[str] = ()
    loaded: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer to a request for a plan.

    Attributes
    ----------
    plan, snapshot
        The plan, and what it was made from; None where several strategies were asked side by side.
    told
        Text after that of the plan; all of the text where there is no single plan.
    document
        The answer as plain JSON values where there is no single plan.
    binding
        Whether an infeasible verdict is the planner's own proof, and no mere figure of somebody else's
        decision.
    """

    plan: Any = None
    snapshot: Any = None
    told: str = ""
    document: object = None
    binding: bool = True

"""The words of a level: the texts that people read of its plans, executions and clusters.

The frame of each text stands once, in `plan_text`, `execution_text` and `glance_text`; a level's module of
words calls it with sentences of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.act.acting import Entry


@dataclass(frozen=True)
class Words:
    """The texts of one level.

    Attributes
    ----------
    plan_text
        A plan, with the load of its snapshot if that is given, and with all moves if `all_moves` is true.
    plan_diff
        Two plans compared; empty if they do the same.
    forecast_text
        What a prepared plan will do under settings of the level, before it begins.
    progress_line
        A new function from the states of one execution, one after another, to lines of progress.
    execution_text
        One execution with all its steps: its entry, state and status, and the journal's log.
    receipt_text
        What was done, what was left, and what to do about that.
    cancelling
        The effect of a cancel on what is in flight, said while it is at it.
    glance_text, glance_document
        One look at a cluster without a lake, showing all brokers or the worst; the same as plain JSON values.
    """

    plan_text: Callable[..., str]
    plan_diff: Callable[[Any, Any], str]
    forecast_text: Callable[[Any, Any], str]
    progress_line: Callable[[], Callable[[Any], str]]
    execution_text: Callable[[Entry, Any, str, Sequence[tuple[float, str, str, object]]], str]
    receipt_text: Callable[[Any], str]
    cancelling: str
    glance_text: Callable[[Any, bool], Iterator[RenderableType]]
    glance_document: Callable[[Any], dict[str, Any]]

"""The words of a balancer: the texts that people read of its plans, executions and clusters.

The frame of each text stands once, in `plan_text`, `execution_text` and `glance_text`; a balancer's module of
words calls it with sentences of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.report.execution_text import text_of_execution
from trimtab.report.plan_text import diff_of_plans

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.act.executor import ExecutionSummary


@dataclass(frozen=True)
class Renderer:
    """The texts of one balancer.

    Attributes
    ----------
    plan_text
        A plan, with the load of its snapshot if that is given, and with all moves if `all_moves` is true.
    cost, change
        The cost of a plan in a sentence, and all that a move changes, in a line.
    forecast_text
        What a prepared plan will do, from its forecast and settings, with every step or not.
    progress_line
        A new function from the states of one execution, one after another, to lines of progress.
    step, notes
        A step of an execution in a line, and what there is to note of an execution besides.
    cancels
        The effect of `cancel` on what is in flight, said of an execution that nobody runs.
    receipt_text
        What was done, what was left, and what to do about that.
    spent_text
        The price of an execution, from its receipt, in a sentence.
    cancelling
        The same, said while it is at it.
    status_text, status_document
        One look at a cluster without a lake, showing all brokers or the worst; the same as plain JSON values.
    """

    plan_text: Callable[..., str]
    cost: Callable[[Any], str]
    change: Callable[[Any], str]
    forecast_text: Callable[[Any, Any, Any, bool], str]
    progress_line: Callable[[], Callable[[Any], str]]
    step: Callable[[Any], str]
    receipt_text: Callable[[Any], str]
    spent_text: Callable[[Any], str]
    cancels: str
    cancelling: str
    status_text: Callable[[Any, bool], Iterator[RenderableType]]
    status_document: Callable[[Any], dict[str, Any]]
    notes: Callable[[Any], Iterable[str]] = lambda state: ()

    def plan_diff(self, first: Any, second: Any) -> str:
        """Two plans compared; empty if they do the same."""
        return diff_of_plans(first, second, self.cost, self.change)

    def execution_text(
        self, entry: ExecutionSummary, state: Any, status: str, log: Sequence[tuple[float, str, str, object]]
    ) -> str:
        """One execution with all its steps and the last of its log."""
        return text_of_execution(entry, state, status, log, self.step, self.cancels, self.notes(state))

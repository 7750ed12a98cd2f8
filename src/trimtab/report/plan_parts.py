"""What the texts of plans of all levels have in common: verdicts, tables, problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.model.plan import Verdict
from trimtab.report.names import NAMES

if TYPE_CHECKING:
    from trimtab.model.bundle_plan import BundlePlan
    from trimtab.model.plan import Plan, Problem

VERDICTS = {
    Verdict.LEVEL: "level: every goal holds already, nothing to do",
    Verdict.LEVELLED: "levelled: every goal holds after these moves",
    Verdict.IMPROVED: "improved: some goals still do not hold after these moves (see problems)",
    Verdict.INFEASIBLE: "infeasible: no plan can meet some hard limit (see problems)",
}


def problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    """The problems, a line each, under a heading."""
    yield "Problems:"
    for problem in problems:
        count = "" if problem.count is None else f" {problem.count}"
        resource = "" if problem.resource is None else f" ({NAMES.get(problem.resource, problem.resource)})"
        yield f"  {problem.kind.replace('_', ' ')}{count}{resource}: {problem.text}"


def one_limit(plan: Plan | BundlePlan, name: str) -> float | None:
    """The one limit of all resources, if it is one."""
    limit = plan.settings.get(name)
    values = set(limit.values()) if isinstance(limit, dict) else {limit}
    if len(values) != 1:
        return None
    value = values.pop()
    return float(value) if isinstance(value, int | float) else None


def table_lines(rows: list[list[str]], align: str) -> list[str]:
    """Columns side by side, each to the left (`l`) or to the right (`r`)."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, align, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where there are several."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

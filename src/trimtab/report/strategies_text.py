"""What several strategies would do with the bundles of a cluster now, side by side, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.report.before_after import bytes_text
from trimtab.report.plan_parts import counted, table_lines

if TYPE_CHECKING:
    from trimtab.model.bundle_plan import BundlePlan
    from trimtab.plan.bundles.agreement import Disagreement
    from trimtab.plan.bundles.decision import Decision

MOVES_SHOWN = 8


@dataclass(frozen=True)
class Wanted:
    """What one strategy wants.

    Attributes
    ----------
    name
        What it is called here.
    strategy, placement, options
        What it was asked with; None for a placement that is not asked.
    decision
        With the numbers that decided.
    plan
        The same as a plan, judged by the goals of `trim`.
    disagreements
        Where shedder and placement are at odds.
    """

    name: str
    strategy: str
    placement: str | None
    options: Mapping[str, str]
    decision: Decision
    plan: BundlePlan
    disagreements: Sequence[Disagreement]


def strategies_text(wanted: Sequence[Wanted]) -> str:
    """A table of all, then each with its moves and the numbers that decided."""
    rows = [["strategy", "placement", "unloads", "clients", "traffic", "worst deviation", "peak", "agrees"]]
    for one in wanted:
        after = one.plan.predicted.after
        rows.append(
            [
                *(one.name, one.placement or "its own"),
                *(str(one.plan.cost.unloads), str(one.plan.cost.sessions)),
                f"{bytes_text(int(one.plan.cost.bytes_per_second))}/s",
                f"{max(after.worst_deviation.values(), default=0.0):.0%}",
                f"{max(after.peak_usage.values(), default=0.0):.0%}",
                "yes" if not one.disagreements else f"no ({len(one.disagreements)})",
            ]
        )
    lines = ["What each strategy would do now, and what comes of it:", *table_lines(rows, align="llrrrrrl")]
    for one in wanted:
        lines += ["", *_one(one)]
    return "\n".join(lines) + "\n"


def strategies_document(wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
    """The same as plain JSON values; the plan's moves and problems are in it."""
    from trimtab.files.decisions import plain_why

    return [
        {
            "name": one.name,
            "strategy": one.strategy,
            "placement": one.placement,
            "options": dict(one.options),
            "unloads": {source: list(bundles) for source, bundles in one.decision.unloads.items()},
            "destinations": dict(one.decision.destinations),
            "why": plain_why(one.decision.why),
            "verdict": str(one.plan.verdict),
            "clients": one.plan.cost.sessions,
            "bytes_per_second": one.plan.cost.bytes_per_second,
            "worst_deviation_after": dict(one.plan.predicted.after.worst_deviation),
            "peak_usage_after": dict(one.plan.predicted.after.peak_usage),
            "disagreements": [
                {
                    "kind": each.kind,
                    "bundle": each.bundle,
                    "source": each.source,
                    "target": each.target,
                    "text": each.text,
                }
                for each in one.disagreements
            ],
            "problems": [problem.text for problem in one.plan.problems],
        }
        for one in wanted
    ]


def _one(one: Wanted) -> Iterator[str]:
    options = "".join(f", {name}={value}" for name, value in one.options.items())
    yield f"{one.name} ({one.strategy}, {one.placement or 'destinations of its own'}{options}):"
    moves = one.plan.moves
    if not moves:
        yield "  unloads nothing"
    shown = [
        [
            str(move.order),
            move.bundle,
            f"{move.source or 'nobody'} → {move.target or 'split'}",
            move.reason.text,
        ]
        for move in moves[:MOVES_SHOWN]
    ]
    if shown:
        yield from table_lines(shown, align="rlll")
    if len(moves) > len(shown):
        yield f"  ... and {counted(len(moves) - len(shown), 'more unload')}; --strategy {one.name} shows all"
    for line in why_lines(one.decision):
        yield f"  {line}"
    for each in one.disagreements:
        yield f"  shedder and placement disagree: {each.text}"


def why_lines(decision: Decision) -> Iterator[str]:
    """The numbers that decided, a line each."""
    for name, value in decision.why.items():
        if name in ("placements", "refused", "reasons", "problems"):
            continue
        yield f"{name.replace('_', ' ')}: {_value(value)}"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(map(_value, value)) or "none"
    return str(value)

"""Several strategies side by side: what each would do with the bundles of a cluster now, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trimtab.report.formats import bytes_text, counted
from trimtab.report.tables import table_lines

if TYPE_CHECKING:
    from trimtab.model.bundles.plan import BundlePlan
    from trimtab.plan.pulsar.agreement import Disagreement
    from trimtab.plan.pulsar.decision import ShedDecision

MAX_MOVES_LISTED = 8


@dataclass(frozen=True)
class StrategyProposal:
    """The wish of one strategy.

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
    decision: ShedDecision
    plan: BundlePlan
    disagreements: Sequence[Disagreement]


def strategies_text(desired: Sequence[StrategyProposal]) -> str:
    """A table of all, then each with its moves and the numbers that decided."""
    rows = [["strategy", "placement", "unloads", "clients", "traffic", "worst deviation", "peak", "agrees"]]
    for one in desired:
        cost, after = one.plan.cost, one.plan.predicted.after
        row = [one.name, one.placement or "its own", str(cost.unloads), str(cost.sessions)]
        row.append(f"{bytes_text(int(cost.bytes_per_second))}/s")
        for values in (after.worst_deviation, after.peak_usage):
            row.append(f"{max(values.values(), default=0.0):.0%}")
        rows.append([*row, f"no ({len(one.disagreements)})" if one.disagreements else "yes"])
    lines = ["What each strategy would do now, and what comes of it:", *table_lines(rows, align="llrrrrrl")]
    for one in desired:
        lines += ["", *_one(one)]
    return "\n".join(lines) + "\n"


def strategies_document(desired: Sequence[StrategyProposal]) -> list[dict[str, Any]]:
    """The same as plain JSON values; the plan's moves and problems are in it."""
    from trimtab.files.bundles.decisions import reason_document

    return [
        {
            "name": one.name,
            "strategy": one.strategy,
            "placement": one.placement,
            "options": dict(one.options),
            "unloads": {source: list(bundles) for source, bundles in one.decision.unloads.items()},
            "destinations": dict(one.decision.destinations),
            "why": reason_document(one.decision.facts),
            "verdict": str(one.plan.verdict),
            "clients": one.plan.cost.sessions,
            "bytes_per_second": one.plan.cost.bytes_per_second,
            "worst_deviation_after": dict(one.plan.predicted.after.worst_deviation),
            "peak_usage_after": dict(one.plan.predicted.after.peak_usage),
            "disagreements": [asdict(each) for each in one.disagreements],
            "problems": [problem.text for problem in one.plan.problems],
        }
        for one in desired
    ]


def _one(one: StrategyProposal) -> Iterator[str]:
    options = "".join(f", {name}={value}" for name, value in one.options.items())
    yield f"{one.name} ({one.strategy}, {one.placement or 'destinations of its own'}{options}):"
    moves = one.plan.moves
    if not moves:
        yield "  unloads nothing"
    shown = [
        [str(m.order), m.bundle, f"{m.source or 'nobody'} → {m.target or 'split'}", m.reason.text]
        for m in moves[:MAX_MOVES_LISTED]
    ]
    yield from table_lines(shown, align="rlll")
    if len(moves) > len(shown):
        yield f"  ... and {counted(len(moves) - len(shown), 'more unload')}; --strategy {one.name} shows all"
    for line in reason_lines(one.decision):
        yield f"  {line}"
    for each in one.disagreements:
        yield f"  shedder and placement disagree: {each.text}"


def reason_lines(decision: ShedDecision) -> Iterator[str]:
    """The numbers that decided, a line each."""
    for name, value in decision.facts.items():
        if name not in ("placements", "refused", "reasons", "problems", "splits"):
            yield f"{name.replace('_', ' ')}: {_value(value)}"
    for bundle, size in decision.facts.get("splits", {}).items():
        outcome = "would be split" if size["outcome"] == "split" else f"stays whole: {size['outcome']}"
        figures = f"{size['topics']} topics, {size['sessions']} clients, {size['msg_rate']:,.0f} messages/s"
        carried = f"{figures}, {bytes_text(size['msg_throughput'])}/s"
        yield f"{bundle} is above Pulsar's limit of {size['reason']} ({carried}) and {outcome}"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(map(_value, value)) or "none"
    return str(value)

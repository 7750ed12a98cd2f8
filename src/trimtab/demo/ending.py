"""How the demo ends: what changed, what it cost, whether it helped, and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trimtab.demo.screen import SIDE_BY_SIDE, Screen
from trimtab.files.atomic import write_atomically
from trimtab.files.plan import plan_bytes
from trimtab.model.load import RESOURCES
from trimtab.model.plan import Verdict
from trimtab.report.before_after import Goals, Spent, before_after_table, cost_text
from trimtab.report.heatmap import draw_heatmap
from trimtab.report.names import NAMES
from trimtab.report.terminal_heatmap import cells_of, terminal_heatmap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimtab.model.load import FloatArray
    from trimtab.model.plan import Plan
    from trimtab.model.receipt import ReplicasReceipt
    from trimtab.model.settings import ReplicasSettings
    from trimtab.report.before_after import Outcome
    from trimtab.report.measured import Measured


def spent(receipt: ReplicasReceipt | None) -> Spent:
    """What an execution cost."""
    if receipt is None:
        return Spent(0, 0, 0, 0.0)
    done = receipt.done
    copies = [outcome for outcome in done if outcome.kind == "copy"]
    return Spent(
        replica_moves=sum(len(set(outcome.after) - set(outcome.before)) for outcome in copies),
        leader_moves=sum(outcome.kind == "lead" for outcome in done),
        bytes_copied=receipt.copied_bytes,
        seconds=receipt.seconds,
    )


def goals_of(settings: ReplicasSettings, brokers: int) -> Goals:
    """What was asked for, by resource name."""
    return Goals(
        dict(zip(RESOURCES, settings.theta, strict=True)),
        dict(zip(RESOURCES, settings.epsilon, strict=True)),
        brokers,
    )


def show(
    screen: Screen, before: Measured, after: Measured, goals: Goals, receipt: ReplicasReceipt | None
) -> None:
    """The map of both, the table of both, and the price."""
    show_both(screen, before, after, goals)
    screen.say(f"cost: {cost_text(spent(receipt))}")


def show_both(screen: Screen, before: Measured, after: Measured, goals: Goals) -> None:
    """The map and the table of before and after."""
    show_map(screen, np.array([goals.epsilon[name] for name in before.resources]), before, after)
    screen.table(before_after_table(before.measures(), after.measures(), goals))


def show_map(screen: Screen, epsilon: FloatArray, before: Measured, after: Measured | None = None) -> None:
    """Brokers × resources in the terminal, one panel or two, side by side where there is room."""
    names, columns = before.names(", "), [NAMES[name] for name in before.resources]
    first = cells_of(before, "before" if after else "")
    second = cells_of(after, "after") if after else None
    panels = (
        [(first, second)]
        if second is None or screen.console.width >= SIDE_BY_SIDE
        else [(first, None), (second, None)]
    )
    for left, right in panels:
        screen.table(terminal_heatmap(names, left, right, columns, epsilon))


def judgement(outcome: Outcome, verdict: Verdict) -> str:
    """The end of the story in a sentence, as measurement tells it."""
    if verdict is Verdict.LEVEL:
        return "The cluster's own placement was level this time: run it again with another --seed."
    if not outcome.helped:
        worse = ", ".join(NAMES[name] for name in outcome.worse) or "nothing became more even"
        return f"By measurement this did not help ({worse})."
    if outcome.unmet:
        return (
            f"It helped: {', '.join(NAMES[name] for name in outcome.improved)} became more even. "
            f"Not within every goal yet: {', '.join(NAMES[name] for name in outcome.unmet)}."
        )
    return "It helped, and every goal holds, by measurement."


def keep(
    out: Path, before: Measured, after: Measured, plan: Plan, receipt: ReplicasReceipt | None, goals: Goals
) -> tuple[Path, ...]:
    """Write pictures, plan and result, each whole; the result last."""
    panels = [
        ("before: Kafka's own placement", before),
        (f"after: {cost_text(spent(receipt))}", after),
    ]
    title = "Six brokers under the same load, before and after levelling"
    facts = {"spent": asdict(spent(receipt)), "verdict": str(plan.verdict)}
    return keep_files(out, panels, title, goals, plan_bytes(plan), facts)


def keep_files(
    out: Path,
    panels: Sequence[tuple[str, Measured]],
    title: str,
    goals: Goals,
    plan: bytes,
    facts: Mapping[str, object],
) -> tuple[Path, ...]:
    """Write pictures, plan and result, each whole; the result last.

    Parameters
    ----------
    panels
        Heading and figures of before and after.
    title
        Of the picture.
    plan
        The plan's file.
    facts
        What else belongs to the result.
    """
    out.mkdir(parents=True, exist_ok=True)
    (_, before), (_, after) = panels
    pictures = draw_heatmap(panels, out, "heatmap", title, goals.epsilon[before.resources[0]])
    write_atomically(out / "plan.json", plan)
    result = {
        "format": "trimtab/demo-result/1",
        "before": asdict(before.measures()),
        "after": asdict(after.measures()),
        "instants": [before.instants, after.instants],
        **facts,
    }
    write_atomically(out / "result.json", (json.dumps(result, indent=1) + "\n").encode())
    return (*pictures, out / "plan.json", out / "result.json")

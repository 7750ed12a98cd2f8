"""How the demo ends: what changed, what it cost, whether it helped, and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trimtab.demo.screen import Screen
from trimtab.files.atomic import write_atomically
from trimtab.files.plan import write_plan
from trimtab.model.load import RESOURCES
from trimtab.model.plan import Verdict
from trimtab.report.before_after import Goals, Spent, before_after_table, cost_text
from trimtab.report.heatmap import draw_heatmap
from trimtab.report.names import NAMES
from trimtab.report.terminal_heatmap import cells_of, terminal_heatmap

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.model.load import FloatArray
    from trimtab.model.plan import Plan
    from trimtab.model.receipt import ReplicasReceipt
    from trimtab.model.settings import ReplicasSettings
    from trimtab.report.before_after import Outcome
    from trimtab.report.measured import Measured

SIDE_BY_SIDE = 118
"""Columns that two panels need."""


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
    from rich.padding import Padding

    show_map(screen, np.array([goals.epsilon[name] for name in RESOURCES]), before, after)
    table = before_after_table(before.measures(), after.measures(), goals)
    _console(screen).print(Padding(table, (0, 0, 1, 2)))
    screen.say(f"cost: {cost_text(spent(receipt))}")


def show_map(screen: Screen, epsilon: FloatArray, before: Measured, after: Measured | None = None) -> None:
    """Brokers × resources in the terminal, one panel or two, side by side where there is room."""
    from rich.padding import Padding

    names = before.names(", ")
    console = _console(screen)
    first = cells_of(before, "before" if after else "")
    second = cells_of(after, "after") if after else None
    panels = (
        [(first, second)]
        if second is None or console.width >= SIDE_BY_SIDE
        else [(first, None), (second, None)]
    )
    for left, right in panels:
        console.print(Padding(terminal_heatmap(names, left, right, epsilon=epsilon), (1, 0, 1, 2)))


def _console(screen: Screen) -> Console:
    """Where nobody knows the width (a pipe, a log), nothing is broken into lines for its sake."""
    from rich.console import Console

    known = screen.stream.isatty()
    return Console(file=screen.stream, highlight=False, width=None if known else SIDE_BY_SIDE)


def judgement(outcome: Outcome, plan: Plan) -> str:
    """The end of the story in a sentence, as measurement tells it."""
    if plan.verdict is Verdict.LEVEL:
        return "Kafka's own placement was level this time, nothing to do: run it again for another draw."
    names = {name: NAMES[name] for name in RESOURCES}
    if not outcome.helped:
        worse = ", ".join(names[name] for name in outcome.worse) or "nothing became more even"
        return f"By measurement this did not help ({worse})."
    if outcome.unmet:
        return (
            f"It helped: {', '.join(names[name] for name in outcome.improved)} became more even. "
            f"Not within every goal yet: {', '.join(names[name] for name in outcome.unmet)}."
        )
    return "It helped, and every goal holds, by measurement."


def keep(
    out: Path, before: Measured, after: Measured, plan: Plan, receipt: ReplicasReceipt | None, goals: Goals
) -> tuple[Path, ...]:
    """Write pictures, plan and result, each whole; the result last."""
    out.mkdir(parents=True, exist_ok=True)
    pictures = draw_heatmap(
        [
            ("before: Kafka's own placement", before),
            (f"after: {cost_text(spent(receipt))}", after),
        ],
        out,
        "heatmap",
        "Six brokers under the same load, before and after levelling",
        goals.epsilon[RESOURCES[0]],
    )
    write_plan(plan, out / "plan.json")
    result = {
        "format": "trimtab/demo-result/1",
        "before": asdict(before.measures()),
        "after": asdict(after.measures()),
        "instants": [before.instants, after.instants],
        "spent": asdict(spent(receipt)),
        "verdict": str(plan.verdict),
    }
    write_atomically(out / "result.json", (json.dumps(result, indent=1) + "\n").encode())
    return (*pictures, out / "plan.json", out / "result.json")

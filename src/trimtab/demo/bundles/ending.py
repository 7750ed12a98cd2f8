"""How the demo of bundles ends: what changed, what its clients noticed, and what is kept of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from trimtab.demo.bundles.disturbance import felt_by_all
from trimtab.demo.ending import keep_files
from trimtab.files.bundle_plan import bundle_plan_bytes
from trimtab.model.bundles_snapshot import RESOURCES
from trimtab.report.before_after import Goals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trimtab.demo.bundles.disturbance import Disturbance
    from trimtab.demo.screen import Screen
    from trimtab.model.bundle_plan import BundlePlan
    from trimtab.model.bundle_receipt import BundlesReceipt
    from trimtab.model.bundles_settings import BundlesSettings
    from trimtab.report.measured import Measured

TITLE: Final = "Three Pulsar brokers under the same load, before and after levelling"


def goals_of(settings: BundlesSettings, brokers: int) -> Goals:
    """What was asked for, by resource name."""
    return Goals(
        dict(zip(RESOURCES, settings.theta, strict=True)),
        dict(zip(RESOURCES, settings.epsilon, strict=True)),
        brokers,
    )


def spent_text(receipt: BundlesReceipt | None) -> str:
    """What was done, in a sentence."""
    if receipt is None:
        return "nothing had to be done"
    splits = sum(outcome.kind == "split" for outcome in receipt.done)
    unloads = sum(outcome.kind == "unload" for outcome in receipt.done)
    return (
        f"{_counted(splits, 'bundle')} split, {_counted(unloads, 'bundle')} moved, "
        f"{receipt.sessions} clients reconnected, in {receipt.seconds:.1f} s"
    )


def show_disturbance(screen: Screen, found: Sequence[Disturbance]) -> None:
    """What every unload did to its clients, and all together."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("unloaded bundle")
    for heading in ("from", "to"):
        table.add_column(heading)
    for heading in ("topics", "pause p50", "max"):
        table.add_column(heading, justify="right")
    for one in found:
        felt = one.felt
        pause = ("–", "–") if felt is None else (f"{felt.p50_seconds:.2f} s", f"{felt.max_seconds:.2f} s")
        table.add_row(one.bundle, one.source or "–", one.target or "–", str(len(one.topics)), *pause)
    felt = felt_by_all(found)
    if felt is not None:
        table.add_row(
            "all", "", "", "", f"{felt.p50_seconds:.2f} s", f"{felt.max_seconds:.2f} s", style="bold"
        )
    screen.table(table)


def keep(
    out: Path,
    before: Measured,
    after: Measured,
    plan: BundlePlan,
    receipt: BundlesReceipt | None,
    goals: Goals,
    found: Sequence[Disturbance],
) -> tuple[Path, ...]:
    """Write pictures, plan and result, each whole; the result last."""
    panels = [("before: Pulsar's own placement", before), (f"after: {spent_text(receipt)}", after)]
    felt = felt_by_all(found)
    facts = {
        "verdict": str(plan.verdict),
        "spent": None
        if receipt is None
        else {
            "unloads": sum(outcome.kind == "unload" for outcome in receipt.done),
            "splits": sum(outcome.kind == "split" for outcome in receipt.done),
            "sessions": receipt.sessions,
            "seconds": receipt.seconds,
        },
        "pauses": None if felt is None else asdict(felt),
    }
    return keep_files(out, panels, TITLE, goals, bundle_plan_bytes(plan), facts)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

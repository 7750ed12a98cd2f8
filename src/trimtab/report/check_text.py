"""Findings of `trimtab check` as lines: OK, or how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.model.finding import Finding, FindingStatus, fine, missing
from trimtab.report.formats import counted, duration_text

if TYPE_CHECKING:
    from trimtab.observe.lake_age import LakeAge

STATUS_SYMBOLS: Final = {FindingStatus.FINE: "✓", FindingStatus.MISSING: "!", FindingStatus.BROKEN: "✗"}
SUBJECT_COLUMNS: Final = 24


def check_lines(finding: Finding, part_before: str | None) -> list[str]:
    """A finding as a line, below a heading where a new part begins."""
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    line = f"  {STATUS_SYMBOLS[finding.grade]} {finding.subject:{SUBJECT_COLUMNS}}  {finding.text}{remedy}"
    heading = [] if part_before is None else [""]
    return [line] if finding.part == part_before else [*heading, finding.part, line]


def lake_finding(balancer: str, age: LakeAge, now: float, stale_seconds: float) -> Finding:
    """The newest samples, tables and snapshots of a balancer, and whether a plan may be made of them.

    Parameters
    ----------
    now
        Seconds since 1970.
    stale_seconds
        From which age on plans are warned of.
    """
    if age.samples_at is None and not age.clusters:
        return missing("lake", balancer, "no samples yet", "`trimtab collect`")
    told = [
        f"newest {name} {'none' if at is None else duration_text(max(0.0, now - at)) + ' old'}"
        for name, at in (("samples", age.samples_at), ("tables", age.tables_until))
    ]
    told.append(f"snapshots of {counted(len(age.clusters), 'cluster')}")
    text = ", ".join(told)
    if age.samples_at is not None and now - age.samples_at > stale_seconds:
        return missing(
            "lake", balancer, f"{text}: too old to plan from", "`trimtab collect`, `trimtab pipeline run`"
        )
    if not age.clusters or age.tables_until is None:
        return missing("lake", balancer, text, "`trimtab pipeline run`")
    if age.samples_at is not None and age.samples_at - age.tables_until > stale_seconds:
        return missing("lake", balancer, f"{text}: tables are behind", "`trimtab pipeline run`")
    return fine("lake", balancer, text)

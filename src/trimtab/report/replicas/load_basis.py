"""The load that a plan is made for, in words, and how far off such expectations were."""

from __future__ import annotations

from typing import Any

from trimtab.model.load import resource_name
from trimtab.model.replicas.load_forecast import LOADS
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.snapshot import ReplicasSnapshot


def load_basis_text(snapshot: ReplicasSnapshot, load: str) -> str:
    """The sentence for a plan that is made for another load than the recent one."""
    if load == "recent":
        return ""
    if not snapshot.partitions.hours:
        return f"loads: recent, not {load}: the snapshot tells no hours to come (pipeline.profile_weeks)"
    return f"loads: {LOADS[load]} ({load}; {snapshot.partitions.hours} hours){_expected(snapshot)}"


def _expected(snapshot: ReplicasSnapshot) -> str:
    """How far off what was expected of the last day was, and where the trend of the weeks counts."""
    forecast: Any = dict(snapshot.quality.extra).get("x_load_forecast")
    found = forecast.get("backtest") if isinstance(forecast, dict) else None
    if not isinstance(found, dict):
        return ""
    trend = [name for name in RESOURCES if name in found.get("trend", ())]
    off = {name: found["error_with_trend" if name in trend else "error"].get(name) for name in RESOURCES}
    parts = [f"{resource_name(name)} {one:.1%}" for name, one in off.items() if one is not None]
    used = f"; with the trend of the weeks: {', '.join(map(resource_name, trend))}" if trend else ""
    return f"\nexpected loads were off by {', '.join(parts)} over the last day{used}"

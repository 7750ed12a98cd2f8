"""Which strategies there are: a row each, imported when asked for. A new one is one file and one row."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.errors import PlanError
from trimtab.plan.bundles.decision import Placer, Shedder

SHEDDERS: Final = {
    "AvgShedder": "trimtab.plan.bundles.shed.avg:AvgShedder",
    "OverloadShedder": "trimtab.plan.bundles.shed.overload:OverloadShedder",
    "ThresholdShedder": "trimtab.plan.bundles.shed.threshold:ThresholdShedder",
    "TransferShedder": "trimtab.plan.bundles.shed.transfer:TransferShedder",
    "UniformLoadShedder": "trimtab.plan.bundles.shed.uniform:UniformLoadShedder",
    "trim": "trimtab.plan.bundles.trim.shedder:Trim",
}
"""By the class's name in Pulsar, or a strategy of ours by its own: the module, and in it the `Shedder`. One
that names every destination itself says so by `extensible`, and no placement is asked."""

PLACERS: Final[dict[str, str]] = {
    "AvgShedder": "trimtab.plan.bundles.shed.avg_plan:AvgPlacement",
    "LeastLongTermMessageRate": "trimtab.plan.bundles.assign.least_rate:LeastLongTermMessageRate",
    "LeastResourceUsageWithWeight": (
        "trimtab.plan.bundles.assign.least_resource:LeastResourceUsageWithWeight"
    ),
    "RoundRobinBrokerSelector": "trimtab.plan.bundles.assign.round_robin:RoundRobinBrokerSelector",
    "extensions.LeastResourceUsageWithWeight": (
        "trimtab.plan.bundles.assign.least_resource_extensible:LeastResourceUsageWithWeight"
    ),
}
"""By the class's name in Pulsar: the module, and in it the class. Of two classes of one name the one of
the extensible load manager has `extensions.` in front."""


def shedder(name: str, metadata: ClusterMetadata | None = None) -> Shedder[Any]:
    """The shedder of this name; a full Java class name will do too.

    Parameters
    ----------
    metadata
        For shedders that look at policies themselves (`Shedder.asks_policies`).

    Raises
    ------
    PlanError
        If there is none.
    """
    kind = _row(name, SHEDDERS, "shedding")
    found: Shedder[Any] = kind(metadata) if metadata is not None and kind.asks_policies else kind()
    return found


def placer(name: str) -> Placer[Any]:
    """The placement of this name; a full Java class name will do too.

    Raises
    ------
    PlanError
        If there is none.
    """
    found: Placer[Any] = _row(name, PLACERS, "placement")()
    return found


def _row(name: str, table: Mapping[str, str], kind: str) -> Any:
    short = name.rpartition(".")[2]
    if ".extensions." in f".{name}" and f"extensions.{short}" in table:
        short = f"extensions.{short}"
    if short not in table:
        near = difflib.get_close_matches(short, table, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(table)}"
        raise PlanError(f"{kind} strategy {name} is not known; {remedy}")
    module, _, attribute = table[short].partition(":")
    return getattr(import_module(module), attribute)

"""Registry of Pulsar's strategies: a row each, imported when asked for. A new one is one file and one row."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.decision import Placer, Shedder

SHEDDERS: Final[Mapping[str, str]] = {
    "AvgShedder": "trimtab.plan.pulsar.shed.avg:SHEDDER",
    "OverloadShedder": "trimtab.plan.pulsar.shed.threshold:OVERLOAD",
    "ThresholdShedder": "trimtab.plan.pulsar.shed.threshold:THRESHOLD",
    "TransferShedder": "trimtab.plan.pulsar.shed.transfer:transfer_shedder",
    "UniformLoadShedder": "trimtab.plan.pulsar.shed.uniform:SHEDDER",
}
"""By the class's name in Pulsar: the module, and in it the `Shedder`, or a function that makes one of the
cluster's metadata, for those that look at policies themselves. One that names every destination itself says
so by `extensible`, and no placement is asked."""

PLACERS: Final[Mapping[str, str]] = {
    "AvgShedder": "trimtab.plan.pulsar.shed.avg:PLACER",
    "LeastLongTermMessageRate": "trimtab.plan.pulsar.assign.least_load:RATE",
    "LeastResourceUsageWithWeight": "trimtab.plan.pulsar.assign.least_load:MODULAR",
    "RoundRobinBrokerSelector": "trimtab.plan.pulsar.assign.round_robin:PLACER",
    "extensions.LeastResourceUsageWithWeight": "trimtab.plan.pulsar.assign.least_load:EXTENSIBLE",
}
"""By the class's name in Pulsar: the module, and in it the `Placer`. Of two classes of one name the one of
the extensible load manager has `extensions.` in front."""


def shedder(
    name: str, metadata: ClusterMetadata | None = None, table: Mapping[str, str] = SHEDDERS
) -> Shedder[Any]:
    """The shedder of this name; a full Java class name will do too.

    Parameters
    ----------
    metadata
        For shedders that look at policies themselves.
    table
        The registry: Pulsar's, or one that has others besides.

    Raises
    ------
    PlanError
        If there is none.
    """
    found: Any = _row(name, table, "shedding")
    made: Shedder[Any] = found if isinstance(found, Shedder) else found(metadata or ClusterMetadata())
    return made


def placer(name: str) -> Placer[Any]:
    """The placement of this name; a full Java class name will do too.

    Raises
    ------
    PlanError
        If there is none.
    """
    found: Placer[Any] = _row(name, PLACERS, "placement")
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

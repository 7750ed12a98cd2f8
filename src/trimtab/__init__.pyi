"""The public names with their exact types: a snapshot or a plan is of one of the balancers.

At run time `trimtab.api` finds the balancer by the value's kind, and names no balancer.
`tests/unit/test_types.py` holds this file to it.
"""

from pathlib import Path
from typing import TypeAlias, overload

from trimtab.act.control import ExecutionControl as ExecutionControl
from trimtab.api import apply as apply
from trimtab.api import measure as measure
from trimtab.api import measures as measures
from trimtab.api import moves as moves
from trimtab.api import plan_text as plan_text
from trimtab.api import predicted as predicted
from trimtab.api import replay as replay
from trimtab.api import resume as resume
from trimtab.api import tables as tables
from trimtab.api import usage as usage
from trimtab.api import write_plan as write_plan
from trimtab.api import write_snapshot as write_snapshot
from trimtab.balancers import BALANCERS as BALANCERS
from trimtab.balancers import Balancer as Balancer
from trimtab.executions import Done as Done
from trimtab.executions import ExecutionEvent as ExecutionEvent
from trimtab.executions import ExecutionOutcome as ExecutionOutcome
from trimtab.executions import Interrupted as Interrupted
from trimtab.executions import PreparedExecution as PreparedExecution
from trimtab.executions import Refused as Refused
from trimtab.executions import Stopped as Stopped
from trimtab.executions.measuring import Measurement as Measurement
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.snapshot import BundlesSnapshot
from trimtab.model.keys import KeysPlan, KeysSnapshot
from trimtab.model.masters import MastersPlan, MastersSnapshot
from trimtab.model.queues import QueuesPlan, QueuesSnapshot
from trimtab.model.replicas.plan import ReplicasPlan
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab_common.errors import TrimtabError as TrimtabError

__version__: str
__all__ = [
    "BALANCERS",
    "Balancer",
    "Done",
    "ExecutionControl",
    "ExecutionEvent",
    "ExecutionOutcome",
    "Interrupted",
    "Measurement",
    "Plan",
    "PreparedExecution",
    "Refused",
    "Snapshot",
    "Stopped",
    "TrimtabError",
    "__version__",
    "apply",
    "make_plan",
    "measure",
    "measures",
    "moves",
    "plan_text",
    "predicted",
    "read_plan",
    "read_snapshot",
    "replay",
    "resume",
    "tables",
    "usage",
    "write_plan",
    "write_snapshot",
]

Plan: TypeAlias = ReplicasPlan | BundlePlan | QueuesPlan | KeysPlan | MastersPlan
Snapshot: TypeAlias = ReplicasSnapshot | BundlesSnapshot | QueuesSnapshot | KeysSnapshot | MastersSnapshot

_Path: TypeAlias = str | Path

def read_snapshot(path: _Path) -> Snapshot: ...
def read_plan(path: _Path) -> Plan: ...
@overload
def make_plan(
    snapshot: ReplicasSnapshot,
    settings: _Path | None = None,
    *,
    strategy: str | None = None,
    **overrides: object,
) -> ReplicasPlan: ...
@overload
def make_plan(
    snapshot: BundlesSnapshot,
    settings: _Path | None = None,
    *,
    strategy: str | None = None,
    **overrides: object,
) -> BundlePlan: ...
@overload
def make_plan(
    snapshot: QueuesSnapshot,
    settings: _Path | None = None,
    *,
    strategy: str | None = None,
    **overrides: object,
) -> QueuesPlan: ...
@overload
def make_plan(
    snapshot: KeysSnapshot, settings: _Path | None = None, *, strategy: str | None = None, **overrides: object
) -> KeysPlan: ...
@overload
def make_plan(
    snapshot: MastersSnapshot,
    settings: _Path | None = None,
    *,
    strategy: str | None = None,
    **overrides: object,
) -> MastersPlan: ...

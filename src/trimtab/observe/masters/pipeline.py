"""The pipeline of the balancer `masters`: raw samples of a store to loads of groups and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from trimtab.model.masters.snapshot import RESOURCES
from trimtab.observe.balancer_pipeline import BalancerPipeline
from trimtab.observe.columns import QUALITY, SECOND, columns, imbalance_columns
from trimtab.observe.masters.raw import FORM
from trimtab.observe.settings import PipelineSettings


@dataclass(frozen=True)
class MastersPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `masters`.

    Attributes
    ----------
    load_window_seconds
        Window over which a group's load is averaged in snapshots.
    max_lag_entries
        Maximum replication lag (entries) of a transfer target.
    """

    PLACE: ClassVar[str] = "masters"
    NOT_OF_TABLES: ClassVar[frozenset[str]] = frozenset({"load_window_seconds", "max_lag_entries"})

    load_window_seconds: float = 300.0
    max_lag_entries: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_seconds("load_window_seconds")
        self._check_counts("max_lag_entries")

    @property
    def history(self) -> int:
        """How far back loads are taken, microseconds."""
        return round(self.load_window_seconds * SECOND)


SHARES: Final = columns(
    "cluster string, tick timestamp, node int, group_number int, elapsed_us bigint, holds boolean, "
    "applied bigint, held_seconds double, messages_per_second double, queries_per_second double, "
    "bytes_per_second double, proposals bigint, proposed_seconds double, flags int"
)
"""What each node does for each group."""

GROUPS: Final = columns(
    "cluster string, tick timestamp, group_number int, master int, held_seconds double, "
    "messages_per_second double, queries_per_second double, bytes_per_second double, propose_seconds double, "
    "elapsed_us bigint"
)
"""What each group costs, whichever node does it; null where no interval is sound."""

BROKERS: Final = columns(
    "cluster string, tick timestamp, broker string, broker_state string, node int, masters int, "
    "max_lag_entries bigint, queries_load double, queries_capacity double, bytes_load double, "
    "bytes_capacity double"
)
"""Nodes; the names of the first columns are those that all balancers have. Capacities are the same for all.
"""

PIPELINE: Final = BalancerPipeline(
    name="masters",
    place=MastersPipelineSettings.PLACE,
    resources=RESOURCES,
    settings=MastersPipelineSettings,
    raw=FORM,
    tables={
        "cleaned": FORM.cleaned,
        "shares": SHARES,
        "groups": GROUPS,
        "brokers": BROKERS,
        "imbalance": imbalance_columns("string"),
        "quality": QUALITY,
    },
    transformations="trimtab.observe.masters.stages:STAGES",
    snapshots="trimtab.observe.masters.snapshot:write_newest_snapshots",
)

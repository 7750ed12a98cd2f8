"""The pipeline of the balancer `replicas`: raw samples of Kafka to tables of brokers and partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.model.replicas.resources import RESOURCES
from trimtab.observe.balancer_pipeline import BalancerPipeline
from trimtab.observe.columns import SECOND
from trimtab.observe.replicas.raw import FORM
from trimtab.observe.replicas.schemas import TABLES
from trimtab.observe.settings import PipelineSettings
from trimtab_common.errors import SettingsError

MAX_WEEKS: Final = 52

WEEK_SECONDS: Final = 7 * 86400

_OF_WEEKS: Final = ("hours", "arrivals", "profiles", "days", "trends", "profile_errors")


@dataclass(frozen=True)
class ReplicasPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `replicas`, and settings that all balancers share.

    Attributes
    ----------
    windows
        Number of recent windows of a load value.
    load_value
        Rule of the load value: `repaired` or `literal` (`trimtab.model.replicas.loadvalue`).
    record_size_window_seconds
        Window over which a partition's bytes per record are measured.
    traffic_baseline_seconds
        Window of a client's usual traffic, for `traffic_collapse`.
    cpu_base
        Treatment of a broker's idle CPU in a snapshot. `apart`: subtracted from its capacity; `replicas`:
        spread evenly over its replicas.
    profile_weeks
        Number of weeks over which an hour of the week is averaged, for `replicas.load`; 0: no profiles, and
        no forecast in snapshots.
    """

    NOT_OF_TABLES = frozenset({"windows", "load_value", "cpu_base"})

    windows: int = 10
    load_value: str = "repaired"
    record_size_window_seconds: float = 1800.0
    traffic_baseline_seconds: float = 300.0
    cpu_base: str = "apart"
    profile_weeks: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_seconds("record_size_window_seconds", "traffic_baseline_seconds")
        self._check_counts("windows")
        if self.load_value not in ("repaired", "literal"):
            raise SettingsError(f"pipeline.load_value is {self.load_value!r}: give repaired or literal")
        if self.cpu_base not in ("apart", "replicas"):
            raise SettingsError(f"pipeline.cpu_base is {self.cpu_base!r}: give apart or replicas")
        if not 0 <= self.profile_weeks <= MAX_WEEKS:
            raise SettingsError(f"pipeline.profile_weeks is {self.profile_weeks}: give 0 to {MAX_WEEKS}")

    def of_tables(self) -> dict[str, object]:
        """The settings that stored tables depend on; of profiles only where there are any."""
        kept = super().of_tables()
        return kept if self.profile_weeks else {k: v for k, v in kept.items() if k != "profile_weeks"}

    def needed(self, table: str) -> int:
        """As for every balancer; `hours`, and what is made of them, for all weeks of profiles and trends."""
        nearest = self.windows * self.slide + self.window
        far = (self.profile_weeks + 2) * WEEK_SECONDS * SECOND if table in _OF_WEEKS else 0
        return max(super().needed(table), self.learning, self.collapse, nearest, far)

    @property
    def learning(self) -> int:
        """Reach back for bytes per record, microseconds."""
        return round(self.record_size_window_seconds * SECOND)

    @property
    def collapse(self) -> int:
        """Reach back for a client's usual traffic, microseconds."""
        return round(self.traffic_baseline_seconds * SECOND)


PIPELINE: Final = BalancerPipeline(
    name="replicas",
    # The samples and tables of this balancer lie in the lake itself.
    place="",
    resources=RESOURCES,
    settings=ReplicasPipelineSettings,
    raw=FORM,
    tables=TABLES,
    transformations="trimtab.observe.replicas.stages:STAGES",
    snapshots="trimtab.observe.replicas.snapshot:write_newest_snapshots",
)

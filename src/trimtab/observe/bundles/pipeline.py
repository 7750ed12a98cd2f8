"""The pipeline of the balancer `bundles`: raw samples of Pulsar to tables of brokers, bundles and topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.balancer_pipeline import BalancerPipeline
from trimtab.observe.bundles.raw import FORM
from trimtab.observe.bundles.schemas import TABLES
from trimtab.observe.columns import SECOND
from trimtab.observe.settings import LONGEST_SECONDS, PipelineSettings
from trimtab_common.errors import SettingsError


@dataclass(frozen=True)
class BundlesPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `bundles`.

    Attributes
    ----------
    recent_windows
        Number of recent windows in a snapshot.
    horizon_seconds
        Horizon of the load forecast; rounded up to whole slides.
    trend_windows
        Number of windows that intercept and trend are fitted to.
    profile_weeks
        Number of weeks over which an hour of the week is averaged; 0: none.
    departure_retention_seconds
        Time for which departures of bundles are stored; default: Pulsar's grace time.
    history_weight
        Weight of the previous value when a broker's usage is updated
        (`loadBalancerHistoryResourcePercentage`).
    usage_weights
        Weights of CPU, memory, direct memory, bandwidth in and out in a broker's usage
        (`loadBalancer...ResourceWeight`).
    """

    PLACE: ClassVar[str] = "bundles"
    NOT_OF_TABLES = frozenset({"recent_windows"})

    recent_windows: int = 3
    horizon_seconds: float = 600.0
    trend_windows: int = 10
    profile_weeks: int = 4
    departure_retention_seconds: float = 1800.0
    history_weight: float = 0.9
    usage_weights: tuple[float, ...] = (1.0, 0.0, 0.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        # The same hour a week ago must be over when it is looked up.
        for name, longest, text in (
            ("horizon_seconds", 6 * 86400, "six days"),
            ("departure_retention_seconds", LONGEST_SECONDS, "a year"),
        ):
            value = getattr(self, name)
            if not 0.001 <= value <= longest:
                raise SettingsError(
                    f"pipeline.bundles.{name} is {value}: give seconds between 0.001 and {text}"
                )
        for name, low, high in (
            ("recent_windows", 1, 100),
            ("trend_windows", 2, 1000),
            ("profile_weeks", 0, 52),
        ):
            if not low <= getattr(self, name) <= high:
                raise SettingsError(f"pipeline.bundles.{name} is {getattr(self, name)}: give {low} to {high}")
        if not 0 <= self.history_weight < 1:
            raise SettingsError(
                f"pipeline.bundles.history_weight is {self.history_weight}: give a fraction below 1"
            )
        if len(self.usage_weights) != 5 or not all(weight >= 0 for weight in self.usage_weights):
            raise SettingsError(
                f"pipeline.bundles.usage_weights is {self.usage_weights}: give 5 numbers, none below 0"
            )

    def needed(self, table: str) -> int:
        """As for every balancer; `hours` for all weeks of forecasts."""
        nearest = max(self.recent_windows, self.trend_windows) * self.slide + self.window
        far = (self.profile_weeks + 1) * 7 * 86400 * SECOND if table == "hours" else 0
        return max(super().needed(table), self.departure, self.horizon, nearest, far)

    @property
    def departure(self) -> int:
        """The time for which departures are known, microseconds."""
        return round(self.departure_retention_seconds * SECOND)

    @property
    def horizon(self) -> int:
        """The horizon of forecasts, microseconds: whole slides, at least one."""
        return max(1, -(-round(self.horizon_seconds * SECOND) // self.slide)) * self.slide


PIPELINE: Final = BalancerPipeline(
    name="bundles",
    place=BundlesPipelineSettings.PLACE,
    resources=RESOURCES,
    settings=BundlesPipelineSettings,
    raw=FORM,
    tables=TABLES,
    transformations="trimtab.observe.bundles.stages:STAGES",
    snapshots="trimtab.observe.bundles.snapshot:write_newest_snapshots",
)

"""Settings of the pipeline: section `[pipeline]` of `trimtab.toml`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from trimtab.model.bundles_snapshot import RESOURCES as BUNDLE_RESOURCES
from trimtab.model.errors import SettingsError
from trimtab.model.load import RESOURCES
from trimtab.observe.schemas import SECOND

LONGEST_SECONDS = 366 * 86400


@dataclass(frozen=True)
class BundleFigures:
    """What the figures of the level `bundles` depend on besides: section `[pipeline.bundles]`.

    Attributes
    ----------
    views
        How many recent windows a snapshot holds.
    horizon_seconds
        How far ahead loads are forecast; rounded up to whole slides.
    trend_windows
        Over how many windows level and trend are taken.
    weeks
        Over how many weeks the mean of an hour of the week is taken; 0: there is none.
    departure_seconds
        How long it is known that a bundle left a broker: Pulsar's grace time, by default.
    history_weight
        How much of a broker's usage is remembered from sample to sample
        (`loadBalancerHistoryResourcePercentage`).
    usage_weights
        What percentages of CPU, memory, direct memory, bandwidth in and out are multiplied by in a broker's
        usage (`loadBalancer...ResourceWeight`).
    theta, epsilon
        As in `PipelineSettings`, over this level's resources; the command line takes them from `[bundles]`.
    """

    views: int = 3
    horizon_seconds: float = 600.0
    trend_windows: int = 10
    weeks: int = 4
    departure_seconds: float = 1800.0
    history_weight: float = 0.9
    usage_weights: tuple[float, ...] = (1.0, 0.0, 0.0, 1.0, 1.0)
    theta: tuple[float, ...] = (0.8, 0.8, 0.8, 0.8)
    epsilon: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1)

    def __post_init__(self) -> None:
        # The same hour a week ago must be over when it is looked up.
        for name, longest, told in (
            ("horizon_seconds", 6 * 86400, "six days"),
            ("departure_seconds", LONGEST_SECONDS, "a year"),
        ):
            value = getattr(self, name)
            if not 0.001 <= value <= longest:
                raise SettingsError(
                    f"pipeline.bundles.{name} is {value}: give seconds between 0.001 and {told}"
                )
        for name, low, high in (("views", 1, 100), ("trend_windows", 2, 1000), ("weeks", 0, 52)):
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
        _check_limits("pipeline.bundles", self.theta, self.epsilon, len(BUNDLE_RESOURCES))

    @property
    def departure(self) -> int:
        """How long departures are known, microseconds."""
        return round(self.departure_seconds * SECOND)


def _check_limits(section: str, theta: tuple[float, ...], epsilon: tuple[float, ...], resources: int) -> None:
    for name, limits in (("theta", theta), ("epsilon", epsilon)):
        if len(limits) != resources or not all(0 < limit <= 1 for limit in limits):
            raise SettingsError(
                f"{section}.{name} is {limits}: give {resources} fractions above 0, at most 1"
            )


@dataclass(frozen=True)
class PipelineSettings:
    """What the pipeline's figures depend on.

    Attributes
    ----------
    window_seconds, slide_seconds
        Length of a window and distance between the ends of two; the length is a multiple of the slide.
    windows
        How many recent windows a load value looks back on.
    value
        Which rule gives the load value: `repaired` or `literal` (`trimtab.model.loadvalue`).
    lateness_seconds
        A sample received later than this after its tick is dropped, flagged and counted.
    gap_seconds
        Two samples of an entity further apart than this make no rate.
    learning_seconds
        Over how long a partition's bytes per record are learned.
    fit_windows
        Over how many windows the CPU model is fitted.
    collapse_seconds
        Over how long a client's usual traffic is remembered, for `traffic_collapse`.
    theta, epsilon
        The limits that the table `imbalance` is judged by, per resource; the command line takes them from the
        section `[replicas]`, so that tables and plans speak of the same.
    cpu_base
        Where a broker's idle CPU goes in a snapshot: `apart` (taken off its capacity, in no replica) or
        `replicas` (spread evenly over the replicas it holds).
    bundles
        What only the level `bundles` depends on. Of the above it takes windows, lateness, gaps and fits.
    """

    window_seconds: float = 60.0
    slide_seconds: float = 60.0
    windows: int = 10
    value: str = "repaired"
    lateness_seconds: float = 300.0
    gap_seconds: float = 300.0
    learning_seconds: float = 1800.0
    fit_windows: int = 30
    collapse_seconds: float = 300.0
    theta: tuple[float, ...] = (0.8, 0.8, 0.8, 0.8)
    epsilon: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1)
    cpu_base: str = "apart"
    bundles: BundleFigures = field(default_factory=BundleFigures)

    def __post_init__(self) -> None:
        for name in (
            "window_seconds",
            "slide_seconds",
            "gap_seconds",
            "learning_seconds",
            "collapse_seconds",
            "lateness_seconds",
        ):
            value = getattr(self, name)
            if not 0.001 <= value <= LONGEST_SECONDS:
                raise SettingsError(f"pipeline.{name} is {value}: give seconds between 0.001 and a year")
        if self.window % self.slide:
            raise SettingsError(
                f"pipeline.window_seconds is {self.window_seconds}, not a multiple of slide_seconds "
                f"({self.slide_seconds}): change one of them"
            )
        for name in ("windows", "fit_windows"):
            if getattr(self, name) < 1:
                raise SettingsError(f"pipeline.{name} is {getattr(self, name)}: give 1 or more")
        if self.value not in ("repaired", "literal"):
            raise SettingsError(f"pipeline.value is {self.value!r}: give repaired or literal")
        if self.cpu_base not in ("apart", "replicas"):
            raise SettingsError(f"pipeline.cpu_base is {self.cpu_base!r}: give apart or replicas")
        _check_limits("pipeline", self.theta, self.epsilon, len(RESOURCES))

    @property
    def window(self) -> int:
        """Length of a window, microseconds."""
        return round(self.window_seconds * SECOND)

    @property
    def slide(self) -> int:
        """Distance between the ends of two windows, microseconds."""
        return round(self.slide_seconds * SECOND)

    @property
    def lateness(self) -> int:
        """Longest delay of a sample that still counts, microseconds."""
        return round(self.lateness_seconds * SECOND)

    @property
    def gap(self) -> int:
        """Longest time between two samples that make a rate, microseconds."""
        return round(self.gap_seconds * SECOND)

    @property
    def learning(self) -> int:
        """Reach back for bytes per record, microseconds."""
        return round(self.learning_seconds * SECOND)

    @property
    def collapse(self) -> int:
        """Reach back for a client's usual traffic, microseconds."""
        return round(self.collapse_seconds * SECOND)

    @property
    def horizon(self) -> int:
        """How far ahead bundles are forecast, microseconds: whole slides, at least one."""
        return max(1, -(-round(self.bundles.horizon_seconds * SECOND) // self.slide)) * self.slide

    def of_tables(self, level: str = "replicas") -> dict[str, object]:
        """The settings that a level's stored tables depend on; tables made with others must be built anew."""
        kept = asdict(self)
        own = kept.pop("bundles")
        if level == "replicas":
            kept = {name: value for name, value in kept.items() if name not in _NOT_OF_REPLICAS}
        else:
            kept = {name: kept[name] for name in _OF_BUNDLES}
            kept |= {f"bundles.{name}": value for name, value in own.items() if name != "views"}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


_NOT_OF_REPLICAS = ("windows", "value", "cpu_base")
_OF_BUNDLES = ("window_seconds", "slide_seconds", "lateness_seconds", "gap_seconds", "fit_windows")

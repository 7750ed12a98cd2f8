"""Settings of the pipeline: section `[pipeline]` of `trimtab.toml`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from trimtab.model.errors import SettingsError
from trimtab.model.load import RESOURCES
from trimtab.observe.schemas import SECOND


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
            if not 0.001 <= value <= 366 * 86400:
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
        for name, limits in (("theta", self.theta), ("epsilon", self.epsilon)):
            if len(limits) != len(RESOURCES) or not all(0 < limit <= 1 for limit in limits):
                raise SettingsError(
                    f"pipeline.{name} is {limits}: give {len(RESOURCES)} fractions above 0, at most 1"
                )

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

    def of_tables(self) -> dict[str, object]:
        """The settings that stored tables depend on; tables made with others must be built anew."""
        apart = ("windows", "value", "cpu_base")
        kept = {name: value for name, value in asdict(self).items() if name not in apart}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

"""Brokers as rows of a heat map, their differences from the mean, and their largest partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from trimtab.model.goals import exceeds
from trimtab.report.formats import signed_text
from trimtab.report.tables import RANGE
from trimtab.serve.documents import BrokerStatus, LargestPart, LoadSeries, ResourceStatus, TargetDetail
from trimtab.serve.pages.rendering import DASH, deviation_text, optional_bytes, share_text

MAX_UNGROUPED: Final = 200
"""Above this number brokers are grouped by rack, and bars in cells are left out."""
MAX_WORST: Final = 20
"""Brokers that are listed before the racks."""
MAX_PARTS: Final = 20
"""Rows of each table of largest partitions and topics."""
STEPS: Final = 5
"""Strengths of a colour on each side of the mean."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The load of one resource of one broker.

    Attributes
    ----------
    style
        Classes of the cell: `even`, or `above` or `below` the mean with a strength of 1 to 5.
    mark
        `▲` or `▼` beyond the ε of the drift trigger.
    is_over
        Whether the utilization is above θ.
    fill
        Utilization in percent of the bar, at most 100; None without a bar.
    """

    usage: str
    deviation: str
    style: str
    mark: str
    is_over: bool
    fill: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """A broker, or all brokers of a rack, with text for each column."""

    name: str
    rack: str
    is_online: bool
    replicas: str
    replica_skew: str
    leaders: str
    leader_skew: str
    bytes_stored: str
    bytes_skew: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Rack:
    """The brokers of a rack; `worst` is the largest deviation in it as text."""

    name: str
    rows: tuple[Row, ...]
    offline: int
    worst: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Brokers × resources.

    Attributes
    ----------
    rows
        All brokers; of a large cluster those that deviate most.
    racks
        Racks with all their brokers; empty for a small cluster.
    """

    resources: tuple[ResourceStatus, ...]
    rows: tuple[Row, ...]
    racks: tuple[Rack, ...]
    brokers: int


def heat_map(detail: TargetDetail, epsilon: float) -> HeatMap:
    """The heat map of a target; deviations beyond `epsilon` are marked."""
    resources, brokers = detail.status.resources, detail.brokers
    is_large = len(brokers) > MAX_UNGROUPED
    online = [one for one in brokers if one.is_online]
    means = (
        _mean([one.replicas for one in online]),
        _mean([one.leaders for one in online]),
        _mean([one.bytes_stored for one in online]),
    )

    def row(broker: BrokerStatus) -> Row:
        return _row(broker, resources, means, epsilon, has_bars=not is_large)

    if not is_large:
        return HeatMap(resources, tuple(row(one) for one in brokers), (), len(brokers))
    worst = sorted(brokers, key=_worst, reverse=True)[:MAX_WORST]
    names = dict.fromkeys(sorted(one.rack for one in brokers))
    racks = tuple(_rack(name, [one for one in brokers if one.rack == name], row) for name in names)
    return HeatMap(resources, tuple(row(one) for one in worst), racks, len(brokers))


def _rack(name: str, brokers: Sequence[BrokerStatus], row: Callable[[BrokerStatus], Row]) -> Rack:
    worst = max(brokers, key=_worst)
    figure = max((one for one in worst.deviation if one is not None), key=abs, default=None)
    return Rack(
        name or "without a rack",
        tuple(row(one) for one in brokers),
        sum(not one.is_online for one in brokers),
        f"{deviation_text(figure)} ({worst.name})",
    )


def _worst(broker: BrokerStatus) -> float:
    return max((abs(one) for one in broker.deviation if one is not None), default=0.0)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def _skew(value: float | None, mean: float | None) -> str:
    return DASH if value is None or not mean else signed_text(value / mean - 1)


def _row(
    broker: BrokerStatus,
    resources: Sequence[ResourceStatus],
    means: Sequence[float | None],
    epsilon: float,
    *,
    has_bars: bool,
) -> Row:
    cells = tuple(
        _cell(usage, deviation, resource.limit, epsilon, has_bar=has_bars)
        for usage, deviation, resource in zip(broker.usage, broker.deviation, resources, strict=True)
    )
    return Row(
        broker.name,
        broker.rack,
        broker.is_online,
        f"{broker.replicas:,}",
        _skew(broker.replicas, means[0]),
        f"{broker.leaders:,}",
        _skew(broker.leaders, means[1]),
        optional_bytes(broker.bytes_stored),
        _skew(broker.bytes_stored, means[2]),
        cells,
    )


def _cell(
    usage: float | None, deviation: float | None, limit: float | None, epsilon: float, *, has_bar: bool
) -> Cell:
    style, mark = "unknown", ""
    if deviation is not None:
        strength = round(min(1.0, abs(deviation) / RANGE) * STEPS)
        style = f"{'above' if deviation > 0 else 'below'}{strength}" if strength else "even"
        if exceeds(abs(deviation), epsilon):
            mark = "▲" if deviation > 0 else "▼"
    is_over = usage is not None and limit is not None and bool(exceeds(usage, limit))
    if is_over:
        style += " over"
    fill = round(100 * min(1.0, usage)) if has_bar and usage is not None else None
    return Cell(share_text(usage), deviation_text(deviation), style, mark, is_over, fill)


def changed_rows(
    before: Sequence[BrokerStatus], after: Sequence[BrokerStatus]
) -> list[tuple[BrokerStatus, BrokerStatus]]:
    """Brokers that a plan changes, before and after it; the largest change of a utilization first."""
    now = {one.name: one for one in before}
    pairs = [(now[one.name], one) for one in after if one.name in now and one != now[one.name]]

    def change(pair: tuple[BrokerStatus, BrokerStatus]) -> float:
        usages = zip(pair[0].usage, pair[1].usage, strict=True)
        return max(
            (abs(new - old) for old, new in usages if old is not None and new is not None), default=0.0
        )

    return sorted(pairs, key=lambda pair: -change(pair))


def bar_marks(resource: ResourceStatus) -> Markup:
    """Lines at the mean and at θ, for the bars of a resource's cells."""
    places = (("mean", resource.mean), ("limit", resource.limit))
    lines = (
        Markup('<path class="{}" d="M{} 0v4"/>').format(name, round(100 * min(1.0, share)))
        for name, share in places
        if share is not None
    )
    return Markup("").join(lines)


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Partitions of a broker: their number, sums of load, and the largest one."""

    name: str
    partitions: int
    load: dict[str, float]
    largest: LargestPart


def parts_by_broker(parts: Sequence[LargestPart]) -> list[PartGroup]:
    """For each broker its largest partitions; a partition counts on each broker that has a replica."""
    names = sorted({name for part in parts for name in part.brokers}, key=_natural)
    return [_group(name, [part for part in parts if name in part.brokers]) for name in names]


def _group(name: str, parts: Sequence[LargestPart]) -> PartGroup:
    load: dict[str, float] = {}
    for part in parts:
        for resource, value in part.load.items():
            load[resource] = load.get(resource, 0.0) + value
    return PartGroup(name, len(parts), load, parts[0])


def _natural(name: str) -> tuple[int, str]:
    digits = "".join(one for one in name if one.isdigit())
    return int(digits or 0), name


@dataclass(frozen=True, slots=True)
class Instant:
    """The load at one instant as text, one item per resource."""

    at: float
    deviation: tuple[str, ...]
    peak: tuple[str, ...]
    is_forecast: bool = False


def chart_document(
    series: LoadSeries, resources: Sequence[ResourceStatus], begin: float
) -> dict[str, object]:
    """What the charts draw: instants, a line per resource, limits and the threshold of the drift trigger."""
    limits = [one.limit for one in resources if one.limit is not None]
    return {
        "at": series.at,
        "deviation": series.deviation,
        "peak": series.peak,
        "forecast_at": series.forecast_at,
        "forecast_peak": series.forecast_peak,
        "limit": min(limits, default=None),
        "begin": begin,
    }


def chart_rows(series: LoadSeries, max_rows: int = 25) -> list[Instant]:
    """Instants of the table below the charts, at most `max_rows` of the past and of the forecast each."""
    rows = [
        Instant(
            series.at[place],
            tuple(share_text(values[place], 1) for values in series.deviation.values()),
            tuple(share_text(values[place]) for values in series.peak.values()),
        )
        for place in _thinned(len(series.at), max_rows)
    ]
    rows += [
        Instant(
            series.forecast_at[place],
            tuple(DASH for _ in series.deviation),
            tuple(share_text(values[place]) for values in _forecasts(series)),
            is_forecast=True,
        )
        for place in _thinned(len(series.forecast_at), max_rows)
    ]
    return rows


def _forecasts(series: LoadSeries) -> list[Sequence[float | None]]:
    missing = (None,) * len(series.forecast_at)
    return [series.forecast_peak.get(name, missing) for name in series.peak]


def _thinned(number: int, max_number: int) -> list[int]:
    if number <= max_number:
        return list(range(number))
    return sorted({round(one * (number - 1) / (max_number - 1)) for one in range(max_number)})

"""What `trimtab status` prints."""

import datetime
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from support.bundle_snapshots import small_snapshot
from support.replica_clusters import broker, partition, snapshot
from support.small_lake import NOON, broker_rows, imbalance_rows, publish, snapshot_folder
from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.documents import Quality
from trimtab.model.goals import GoalStatus, goal_status
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.observe.lake.status import ClusterStatus, read_status
from trimtab.report.status_text import MAX_LISTED, status_document, status_text, violation_text
from trimtab.report.tables import HeatmapPanel, cell_text, terminal_heatmap

UNEVEN = {1: (0.6, 0.3, 0.3, 0.1), 2: (0.2, 0.3, 0.1, 0.3)}
LATER = NOON + datetime.timedelta(seconds=42)

SHOWN_TEXT = """\
orders: 2 brokers, 1 tick up to 2026-11-21 12:00:00 UTC, 42 s ago; 90% of samples valid; CPU by a fitted model
                    CPU        disk  network in network out
broker 1 h1   60% ▲+50%   30%   +0%   30% ▲+50%   10% ▼-50%
broker 2 h2   20% ▼-50%   30%   +0%   10% ▼-50%   30% ▲+50%

resource     peak    θ  worst γ      ε       σ       η
CPU           60%  80%    50.0%  10.0%  0.2500  0.0500  not balanced
disk          84%  80%     0.0%  10.0%  0.0000  0.0500  not balanced
network in    30%  80%     3.4%  10.0%  0.0172  0.0500  balanced
network out    1%  80%   100.0%  10.0%  0.5000  0.0500  idle, not judged
! broker 2: CPU 50% below the mean > epsilon 10%, and 1 more broker
! broker 1: disk 84% > theta 80%, and 1 more broker
CPU, disk: not balanced. `trimtab plan replicas` finds the fewest moves that help.
Goals are judged by the snapshot of 2026-01-01T00:00:00Z, as in a plan; the map is measured, the mean of 1
tick
"""


def standing(
    usage: dict[int, tuple[float, float, float, float]],
    settings: ReplicasSettings | None = None,
    nominal: tuple[str, ...] = (),
    capacity: tuple[float | None, ...] = (1.0, 1.0, 1.0, 1.0),
) -> GoalStatus:
    """The standing of a snapshot in which each broker leads one partition of this usage."""
    made = snapshot(
        [broker(one, capacity=capacity) for one in usage],
        [partition("t", one, [one], load=load) for one, load in usage.items()],
    )
    made = replace(made, quality=Quality(extra=(("x_nominal_capacity", list(nominal)),)))
    return goal_status(made, settings or ReplicasSettings())


LOADS = {1: (0.6, 0.84, 0.3, 0.01), 2: (0.2, 0.84, 0.28, 0.0)}


def status_of(
    path: Path,
    usage: Mapping[int, tuple[float | None, ...]],
    states: dict[int, str] | None = None,
    collapse: bool | None = None,
) -> ClusterStatus:
    """The status of one tick at noon."""
    states = states or dict.fromkeys(usage, "alive")
    lake = publish(
        path,
        {
            "imbalance": [imbalance_rows(NOON, usage, collapse=collapse)],
            "brokers": [broker_rows(NOON, states)],
        },
    )
    snapshot_folder(lake, quality='{"cpu": "measured", "valid_share": 0.9}')
    return read_status(lake)


def printed(
    status: ClusterStatus,
    now: datetime.datetime = LATER,
    every: bool = False,
    held: GoalStatus | str = "no snapshot",
) -> str:
    """As a pipe gets it: no colours, no styles."""
    console = Console(width=110, file=io.StringIO(), highlight=False)
    for part in status_text(status, held, now, every):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def test_the_whole_text_reads_without_colours(tmp_path: Path) -> None:
    """The measured map, goals by the snapshot, the broker, figure and limit of each that is missed."""
    assert printed(status_of(tmp_path, UNEVEN), held=standing(LOADS)) == SHOWN_TEXT


def test_a_balanced_cluster_is_named(tmp_path: Path) -> None:
    """What was measured lately is uneven, the snapshot from which a plan would be made is balanced."""
    even = dict.fromkeys((1, 2, 3), (0.4, 0.3, 0.2, 0.2))
    text = printed(status_of(tmp_path, UNEVEN), held=standing(even))
    assert "Every measured resource is balanced." in text
    assert "not balanced" not in text


def test_a_gap_and_a_clock_that_was_ahead_are_reported(tmp_path: Path) -> None:
    """The reader learns which figures are estimated, and what is not used."""
    status = status_of(tmp_path, UNEVEN)
    told = {
        "x_partitions_without_rates": 1,
        "x_partitions_estimated": 12,
        "x_samples_ahead_until": "2026-11-21T12:20:00Z",
    }
    text = printed(replace(status, quality=status.quality | told)).replace("\n", " ")
    assert "1 partition have no rates" not in text
    assert "1 partition without rates: network load counts as 0" in text
    assert "12 partitions without counters, which others have: network load is estimated" in text
    assert "samples up to 2026-11-21T12:20:00Z are not used: the clock of a collector was ahead" in text


def test_an_idle_resource_is_not_called_balanced(tmp_path: Path) -> None:
    """An idle resource may be far from even: no goal is missed, and it is named."""
    idle = {1: (0.4, 0.3, 0.2, 0.009), 2: (0.4, 0.3, 0.2, 0.0), 3: (0.4, 0.3, 0.2, 0.0)}
    text = printed(status_of(tmp_path, UNEVEN), held=standing(idle))
    assert "No goal is missed; not balanced: network out." in text
    assert "is balanced." not in text


def test_without_a_snapshot_nothing_is_evaluated(tmp_path: Path) -> None:
    """The reason is printed, and no resource is called balanced."""
    text = printed(status_of(tmp_path, UNEVEN), held="lake has no snapshots")
    assert "No goal is evaluated, because there is no snapshot: lake has no snapshots" in text
    assert "balanced." not in text
    document = status_document(status_of(tmp_path / "2", UNEVEN), "none", LATER)
    assert (document["snapshot"], document["resources"]) == (None, {})


def test_eta_decides_nothing(tmp_path: Path) -> None:
    """Each broker within ε, and σ above η since capacities differ: balanced."""
    usage = {1: (0.0, 0.44, 0.0, 0.0), 2: (0.0, 0.4, 0.0, 0.0)}
    held = standing(usage)
    document = status_document(status_of(tmp_path, UNEVEN), held, LATER)["resources"]["disk"]
    assert document["holds"] == {"theta": True, "epsilon": True}
    tight = standing_with_sigma(held, 0.2)
    assert tight.violations == ()
    assert "disk          44%  80%     4.8%  10.0%  0.2000  0.0500  balanced" in printed(
        status_of(tmp_path / "2", UNEVEN), held=tight
    )


def standing_with_sigma(held: GoalStatus, sigma: float) -> GoalStatus:
    """The same with another σ of everything."""
    (measured,) = held.measured.values()
    return replace(held, measured={"": replace(measured, sigma=np.full(4, sigma))})


def test_goals_that_are_not_requested_are_not_missed() -> None:
    """θ or ε left out of `replicas.goals`, as in a plan."""
    settings = ReplicasSettings(goals=("epsilon",))
    assert [(one.goal, one.resource) for one in standing(LOADS, settings).violations] == [("epsilon", "cpu")]
    settings = ReplicasSettings(goals=("theta", "rack"))
    assert [(one.goal, one.resource) for one in standing(LOADS, settings).violations] == [("theta", "disk")]


def test_a_broker_that_settings_drain_does_not_count() -> None:
    """A plan judges the others, so does `status`."""
    loads = {1: (0.4, 0.4, 0.4, 0.4), 2: (0.4, 0.4, 0.4, 0.4), 3: (0.1, 0.1, 0.1, 0.1)}
    assert standing(loads).violations != ()
    assert standing(loads, ReplicasSettings(drain=(3,))).violations == ()


def test_a_nominal_capacity_is_never_idle_and_its_usage_not_printed(tmp_path: Path) -> None:
    """Compared between brokers, as in a plan."""
    held = standing(LOADS, nominal=("network_out",))
    row = status_document(status_of(tmp_path, UNEVEN), held, LATER)["resources"]["network_out"]
    assert (row["peak_usage"], row["idle"], row["holds"]["epsilon"]) == (None, False, False)
    assert "broker 1: network out 100% above the mean > epsilon 10%" in [
        violation_text(one).partition(",")[0] for one in held.violations
    ]


def test_the_worst_view_of_bundles_is_named() -> None:
    """A plan has to hold in all views, so a breach in one of the past is one."""
    held = goal_status(small_snapshot([0, 1], [[40, 50], [40, 10]]), BundlesSettings())
    first = held.violations[0]
    assert (first.goal, first.broker, first.view, first.brokers) == ("epsilon", "b0:8080", "window -1", 2)
    text = violation_text(first)
    assert text == "b0:8080: CPU 67% above the mean > epsilon 10% in window -1, and 1 more broker"


def test_a_narrow_violation_is_printed_with_sufficient_digits() -> None:
    """80.02 % over 80 % is not printed as 80 % > 80 %."""
    (one,) = standing({1: (0.0, 0.8002, 0.0, 0.0), 2: (0.0, 0.8, 0.0, 0.0)}).violations
    assert violation_text(one) == "broker 1: disk 80.02% > theta 80.00%"


def test_problems_are_named(tmp_path: Path) -> None:
    """A dead broker, starved clients and old figures each get a line."""
    status = status_of(tmp_path, UNEVEN, {1: "alive", 2: "alive", 3: "fenced"}, collapse=True)
    text = printed(status, NOON + datetime.timedelta(hours=3))
    assert "! broker 3 is fenced" in text
    assert "broker 3 h3 (fenced)" in text
    assert "served less than half" in text
    assert "3 hours ago" in text
    assert "! old figures: keep `trimtab collect`" in text


def test_a_missing_resource_is_a_dash(tmp_path: Path) -> None:
    """No CPU signal: a dash in every place, and not counted as balanced."""
    blind = {broker: (None, *rest) for broker, (_, *rest) in UNEVEN.items()}
    held = standing(LOADS, capacity=(None, 1.0, 1.0, 1.0))
    text = printed(status_of(tmp_path, blind), held=held)
    (row,) = [line for line in text.splitlines() if line.startswith("CPU ")]
    assert row.split() == ["CPU", *"––––––", "not", "measured"]
    text = printed(status_of(tmp_path / "2", UNEVEN), held=held)
    assert "no capacity, not balanced" in text


def test_of_many_brokers_those_that_deviate_most_are_printed(tmp_path: Path) -> None:
    """Of three hundred rows the most important are printed; --all prints every one."""
    usage = {broker: (0.4, 0.3, 0.2, 0.2) for broker in range(1, 101)}
    usage[77] = (0.9, 0.3, 0.2, 0.2)
    status = status_of(tmp_path, usage)
    text, whole = printed(status).splitlines(), printed(status, every=True).splitlines()
    rows = [line for line in text if line.startswith("broker ")]
    assert len(rows) == MAX_LISTED
    assert any(line.startswith("broker 77 ") for line in rows)
    assert "60 more brokers deviate less; --all shows them" in text
    assert sum(line.startswith("broker ") for line in whole) == 100


def test_the_document_has_null_for_unknown_values(tmp_path: Path) -> None:
    """JSON has no NaN: programs get null; of each goal that is missed the worst broker."""
    blind = {broker: (None, *rest) for broker, (_, *rest) in UNEVEN.items()}
    held = standing(LOADS, capacity=(None, 1.0, 1.0, 1.0))
    found = status_document(status_of(tmp_path, blind), held, LATER)
    document = json.loads(json.dumps(found, allow_nan=False))
    assert document["snapshot"] == "2026-01-01T00:00:00Z"
    assert document["resources"]["cpu"]["sigma"] is None
    assert document["resources"]["cpu"]["holds"] is None
    assert document["resources"]["network_out"]["idle"] is True
    disk = document["resources"]["disk"]
    assert disk["holds"] == {"theta": False, "epsilon": True}
    assert disk["breaches"] == [
        {
            "goal": "theta",
            "resource": "disk",
            "broker": 1,
            "view": "",
            "value": 0.84,
            "limit": 0.8,
            "brokers": 2,
        }
    ]
    assert document["brokers"][0]["usage"]["network_in"] == 0.3
    assert (document["at"], document["age_seconds"]) == ("2026-11-21T12:00:00Z", 42.0)


def test_cells_carry_their_mark_in_text() -> None:
    """Without colours ▲ and ▼ mark values beyond ε."""
    values = np.array([[0.5, 1234.0, np.nan, np.nan]])
    deviation = np.array([[0.11, -0.11, 0.05, np.nan]])
    cells, counts = HeatmapPanel(values, deviation), HeatmapPanel(values, deviation, percent=False)
    assert cell_text(cells, 0, 0, 0.1) == "50% ▲+11%"
    assert cell_text(counts, 0, 1, 0.1) == "1,234 ▼-11%"
    assert cell_text(cells, 0, 2, 0.1) == "  +5%"
    assert cell_text(cells, 0, 3, 0.1) == "–"


def test_two_panels_stand_side_by_side_and_colours_follow_the_deviation() -> None:
    """Before and after in one table; the same colour means the same deviation in both."""
    before = HeatmapPanel(np.array([[0.9] * 4]), np.array([[0.6] * 4]), "before")
    after = HeatmapPanel(np.array([[0.5] * 4]), np.array([[0.0] * 4]), "after")
    console = Console(
        width=200, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(
        terminal_heatmap(["broker 1"], before, after, columns=("CPU", "disk", "network in", "network out"))
    )
    text = console.export_text(clear=False)
    assert text.count("90% ▲+60%") == text.count("50%   +0%") == 4
    html = console.export_html()
    assert html.count("#c83e2b") >= 1
    assert html.count("#f2f2f0") >= 1

"""What `trimtab status` prints."""

import datetime
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from support.small_lake import NOON, broker_rows, imbalance_rows, publish, snapshot_folder
from trimtab.observe.status import ClusterStatus, read_status
from trimtab.report.status_text import SHOWN, status_document, status_text
from trimtab.report.terminal_heatmap import Cells, cell_text, terminal_heatmap

UNEVEN = {1: (0.6, 0.3, 0.3, 0.1), 2: (0.2, 0.3, 0.1, 0.3)}
LATER = NOON + datetime.timedelta(seconds=42)

SHOWN_TEXT = """\
orders: 2 brokers, 1 tick up to 2026-11-21 12:00:00 UTC, 42 s ago; 90% of samples valid; CPU by a fitted model
                    CPU        disk  network in network out
broker 1 h1   60% ▲+50%   30%   +0%   30% ▲+50%   10% ▼-50%
broker 2 h2   20% ▼-50%   30%   +0%   10% ▼-50%   30% ▲+50%

resource     peak    θ  worst γ      ε       σ       η
CPU           60%  80%    50.0%  10.0%  0.2500  0.0500  not level
disk          30%  80%     0.0%  10.0%  0.0000  0.0500  level
network in    30%  80%    50.0%  10.0%  0.2500  0.0500  not level
network out   30%  80%    50.0%  10.0%  0.2500  0.0500  not level
CPU, network in, network out: not level. `trimtab plan replicas` finds the fewest moves that help.
"""


def status_of(
    path: Path,
    usage: dict[int, tuple[float | None, float, float, float]],
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


def printed(status: ClusterStatus, now: datetime.datetime = LATER, every: bool = False) -> str:
    """As a pipe gets it: no colours, no styles."""
    console = Console(width=110, file=io.StringIO(), highlight=False)
    for part in status_text(status, now, every):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def test_the_whole_text_reads_without_colours(tmp_path: Path) -> None:
    """Figures, limits, verdicts and what to do next, as they come through a pipe."""
    assert printed(status_of(tmp_path, UNEVEN)) == SHOWN_TEXT


def test_a_level_cluster_is_told_so(tmp_path: Path) -> None:
    """Nothing to do is a sentence too."""
    even = dict.fromkeys((1, 2, 3), (0.4, 0.3, 0.2, 0.2))
    assert "Everything that is measured is level." in printed(status_of(tmp_path, even))


def test_eta_is_shown_and_decides_nothing(tmp_path: Path) -> None:
    """Every broker within θ and ε: level for planners, and so here, whatever σ is."""
    even = status_of(tmp_path, dict.fromkeys((1, 2, 3), (0.4, 0.3, 0.2, 0.2)))
    status = replace(even, sigma=even.eta + 0.01)
    assert "Everything that is measured is level." in printed(status)
    assert "not level" not in printed(status)
    assert status_document(status, LATER)["resources"]["disk"]["holds"] == {
        "theta": True, "epsilon": True, "eta": False,
    }  # fmt: skip


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    """A dead broker, starved clients and old figures each get a line."""
    status = status_of(tmp_path, UNEVEN, {1: "alive", 2: "alive", 3: "fenced"}, collapse=True)
    text = printed(status, NOON + datetime.timedelta(hours=3))
    assert "! broker 3 is fenced" in text
    assert "broker 3 h3 (fenced)" in text
    assert "served less than half" in text
    assert "3 hours ago" in text
    assert "figures are old" in text


def test_a_missing_resource_is_a_dash(tmp_path: Path) -> None:
    """No CPU signal: a dash in every place, and not counted as level."""
    blind = {broker: (None, *rest) for broker, (_, *rest) in UNEVEN.items()}
    text = printed(status_of(tmp_path, blind))
    (row,) = [line for line in text.splitlines() if line.startswith("CPU ")]
    assert row.split() == ["CPU", *"––––––", "not", "measured"]


def test_of_many_brokers_those_that_deviate_most_are_shown(tmp_path: Path) -> None:
    """Three hundred rows help nobody; --all shows them all the same."""
    usage = {broker: (0.4, 0.3, 0.2, 0.2) for broker in range(1, 101)}
    usage[77] = (0.9, 0.3, 0.2, 0.2)
    status = status_of(tmp_path, usage)
    text, whole = printed(status).splitlines(), printed(status, every=True).splitlines()
    rows = [line for line in text if line.startswith("broker ")]
    assert len(rows) == SHOWN
    assert any(line.startswith("broker 77 ") for line in rows)
    assert "60 more brokers deviate less; --all shows them" in text
    assert sum(line.startswith("broker ") for line in whole) == 100


def test_the_document_has_null_for_what_is_not_known(tmp_path: Path) -> None:
    """JSON has no NaN: programs get null."""
    blind = {broker: (None, *rest) for broker, (_, *rest) in UNEVEN.items()}
    document = json.loads(json.dumps(status_document(status_of(tmp_path, blind), LATER), allow_nan=False))
    assert document["resources"]["cpu"]["sigma"] is None
    assert document["resources"]["cpu"]["holds"] is None
    assert document["resources"]["network_in"]["holds"] == {"theta": True, "epsilon": False, "eta": False}
    assert document["brokers"][0]["usage"]["network_in"] == 0.3
    assert (document["at"], document["age_seconds"]) == ("2026-11-21T12:00:00Z", 42.0)


def test_cells_carry_their_mark_in_text() -> None:
    """Without colours ▲ and ▼ tell what is beyond ε."""
    values = np.array([[0.5, 1234.0, np.nan, np.nan]])
    deviation = np.array([[0.11, -0.11, 0.05, np.nan]])
    cells, counts = Cells(values, deviation), Cells(values, deviation, percent=False)
    assert cell_text(cells, 0, 0, 0.1) == "50% ▲+11%"
    assert cell_text(counts, 0, 1, 0.1) == "1,234 ▼-11%"
    assert cell_text(cells, 0, 2, 0.1) == "  +5%"
    assert cell_text(cells, 0, 3, 0.1) == "–"


def test_two_panels_stand_side_by_side_and_colours_follow_the_deviation() -> None:
    """Before and after in one table; the same colour means the same deviation in both."""
    before = Cells(np.array([[0.9] * 4]), np.array([[0.6] * 4]), "before")
    after = Cells(np.array([[0.5] * 4]), np.array([[0.0] * 4]), "after")
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

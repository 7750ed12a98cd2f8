"""Where a replay's ticks come from."""

import datetime
from pathlib import Path

import pytest

from support.recordings import replay, skewed, tick, written
from synthetic_bundles import SyntheticPulsar, table_of
from synthetic_telemetry import land_by_tick
from trimtab.files.bundles.reports import read_reports, report_line
from trimtab.history.bundles.recording import FileReportRecording, LakeReportRecording, TickRange
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.lake import Lake
from trimtab_common.errors import InputError


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Six ticks of a cluster as a collector landed them."""
    land_by_tick(table_of(SyntheticPulsar().rows(6)), Lake(tmp_path / "lake", BUNDLES).raw)
    return tmp_path / "lake"


def test_a_period_is_selected_and_a_recording_can_be_read_again(tmp_path: Path) -> None:
    """From the first instant on, before the last."""
    path = written(tmp_path / "reports.jsonl", [tick(minute, skewed()) for minute in range(6)])
    whole = list(read_reports(path))
    minutes = [datetime.datetime(2026, 11, 21, 5, minute, tzinfo=datetime.UTC) for minute in range(6)]
    cut = FileReportRecording(path, TickRange(minutes[2], minutes[4]))
    assert list(cut.ticks()) == list(cut.ticks()) == whole[2:4]
    assert list(FileReportRecording(path).ticks()) == whole
    assert cut.name == "reports.jsonl"


def test_the_lake_yields_the_reports_of_the_brokers(lake: Path) -> None:
    """Also a period of it."""
    cluster = SyntheticPulsar()
    ticks = list(cluster.reports(6))
    assert list(LakeReportRecording(lake).ticks()) == ticks
    period = TickRange(cluster.at(1), cluster.at(3))
    assert list(LakeReportRecording(lake, cluster.name, period).ticks()) == ticks[1:3]


def test_an_empty_recording_is_reported_before_the_replay(tmp_path: Path, lake: Path) -> None:
    """A file that is not there, a lake of another cluster, a period without reports."""
    with pytest.raises(InputError, match="no such file"):
        FileReportRecording(tmp_path / "absent" / "x.jsonl").check()
    with pytest.raises(ObserveError, match="cluster 'other'"):
        LakeReportRecording(lake, "other").check()
    later = SyntheticPulsar().at(0) + datetime.timedelta(days=300)
    with pytest.raises(ObserveError, match="of that period"):
        LakeReportRecording(lake, period=TickRange(until=SyntheticPulsar().at(0))).check()
    with pytest.raises(ObserveError, match="no load reports"):
        LakeReportRecording(lake, period=TickRange(since=later)).check()


def test_the_command_replays_the_lake(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte for byte the decisions over a file of the same reports."""
    path, of_lake, of_file = (tmp_path / name for name in ("reports.jsonl", "lake.out", "file.out"))
    path.write_text("".join(map(report_line, LakeReportRecording(lake).ticks())), encoding="utf-8")
    assert replay("--lake", lake, "--mode", "simulated", "--out", of_lake) == 0
    assert replay("--reports", path, "--mode", "simulated", "--out", of_file) == 0
    assert of_lake.read_bytes() == of_file.read_bytes()
    assert len(of_lake.read_bytes().splitlines()) == 6
    capsys.readouterr()
    for arguments, message in (
        ((), "name a recording by --reports, or a lake by --lake"),
        (("--reports", path, "--lake", lake), "name one"),
        (("--reports", path, "--since", "yesterday"), "--since is 'yesterday': write a time as"),
    ):
        assert replay(*arguments) == 2
        assert message in capsys.readouterr().err

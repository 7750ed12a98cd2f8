"""Recorded load reports: what is read, and what is said of what cannot be."""

import copy
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.bundle_views import key
from support.recordings import Reports, broker, skewed, tick, written
from trimtab.files.bundles.reports import read_reports, report_line
from trimtab.files.head import time_text
from trimtab.model.bundles.reports import BundleStats, ResourceUsage
from trimtab_common.errors import InputError

HOT = '$.brokers["h1:8080"]'


def test_a_report_is_read_with_pulsars_names(tmp_path: Path) -> None:
    """Usage, totals, bundles and their statistics; what decides nothing (addresses, types) is passed over."""
    (read,) = read_reports(written(tmp_path / "r.jsonl", [tick(0, skewed())]))
    assert time_text(read.at) == "2026-11-21T05:00:00Z"
    assert list(read.brokers) == ["h1:8080", "h2:8080"]
    report = read.brokers["h2:8080"]
    assert report.cpu == ResourceUsage(20.0, 100.0)
    assert report.direct_memory == ResourceUsage(10.0, 512.0)
    assert report.bundles == (key(3),)
    assert report.last_stats[key(3)] == BundleStats(10485.76, 0.0, 10485760.0, 0.0, 3, 2, 1, 0)


def test_a_read_tick_is_written_unchanged(tmp_path: Path) -> None:
    """Written and read, a tick is the same value: brokers, bundles and statistics in their order."""
    (first,) = read_reports(written(tmp_path / "r.jsonl", [tick(7, skewed())]))
    (again,) = read_reports(written(tmp_path / "s.jsonl", [report_line(first).rstrip("\n")]))
    assert again == first
    assert list(again.brokers["h1:8080"].last_stats) == [key(0), key(1), key(2)]


def test_a_packed_recording_is_read_as_it_is(tmp_path: Path) -> None:
    """Recordings are large: gzip is known by its first bytes, not by the name."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(gzip.compress("".join(json.dumps(tick(at, skewed())) + "\n" for at in (0, 1)).encode()))
    assert [time_text(read.at)[14:16] for read in read_reports(path)] == ["00", "01"]


def test_a_packed_recording_cut_short_is_refused(tmp_path: Path) -> None:
    """A copy that broke off is named as such."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(gzip.compress(json.dumps(tick(0, skewed())).encode())[:-20])
    with pytest.raises(InputError, match="is not sound gzip data after line 0"):
        list(read_reports(path))


def test_ticks_are_read_one_at_a_time(tmp_path: Path) -> None:
    """What is wrong in the third line does not keep the first two from being read."""
    path = written(tmp_path / "r.jsonl", [tick(0, skewed()), "", tick(1, skewed()), "{"])
    ticks = read_reports(path)
    assert time_text(next(ticks).at).endswith("05:00:00Z")
    assert time_text(next(ticks).at).endswith("05:01:00Z")
    with pytest.raises(InputError, match=r"line 4: is cut off"):
        next(ticks)


def test_no_limit_is_taken_as_pulsar_takes_it(tmp_path: Path) -> None:
    """A broker that does not know a limit writes 0, or -1 for both: 0 % in use, and no fault."""
    reports = skewed()
    reports["h1:8080"]["bandwidthIn"] = {"usage": 5.0, "limit": 0.0}
    reports["h1:8080"]["bandwidthOut"] = {"usage": -1.0, "limit": -1.0}
    (read,) = read_reports(written(tmp_path / "r.jsonl", [tick(0, reports)]))
    assert read.brokers["h1:8080"].percents[3:].tolist() == [0, 0]


def test_a_bundle_may_be_at_two_brokers_while_it_changes_hands(tmp_path: Path) -> None:
    """The old owner's report is older, as with a moving bundle."""
    reports = skewed()
    reports["h2:8080"] = broker({key(3): 1.0, key(0): 1.0})
    (read,) = read_reports(written(tmp_path / "r.jsonl", [tick(0, reports)]))
    assert key(0) in read.brokers["h1:8080"].bundles
    assert key(0) in read.brokers["h2:8080"].bundles


def test_a_bundle_just_gained_has_no_statistics_yet(tmp_path: Path) -> None:
    """It is among the bundles of its broker, and that is all that is known."""
    reports = skewed()
    reports["h2:8080"]["bundles"].append(key(9))
    (read,) = read_reports(written(tmp_path / "r.jsonl", [tick(0, reports)]))
    assert read.brokers["h2:8080"].bundles == (key(3), key(9))


@pytest.mark.parametrize("broker_name", ["h1:8080", "h2:8080"])
def test_a_part_reported_with_the_whole_is_a_split_reported_by_both_brokers(
    tmp_path: Path, broker_name: str
) -> None:
    """The old report holds the bundle, the new one a half: at the same broker, or where the half went."""
    reports = skewed()
    half, end = "t/n/0x00000000_0x00800000", "t/n/0x00800000_0x01000000"
    reports[broker_name]["bundles"] += [half, end]
    (read,) = read_reports(written(tmp_path / "r.jsonl", [tick(0, reports)]))
    assert read.brokers[broker_name].bundles[-2:] == (half, end)
    assert key(0) in read.brokers["h1:8080"].bundles


def test_statistics_of_a_bundle_that_is_not_listed_are_taken(tmp_path: Path) -> None:
    """As Pulsar's leader takes them: `lastStats` and `bundles` are two things to it."""
    reports = skewed()
    reports["h1:8080"]["bundles"].remove(key(2))
    (read,) = read_reports(written(tmp_path / "r.jsonl", [tick(0, reports)]))
    assert key(2) not in read.brokers["h1:8080"].bundles
    assert key(2) in read.brokers["h1:8080"].last_stats


Change = Callable[[Reports], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda hot: hot.pop("directMemory"),
            f'{HOT} has no field "directMemory"; record',
            id="missing resource",
        ),
        pytest.param(
            lambda hot: hot["cpu"].pop("limit"), f'{HOT}.cpu has no field "limit"', id="missing limit"
        ),
        pytest.param(
            lambda hot: hot.update(cpu=7), f"{HOT}.cpu is 7, expected an object; correct", id="no object"
        ),
        pytest.param(
            lambda hot: hot.update(msgRateIn=-0.5),
            f"{HOT}.msgRateIn is -0.5, expected a number >= 0; correct",
            id="negative rate",
        ),
        pytest.param(
            lambda hot: hot["cpu"].update(usage=-3.0),
            f"{HOT}.cpu.usage is -3, expected a number >= 0; correct",
            id="negative usage",
        ),
        pytest.param(
            lambda hot: hot["lastStats"][key(1)].update(msgThroughputIn=-1),
            f'{HOT}.lastStats["{key(1)}"].msgThroughputIn is -1, expected a number >= 0',
            id="negative throughput of a bundle",
        ),
        pytest.param(
            lambda hot: hot["lastStats"][key(1)].pop("topics"),
            f'{HOT}.lastStats["{key(1)}"] has no field "topics"',
            id="missing count",
        ),
        pytest.param(
            lambda hot: hot["lastStats"][key(1)].update(topics="three"),
            f'{HOT}.lastStats["{key(1)}"].topics is "three", expected a whole number',
            id="no number",
        ),
        pytest.param(
            lambda hot: hot["lastStats"][key(1)].update(msgRateIn="NaN"),
            f'{HOT}.lastStats["{key(1)}"].msgRateIn is "NaN", expected a number',
            id="NaN as Jackson writes it",
        ),
        pytest.param(
            lambda hot: hot["cpu"].update(usage=float("nan")),
            "usage is NaN, expected a finite number",
            id="NaN",
        ),
        pytest.param(
            lambda hot: hot["cpu"].update(limit=float("inf")),
            "limit is Infinity, expected a finite number",
            id="Infinity",
        ),
        pytest.param(
            lambda hot: hot["bundles"].__setitem__(1, "t/n/0x1_0x2"),
            f'{HOT}.bundles[1]: bundle "t/n/0x1_0x2" is not a bundle\'s name',
            id="no bundle",
        ),
        pytest.param(
            lambda hot: hot["bundles"].append(hot["bundles"][0]),
            f'{HOT}.bundles names "{key(0)}" twice; drop one',
            id="one bundle twice",
        ),
        pytest.param(
            lambda hot: hot["lastStats"].update({"t/n/0x1_0x2": hot["lastStats"][key(1)]}),
            f'{HOT}.lastStats: bundle "t/n/0x1_0x2" is not a bundle\'s name',
            id="statistics of no bundle",
        ),
        pytest.param(
            lambda hot: hot["bundles"].append("t/n/0x00800000_0x01000001"),
            f'{HOT}.bundles holds "t/n/0x00800000_0x01000001", which reaches beyond "{key(0)}"',
            id="overlap in one report",
        ),
        pytest.param(
            lambda hot: hot["bundles"].append("t/n/0x03800000_0x05000000"),
            f'reaches beyond "{key(3)}" of $.brokers["h2:8080"]',
            id="overlap of two brokers",
        ),
    ],
)
def test_a_malformed_report_is_refused_with_its_place(tmp_path: Path, change: Change, message: str) -> None:
    """Line, broker, bundle and field are named, with the value found and what to do."""
    reports = copy.deepcopy(skewed())
    change(reports["h1:8080"])
    path = written(tmp_path / "r.jsonl", [tick(0, skewed()), tick(1, reports)])
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        list(read_reports(path))
    assert str(refused.value).startswith(f"{path}: line 2: ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"brokers": {}}, '$ has no field "at"; add it'),
        ({"at": "2026-11-21T05:01:00Z"}, '$ has no field "brokers"; add it'),
        ({"at": "yesterday", "brokers": {}}, '$.at is "yesterday", expected a time like'),
        ({"at": "2026-11-21T05:01:00Z", "brokers": []}, "$.brokers is [], expected an object"),
        ({"at": "2026-11-21T05:01:00Z", "brokers": {}, "broker": 1}, 'unknown field "broker"; did you mean'),
        (
            {"format": "trimtab/pulsar-reports/2", "at": "2026-11-21T05:01:00Z", "brokers": {}},
            "this trimtab reads version 1",
        ),
        ("[]", "$ is [], expected an object"),
        ("nonsense", "is not JSON at line 1, column 1"),
    ],
)
def test_a_line_of_another_shape_is_refused(tmp_path: Path, line: Reports | str, message: str) -> None:
    """The line is named, and what it should have been."""
    path = written(tmp_path / "r.jsonl", [tick(0, skewed()), line])
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        list(read_reports(path))
    assert str(refused.value).startswith(f"{path}: line 2: ")


def test_a_clock_that_moves_backwards_is_rejected(tmp_path: Path) -> None:
    """Grace times and histories would be nonsense; both times are named, also where the offsets differ."""
    earlier = {**tick(0, skewed()), "at": "2026-11-21T06:00:00+01:00"}
    path = written(tmp_path / "r.jsonl", [tick(0, skewed()), earlier, tick(1, skewed()), tick(0, skewed())])
    with pytest.raises(InputError, match=r'line 4: \$\.at is "2026-11-21T05:00:00Z", earlier than'):
        list(read_reports(path))


def test_an_empty_recording_is_refused(tmp_path: Path) -> None:
    """Nothing to replay is a mistake somewhere, not an answer."""
    with pytest.raises(InputError, match="is empty, expected one tick"):
        list(read_reports(written(tmp_path / "r.jsonl", ["", ""])))


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    """As every other file."""
    with pytest.raises(InputError, match=r"nowhere\.jsonl: no such file"):
        list(read_reports(tmp_path / "nowhere.jsonl"))

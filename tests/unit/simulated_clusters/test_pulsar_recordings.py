"""Made-up recordings of load reports: a hot bundle, a broker that joins, one that dies."""

import dataclasses
import gzip
import json
from pathlib import Path

import pytest

from simulated_clusters.recordings import RecordedCluster, recorded, write_recording
from trimtab.cli.app import main
from trimtab.files.bundles.reports import read_reports
from trimtab.model.bundles.reports import ReportTick
from trimtab_common.errors import InputError, SettingsError

CLUSTER = RecordedCluster(brokers=4, bundles=30, ticks=100, hot_seconds=1800, seed=2)
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "pulsar-skew.jsonl.gz"


@pytest.fixture(scope="module")
def ticks() -> list[ReportTick]:
    """A hundred minutes."""
    return list(recorded(CLUSTER))


def usage(tick: ReportTick) -> dict[str, float]:
    """Network out of each broker, a share."""
    return {name: float(one.percents[4]) / 100 for name, one in tick.brokers.items()}


def test_a_bundle_is_hot_for_its_time(ticks: list[ReportTick]) -> None:
    """From the twentieth minute for half an hour its broker is far above the others, and not before."""
    before, within, after = (usage(ticks[minute]) for minute in (18, 35, 49))
    hottest = max(within, key=lambda name: within[name])
    others = [share for name, share in within.items() if name != hottest]
    assert within[hottest] - before[hottest] > 0.35
    assert within[hottest] > max(others) + 0.2
    assert after[hottest] < within[hottest] - 0.3


def test_a_broker_joins_idle_and_another_dies_and_leaves_its_bundles(ticks: list[ReportTick]) -> None:
    """No bundle is lost, and none moves that need not."""
    assert [len(ticks[minute].brokers) for minute in (0, 49, 50, 74, 75, 99)] == [4, 4, 5, 5, 4, 4]
    assert ticks[99].brokers["broker-5:8080"].bundles == ()
    held = [
        {bundle: name for name, one in ticks[minute].brokers.items() for bundle in one.bundles}
        for minute in (0, 74, 75, 99)
    ]
    assert held[0] == held[1]
    assert held[2] == held[3]
    (dead,) = set(held[1].values()) - set(held[2].values())
    assert held[1].keys() == held[2].keys()
    assert all(held[2][bundle] == name for bundle, name in held[1].items() if name != dead)


def test_a_brokers_report_is_consistent(ticks: list[ReportTick]) -> None:
    """Its totals are the sums of its bundles, and no resource is used beyond its limit."""
    for one in ticks[35].brokers.values():
        assert one.msg_throughput_out == sum(stats.msg_throughput_out for stats in one.last_stats.values())
        assert one.bundles == tuple(one.last_stats)
        for resource in (one.cpu, one.memory, one.direct_memory, one.bandwidth_in, one.bandwidth_out):
            assert 0 <= resource.usage <= resource.limit


def test_the_same_settings_give_the_same_bytes_and_are_read_back(
    ticks: list[ReportTick], tmp_path: Path
) -> None:
    """Plain and compressed; another seed is another recording."""
    packed, again, plain = (tmp_path / name for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl"))
    write_recording(ticks, packed)
    write_recording(recorded(CLUSTER), again)
    write_recording(recorded(CLUSTER), plain)
    assert packed.read_bytes() == again.read_bytes()
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert list(read_reports(packed)) == ticks
    assert next(recorded(dataclasses.replace(CLUSTER, seed=3))) != ticks[0]


def test_nothing_is_left_of_a_recording_that_could_not_be_written(tmp_path: Path) -> None:
    """Neither where its folder is missing, nor where it ends in the middle."""
    with pytest.raises(InputError, match="cannot be written"):
        write_recording([], tmp_path / "absent" / "a.jsonl")

    def broken():
        yield from recorded(dataclasses.replace(CLUSTER, ticks=1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_recording(broken(), tmp_path / "a.jsonl.gz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"brokers": 1}, {"bundles": 3}, {"ticks": 0}])
def test_an_impossible_recording_is_rejected(wrong: dict[str, int]) -> None:
    """With the fewest that can be."""
    with pytest.raises(SettingsError, match="are the fewest"):
        dataclasses.replace(CLUSTER, **wrong)


def test_the_example_of_the_documentation_equals_the_output_of_its_command(tmp_path: Path) -> None:
    """The command reproduces it; floating-point libraries may differ in a last digit."""
    made = tmp_path / "made.jsonl"
    command = ["simulate", "recording", "--out", str(made)]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--brokers", "5", "--bundles", "40", "--ticks", "240", "--seed", "1"])
    assert ended.value.code == 0
    assert EXAMPLE.stat().st_size < 300_000
    kept, anew = gzip.decompress(EXAMPLE.read_bytes()).splitlines(), made.read_bytes().splitlines()
    assert len(kept) == len(anew) == 240
    for minute in (0, 60, 239):
        here, there = json.loads(kept[minute]), json.loads(anew[minute])
        assert here["at"] == there["at"]
        assert here["brokers"].keys() == there["brokers"].keys()
        for name, one in here["brokers"].items():
            assert one["bundles"] == there["brokers"][name]["bundles"]
            assert one["msgRateIn"] == pytest.approx(there["brokers"][name]["msgRateIn"], abs=1)

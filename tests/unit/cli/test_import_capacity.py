"""Capacity files of Cruise Control, and the settings that they become."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from trimtab.cli.app import main
from trimtab.observe.collect.settings import BrokerCapacity, CapacitySettings

MEGABYTE, KILOBYTE = 2**20, 2**10


def row(broker: str, disk: object = "200000", cpu: object = "100", rate: str = "20000") -> dict[str, object]:
    """One entry of a capacity file; its numbers are texts, as in Cruise Control's own files."""
    capacity = {"DISK": disk, "CPU": cpu, "NW_IN": rate, "NW_OUT": rate}
    return {"brokerId": broker, "capacity": capacity, "doc": "a comment"}


def imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *rows: dict[str, object]
) -> tuple[CapacitySettings, str]:
    """The settings that the printed tables give, and what standard error says."""
    (tmp_path / "capacity.json").write_text(json.dumps({"brokerCapacities": rows}))
    with pytest.raises(SystemExit) as ended:
        main(["import-capacity", str(tmp_path / "capacity.json")])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    return CapacitySettings(**tomllib.loads(printed.out)["capacity"]), printed.err


def test_percent_of_cpu_gives_no_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Disk and network are converted; CPU in percent has no counterpart, which is said."""
    rows = row("-1"), row("7", disk="400000")
    settings, errors = imported(tmp_path, capsys, *rows)
    rates = {f"network_{way}_bytes_per_second": 20000.0 * KILOBYTE for way in ("in", "out")}
    assert settings.of(1) == BrokerCapacity(disk_bytes=200_000 * MEGABYTE, **rates)
    assert settings.of(7) == BrokerCapacity(disk_bytes=400_000 * MEGABYTE, **rates)
    assert list(settings.brokers["7"]) == ["disk_bytes"]
    assert "all brokers: CPU is 100 %" in errors
    assert "broker 7: CPU is 100 %" in errors


def test_cores_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The form with cores leaves nothing out."""
    rows = row("-1", cpu={"num.cores": "16"}), row("0", cpu={"num.cores": "32"}, rate="0.5")
    settings, errors = imported(tmp_path, capsys, *rows)
    assert (settings.of(1).cpu_cores, settings.of(0).cpu_cores) == (16, 32)
    assert settings.of(0).network_out_bytes_per_second == 512
    assert errors == ""


def test_log_dirs_are_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The form with log dirs gives their sum; unequal ones are named."""
    cores = {"num.cores": 4}
    equal, unequal = {"/a": "100", "/b": "100"}, {"/a": "100", "/b": "300"}
    rows = row("-1", disk=equal, cpu=cores), row("3", disk=unequal, cpu=cores)
    settings, errors = imported(tmp_path, capsys, *rows)
    assert (settings.of(1).disk_bytes, settings.of(3).disk_bytes) == (200 * MEGABYTE, 400 * MEGABYTE)
    assert "broker 3: log dirs have different sizes" in errors
    assert "all brokers: log dirs" not in errors


def test_a_file_without_default_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Then only the named brokers have a capacity."""
    settings, errors = imported(tmp_path, capsys, row("3", cpu={"num.cores": 4}))
    assert (settings.of(3).cpu_cores, settings.of(4).cpu_cores) == (4, None)
    assert "brokers that are not named have no capacity" in errors


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{", "is no JSON"),
        ({"brokers": []}, 'has no field "brokerCapacities"'),
        ({"brokerCapacities": [row("-1", rate="many")]}, 'NW_IN is "many"'),
        ({"brokerCapacities": [row("-1", disk="0")]}, "disk_bytes of broker -1 is 0: write a number above 0"),
        ({"brokerCapacities": [row("one")]}, "brokerId is 'one'"),
        ({"brokerCapacities": [row("1"), row("1")]}, "each id once"),
    ],
)
def test_faults_have_a_place_and_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: Any, text: str
) -> None:
    """Exit code 2 and one line, as of every wrong file."""
    path = tmp_path / "capacity.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(SystemExit) as ended:
        main(["import-capacity", str(path)])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_the_example_of_the_page_is_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the page for users of Cruise Control, typed."""
    rows = row("-1", "100000", rate="10000"), row("0", "500000", rate="10000")
    (tmp_path / "capacity.json").write_text(json.dumps({"brokerCapacities": rows}))
    with pytest.raises(SystemExit):
        main(["import-capacity", str(tmp_path / "capacity.json")])
    printed = capsys.readouterr()
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "coming-from-cruise-control.md").read_text()
    assert f"$ trimtab import-capacity capacity.json\n{printed.out}{printed.err}```" in page

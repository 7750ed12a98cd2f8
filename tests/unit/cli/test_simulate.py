"""`trimtab simulate bundles`, from outside."""

import json

import pytest

from trimtab.cli.app import main


def simulate(*arguments: object) -> int:
    """`trimtab simulate bundles` in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "bundles", *map(str, arguments)])
    code = ended.value.code
    return code if isinstance(code, int) else 0


def test_every_scenario_is_run_under_every_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    """The table shows which strategies act on a broker that has just joined."""
    assert simulate() == 0
    lines = capsys.readouterr().out.splitlines()
    begins = lines.index("broker-joins: an idle broker joins nine at 60 %; 20 minutes")
    rows = {line.split()[0]: line.split() for line in lines[begins + 2 : begins + 7]}
    assert {name: row[3] for name, row in rows.items()} == {
        "AvgShedder": "5",
        "OverloadShedder": "0",
        "ThresholdShedder": "0",
        "TransferShedder": "4",
        "UniformLoadShedder": "5",
    }
    assert sum(not line.startswith(" ") and ": " in line for line in lines) == 6
    assert sum("Shedder" in line for line in lines) == 25


def test_json_has_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the requested scenario only; placed by lookups, eight unloads return two bundles."""
    asked = ("--scenario", "broker-overloaded", "--strategy", "ThresholdShedder", "--json")
    assert simulate(*asked, "--destination", "lookup") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["scenario"], row["strategy"]) == ("broker-overloaded", "ThresholdShedder")
    assert row["returned"] > 0
    assert len(row["usage"]) == 10
    assert simulate(*asked) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["returned"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scenario", "flood"), "scenario flood is not known: choose of broker-joins, owner-dies"),
        (("--strategy", "AvgSheder"), "did you mean AvgShedder?"),
    ],
)
def test_unknown_scenarios_are_reported(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2, and no table."""
    assert simulate(*arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""

"""The units of systemd: systemd itself reads them, and rates what they leave open."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[3] / "deploy" / "systemd").glob("*.service"))
PROGRAM = "/opt/trimtab/bin/trimtab"
MAX_EXPOSURE = 2.5

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")


def _installed(folder: Path, unit: Path) -> Path:
    """A copy of a unit whose program exists."""
    text = unit.read_text(encoding="utf-8")
    assert PROGRAM in text
    (folder / unit.name).write_text(text.replace(PROGRAM, "/bin/true"), encoding="utf-8")
    return folder / unit.name


def _analyzed(*arguments: str) -> str:
    """What systemd-analyze prints, errors and all."""
    command = ["systemd-analyze", *arguments]
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
    )
    return ended.stdout


def _exposure(unit: Path) -> float:
    found = re.search(r"exposure level for \S+: ([\d.]+)", _analyzed("security", "--offline=true", str(unit)))
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_unit(tmp_path: Path, unit: Path) -> None:
    """`verify` prints nothing about a unit without faults."""
    assert _analyzed("verify", str(_installed(tmp_path, unit))) == ""


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_little_is_left_open(tmp_path: Path, unit: Path) -> None:
    """The exposure is 0 (closed) to 10; without the lines on security a unit has more than 8."""
    installed = _installed(tmp_path, unit)
    assert _exposure(installed) <= MAX_EXPOSURE
    text = installed.read_text(encoding="utf-8")
    installed.write_text(
        re.sub(r"(?ms)^# Who it runs as.*?^\[Install\]", "[Install]", text), encoding="utf-8"
    )
    assert _exposure(installed) > 8


@pytest.mark.parametrize(
    ("line", "planted", "named"),
    [
        ("ProtectSystem=strict", "ProtectSytem=strict", "ProtectSytem"),
        ("Restart=always", "Restart=sometimes", "sometimes"),
        ("/bin/true", "/bin/no-such-program", "no-such-program is not executable"),
    ],
)
def test_a_planted_fault_is_named(tmp_path: Path, line: str, planted: str, named: str) -> None:
    """Silence means something: faults in a unit are printed."""
    unit = _installed(tmp_path, next(one for one in UNITS if one.stem == "trimtab-serve"))
    unit.write_text(unit.read_text(encoding="utf-8").replace(line, planted), encoding="utf-8")
    assert named in _analyzed("verify", str(unit))


def test_the_three_programs_have_a_unit() -> None:
    """The service, and the two that fill the lake."""
    assert [unit.stem for unit in UNITS] == ["trimtab-collect", "trimtab-pipeline-stream", "trimtab-serve"]

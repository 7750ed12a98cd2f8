"""Ranges of dependencies: tests pass at both ends, and the versions that applications use resolve."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = ROOT / ".venv" / "bin" / "uv"
# What imports each dependency; the rest of the tests runs on the locked versions alone.
TESTED = (
    "tests/unit/cli",
    "tests/unit/files",
    "tests/unit/systems",
    "tests/unit/trimtab_keys",
    "tests/unit/trimtab_queues",
    "tests/unit/trimtab_store",
    "tests/unit/report",
)
EXTRAS = {"redis": "", "taskiq": "", "aiokafka": "[keys-aiokafka]", "confluent-kafka": "[keys-confluent]"}
"""The extra of trimtab that needs a client library."""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("end", ["lowest", "newest"])
def test_both_ends_of_the_ranges_pass_the_tests(end: str) -> None:
    """An installation at either end behaves as the locked one."""
    command: list[str | Path] = [
        ROOT / "scripts" / "try-versions",
        end,
        sys.executable,
        "--numprocesses",
        "2",
        *TESTED,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.parametrize("package", EXTRAS)
def test_the_last_minor_versions_of_clients_resolve(package: str, tmp_path: Path) -> None:
    """An application that pins one of these versions can install trimtab too."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", package],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.findall(r"\b(\d+\.\d+)\.\d+", listed.partition("Available versions:")[2])
    minors = list(dict.fromkeys(found))[:2]
    assert len(minors) == 2
    for minor in minors:
        wanted = tmp_path / "requirements.in"
        local = [f"./packages/{one.name}" for one in sorted((ROOT / "packages").iterdir()) if one.is_dir()]
        lines = [f".{EXTRAS[package]}", *local, f"{package}=={minor}.*"]
        wanted.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command: list[str | Path] = [
            UV,
            "pip",
            "compile",
            "--quiet",
            "--python",
            sys.executable,
            wanted,
            "-o",
            tmp_path / "out",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{package} {minor}: {done.stderr}"

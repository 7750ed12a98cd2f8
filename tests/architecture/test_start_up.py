"""`trimtab --help` answers at once, because nothing heavy is imported until it is needed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulate.instances import lognormal_skew
from trimtab.cli.app import COMMANDS
from trimtab.files.replicas.snapshot import write_snapshot

PACKAGES = Path(__file__).parents[2] / "packages"
HEAVY = {
    "duckdb",
    "highspy",
    "httpx",
    "kafka",
    "llvmlite",
    "matplotlib",
    "numba",
    "numpy",
    "obstore",
    "pandas",
    "polars",
    "pyarrow",
    "pydantic",
    "pyspark",
    "redis",
    "taskiq",
}


def _imported(program: str) -> set[str]:
    """Top-level packages that a program imports."""
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return set(re.findall(r"^import time:.*\|\s+(\w+)", answer.stderr, re.MULTILINE))


def test_help_imports_nothing_heavy():
    """The list of commands is printed without numeric or cluster libraries."""
    imported = _imported("from trimtab.cli.app import main; main(['--help'])")
    assert "typer" in imported
    assert not imported & (HEAVY | {"msgspec", "tomllib"}), "settings are read by commands, not by help"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_imports_nothing_heavy(name):
    """Each command's own help is as quick: its module imports heavy libraries inside its functions."""
    assert not _imported(f"from trimtab.cli.app import main; main([{name!r}, '--help'])") & HEAVY


@pytest.mark.timeout(900)  # the first plan on a machine compiles
@pytest.mark.parametrize(
    ("form", "unneeded"),
    [("snapshot.json", HEAVY - {"numpy"}), ("folder", {"llvmlite", "numba", "pandas", "pyspark"})],
)
def test_a_plan_is_made_without_unnecessary_libraries(tmp_path: Path, form: str, unneeded: set[str]):
    """Reading a snapshot, planning and writing the plan load the planner's libraries and no others.

    pandas is what pyarrow loads for the sake of many of its own functions, and takes longer than the plan.
    The machine code of kernels is kept, so that only the first plan on a machine loads numba.
    """
    write_snapshot(lognormal_skew(brokers=6, replicas=60, seed=1), tmp_path / form)
    arguments = ["plan", "replicas", "--snapshot", str(tmp_path / form), "--out", str(tmp_path / "plan.json")]
    plan = f"from trimtab.cli.app import main; main({arguments!r})"
    _imported(plan)
    imported = _imported(plan)
    assert "numpy" in imported
    assert not imported & unneeded


def test_every_command_of_the_table_exists():
    """The table that --help prints promises nothing that is not there."""
    for load, line in COMMANDS.values():
        assert load()
        assert line.endswith(".")


def test_decisions_at_each_message_import_the_standard_library_only():
    """The core of a data plane imports no package, and only the errors of ours."""
    names = [
        ".".join(path.relative_to(core.parents[1]).with_suffix("").parts)
        for core in sorted(PACKAGES.glob("*/src/*/core"))
        for path in sorted(core.rglob("*.py"))
    ]
    program = f"import sys; before = set(sys.modules); import {', '.join(names)}; "
    program += "print(*sorted(set(sys.modules) - before))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = answer.stdout.split()
    planes = {f"trimtab_{name}" for name in ("keys", "queues", "store")}
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("trimtab")}
    common = {f"trimtab_common{part}" for part in ("", ".errors")}
    assert ours == {*common, *planes, *(f"{name}.core" for name in planes)}
    foreign = {name.split(".")[0] for name in loaded} - {"trimtab_common", *planes} - sys.stdlib_module_names
    assert not foreign

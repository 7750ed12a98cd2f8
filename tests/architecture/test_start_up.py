"""`trimtab --help` answers at once, because nothing heavy is imported until it is needed."""

import re
import subprocess
import sys

import pytest

from trimtab.cli.app import COMMANDS

HEAVY = {
    "duckdb",
    "highspy",
    "kafka",
    "llvmlite",
    "matplotlib",
    "numba",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
}


def _imported(program: str) -> set[str]:
    """Top-level packages that a program imports."""
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return set(re.findall(r"^import time:.*\|\s+(\w+)", answer.stderr, re.MULTILINE))


def test_help_imports_nothing_heavy():
    """The list of commands is shown without any of the numeric or cluster libraries."""
    imported = _imported("from trimtab.cli.app import main; main(['--help'])")
    assert "typer" in imported
    assert not imported & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_imports_nothing_heavy(name):
    """Each command's own help is as quick: its module imports heavy libraries inside its functions."""
    assert not _imported(f"from trimtab.cli.app import main; main([{name!r}, '--help'])") & HEAVY


def test_every_command_of_the_table_exists():
    """The table that --help prints promises nothing that is not there."""
    from importlib import import_module

    for module, line in COMMANDS.values():
        assert import_module(module).app
        assert line.endswith(".")

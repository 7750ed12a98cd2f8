"""Static files of the pages: libraries as they were fetched, and the size of all scripts."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

from trimtab.serve.pages.rendering import STATIC

ROOT = Path(__file__).parents[4]


def test_libraries_are_as_fetched() -> None:
    """Each file has the SHA-256 that the list states."""
    command = [sys.executable, str(ROOT / "scripts" / "fetch-page-libraries"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_each_library_has_its_licence() -> None:
    """Their licences require that the text is distributed with the files."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (STATIC / "vendored").glob("*.LICENSE")}
    assert "Zero-Clause BSD" in texts["htmx"]
    assert "MIT License" in texts["uPlot"]


def test_scripts_are_at_most_60_kilobytes() -> None:
    """All scripts together, compressed by gzip."""
    scripts = list(STATIC.rglob("*.js"))
    assert len(scripts) == 3
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in scripts) <= 60_000

"""The map in docs/architecture.md names every module, in the module's own words."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_map_of_modules_is_up_to_date() -> None:
    """The page lists every file, and no missing file."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "module-map", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

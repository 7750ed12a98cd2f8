"""The reference pages say what the code does."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_settings_and_commands_are_up_to_date() -> None:
    """Both pages are written from the code; whoever changes a setting or a command runs the script again."""
    command = [sys.executable, ROOT / "scripts" / "reference", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

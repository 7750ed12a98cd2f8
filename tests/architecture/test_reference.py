"""The reference pages say what the code does."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def test_settings_and_commands_are_up_to_date() -> None:
    """Both pages are generated from the code by a script, which runs after a change of settings
    or commands.
    """
    command: list[str | Path] = [sys.executable, ROOT / "scripts" / "reference", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_two_settings_have_one_sentence() -> None:
    """Two keys of a table must not share a sentence, because it describes neither."""
    shared, meanings = [], dict[str, Any]()
    for line in (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(("## ", "### ")):
            meanings = {}
        elif found := re.fullmatch(r"\| `(\w+)` \| .* \| (.+) \|", line):
            key, meaning = found.groups()
            if meaning in meanings:
                shared.append(f"{meanings[meaning]}, {key}: {meaning}")
            meanings[meaning] = key
    assert shared == []

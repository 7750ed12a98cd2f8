"""`trimtab masters node`, as a service manager types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"setings": {}}, "has key setings, which a node does not know: did you mean settings?"),
        ({"settings": {"window": 0}}, "masters.window is 0, expected a whole number, 1 or more: correct it"),
        ({"addresses": ["here"]}, "has address 'here', expected host:port"),
    ],
)
def test_a_bad_configuration_ends_it_in_one_sentence(
    tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    """Exit code 2, nothing on standard output, and no folder is made."""
    path = tmp_path / "node.json"
    good = {
        "format": "trimtab/masters-node/1", "cluster": "c", "node": 0, "groups": 1,
        "addresses": ["127.0.0.1:1"], "folder": str(tmp_path / "data"),
    }  # fmt: skip
    path.write_text(json.dumps({**good, **changes}))
    command = [sys.executable, "-m", "trimtab", "masters", "node", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("trimtab: ") and done.stderr.endswith(f"{sentence}\n")
    assert done.stderr.count("\n") == 1 and not (tmp_path / "data").exists()

"""The load with keys of a sandbox: bounded consumers on a real broker, every record checked in the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.history.keys.simulation import Zipf
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.load import KeyedLoad, run_keyed_load


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_a_load_with_keys_ends_with_every_record_in_order(tmp_path: Path) -> None:
    """Two runs over one topic: the second goes on where the first ended, and checks what that one did too.

    A third, on a topic of its own, is typed.
    """
    load = KeyedLoad("keyed", Zipf(1.2, 50), partitions=2, consumers=1, producers=2, rate=100.0)
    told: list[str] = []
    counts = []
    folder = tmp_path / "state" / "sandbox" / "typed"
    with KafkaSandbox.start(1, prometheus=False, folder=folder) as sandbox:
        for _ in range(2):
            text = run_keyed_load(sandbox.state, load, 3.0, told.append)
            assert text.endswith("none lost, none twice")
            counts.append(int(text.split()[0].replace(",", "")))
        words = "sandbox kafka load --name typed --keys zipf:1.2 --seconds 3 --records 60"
        typed = subprocess.run(
            [sys.executable, "-m", "trimtab", *words.split()],
            env={**os.environ, "TRIMTAB_STATE": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert 50 < counts[0] < counts[1]
    assert typed.returncode == 0, typed.stdout + typed.stderr
    assert typed.stdout.endswith("none lost, none twice\n")
    assert "60 records/s with keys by zipf:1.2" in typed.stderr
    assert any("records wait in partitions 0 to 1" in line for line in told)

"""Every command in an installation with the base dependencies alone: which extras each may ask for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

import trimtab
from simulate.instances import lognormal_skew
from support.installations import ROOT, with_extras
from support.local_paths import local
from support.recordings import skewed, tick, written
from support.small_lake import NOON, imbalance_rows, publish
from trimtab.cli.app import COMMANDS

MANY = ROOT / "tests" / "support" / "many_verbs.py"

ROWS: Final = """
check --cluster kafka://127.0.0.1:1            |             | can be reached
collect --cluster kafka://127.0.0.1:1 --ticks 1 |            | can be reached
collect --cluster kafka://127.0.0.1:1 --ticks 1 --metrics 127.0.0.1:9 | serve |
collect --cluster pulsar+http://127.0.0.1:1 --ticks 1 | pulsar |
pipeline run                             | spark       |
pipeline stream                          | spark       |
pipeline compact                         |             | tables compacted
pipeline export --delta delta            | delta       |
pipeline accuracy nothing                   |             | nothing
status                                   |             | orders
top --brokers                            |             | leaders
status --cluster kafka://127.0.0.1:1           |             | can be reached
status --cluster pulsar+http://127.0.0.1:1 | pulsar      |
snapshot export --out snapshot.json      |             | snapshot.json
plan replicas --snapshot snapshot.json --out plan.json --set replicas.epsilon=0.95 | | written to plan.json
plan bundles                             |             | no snapshot
plan queues                              |             | no snapshot
plan keys                                |             | no snapshot
plan masters                             |             | no snapshot
plan undo                                |             | no executions
plan show plan.json                      |             | Plan by
plan diff plan.json plan.json            |             | the same
apply plan.json --cluster kafka://127.0.0.1:1 --dry-run |    | can be reached
execution list                           |             | no executions
execution show                           |             | no executions
execution resume                         |             | no executions
execution stop                           |             | no executions
execution cancel                         |             | no executions
execution throttle 20000000              |             | no executions
measure                                  |             | no executions
replay replicas                          | spark       |
replay bundles --reports reports.jsonl   |             | ThresholdShedder
replay bundles --reports reports.jsonl --spark --out decisions | spark |
replay queues                            |             | nothing to replay
replay keys                              |             | nothing to replay
masters node --config none.json          |             | none.json
masters publish map.json --cluster paxos:none.json |           | none.json
queues dead-letters --cluster redis://127.0.0.1:1/0 | | does not answer
queues show 1-1 --cluster redis://127.0.0.1:1/0 | | does not answer
queues requeue --all --cluster redis://127.0.0.1:1/0 | | does not answer
simulate bundles                         |             | fullest
simulate recording --ticks 2 --bundles 50 --out recording.jsonl | | recording.jsonl
simulate weeks --weeks 1 --out weeks     |             | weeks
sandbox kafka up                         | spark       |
sandbox kafka down                       |             | no sandbox
sandbox kafka status                     |             | no sandbox
sandbox kafka skew                       |             | no sandbox
sandbox kafka load                       |             | no sandbox
sandbox pulsar up                        | spark       |
sandbox pulsar down                      |             | no sandbox
sandbox pulsar status                    |             | no sandbox
sandbox pulsar skew                      |             | no sandbox
sandbox pulsar load                      |             | no sandbox
sandbox queues up | queues-server |
sandbox queues down | | no sandbox
sandbox queues status | | no sandbox
sandbox queues load | | no sandbox
sandbox queues kill 1 | | no sandbox
sandbox queues restart 1 | | no sandbox
sandbox masters up --nodes 2 --groups 1 --lease 2 |    | starting 2 nodes
sandbox masters up --name other --engine etcd | masters-etcd |
sandbox masters status                   |             | masterships
sandbox masters load --seconds 0.5       |             | acknowledged
sandbox masters move 0 0                 |             | 0
sandbox masters kill 0                   |             | node 0
sandbox masters restart 0                |             | node 0
sandbox masters down                     |             | deleted
import-capacity none.json                |             | none.json
serve                                    | serve       |
demo                                     | lab         |
"""
"""Command line | the extra that it asks for | else a part of what it says."""


def _rows() -> list[tuple[list[str], str, str]]:
    cells = [[cell.strip() for cell in line.split("|")] for line in ROWS.strip().splitlines()]
    return [(words.split(), extra, said) for words, extra, said in cells]


def _verbs(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _verbs(inner, (*path, name))
    if not getattr(command, "commands", {}):
        yield path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's home with a small lake, a recording, and nothing else."""
    home = tmp_path_factory.mktemp("home")
    lake = publish(home / "lake", {"imbalance": [imbalance_rows(NOON, {1: (0.2, 0.2, 0.2, 0.2)})]})
    place = local(lake.snapshots) / "orders" / "2026-11-21T12:00:00.000000Z"
    place.parent.mkdir(parents=True)
    trimtab.write_snapshot(lognormal_skew(brokers=3, replicas=12, seed=3), place)
    written(home / "reports.jsonl", [tick(minute, skewed()) for minute in range(3)])
    return home


def _ran(home: Path, lines: list[list[str]], *extras: str) -> list[tuple[int, str]]:
    own = {name: str(home / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "TRIMTAB_STATE")}
    own |= {"HOME": str(home), "TRIMTAB_LAKE": str(home / "lake"), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, MANY],
        input=json.dumps(lines),
        env=with_extras(*extras) | own,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    return [(code, said) for code, said in json.loads(done.stdout)]


def test_every_verb_has_a_row() -> None:
    """A new command declares here which extra it needs."""
    there = {
        path
        for name, (load, _) in COMMANDS.items()
        for path in _verbs(typer.main.get_command(load()), (name,))
    }
    covered = {path for path in there for words, _, _ in _rows() if tuple(words[: len(path)]) == path}
    assert there == covered


@pytest.mark.slow
def test_each_verb_asks_for_its_extra_alone(home: Path) -> None:
    """Without any extra, every command is tried."""
    rows = _rows()
    for (words, extra, said), (code, output) in zip(rows, _ran(home, [row[0] for row in rows]), strict=True):
        line = " ".join(words)
        assert "Traceback" not in output, f"{line}\n{output}"
        if extra:
            asked = re.findall(r"\(extra ([\w-]+)\), which is not installed: .* pip install ", output)
            assert (asked, code) == ([extra], 1), f"{line}\n{output}"
        else:
            # `check` names what is missing as a finding, and goes on.
            assert words[0] == "check" or "not installed" not in output, f"{line}\n{output}"
            assert said in output, f"{line}\n{output}"


def test_tables_are_exported_with_their_extra_alone(home: Path) -> None:
    """The help of `pipeline export` promises: no Spark, the extra `delta`."""
    ((code, output),) = _ran(home, [["pipeline", "export", "--delta", str(home / "delta")]], "delta")
    assert code == 0, output
    assert "tables written to" in output

"""A new balancer is a folder in each package and a row: the toy balancer `balls` is added to a copy."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "toy_balancer"
ROW = 'BALANCER_NAMES: Final = ("replicas", "bundles", "queues", "keys", "masters")'
CLUSTER = {
    "cluster": "attic",
    "boxes": {"a": 10.0, "b": 10.0, "c": 10.0},
    "balls": {
        **{f"red-{n}": {"box": "a", "weight": 1.0} for n in range(6)},
        **{f"blue-{n}": {"box": "b", "weight": 1.0} for n in range(3)},
    },
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the toy's folders laid into its rooms, and one line of one file changed."""
    source = tmp_path_factory.mktemp("house") / "src"
    shutil.copytree(
        ROOT / "src" / "trimtab", source / "trimtab", ignore=shutil.ignore_patterns("__pycache__")
    )
    for package in (ROOT / "packages").glob("*/src/*"):
        shutil.copytree(package, source / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in TOY.rglob("*.py"):
        place = source / "trimtab" / path.relative_to(TOY)
        assert not place.exists(), f"{place} is a file of the house"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    rows = source / "trimtab" / "balancers" / "__init__.py"
    assert ROW in rows.read_text()
    rows.write_text(rows.read_text().replace(ROW, ROW.replace(")", ', "balls")')))
    return source


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    """A cluster of the toy system, uneven."""
    path = tmp_path / "boxes.json"
    path.write_text(json.dumps(CLUSTER))
    return path


@pytest.mark.long
def test_every_command_works_with_a_new_balancer(source: Path, boxes: Path, tmp_path: Path) -> None:
    """It is observed, sampled, processed by Spark, planned, applied and replayed; then it is balanced."""

    def trimtab(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trimtab", *map(str, words)],
            env={**os.environ, "PYTHONPATH": str(source), "TRIMTAB_STATE": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    lake, plan = tmp_path / "lake", tmp_path / "plan.json"
    assert trimtab("status", "--cluster", f"boxes:{boxes}") == "attic: 3 boxes\n"
    trimtab("collect", "--cluster", f"boxes:{boxes}", "--lake", lake, "--ticks", 4, "--interval", 1)
    trimtab("pipeline", "run", "--lake", lake)
    assert trimtab("check", "--cluster", f"boxes:{boxes}", "--lake", lake).endswith("\nAll is fine.\n")
    status = json.loads(trimtab("status", "--lake", lake, "--json"))
    assert (status["balancer"], status["cluster"]) == ("balls", "attic")
    exported = tmp_path / "recorded" / "one.json"
    exported.parent.mkdir()
    assert trimtab("snapshot", "export", "--lake", lake, "--out", exported).endswith(
        "3 boxes and 9 balls of attic\n"
    )
    told = trimtab("plan", "balls", "--lake", lake, "--set", "balls.epsilon=0.2", "--out", plan)
    assert told.startswith("Plan by trim: balanced\n")
    assert trimtab("plan", "show", plan) == told
    assert trimtab("plan", "diff", plan, plan) == "the plans do the same\n"
    trimtab("apply", plan, "--cluster", f"boxes:{boxes}", "--dry-run")
    assert json.loads(boxes.read_text())["balls"] == CLUSTER["balls"]
    assert trimtab("apply", plan, "--cluster", f"boxes:{boxes}", "--yes") == "finished: 3 balls moved\n"
    now = json.loads(boxes.read_text())
    assert sorted(ball["box"] for ball in now["balls"].values()) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert now["claims"] == []
    (listed,) = json.loads(trimtab("execution", "list", "--json"))
    assert (listed["balancer"], listed["status"]) == ("balls", "finished")
    trimtab("collect", "--cluster", f"boxes:{boxes}", "--lake", lake, "--ticks", 6, "--interval", 1)
    trimtab("pipeline", "run", "--lake", lake)
    measured = trimtab("measure", "--lake", lake)
    assert measured.startswith("execution 1 on attic (finished): 3 balls moved\n")
    assert measured.endswith("Balanced: every goal holds, by measurement.\n")
    assert trimtab("execution", "show").startswith("execution 1 on attic (cluster id attic): finished\n")
    assert trimtab("replay", "balls", "--snapshots", exported.parent) == "one.json 3\n"


def test_layers_hold_with_a_new_balancer(source: Path) -> None:
    """The import contracts hold for the new balancer as for the others, without a line added."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

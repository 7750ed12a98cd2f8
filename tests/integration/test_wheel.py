"""The wheel, built and installed where there is nothing but Python and the packages that it asks for."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simulate.instances import lognormal_skew, skewed_bundles
from support.wheels import FOLDERS, build_wheels, install
from trimtab.extras import EXTRAS
from trimtab.files.bundles.snapshot import write_bundles_snapshot
from trimtab.files.replicas.snapshot import write_snapshot

ROOT = Path(__file__).parents[2]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A program of the fresh environment, run in an empty folder that holds two snapshots.

    pip installs the wheel without any index, so it refuses if the base dependencies are not all there. The
    planners' code is not compiled: that takes a minute and has nothing to do with what is installed.
    """
    folder = tmp_path_factory.mktemp("wheel")
    home = folder / "home"
    home.mkdir()
    wheels = folder / "wheels"
    build_wheels(wheels, *FOLDERS)
    python = install(folder / "fresh", wheels, "trimtab")
    write_snapshot(lognormal_skew(brokers=6, replicas=120, seed=3), home / "replicas.json")
    write_bundles_snapshot(skewed_bundles(3, 24, 1, views=1), home / "bundles.json")
    own = {"HOME": str(home), "NUMBA_DISABLE_JIT": "1", "PATH": f"{python.parent}{os.pathsep}{os.defpath}"}

    def started(*words: str) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [python.parent / words[0], *words[1:]]
        return subprocess.run(
            command, cwd=home, env=own, capture_output=True, text=True, timeout=120, check=False
        )

    return started


def _refused(run: Run, *words: str) -> str:
    done = run("trimtab", *words)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("trimtab: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_optional_packages_are_really_missing(run: Run) -> None:
    """The test would prove nothing if the environment used the packages of the test runner."""
    ask = f"from importlib.util import find_spec; print([n for n in {sorted(EXTRAS)} if find_spec(n)])"
    assert run("python", "-c", ask).stdout == "[]\n"
    assert str(ROOT) not in run("python", "-c", "import trimtab; print(trimtab.__file__)").stdout


def test_everything_that_is_no_python_is_packed_too(run: Run) -> None:
    """Lock lists, and the marker file of typed packages."""
    where = "import trimtab; from pathlib import Path; print(Path(trimtab.__file__).parent)"
    installed = Path(run("python", "-c", where).stdout.strip())
    source = ROOT / "src" / "trimtab"
    kinds = ("*.txt", "*.java", "*.pyi", "py.typed")
    wanted = {path.relative_to(source) for kind in kinds for path in source.rglob(kind)}
    assert len(wanted) > 3
    assert wanted == {path.relative_to(installed) for kind in kinds for path in installed.rglob(kind)}


def test_files_for_source_checkouts_are_not_packaged(run: Run) -> None:
    """The wheel has no demo, simulator or kill test; `trimtab demo` and `trimtab simulate` report that."""
    where = "import trimtab; from pathlib import Path; print(*Path(trimtab.__file__).parent.rglob('*.py'))"
    packed = run("python", "-c", where).stdout.split()
    assert len(packed) > 100
    assert not [path for path in packed if "demos" in path or "kill_test" in path or "/simulate" in path]
    for words in (["demo"], ["simulate"], ["pipeline", "accuracy", "."]):
        assert "needs a source checkout" in _refused(run, *words)


def test_the_command_is_there(run: Run) -> None:
    """The installation provides `trimtab`, which prints its version and commands."""
    assert run("trimtab", "--version").stdout == "trimtab 0.1.0\n"
    assert "Execute a plan in batches" in run("trimtab", "--help").stdout


@pytest.mark.parametrize("level", ["replicas", "bundles"])
def test_a_plan_is_made_printed_and_applied(run: Run, level: str) -> None:
    """From a snapshot file to a plan file, which `apply` checks before it would connect."""
    plan = f"{level}-plan.json"
    made = run(
        "trimtab",
        "plan",
        level,
        "--snapshot",
        f"{level}.json",
        "--out",
        plan,
        "--set",
        f"{level}.epsilon=0.4",
    )
    assert made.returncode == 0, made.stderr
    assert "cost: " in made.stdout
    assert run("trimtab", "plan", "show", plan).returncode == 0
    if level == "replicas":
        said = _refused(run, "apply", plan, "--dry-run", "--cluster", "kafka://127.0.0.1:1")
        assert "127.0.0.1:1" in said
        assert "pip install" not in said
    else:
        said = _refused(run, "apply", plan, "--dry-run", "--cluster", "pulsar+http://127.0.0.1:1")
        assert "(extra pulsar), which is not installed: uv pip install " in said
        assert re.search(r" 'httpx[^']+' 'pulsar-client[^']+'\n$", said)


REPLAY = ["replay", "bundles", "--reports", str(ROOT / "docs" / "examples" / "pulsar-skew.jsonl.gz")]


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["status", "--cluster", "pulsar+http://127.0.0.1:1"], "pulsar"),
        (["collect", "--cluster", "pulsar+http://127.0.0.1:1", "--ticks", "1"], "pulsar"),
        ([*REPLAY, "--spark", "--out", "decisions"], "spark"),
        ([*REPLAY, "--mode", "simulated", "--chart", "chart.svg"], "plot"),
        (["sandbox", "kafka", "up"], "spark"),
    ],
    ids=["status", "collect", "replay-in-spark", "chart", "sandbox"],
)
def test_a_missing_extra_is_named(run: Run, words: list[str], extra: str) -> None:
    """One sentence with what to install, instead of a traceback."""
    assert f"(extra {extra}), which is not installed: uv pip install " in _refused(run, *words)


def test_status_reads_the_lake_without_any_extra(run: Run) -> None:
    """The message about a missing lake is that of the lake, not of the installation."""
    assert "trimtab collect" in _refused(run, "status")


def test_templates_and_static_files_of_the_pages_are_installed(run: Run) -> None:
    """A wheel without them would serve nothing but errors."""
    folder = ROOT / "src" / "trimtab" / "serve" / "pages"
    expected = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    )
    ask = (
        "from pathlib import Path; import trimtab; "
        "folder = Path(trimtab.__file__).parent / 'serve' / 'pages'; "
        "print(*sorted(p.relative_to(folder).as_posix() for p in folder.rglob('*')"
        " if p.is_file() and p.suffix not in ('.py', '.pyc')))"
    )
    assert run("python", "-c", ask).stdout.split() == expected
    assert "templates/base.html" in expected

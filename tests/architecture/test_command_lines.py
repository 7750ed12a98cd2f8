"""Every command line that a page shows can be typed as it stands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from trimtab.cli.app import _root

ROOT = Path(__file__).parents[2]
PLACES = ("docs", "examples", "experiments")
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(one for room in PLACES for one in (ROOT / room).rglob("*.md"))]
    if path.relative_to(ROOT).as_posix() != "docs/reference/commands.md"  # made from the code
)
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}|\t)[^\n]*\n)+", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
SCRIPT = re.compile(
    r"^\s*(?:\$ )?\S*python3? ((?:examples|experiments|benchmarks|scripts)/[\w/.-]+)(.*)$", re.MULTILINE
)
PARSERS = {"scripts/simulate": "tests/simulate/**/*.py", "scripts/kill-test": "tests/kill_tests/*.py"}
"""Scripts that hand their options on, and where the parsers of these are."""
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ +)*(?:\S*/)?trimtab(?= |$)(.*)$")


def _blocks(text: str) -> list[str]:
    return [*FENCE.findall(text), *INDENTED.findall(FENCE.sub("", text))]


def _typed(text: str) -> list[str]:
    """Arguments of every `trimtab` that a page's code blocks tell to type.

    Where a block marks what is typed with a dollar sign, the rest of it is output.
    """
    found = []
    for block in _blocks(text):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        marked = [line[2:] for line in lines if line.startswith("$ ")]
        for line in marked or lines:
            if match := COMMAND.match(line):
                found.append(re.split(r"\s+(?:#|&|\||>|2>|;)", match[1])[0].strip())
    return found


def _complaint(arguments: str) -> str | None:
    """What the command line says to these arguments before it would begin; None if nothing."""
    command: Any = typer.main.get_command(_root)
    context = command.context_class(command, info_name="trimtab")
    rest = shlex.split(arguments)
    try:
        while hasattr(command, "resolve_command"):
            if not rest or rest[0] in ("--help", "--version"):
                return None if rest else "no command"
            name, command, rest = command.resolve_command(context, rest)
            context = command.context_class(command, info_name=name, parent=context)
        command.make_context(command.name, rest)
    except Exception as error:  # whatever the parser dislikes
        return f"{type(error).__name__}: {error}"
    return None


def _unknown(arguments: str) -> list[str]:
    """Commands and options of a mention in passing that do not exist; it may leave out what it likes."""
    words = re.sub(r"\s*\|\s*", "|", re.sub(r"[\[\]\\]", " ", arguments)).split()
    command: Any = typer.main.get_command(_root)
    context = command.context_class(command, info_name="trimtab")
    while words and hasattr(command, "resolve_command"):
        if words[0].startswith("-") or words[0] in ("...", "…"):
            break
        first, *others = words.pop(0).split("|")
        known = command.list_commands(context)
        if missing := [name for name in [first, *others] if name not in known]:
            return missing
        if others:
            return []
        _, command, _ = command.resolve_command(context, [first])
        context = command.context_class(command, info_name=first, parent=context)
    options = {name for one in command.get_params(context) for name in [*one.opts, *one.secondary_opts]}
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in options]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_code_blocks_can_be_typed(page: Path) -> None:
    """Command lines in code blocks use existing commands and options."""
    typed = _typed(page.read_text(encoding="utf-8"))
    assert not {line: said for line in typed if (said := _complaint(line))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_named_in_passing_exist(page: Path) -> None:
    """A command or option that a sentence names is one that trimtab has."""
    spans = SPAN.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    named = [match[1] for span in spans if (match := COMMAND.match(span.strip()))]
    assert not {line: missing for line in named if (missing := _unknown(line))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    """Every make target that a page names exists in the Makefile."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    told = set(re.findall(r"`make ([\w-]+)", text)) | set(re.findall(r"^(?:\$ )?make ([\w-]+)", text, re.M))
    assert told <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_in_code_blocks_take_these_options(page: Path) -> None:
    """Every script that a page names exists, and its parser has the options."""
    for block in _blocks(page.read_text(encoding="utf-8")):
        for name, rest in SCRIPT.findall(block):
            assert (ROOT / name).is_file()
            parsers = [ROOT / name, *(ROOT.glob(PARSERS[name]) if name in PARSERS else ())]
            source = "".join(parser.read_text(encoding="utf-8") for parser in parsers)
            told = re.findall(r"(--[\w-]+)", rest.split(" #")[0])
            assert not [option for option in told if f'"{option}"' not in source]


SCRIPTS = [
    path
    for path in [*sorted((ROOT / "experiments").rglob("*.py")), *sorted(ROOT.glob("examples/*/run.py"))]
    if "\ndef main(" in path.read_text("utf-8")
]
HELP = """
import runpy, sys
for script in sys.argv[1:]:
    sys.argv = [script, "--help"]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
"""


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({path.parent for path in SCRIPTS}), ids=lambda path: path.name)
def test_an_experiment_still_fits_the_package(folder: Path) -> None:
    """Its imports, and the settings that it makes while it is imported; one process for a folder."""
    scripts = [str(path) for path in SCRIPTS if path.parent == folder]
    command = [sys.executable, "-c", HELP, *scripts]
    environment = os.environ | {"PYTHONPATH": str(folder)}  # as when a script is run from its folder
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_search_finds_slips() -> None:
    """The patterns themselves are sound: they would catch what they are there for."""
    text = "```\n$ trimtab status --watc   # now\ntrimtab: not typed\n$ X=1 trimtab plan make &\n```\n"
    assert _typed(text) == ["status --watc", "plan make"]
    assert all(_complaint(line) for line in _typed(text))
    assert _complaint("plan replicas --snapshot s.json --set replicas.epsilon=0.05") is None
    assert _unknown("pipeline run [--since --untill]") == ["--untill"]
    assert _unknown("execution list | shw") == ["shw"]

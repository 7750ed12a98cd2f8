"""Options that are valid for every command, and exit codes."""

import json
import re
from pathlib import Path

import pytest

from trimtab.cli.app import COMMANDS, main
from trimtab.model import errors as control_errors
from trimtab_common import errors as common_errors
from trimtab_common.errors import TrimtabError

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def documented() -> set[int]:
    """The codes of the page."""
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    return {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}


def test_every_error_ends_with_a_documented_code() -> None:
    """Each class of errors has a code of the table."""
    classes = [*vars(control_errors).values(), *vars(common_errors).values()]
    codes = {one.exit_code for one in classes if isinstance(one, type) and issubclass(one, TrimtabError)}
    assert {1, 2} <= codes <= documented()


def test_every_code_in_the_sources_and_the_help_is_documented() -> None:
    """Codes that commands raise, and those that their help names."""
    found = set()
    for folder in ("src/trimtab/cli", "src/trimtab/lab", "src/trimtab/balancers", "examples/demos"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for expression in re.findall(r"(?:Exit|sys\.exit|_fail)\((.*)\)", text):
                found |= {int(code) for code in re.findall(r"\b(\d+)\b", expression)}
    help_text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for sentence in re.findall(r"Exit code[^.`]*(?:`[^`]*`[^.`]*)*", help_text):
        found |= {int(code) for code in re.findall(r"(?:code |; |, )(\d)\b", sentence)}
    assert {0, 1, 2, 3, 4, 130} - {0} <= found | {0} <= documented()


def _options() -> dict[str, set[str]]:
    """The options of each command, by the page of commands."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    sections = re.split(r"^#+ `trimtab ([a-z -]+)`$", page, flags=re.MULTILINE)[1:]
    found = zip(sections[::2], sections[1::2], strict=True)
    return {name: set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)) for name, text in found}


def test_commands_answer_in_json_and_take_settings() -> None:
    """Commands that print an answer have --json; those with a settings file have --set."""
    options = {name: found for name, found in _options().items() if found != {"--help"}}
    groups = ("demo", "simulate")  # of a source checkout only
    without_json = {
        name for name, found in options.items() if not found & {"--json"} and not name.startswith(groups)
    }
    assert without_json == {
        "masters node",
        "masters publish",
        "queues requeue",
        "queues show",
        "serve",
        *(f"sandbox {system} load" for system in ("kafka", "pulsar", "queues", "masters")),
        *(f"sandbox {system} skew" for system in ("kafka", "pulsar")),
        *(f"sandbox {system} {verb}" for system in ("queues", "masters") for verb in ("kill", "restart")),
        "sandbox masters move",
    }
    assert not [name for name, found in options.items() if "--settings" in found and "--set" not in found]


def test_the_status_of_a_missing_sandbox_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document says that it does not run, and the exit code is 1."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path))
    assert run("sandbox", "queues", "status", "--json") == 1
    assert json.loads(capsys.readouterr().out) == {"system": "queues", "name": "queues", "running": False}
    assert run("sandbox", "queues", "down", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"system": "queues", "name": "queues", "stopped": False}


@pytest.mark.parametrize("command", ["plna", "colect", "aply"])
def test_an_unknown_command_gets_a_suggestion(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command gets a suggestion."""
    assert run(command) == 2
    error = capsys.readouterr().err
    assert "Did you mean" in error
    assert any(name in error for name in COMMANDS)


def test_messages_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One object a line, with the error of the command as the last."""
    assert run("--log", "json", "plan", "show", str(tmp_path / "none.json")) == 2
    entry = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (entry["level"], entry["logger"]) == ("error", "trimtab")
    assert "none.json" in entry["message"]
    assert run("plan", "show", "--log=json", str(tmp_path / "none.json")) == 2
    assert json.loads(capsys.readouterr().err)["level"] == "error"


def test_quiet_shows_errors_and_no_progress(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """After the command's name as well as before it."""
    where = ["collect", "--cluster", "kafka://127.0.0.1:1", "--lake", str(tmp_path), "--ticks", "1"]
    assert run(*where, "-q") == 1
    error = capsys.readouterr().err
    assert error.startswith("trimtab: no Kafka broker can be reached")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--log", "xml"], "--log is 'xml': write text or json"),
        (["-v", "-q"], "-v and -q exclude each other"),
    ],
)
def test_wrong_common_options(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit code 2."""
    assert run("plan", *words) == 2
    assert message in capsys.readouterr().err


def test_arguments_after_two_dashes_belong_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is before `--` is read as an option."""
    assert run("plan", "show", "--", "-q") == 2
    assert "-q" in capsys.readouterr().err

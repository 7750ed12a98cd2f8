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

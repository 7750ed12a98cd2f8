"""Completion of commands by shells, and the short way to help."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHELLS = {
    "bash": ({"COMP_WORDS": "{line}", "COMP_CWORD": "{place}"}, "{text}"),
    "zsh": ({"_TYPER_COMPLETE_ARGS": "{line}"}, '"{text}"'),
    "fish": ({"_TYPER_COMPLETE_ARGS": "{line}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "{text}"),
}
"""How each shell asks, and the form in which it is told a word."""


def trimtab(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The answer of a process of its own, as shells ask one."""
    return subprocess.run(
        [sys.executable, "-m", "trimtab", *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_bash_completes_a_command(tmp_path: Path) -> None:
    """The printed script is sourced, and `trimtab pl` followed by the tabulator is completed."""
    command = tmp_path / "trimtab"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m trimtab "$@"\n')
    command.chmod(0o755)
    typed = """
        source <(trimtab --show-completion bash) || exit
        [[ $(complete -p trimtab) =~ -F\\ ([^ ]+) ]] || exit
        COMP_WORDS=(trimtab pl) COMP_CWORD=1
        ${BASH_REMATCH[1]} trimtab && printf '%s\\n' "${COMPREPLY[@]}"
    """
    answer = subprocess.run(
        ["bash", "--norc", "-c", typed],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (answer.stdout.split(), answer.returncode) == (["plan"], 0), answer.stderr


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "expected"),
    [("trimtab pl", "plan"), ("trimtab plan rep", "replicas"), ("trimtab apply --dr", "--dry-run")],
)
def test_completion_offers_commands_and_options_in_every_shell(shell: str, line: str, expected: str) -> None:
    """Below the first command too, which is imported only on request."""
    variables, form = SHELLS[shell]
    place = str(line.count(" "))
    asked = {name: text.format(line=line, place=place) for name, text in variables.items()}
    answer = trimtab(_TRIMTAB_COMPLETE=f"complete_{shell}", **asked)
    assert answer.returncode == 0, answer.stderr
    assert form.format(text=expected) in answer.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_script_names_its_variable(shell: str) -> None:
    """The text is for that shell, and written to standard output alone."""
    answer = trimtab("--show-completion", shell)
    assert f"_TRIMTAB_COMPLETE=complete_{shell}" in answer.stdout
    assert (answer.stderr, answer.returncode) == ("", 0)


def test_an_unknown_shell_is_rejected() -> None:
    """With those that are known."""
    answer = trimtab("--show-completion", "tcsh")
    assert answer.returncode == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in answer.stderr


@pytest.mark.parametrize(
    "words", [(), ("plan",), ("plan", "replicas"), ("sandbox", "kafka", "up"), ("apply",)]
)
def test_the_short_help_option_equals_the_long_one(words: tuple[str, ...]) -> None:
    """`-h` as well as `--help`, for the root, groups and commands."""
    short, long = trimtab(*words, "-h"), trimtab(*words, "--help")
    assert short.returncode == 0, short.stderr
    assert short.stdout == long.stdout
    assert short.stdout.startswith("Usage: trimtab")

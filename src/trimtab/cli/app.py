"""The root command: groups are registered by name and imported only when one is called.

`COMMANDS` gives the line of help of each command, and a function that imports its `typer.Typer`. With one
command it becomes `trimtab NAME`, with several `trimtab NAME COMMAND`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Literal, NoReturn

# Plain help: the coloured one costs as much time again as everything else.
os.environ.setdefault("TYPER_USE_RICH", "0")

import typer
from typer.core import TyperCommand, TyperGroup

from trimtab.balancers import BALANCERS
from trimtab.extras import missing_extra_named
from trimtab_common.errors import InputError, TrimtabError


def _declared(name: str) -> Callable[[], typer.Typer]:
    def load() -> typer.Typer:
        from trimtab.cli.commands import APPS

        return APPS[name]()

    return load


def _program(module: str) -> Callable[[], typer.Typer]:
    """The `app` of a module above this package, or of a balancer's own programs."""

    def load() -> typer.Typer:
        app: typer.Typer = import_module(module).app
        return app

    return load


def _example(command: str, package: str) -> Callable[[], typer.Typer]:
    """The `app` of a package in `examples`, which only a source checkout has."""

    def load() -> typer.Typer:
        from trimtab.cli.commands import import_example

        app: typer.Typer = import_example(command, f"{package}.command").app
        return app

    return load


COMMANDS: dict[str, tuple[Callable[[], typer.Typer], str]] = {
    "check": (_declared("check"), "Check settings, folders, rights and exporters."),
    "import-capacity": (
        _declared("import-capacity"),
        "Convert a capacity file of Cruise Control to the table [capacity].",
    ),
    "collect": (_declared("collect"), "Sample a cluster into the lake at regular intervals."),
    "pipeline": (
        _declared("pipeline"),
        "Compute tables and snapshots from raw samples.",
    ),
    "status": (_declared("status"), "Show the load, from the lake or directly from the cluster."),
    "top": (_declared("top"), "List the largest partitions and topics, and the busiest brokers."),
    "snapshot": (_declared("snapshot"), "Write the newest snapshot to a file."),
    "plan": (_declared("plan"), "Find the smallest set of moves that balances a cluster."),
    "apply": (_declared("apply"), "Execute a plan in batches; it can be resumed."),
    "execution": (_declared("execution"), "List, show, resume, stop and cancel executions."),
    "measure": (_declared("measure"), "Compare the load before an execution, as predicted, and after it."),
    "serve": (_declared("serve"), "Balance clusters without a person: observe, decide, act."),
    "replay": (_declared("replay"), "Replay recorded load with strategies and compare them."),
    **{
        one.name: (_program(f"trimtab.cli.{one.name}"), one.programs)
        for one in BALANCERS.values()
        if one.programs
    },
    "simulate": (
        _example("simulate", "simulated_clusters"),
        "Simulate clusters: scenarios in virtual time, recordings.",
    ),
    "sandbox": (
        _program("trimtab.lab.sandbox.commands"),
        "Start a real cluster on this machine, and load it.",
    ),
    "demo": (
        _example("demo", "demos"),
        "Balance a real cluster on this machine, and measure the result.",
    ),
}

VERBOSE: Final = ("-v", "--verbose")
QUIET: Final = ("-q", "--quiet")
COMPLETING = "_TRIMTAB_COMPLETE"
"""The variable by which a shell asks for completions instead of running a command."""


class _LazyGroup(TyperGroup):
    """A group that lists its commands from `COMMANDS` and imports only the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # A name with its line of help is enough for the list of commands and for suggestions.
        self.commands = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called, now imported."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = typer.main.get_command(COMMANDS[name][0]())
            command.name = name
        return name, command, rest


def _version(desired: bool) -> None:
    if desired:
        from importlib.metadata import version

        typer.echo(f"trimtab {version('trimtab')}")
        raise typer.Exit


def _show_completion(shell: str | None) -> None:
    if shell:
        from typer.completion import get_completion_script  # type: ignore[attr-defined]

        typer.echo(get_completion_script(prog_name="trimtab", complete_var=COMPLETING, shell=shell))
        raise typer.Exit


_root = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=False,  # it cannot be told the shell, and would write to the user's own files
    context_settings={"help_option_names": ["-h", "--help"]},
)


@_root.callback()
def _trimtab(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
    shell: Literal["bash", "zsh", "fish"] | None = typer.Option(
        None,
        "--show-completion",
        callback=_show_completion,
        is_eager=True,
        help="Print the completion script of a shell: source <(trimtab --show-completion bash).",
    ),
    # main() reads these three, so that they may stand anywhere on the command line.
    verbose: bool = typer.Option(False, *VERBOSE, help="Log messages of libraries too. For every command."),
    quiet: bool = typer.Option(False, *QUIET, help="Log warnings and errors only. For every command."),
    log: Literal["text", "json"] = typer.Option(
        "text", "--log", help="Form of log messages on standard error. For every command."
    ),
) -> None:
    """Small moves that keep message clusters level."""


def main(arguments: list[str] | None = None) -> None:
    """Run the trimtab command line.

    Errors that a user can mend are one line on standard error and the exit code of their class, also files
    that may not be read or written; nothing else is caught here, so a traceback means a fault of trimtab.
    """
    command: Any = typer.main.get_command(_root)
    if COMPLETING in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        rest = _configure_logging(sys.argv[1:] if arguments is None else arguments)
        with missing_extra_named():
            command.main(args=rest, prog_name="trimtab")
    except TrimtabError as error:
        _fail(str(error), error.exit_code)
    except (PermissionError, NotADirectoryError) as error:
        where = f"{error.filename or ''}: {error.strerror or error}"
        _fail(f"{where}: let this user read and write there, or name another place", 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(message: str, code: int) -> NoReturn:
    from trimtab.report.formats import LOGGER

    LOGGER.error("%s", message)
    sys.exit(code)


def _configure_logging(arguments: list[str]) -> list[str]:
    """Apply `-v`, `-q` and `--log`, which may stand anywhere before `--`; return the other arguments.

    Raises
    ------
    InputError
        If `--log` has no form, or one that there is not, or both `-v` and `-q` are given.
    """
    from trimtab.report.formats import LOG_FORMS, configure_logging

    configure_logging()  # for the errors of this function
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, rest, form = iter(arguments[:end]), [], "text"
    chosen: set[str] = set()
    for word in words:
        name, equals, value = word.partition("=")
        if word in VERBOSE + QUIET:
            chosen.add("-v" if word in VERBOSE else "-q")
        elif name == "--log":
            form = value if equals else next(words, "")
            if form not in LOG_FORMS:
                raise InputError(f"--log is {form!r}: write {' or '.join(LOG_FORMS)}")
        else:
            rest.append(word)
    if len(chosen) > 1:
        raise InputError("-v and -q exclude each other: give one of them")
    level = logging.DEBUG if "-v" in chosen else logging.WARNING if "-q" in chosen else logging.INFO
    configure_logging(level, form)
    return [*rest, *arguments[end:]]

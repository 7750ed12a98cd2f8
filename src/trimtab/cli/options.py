"""Options that several commands share, and options that a balancer or a system adds to a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.balancers import BALANCERS, Option
from trimtab.balancers.clusters import ENVIRONMENT_VARIABLE, examples
from trimtab.files.store import Location
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from trimtab.cli.bodies.context import CommandContext
    from trimtab_common.settings import Overrides

LAKE = typer.Option(
    None,
    "--lake",
    help="Folder or address of the lake; default: $TRIMTAB_LAKE, else ~/.local/share/trimtab/lake.",
)
SETTINGS = typer.Option(
    None, "--settings", help="Settings file; default: $TRIMTAB_SETTINGS, else ./trimtab.toml if it exists."
)
SET = typer.Option([], "--set", help="Setting, like section.key=value; repeatable.")
CLUSTER = typer.Option(
    None,
    "--cluster",
    help=f"Cluster: a name of [clusters.NAME] in the settings, or an address ({examples()}); default: "
    f"${ENVIRONMENT_VARIABLE}, else the only one of the settings.",
)
LAKE_CLUSTER = typer.Option(
    None,
    "--cluster",
    help="Cluster, if the lake holds several: its id, or a name of [clusters.NAME] in the settings.",
)
SNAPSHOT = typer.Option(
    None, "--snapshot", help="Snapshot file (.json, .json.gz) or folder; default: the newest of the lake."
)
BALANCER = typer.Option(None, "--balancer", help=f"Balancer, if it is ambiguous: {' or '.join(BALANCERS)}.")
FORMS = ("text", "json", *dict.fromkeys(form for level in BALANCERS.values() for form in level.formats))
"""Forms that a plan is shown in: for people, as it is, and as tools of the systems take it."""

JSON = typer.Option(False, "--json", help="Print one JSON document instead of text.")


def reading_options() -> list[Option]:
    """The options by which balancers name what Spark reads out of a system itself."""
    return [
        level.direct_source_option for level in BALANCERS.values() if level.direct_source_option is not None
    ]


def with_options(command: Callable[..., None], options: Iterable[Option]) -> Callable[..., None]:
    """A command with further options, whose values it is handed together as `values`, by name.

    Parameters
    ----------
    command
        With a last parameter `values`, which is not an option itself.
    options
        The options to add, after the command's own.
    """
    further = list(options)
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [one for one in own if one.name != "values"]
    parameters += [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=_declared(one), annotation=one.kind
        )
        for one in further
    ]

    def called(**arguments: Any) -> None:
        values = {one.name: arguments.pop(one.name) for one in further}
        command(**arguments, values=values)

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _declared(option: Option) -> Any:
    return typer.Option(option.default, option.flag, help=option.help, min=option.minimum)


def form_of(form: str, as_json: bool) -> str:
    """The form that is asked for, by `--format` or `--json`.

    Raises
    ------
    InputError
        If there is no such form.
    """
    if form not in FORMS:
        raise InputError(f"--format is {form!r}: write {' or '.join(FORMS)}")
    return "json" if as_json else form


def lake_path(values: Path | None) -> Location:
    """The lake's folder or address, given or by default."""
    from trimtab.files.locations import lake_place

    return lake_place(values)


def command_context(
    lake: Path | None,
    settings: Path | None,
    overrides: Overrides,
    cluster: str | None = None,
    values: dict[str, Any] | None = None,
) -> CommandContext:
    """The cluster, the lake and the settings of a command, as it was given them."""
    from trimtab.cli.bodies.context import CommandContext

    return CommandContext(lake_path(lake), settings, overrides, cluster, values or {})

"""A messaging system as a value: how a command line names a cluster of it, and how it is reached and sampled.

Levels stand on systems, several on one where it comes to that: collectors, connections and sandboxes belong
to the system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.levels.part import Part

if TYPE_CHECKING:
    from trimtab.observe.collect.collecting import Collecting


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command.

    Attributes
    ----------
    name
        Under which its value is handed on: a valid name of Python.
    flag
        As it is written, `--reports`.
    help
        One sentence for `--help`.
    kind
        Type of a value; `list[str]` for an option that may be given again, `bool` for a switch.
    default
        The value where it is not given.
    least
        Smallest value of a number; None for any.
    setting
        The setting, `section.key`, that the option is a short way to write; None where it is not one.
    """

    name: str
    flag: str
    help: str
    kind: Any = str | None
    default: Any = None
    least: float | None = None
    setting: str | None = None


@dataclass(frozen=True, slots=True)
class System:
    """One messaging system.

    Attributes
    ----------
    name
        Also the section of `trimtab.toml` that says how to reach a cluster.
    title
        For people.
    address
        The option that names a cluster; its name is a key of the section.
    options
        Further options that go before keys of the section of the same name.
    connection
        Settings, and the values of the address and of each option, to a connection.
    collecting
        How its clusters are sampled.
    """

    name: str
    title: str
    address: Option
    options: tuple[Option, ...]
    connection: Part[Callable[..., Any]]
    collecting: Part[Collecting]

    @property
    def all_options(self) -> tuple[Option, ...]:
        """The address and what else can be said of a connection."""
        return (self.address, *self.options)

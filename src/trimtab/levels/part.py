"""A part of a level or a system, by the name of the place where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar

PartT = TypeVar("PartT")


@dataclass(frozen=True, slots=True)
class Part(Generic[PartT]):
    """A part of a level in some room, by name.

    Attributes
    ----------
    place
        `module:name`.
    """

    place: str

    def __call__(self) -> PartT:
        """The part itself, imported."""
        module, _, name = self.place.partition(":")
        found: PartT = getattr(import_module(module), name)
        return found

"""Values of the sandbox as JSON documents, written and read by their own fields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from trimtab.model.errors import SandboxError

T = TypeVar("T")


def encode(value: object) -> dict[str, Any]:
    """A dataclass as a JSON object; paths become text."""
    document: dict[str, Any] = msgspec.to_builtins(value, enc_hook=str, str_keys=True)
    return document


def decode(document: object, kind: type[T]) -> T:
    """The dataclass that `encode` wrote; keys that it does not have are passed over.

    Raises
    ------
    ValueError
        If the document does not have its form.
    """
    return msgspec.convert(document, kind, dec_hook=lambda hint, text: hint(text), str_keys=True)


@dataclass(frozen=True)
class SandboxJsonFormat(Generic[T]):
    """A file that users keep, apart from any sandbox.

    Parameters
    ----------
    kind
        The dataclass in it.
    name
        Stands in the file as its `format`.
    noun, remedy
        A file of another kind is refused by: this is not NOUN; REMEDY.
    """

    kind: type[T]
    name: str
    noun: str
    remedy: str

    def text(self, value: T) -> str:
        """The value as a document."""
        return json.dumps({"format": self.name} | encode(value), indent=1)

    def parse(self, text: str) -> T:
        """The value of a document.

        Raises
        ------
        SandboxError
            If it is not one.
        """
        try:
            document = json.loads(text)
            if document.pop("format") != self.name:
                raise ValueError(f"its format is not {self.name}")
            value = decode(document, self.kind)
            if unknown := document.keys() - encode(value).keys():
                raise ValueError(f"it has an unknown key {min(unknown)!r}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SandboxError(f"this is not {self.noun} ({error}): {self.remedy}") from error
        return value

    def read(self, path: Path) -> T:
        """The value of a file; errors as in `parse` with the file's name, and one if it cannot be read."""
        try:
            return self.parse(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SandboxError(
                f"{path} cannot be read: {error.strerror}; it is not {self.noun}: {self.remedy}"
            ) from error
        except SandboxError as error:
            raise SandboxError(f"{path}: {error}") from error

"""Strict JSON documents: no repeated keys, no unknown fields but `x_...`, errors that name place and value.

Typed decoding is done by msgspec at full speed. Only when it fails is the document read a second time,
slowly, to strip `x_` fields, or to tell the user the JSON path, the value there and what was expected.
"""

import json
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trimtab_common.documents import NotFinite, format_error, unknown_field, value_error
from trimtab_common.errors import InputError

T = TypeVar("T")


class _DuplicateKeys:
    """Stands in a tree for an object that holds one key twice."""

    def __init__(self, key: str) -> None:
        self.key = key


class JsonDocument:
    """One JSON object from a file, decoded part by part.

    Parameters
    ----------
    path
        Where it came from, for messages.
    data
        The JSON text, UTF-8.
    names
        Every field name of the format, for "did you mean".

    Raises
    ------
    InputError
        If `data` is not one JSON object.
    """

    def __init__(self, path: Path, data: bytes, names: tuple[str, ...]) -> None:
        self.path = path
        self.data = data
        self.names = names
        try:
            self.parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if not isinstance(self.tree, dict):
                raise self.error("$", self.tree, "an object") from None
            raise self.error("$", None, "sound JSON") from None  # msgspec and json disagree on what JSON is

    @property
    def extra(self) -> tuple[tuple[str, object], ...]:
        """Top-level fields of the user's own (`x_...`), by name."""
        own = sorted(name for name in self.parts if name.startswith("x_"))
        return tuple((name, msgspec.json.decode(self.parts[name])) for name in own)

    def require(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        """Refuse the document unless its top level has these fields and no others but `x_...`."""
        for name in self.parts:
            if name not in required and name not in optional and not name.startswith("x_"):
                raise unknown_field(str(self.path), "$", name, self.names)
        for name in required:
            if name not in self.parts:
                raise InputError(f'{self.path}: $ has no field "{name}"; add it')

    def part(self, name: str, kind: type[T]) -> T:
        """Decode one top-level field.

        Parameters
        ----------
        name
            A field that `require` has seen.
        kind
            The type that it must have: a msgspec struct, or a list of them, that forbids unknown fields.
        """
        try:
            return msgspec.json.decode(self.parts[name], type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        try:
            loose = msgspec.json.decode(self.parts[name])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            loose = typing.cast("dict[str, object]", self.tree)[name]  # mostly raises, with the place
        try:
            return msgspec.convert(_without_own_fields(loose, self.names), type=kind)
        except msgspec.ValidationError as fault:
            tree = typing.cast("dict[str, object]", self.tree)[name]
            raise format_error(str(self.path), f"$.{name}", fault, tree, kind, self.names) from None

    def parts_as(self, kind: type[T]) -> T:
        """Decode the top-level fields that a struct has, one by one; `require` has seen them.

        Those that are left out have their default.
        """
        fields = msgspec.structs.fields(typing.cast("Any", kind))
        there = [one for one in fields if one.encode_name in self.parts]
        return kind(**{field.name: self.part(field.encode_name, field.type) for field in there})

    def reject_duplicate_keys(self, records: Mapping[str, Sequence[Any]]) -> None:
        """Refuse a text in which an object holds one key twice: msgspec silently keeps the last.

        Reading the whole text strictly is slow. A JSON text without backslashes holds one colon for each key,
        and those within strings; so do its records once written again, with each key once. Only where the
        numbers differ is it read.

        Parameters
        ----------
        records
            The top-level lists that were decoded already, by name; other fields are small.
        """
        encoder = msgspec.json.Encoder()
        again = sum(encoder.encode_lines(part).count(b":") for part in records.values())
        small = {name: bytes(raw) for name, raw in self.parts.items() if name not in records}
        colons = again + len(self.parts) + sum(name.count(":") for name in self.parts)
        colons += sum(raw.count(b":") for raw in small.values())
        if (
            b"\\" in self.data
            or self.data.count(b":") != colons
            or any(_has_repeated_key(raw) for raw in small.values())
        ):
            _ = self.tree

    @cached_property
    def tree(self) -> object:
        """The document as plain Python values, read slowly; refused if malformed or if a key is repeated."""
        try:
            text = self.data.decode("utf-8")
        except UnicodeDecodeError as fault:
            raise InputError(
                f"{self.path}: byte {fault.start} is not UTF-8; save the file as UTF-8"
            ) from None
        if text.startswith("\ufeff"):
            raise InputError(f"{self.path}: begins with a byte order mark; save it as UTF-8 without one")
        if not text.strip():
            raise InputError(f"{self.path}: is empty; write or export it again")
        try:
            tree: object = json.loads(
                text, object_pairs_hook=_unrepeated, parse_constant=NotFinite, parse_float=_finite
            )
            odd = next(_walk(tree, "$"), None)
        except json.JSONDecodeError as fault:
            place = f"line {fault.lineno}, column {fault.colno}"
            if fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated string"):
                raise InputError(f"{self.path}: is cut off at {place}; copy or export it again") from None
            raise InputError(f"{self.path}: is not JSON at {place}: {fault.msg}; correct it there") from None
        except RecursionError:
            raise InputError(f"{self.path}: is nested too deeply to be read; no trimtab format is") from None
        except ValueError as fault:  # an integer of thousands of digits
            raise InputError(
                f"{self.path}: holds a number that cannot be read ({fault}); correct it"
            ) from None
        if odd is not None and isinstance(odd[1], _DuplicateKeys):
            raise InputError(f'{self.path}: {odd[0]} holds the key "{odd[1].key}" twice; keep one of them')
        if odd is not None:
            raise self.error(odd[0], odd[1], "a finite number")
        return tree

    def error(self, at: str, found: object, expected: str, remedy: str = "correct it there") -> InputError:
        """The error for one value that is not what it must be."""
        return value_error(str(self.path), at, found, expected, remedy)


def one_of(document: JsonDocument, at: str, found: str, allowed: tuple[str, ...]) -> None:
    """Refuse a text that is none of those allowed."""
    if found not in allowed:
        raise document.error(at, found, f"one of {', '.join(allowed)}")


def _has_repeated_key(data: bytes) -> bool:
    """True if an object in this sound JSON text holds one key twice; slow."""
    return any(
        isinstance(value, _DuplicateKeys)
        for _, value in _walk(json.loads(data, object_pairs_hook=_unrepeated), "$")
    )


def _without_own_fields(value: object, keep: tuple[str, ...]) -> object:
    if isinstance(value, dict):
        return {
            name: _without_own_fields(inner, keep)
            for name, inner in value.items()
            if name in keep or not name.startswith("x_")
        }
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return [_without_own_fields(inner, keep) for inner in value]
    return value


def _unrepeated(pairs: list[tuple[str, Any]]) -> object:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return _DuplicateKeys(name)
        seen.add(name)
    raise AssertionError("a dict shorter than its pairs has a repeated key")


def _finite(text: str) -> object:
    number = float(text)
    return number if math.isfinite(number) else NotFinite(text)


def _walk(value: object, at: str) -> Iterator[tuple[str, object]]:
    """Every stand-in for something refused, with its path; plain values are passed over."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict | list | NotFinite | _DuplicateKeys):
                yield from _walk(inner, f"{at}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, dict | list | NotFinite | _DuplicateKeys):
                yield from _walk(inner, f"{at}[{index}]")
    elif isinstance(value, NotFinite | _DuplicateKeys):
        yield at, value

"""Strict JSON documents: no repeated keys, no unknown fields but `x_...`, errors that say where and what.

Typed decoding is done by msgspec at full speed. Only when it fails is the document read a second time,
slowly, to strip `x_` fields, or to tell the user the JSON path, the value there and what was expected.
"""

import difflib
import json
import math
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trimtab.model.errors import InputError

T = TypeVar("T")

_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_FAULT = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>\$[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]")


class _NotFinite:
    """Stands in a tree for NaN, Infinity, or a number beyond the range of doubles."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Repeated:
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
                raise self.refusal("$", self.tree, "an object") from None
            raise self.refusal("$", None, "sound JSON") from None  # msgspec and json disagree on what JSON is

    @property
    def extra(self) -> tuple[tuple[str, object], ...]:
        """Top-level fields of the user's own (`x_...`), by name."""
        own = sorted(name for name in self.parts if name.startswith("x_"))
        return tuple((name, msgspec.json.decode(self.parts[name])) for name in own)

    def require(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        """Refuse the document unless its top level has these fields and no others but `x_...`."""
        for name in self.parts:
            if name not in required and name not in optional and not name.startswith("x_"):
                raise self._unknown("$", name)
        for name in required:
            if name not in self.parts:
                raise InputError(f'{self.path}: $ has no field "{name}"; add it')

    def part(self, name: str, kind: type[T], *, own: tuple[str, ...] = ()) -> T:
        """Decode one top-level field.

        Parameters
        ----------
        name
            A field that `require` has seen.
        kind
            What it must be: a msgspec struct, or a list of them, that forbids unknown fields.
        own
            Names beginning with `x_` that are fields of `kind`, and so must not be stripped.
        """
        try:
            return msgspec.json.decode(self.parts[name], type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        assert isinstance(self.tree, dict)
        try:
            return msgspec.convert(_without_own_fields(self.tree[name], own), type=kind)
        except msgspec.ValidationError as fault:
            raise self._translated(str(fault), f"$.{name}") from None

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
                text, object_pairs_hook=_unrepeated, parse_constant=_NotFinite, parse_float=_finite
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
        if odd is not None and isinstance(odd[1], _Repeated):
            raise InputError(f'{self.path}: {odd[0]} holds the key "{odd[1].key}" twice; keep one of them')
        if odd is not None:
            raise self.refusal(odd[0], odd[1], "a finite number")
        return tree

    def refusal(self, at: str, found: object, expected: str, remedy: str = "correct it there") -> InputError:
        """The error for one value that is not what it must be."""
        return InputError(f"{self.path}: {at} is {shown(found)}, expected {expected}; {remedy}")

    def _unknown(self, at: str, name: str) -> InputError:
        close = difflib.get_close_matches(name, self.names, n=1)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        return InputError(
            f'{self.path}: {at} has an unknown field "{name}"; {hint}fields of your own begin with x_'
        )

    def _translated(self, fault: str, prefix: str) -> InputError:
        match = _FAULT.fullmatch(fault)
        assert match is not None
        what, at = match["what"], prefix + (match["path"] or "$")[1:]
        if found := re.fullmatch(r"Object contains unknown field `(.*)`", what):
            return self._unknown(at, found[1])
        if found := re.fullmatch(r"Object missing required field `(.*)`", what):
            return InputError(f'{self.path}: {at} has no field "{found[1]}"; add it')
        return self.refusal(at, _value_at(self.tree, at), _expectation(what))


def one_of(document: JsonDocument, at: str, found: str, allowed: tuple[str, ...]) -> None:
    """Refuse a text that is none of those allowed."""
    if found not in allowed:
        raise document.refusal(at, found, f"one of {', '.join(allowed)}")


def shown(value: object) -> str:
    """A value as JSON, short enough for a one-line message."""
    if isinstance(value, _NotFinite):
        return value.text
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list) and len(value) > 12:
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def has_repeated_key(data: bytes) -> bool:
    """Whether an object in this sound JSON text holds one key twice; slow."""
    return any(
        isinstance(value, _Repeated)
        for _, value in _walk(json.loads(data, object_pairs_hook=_unrepeated), "$")
    )


def shape_of(fault: msgspec.ValidationError) -> tuple[str, str]:
    """Split msgspec's message into (what was expected, JSON path below the value that was converted)."""
    match = _FAULT.fullmatch(str(fault))
    assert match is not None
    return _expectation(match["what"]), (match["path"] or "$")[1:]


def _expectation(what: str) -> str:
    if what == "Number out of range":
        return "a finite number"
    if length := re.fullmatch(r"Expected `(array|str)` of length >= 1", what):
        return {"array": "a list that is not empty", "str": "text that is not empty"}[length[1]]
    if bounded := re.fullmatch(r"Expected `(int|float)` (>=|<=|>|<) (\S+)", what):
        number = float(bounded[3])
        return f"{_WORDS[bounded[1]]} {bounded[2]} {int(number) if number.is_integer() else number}"
    if kinds := re.match(r"Expected `([^`]*)`", what):
        return " or ".join(_WORDS.get(kind.strip(), kind.strip()) for kind in kinds[1].split("|"))
    return what


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
            return _Repeated(name)
        seen.add(name)
    raise AssertionError("a dict shorter than its pairs has a repeated key")


def _finite(text: str) -> object:
    number = float(text)
    return number if math.isfinite(number) else _NotFinite(text)


def _walk(value: object, at: str) -> Iterator[tuple[str, object]]:
    """Every stand-in for something refused, with its path; plain values are passed over."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict | list | _NotFinite | _Repeated):
                yield from _walk(inner, f"{at}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, dict | list | _NotFinite | _Repeated):
                yield from _walk(inner, f"{at}[{index}]")
    elif isinstance(value, _NotFinite | _Repeated):
        yield at, value


def _value_at(tree: object, at: str) -> object:
    value: Any = tree
    for step in _STEP.finditer(at):
        try:
            value = value[int(step["index"])] if step["index"] else value[step["name"]]
        except (KeyError, IndexError, TypeError):
            return value
    return value

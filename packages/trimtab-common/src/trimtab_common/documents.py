"""Documents that people may edit: types of their fields, their canonical text, and messages about values."""

import difflib
import json
import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trimtab_common.errors import InputError

Name = Annotated[str, Meta(min_length=1)]
"""A text that is not empty."""

Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""A number of Kafka's: of a broker, or of a partition in its topic."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A number of things, also of bytes."""

Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
"""A number of things of which there is at least one."""

Share = Annotated[float, Meta(gt=0, le=1)]
"""A share of a capacity or of a total, not 0."""

Fraction = Annotated[float, Meta(gt=0, lt=1)]
"""A relative deviation or a change, neither 0 nor 1."""

SmallShare = Annotated[float, Meta(ge=0, lt=1)]
"""A share that may be 0, but not 1."""

Seconds = Annotated[float, Meta(ge=0)]
"""A length of time."""

_TYPE_NAMES = {
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


class NotFinite:
    """Stands in a tree for NaN, Infinity, or a number beyond the range of doubles."""

    def __init__(self, text: str) -> None:
        self.text = text


def value_error(
    context: str, at: str, found: object, expected: str, remedy: str = "correct it there"
) -> InputError:
    """The error for one value that is not what it must be."""
    return InputError(f"{context}: {at} is {quote(found)}, expected {expected}; {remedy}")


def format_error(
    context: str,
    at: str,
    fault: msgspec.ValidationError,
    value: object,
    kind: object,
    names: tuple[str, ...] = (),
    add: str = "add it",
) -> InputError:
    """The error for a value that msgspec does not take: its place, what is there and what was expected.

    Parameters
    ----------
    context, at
        The file, and the place of the value in it.
    fault
        As msgspec tells it.
    value, kind
        The whole value as plain Python values, and the type that it should have had.
    names
        Every field name of the format, for "did you mean".
    add
        The remedy for a field that is missing.
    """
    match = _FAULT.fullmatch(str(fault))
    assert match is not None
    what, below = match["what"], (match["path"] or "$")[1:]
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        return unknown_field(context, at + below, found[1], names)
    if found := re.fullmatch(r"Object missing required field `(.*)`", what):
        return InputError(f'{context}: {at}{below} has no field "{found[1]}"; {add}')
    if what.startswith("Invalid enum value"):
        return value_error(
            context, at + below, _value_at(value, below), f"one of {', '.join(_choices(kind, below))}"
        )
    return value_error(context, at + below, _value_at(value, below), _expectation(what))


def checked_format(context: str, found: object, expected: str) -> None:
    """Refuse a file of another format or version."""
    if found == expected:
        return
    family, _, version = expected.rpartition("/")
    if isinstance(found, str) and found.startswith(f"{family}/"):
        remedy = f"this trimtab reads version {version}; use the trimtab that wrote it"
    else:
        remedy = "name a file of that format"
    raise InputError(f"{context}: $.format is {quote(found)}, expected {quote(expected)}; {remedy}")


def unknown_field(context: str, at: str, name: str, names: tuple[str, ...]) -> InputError:
    """The error for a field that the format does not have."""
    close = difflib.get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    return InputError(
        f'{context}: {at} has an unknown field "{name}"; {hint}fields of your own begin with x_'
    )


def one_of(*overrides: str) -> msgspec.Meta:
    """The constraint of a text that is one of these words."""
    return msgspec.Meta(pattern=f"^({'|'.join(overrides)})$")


def quote(value: object) -> str:
    """A value as JSON, short enough for a one-line message."""
    if isinstance(value, NotFinite):
        return value.text
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list) and len(value) > 12:
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def shape_of(fault: msgspec.ValidationError, kind: object) -> tuple[str, str]:
    """Split msgspec's message into (what was expected, JSON path below the value that was converted).

    Parameters
    ----------
    kind
        The type that the value should have had: both limits of a number are told, not only the one it missed.
    """
    match = _FAULT.fullmatch(str(fault))
    assert match is not None
    below = (match["path"] or "$")[1:]
    if re.match(r"Expected `(int|float)` [<>]", match["what"]) and not below.endswith("[...]"):
        return _range_text(_type_at(kind, below)), below
    if match["what"].startswith("Invalid enum value"):
        return f"one of {', '.join(_choices(kind, below))}", below
    return _expectation(match["what"]), below


def document_bytes(fields: dict[str, object]) -> bytes:
    """The canonical text of a document: an element of a list of records a line, all else on one line."""
    return (
        "{" + ",\n ".join(f'"{name}": {text_of(value)}' for name, value in fields.items()) + "}\n"
    ).encode()


def text_of(value: object) -> str:
    """A value as JSON, lists with an element a line."""
    if isinstance(value, list | tuple):
        rows = ",\n  ".join(map(_ENCODER.encode, value))
        return f"[\n  {rows}\n ]" if rows else "[]"
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
"""One for all rows: a plan may have tens of thousands."""


def _expectation(what: str) -> str:
    if what == "Number out of range":
        return "a finite number"
    if length := re.fullmatch(r"Expected `(array|str)` of length >= 1", what):
        return {"array": "a list that is not empty", "str": "text that is not empty"}[length[1]]
    if bounded := re.fullmatch(r"Expected `(int|float)` (>=|<=|>|<) (\S+)", what):
        number = float(bounded[3])
        return f"{_TYPE_NAMES[bounded[1]]} {bounded[2]} {int(number) if number.is_integer() else number}"
    if words := re.fullmatch(r"Expected `str` matching regex '\^\((.*)\)\$'", what):
        return f"one of {words[1].replace('|', ', ')}"
    if kinds := re.match(r"Expected `([^`]*)`", what):
        return " or ".join(_TYPE_NAMES.get(kind.strip(), kind.strip()) for kind in kinds[1].split("|"))
    return what


def _choices(kind: object, at: str) -> list[str]:
    """The texts of the enumeration that a type has at a path in it."""
    return [str(member) for member in _type_at(kind, at).cls]


def _type_at(kind: object, at: str) -> Any:
    """What msgspec tells of the type that a type has at a path in it."""
    found: Any = msgspec.inspect.type_info(kind)
    for step in _STEP.finditer(at):
        if step["index"]:
            found = next(one.item_type for one in _members(found) if hasattr(one, "item_type"))
        else:
            found = next(field.type for field in found.fields if field.encode_name == step["name"])
    return found


def _members(found: object) -> tuple[Any, ...]:
    """The types that a value may have."""
    members: tuple[Any, ...] = getattr(found, "types", (found,))
    return members


def _range_text(found: Any) -> str:
    """A number with its limits in words; a limit of 31 bits or more goes without saying."""
    number = next(one for one in _members(found) if hasattr(one, "gt"))
    text = "a whole number" if isinstance(number, msgspec.inspect.IntType) else "a number"
    for limit, words in (
        (number.gt, "above {}"),
        (number.ge, "{} or more"),
        (number.lt, "below {}"),
        (number.le, "at most {}"),
    ):
        if limit is not None and limit < 2**31 - 1:
            text += ", " + words.format(int(limit) if limit == int(limit) else limit)
    return text


def _value_at(tree: object, at: str) -> object:
    value: Any = tree
    for step in _STEP.finditer(at):
        try:
            value = value[int(step["index"])] if step["index"] else value[step["name"]]
        except (KeyError, IndexError, TypeError):
            return value
    return value

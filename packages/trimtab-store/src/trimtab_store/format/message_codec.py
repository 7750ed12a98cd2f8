"""Types of messages' fields in the form in which MessagePack can be held against them."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

MAX_EXACT_FLOAT: Final = 1 << 62
"""Numbers stay this far from zero, or nearer: whoever adds one to them can still write them down."""
MAX_INTEGER: Final = 1e300
"""No infinity, and nothing that is no number."""
_PLAIN: Final[dict[Any, Any]] = {
    int: Annotated[int, msgspec.Meta(ge=-MAX_EXACT_FLOAT, le=MAX_EXACT_FLOAT)],
    float: Annotated[float, msgspec.Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)],
    str: str,
    bytes: bytes,
    bool: bool,
    Any: Any,
}


class _TaggedUnion(type):
    """A type whose values are messages of some kinds: msgspec takes a named tuple itself for an array."""

    kinds: frozenset[type]

    def __instancecheck__(cls, value: Any) -> bool:
        return type(value) in cls.kinds


def form_of(hint: Any) -> Any:
    """The form of values of a type: bounded numbers, tuples of forms, messages as they were decoded."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) is tuple:
        return tuple[tuple(one if one is ... else form_of(one) for one in get_args(hint))]  # type: ignore[misc]
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    name = "message" if len(kinds) > 1 else kinds[0].__name__
    return _TaggedUnion(name, (), {"kinds": frozenset(kinds)})


def fields_of(kind: type) -> Any:
    """The form of a message's fields, a tuple."""
    return tuple[tuple(form_of(hint) for hint in get_type_hints(kind).values())]  # type: ignore[misc]

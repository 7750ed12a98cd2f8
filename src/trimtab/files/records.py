"""Records of files made from the model's own dataclasses: one declaration for a value and its JSON form."""

import copy
import dataclasses
import functools
import operator
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Record = type[msgspec.Struct]


def record_of(
    kind: type,
    known: Mapping[Any, Any] = types.MappingProxyType({}),
    *,
    order: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
) -> Record:
    """The record that stands for a dataclass in files; unknown fields are refused in it.

    A field whose default is None or 0 is left out of files where it has that value. The two convert
    into each other by `msgspec.convert(value, type, from_attributes=True)`.

    Parameters
    ----------
    kind
        A dataclass; its fields have types that msgspec reads, or are dataclasses themselves.
    known
        Records of dataclasses within it that need more than this rule.
    order
        All its fields, where the order in files is another one.
    own
        Fields beyond the published format: `x_` goes before their names in files, so that readers of the
        bare format pass over them.
    """
    found = dict(known)
    bound = {
        variable: _in_files(given, found)
        for base in getattr(kind, "__orig_bases__", ())
        for variable, given in zip(
            getattr(typing.get_origin(base), "__parameters__", ()), typing.get_args(base), strict=True
        )
    }
    found.update(bound)
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    declared: list[Any] = []
    for name in order or fields:
        default = fields[name].default
        hint = _in_files(hints[name], found)
        if fields[name].default_factory is not dataclasses.MISSING:
            # A factory of ours: msgspec leaves fields out that are as empty as `dict()` makes them.
            factory: Any = functools.partial(typing.cast("Any", fields[name].default_factory))
            declared.append((name, hint, msgspec.field(default_factory=factory)))
        elif default is dataclasses.MISSING:
            declared.append((name, hint))
        elif default is None or default == 0:
            declared.append((name, hint, default))
        else:
            declared.append(
                (name, hint, msgspec.field(default_factory=functools.partial(copy.copy, default)))
            )
    return msgspec.defstruct(
        kind.__name__,
        declared,
        forbid_unknown_fields=True,
        kw_only=True,
        omit_defaults=True,
        rename={name: f"x_{name}" for name in own} or None,
        module=__name__,
    )


def names_of(record: Any) -> Iterator[str]:
    """Every field name of a record, and of those within it, for "did you mean"."""
    if isinstance(record, type) and issubclass(record, msgspec.Struct):
        for field in msgspec.structs.fields(record):
            yield field.encode_name
            yield from names_of(field.type)
        return
    for inner in typing.get_args(record):
        yield from names_of(inner)


def _in_files(hint: Any, known: dict[Any, Any]) -> Any:
    """A type with records in place of dataclasses."""
    if hint in known:
        return known[hint]
    if dataclasses.is_dataclass(hint):
        known[hint] = record_of(typing.cast("type", hint), known)  # the same wherever the class stands
        return known[hint]
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, (_in_files(part, known) for part in typing.get_args(hint)))
    if typing.get_origin(hint) in (tuple, list, dict, Mapping):
        parts = [_in_files(part, known) for part in typing.get_args(hint)]
        return typing.get_origin(hint)[tuple(parts)]
    return hint

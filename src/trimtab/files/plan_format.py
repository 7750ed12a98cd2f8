"""Plans in files, `trimtab/plan/1`: opened, read, checked and written alike for every balancer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

import msgspec

from trimtab.files.document import JsonDocument, one_of
from trimtab.files.records import Record, names_of, record_of
from trimtab.model.plan import Plan, Problem
from trimtab_common.documents import checked_format, document_bytes
from trimtab_common.errors import InputError
from trimtab_common.files import read_bytes, write_atomically

FORMAT = "trimtab/plan/1"
ORDER = (
    *("balancer", "strategy", "seed", "settings", "snapshot", "verdict", "moves", "assignments", "predicted"),
    *("cost", "bound", "problems"),
)
"""The fields of every plan after `format`, as they stand in files."""

_PROBLEM = record_of(Problem, order=("kind", "count", "resource", "text", "proof"))

PlanT = TypeVar("PlanT", bound=Plan[Any])


@dataclass(frozen=True)
class PlanFormat(Generic[PlanT]):
    """Format of the plans of one balancer: how they are read and written.

    Attributes
    ----------
    balancer
        Its name.
    kind
        The plan as a value.
    resources
        Names that measures and reasons may bear.
    check
        Refuses a plan whose moves, assignments and cost contradict each other.
    records
        Records of dataclasses within the plan that need more than the rule of `record_of`.
    extra
        Fields beyond the published format, as `record_of` has them.
    """

    balancer: str
    kind: type[PlanT]
    resources: tuple[str, ...]
    check: Callable[[JsonDocument, PlanT], None]
    records: Mapping[type, Record] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    @cached_property
    def record(self) -> Record:
        """The plan as it stands in files: its own lists come last, all else of its own after `balancer`."""
        hints = get_type_hints(self.kind)
        lists = [one for one in hints if one not in ORDER and get_origin(hints[one]) is tuple]
        plain = [one for one in hints if one not in ORDER and one not in (*lists, *self.extra)]
        order = (ORDER[0], *plain, *ORDER[1:], *dict.fromkeys((*lists, *self.extra)))
        return record_of(self.kind, {Problem: _PROBLEM, **self.records}, order=order, own=self.extra)

    @property
    def own(self) -> tuple[str, ...]:
        """Fields that only plans of this balancer have; one that is left out has its default."""
        named = (field.encode_name for field in msgspec.structs.fields(self.record))
        return tuple(name for name in named if name not in ORDER and not name.startswith("x_"))

    def read(self, path: Path) -> PlanT:
        """Read and check a plan, also one that was edited by hand.

        Raises
        ------
        InputError
            If it is malformed, or its moves, assignments and cost contradict each other; one line that names
            the file, the JSON path, the value found, what was expected, and the remedy.
        """
        return self.from_document(open_plan(path))

    def from_bytes(self, path: Path, data: bytes) -> PlanT:
        """The same from bytes that are already at hand; `path` names them in errors."""
        return self.from_document(open_plan(path, data))

    def from_document(self, document: JsonDocument) -> PlanT:
        """The same from what `open_plan` has opened."""
        document.names = ("format", *names_of(self.record))
        balancer_of(document, (self.balancer,))
        document.require(("format", *ORDER), self.own)
        plan: PlanT = msgspec.convert(document.parts_as(self.record), type=self.kind, from_attributes=True)
        _check_order(document, plan)
        self.check(document, plan)
        _check_resources(document, plan, self.resources)
        return plan

    def to_bytes(self, plan: PlanT, own: Mapping[str, object] = MappingProxyType({})) -> bytes:
        """The canonical text of a plan: fixed order of fields, shortest exact numbers, a move a line.

        Equal plans have equal bytes, but for fields of one's own (`x_...`).
        """
        record = msgspec.convert(plan, type=self.record, from_attributes=True)
        return document_bytes({"format": FORMAT, **msgspec.to_builtins(record), **own})

    def write(self, plan: PlanT, path: Path) -> None:
        """Write a plan; the file appears as a whole or not at all.

        Raises
        ------
        InputError
            If the place cannot be written.
        """
        write_atomically(path, self.to_bytes(plan))


def open_plan(path: Path, data: bytes | None = None) -> JsonDocument:
    """The document of a plan of any balancer, of which only keys and the format are checked so far.

    Parameters
    ----------
    path
        The file; where `data` comes from, if that is given.
    data
        The JSON text, if it is already at hand.

    Raises
    ------
    InputError
        If it is no plan.
    """
    document = JsonDocument(path, read_bytes(path) if data is None else data, ("format", *ORDER))
    _ = document.tree  # refuses repeated keys; a plan is small enough to be read twice
    document.require(("format",), tuple(document.parts))
    checked_format(str(path), document.part("format", object), FORMAT)
    return document


def balancer_of(document: JsonDocument, balancers: tuple[str, ...]) -> str:
    """The name of the balancer that a plan is of, refused if it is none of `balancers`."""
    document.require(("balancer",), tuple(document.parts))
    name = document.part("balancer", str)
    one_of(document, "$.balancer", name, balancers)
    return name


def _check_order(document: JsonDocument, plan: Plan[Any]) -> None:
    """Refuse moves that do not stand in the order that they name."""
    orders = [move.order for move in plan.moves]
    for row in range(1, len(orders)):
        if orders[row] <= orders[row - 1]:
            expected = f"more than {orders[row - 1]}, that of the move before"
            raise document.error(f"$.moves[{row}].order", orders[row], expected)


def _check_resources(document: JsonDocument, plan: Plan[Any], resources: tuple[str, ...]) -> None:
    """Refuse measures and reasons of a resource that the balancer does not have."""
    for when in ("before", "after"):
        for measure, values in vars(getattr(plan.predicted, when)).items():
            for name in values:
                one_of(document, f"$.predicted.{when}.{measure}", name, resources)
    for row, move in enumerate(plan.moves):
        if move.reason.resource is not None:
            one_of(document, f"$.moves[{row}].reason.resource", move.reason.resource, resources)


def check_cost(document: JsonDocument, cost: object, counted: dict[str, int]) -> None:
    """Refuse figures of a cost that are not the sums of the moves, by their names in files."""
    for name, number in counted.items():
        found = getattr(cost, name.removeprefix("x_"))
        if found != number:
            raise document.error(f"$.cost.{name}", found, f"{number}, the sum of the moves")


def second_assignment(document: JsonDocument, at: str, what: str) -> InputError:
    """The error for a second assignment of the same object."""
    return InputError(f"{document.path}: {at} is a second one for {what}; keep one of them")


def check_moves(
    document: JsonDocument,
    plan: Plan[Any],
    assigned: Mapping[Any, Any],
    move_of: Callable[[Any], tuple[Any, Any, Any]],
    *,
    field: str = "after",
    idle: bool = True,
) -> None:
    """Refuse moves that are not what assignments say, and assignments that no move carries out.

    Parameters
    ----------
    assigned
        All assignments in their order, by what they are of, each with a `before` and an `after`.
    move_of
        What a move is of, where it moves that from, and where to.
    field
        The field of a move that says where to.
    idle
        Whether assignments without a change are allowed.
    """
    left = dict(assigned)
    for row, move in enumerate(plan.moves):
        name, before, after = move_of(move)
        meant = left.pop(name, None)
        if meant is None or (meant.before, meant.after) != (before, after):
            told = "nothing" if meant is None else f"{meant.before} to {meant.after}"
            raise document.error(f"$.moves[{row}].{field}", after, f"that of its assignment: {told}")
    for row, (name, one) in enumerate(assigned.items()):
        if name in left and (one.before != one.after or not idle):
            at = f"$.assignments[{row}].after"
            raise document.error(at, one.after, f"{one.before}, as no move changes it")

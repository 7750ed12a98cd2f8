"""Plans of the balancer `bundles` in files: to be read, edited by hand, and applied later."""

import math
from itertools import pairwise

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import PlanFormat, check_cost, second_assignment
from trimtab.model.bundles.plan import BundleMove, BundleMoveKind, BundlePlan
from trimtab.model.bundles.snapshot import RESOURCES, BundleRange, bundles_between, parse_bundle
from trimtab_common.errors import InputError


def checked(document: JsonDocument, plan: BundlePlan) -> None:
    """Refuse a plan that contradicts itself.

    Raises
    ------
    InputError
        If a move is about a bundle that does not exist by then, a boundary is not strictly inside its bundle,
        carrying the moves out one by one does not end in the assignments, or the cost is not that of the
        moves.
    """
    _OwnershipReplay(document, plan).check()
    kinds = [move.kind for move in plan.moves]
    counted = {
        "sessions": sum(move.sessions for move in plan.moves),
        "unloads": kinds.count(BundleMoveKind.UNLOAD),
        "splits": kinds.count(BundleMoveKind.SPLIT),
    }
    check_cost(document, plan.cost, counted)
    traffic = math.fsum(move.bytes_per_second for move in plan.moves)
    if not math.isclose(plan.cost.bytes_per_second, traffic, rel_tol=1e-9, abs_tol=1e-9):
        raise document.error(
            "$.cost.bytes_per_second", plan.cost.bytes_per_second, f"{traffic}, the sum of the moves"
        )


class _OwnershipReplay:
    """Carries the moves out on the ownership of `before` and compares what comes of it with `after`."""

    def __init__(self, document: JsonDocument, plan: BundlePlan) -> None:
        self.document = document
        self.plan = plan
        self.row = {ownership.bundle: row for row, ownership in enumerate(plan.assignments)}
        self.ranges: dict[str, BundleRange] = {}
        self.owner: dict[str, str | None] = {}
        self.made_by: dict[str, int] = {}
        self.split_by: dict[str, int] = {}

    def check(self) -> None:
        """Refuse the plan where the walk cannot go on, or ends elsewhere."""
        for row, ownership in enumerate(self.plan.assignments):
            at = f"$.assignments[{row}]"
            if ownership.bundle in self.owner:
                raise second_assignment(self.document, at, ownership.bundle)
            self._parsed(f"{at}.bundle", ownership.bundle)
            self.owner[ownership.bundle] = ownership.before
        for number, move in enumerate(self.plan.moves):
            self._parsed(f"$.moves[{number}].bundle", move.bundle)
            if move.kind is BundleMoveKind.SPLIT:
                self._check_boundaries(f"$.moves[{number}]", move)
                for part in self._parts(move):
                    self.made_by.setdefault(part.key, number)
        self._check_overlaps()
        made: set[str] = set()
        for number, move in enumerate(self.plan.moves):
            self._step(number, move, made)
        self._check_ends()

    def _parsed(self, at: str, bundle: str) -> None:
        if bundle not in self.ranges:
            try:
                self.ranges[bundle] = parse_bundle(bundle)
            except InputError as fault:
                raise InputError(f"{self.document.path}: {at}: {fault}") from None

    def _check_boundaries(self, at: str, move: BundleMove) -> None:
        cut = self.ranges[move.bundle]
        if not move.boundaries:
            expected = f"at least one, strictly between {cut.low} and {cut.high}"
            raise self.document.error(f"{at}.boundaries", [], expected)
        for place, (before, boundary) in enumerate(pairwise((cut.low, *move.boundaries))):
            if not before < boundary < cut.high:
                expected = f"more than {before} and less than {cut.high}"
                raise self.document.error(f"{at}.boundaries[{place}]", boundary, expected)

    def _parts(self, move: BundleMove) -> tuple[BundleRange, ...]:
        cut = self.ranges[move.bundle]
        return bundles_between(cut.namespace, (cut.low, *move.boundaries, cut.high))

    def _check_overlaps(self) -> None:
        """Refuse two bundles with a topic in common, neither of which a split of the plan makes."""
        first = sorted(self.ranges[bundle] for bundle in self.owner if bundle not in self.made_by)
        for one, other in pairwise(first):
            if one.overlaps(other):
                raise self._contradiction(
                    f"$.assignments holds {one.key} and {other.key}, which overlap",
                    "no split of the plan makes either: drop one",
                )

    def _step(self, number: int, move: BundleMove, made: set[str]) -> None:
        """Carry one move out, or say why it cannot be."""
        at, bundle = f"$.moves[{number}]", move.bundle
        if bundle in self.split_by:
            raise self._contradiction(
                f"{at} moves {bundle}, which $.moves[{self.split_by[bundle]}] has split",
                "name its parts, or drop the move",
            )
        if bundle in self.made_by and bundle not in made:
            raise self._contradiction(
                f"{at} moves {bundle}, which only $.moves[{self.made_by[bundle]}] makes", "put it after that"
            )
        if bundle not in self.owner:
            raise self._contradiction(
                f"{at} moves {bundle}, which has no assignment", "add one, or drop the move"
            )
        if move.source != self.owner[bundle]:
            held = self.owner[bundle] or "null: nobody"
            raise self.document.error(f"{at}.source", move.source, f"{held}, who owns {bundle} by then")
        if move.kind is BundleMoveKind.UNLOAD:
            if move.boundaries:
                raise self.document.error(
                    f"{at}.boundaries", list(move.boundaries), "none for an unload", "make it a split"
                )
            if move.target is None or move.target == move.source:
                raise self.document.error(f"{at}.target", move.target, "another broker than `source`")
            self.owner[bundle] = move.target
            return
        if move.target is not None:
            remedy = "the parts stay where they are: unload them by later moves"
            raise self.document.error(f"{at}.target", move.target, "null for a split", remedy)
        for name in ("sessions", "bytes_per_second"):
            if getattr(move, name):
                raise self.document.error(
                    f"{at}.{name}", getattr(move, name), "0: a split alone disturbs nobody"
                )
        del self.owner[bundle]
        self.split_by[bundle] = number
        for part in self._parts(move):
            made.add(part.key)
            if part.key not in self.row:
                raise self._contradiction(
                    f"{at} makes {part.key}, which has no assignment", "add one, or drop the split"
                )
            row = self.row[part.key]
            if (owner := self.plan.assignments[row].before) is not None:
                expected = f"null: it does not exist before $.moves[{number}]"
                raise self.document.error(f"$.assignments[{row}].before", owner, expected)
            self.owner[part.key] = move.source

    def _check_ends(self) -> None:
        for row, ownership in enumerate(self.plan.assignments):
            bundle = ownership.bundle
            ends = self.owner.get(bundle)
            if ownership.after == ends:
                continue
            if bundle in self.split_by:
                expected = f"null: $.moves[{self.split_by[bundle]}] splits it"
            else:
                expected = f"{ends or 'null'}, where the moves of {bundle} end"
            raise self.document.error(
                f"$.assignments[{row}].after",
                ownership.after,
                expected,
                "moves and assignments must end alike, edit both",
            )

    def _contradiction(self, text: str, remedy: str) -> InputError:
        return InputError(f"{self.document.path}: {text}; {remedy}")


FORMAT = PlanFormat("bundles", BundlePlan, RESOURCES, checked)

read_bundle_plan, bundle_plan_from = FORMAT.read, FORMAT.from_bytes
bundle_plan_bytes, write_bundle_plan = FORMAT.to_bytes, FORMAT.write

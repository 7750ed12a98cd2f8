"""Plans of the level `bundles` in files (`trimtab/plan/1`): to be read, edited, and applied later."""

from pathlib import Path

from trimtab.files.atomic import write_atomically
from trimtab.files.bundle_plan_checks import checked_bundle_plan
from trimtab.files.bundle_plan_records import (
    NAMES,
    BundleBoundRecord,
    BundleCostRecord,
    BundleMoveRecord,
    OwnershipRecord,
    bound_fields,
    bound_from,
    cost_fields,
    cost_from,
    move_fields,
    ownership_fields,
    ownership_from,
)
from trimtab.files.plan_document import (
    FORMAT,
    TOP_LEVEL,
    PredictionRecord,
    document_bytes,
    level_of,
    open_plan,
    prediction_fields,
    prediction_from,
    problem_fields,
    problems_of,
    reference_fields,
    reference_of,
    verdict_of,
)
from trimtab.files.reading import read_bytes
from trimtab.model.bundle_plan import BundlePlan


def read_bundle_plan(path: Path) -> BundlePlan:
    """Read and check a plan, also one that was edited by hand.

    Raises
    ------
    InputError
        If it is malformed, or its moves, assignments and cost contradict each other; one line that names
        the file, the JSON path, the value found, what was expected, and the remedy.
    """
    return bundle_plan_from(path, read_bytes(path))


def bundle_plan_from(path: Path, data: bytes) -> BundlePlan:
    """The same from bytes that are already at hand; `path` names them in errors."""
    document = open_plan(path, data, NAMES)
    level = level_of(document, ("bundles",))
    document.require(TOP_LEVEL)
    return checked_bundle_plan(
        document,
        level=level,
        strategy=document.part("strategy", str),
        seed=document.part("seed", int),
        settings=document.part("settings", dict[str, object]),
        snapshot=reference_of(document),
        verdict=verdict_of(document),
        moves=document.part("moves", list[BundleMoveRecord]),
        assignments=tuple(map(ownership_from, document.part("assignments", list[OwnershipRecord]))),
        predicted=prediction_from(document.part("predicted", PredictionRecord)),
        cost=cost_from(document.part("cost", BundleCostRecord)),
        bound=bound_from(document.part("bound", BundleBoundRecord)),
        problems=problems_of(document),
    )


def write_bundle_plan(plan: BundlePlan, path: Path) -> None:
    """Write a plan; the file appears as a whole or not at all.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    write_atomically(path, bundle_plan_bytes(plan))


def bundle_plan_bytes(plan: BundlePlan) -> bytes:
    """The canonical text of a plan: fixed order of fields, shortest exact numbers, a move a line.

    Equal plans have equal bytes.
    """
    return document_bytes(
        {
            "format": FORMAT,
            "level": plan.level,
            "strategy": plan.strategy,
            "seed": plan.seed,
            "settings": plan.settings,
            "snapshot": reference_fields(plan.snapshot),
            "verdict": str(plan.verdict),
            "moves": map(move_fields, plan.moves),
            "assignments": map(ownership_fields, plan.assignments),
            "predicted": prediction_fields(plan.predicted),
            "cost": cost_fields(plan.cost),
            "bound": bound_fields(plan.bound),
            "problems": map(problem_fields, plan.problems),
        }
    )

"""A namespace's boundaries once one of its bundles is cut."""

from collections.abc import Sequence

from trimtab.model.bundles.range import BundleRange
from trimtab.model.errors import PlanError


def cut(boundaries: Sequence[int], bundle: BundleRange, positions: Sequence[int]) -> tuple[int, ...]:
    """The boundaries of the namespace once one of its bundles is cut at those positions.

    Parameters
    ----------
    boundaries
        All boundaries of the namespace, rising: n + 1 of them for n bundles.
    bundle
        The one to cut; its ends are neighbours in `boundaries`.
    positions
        Where to cut it, in any order, each strictly between its ends.

    Raises
    ------
    PlanError
        If there is no such bundle any more (somebody else has split it), a position does not lie inside it,
        or one is given twice.

    References
    ----------
    NamespaceBundleFactory.splitBundles.
    """
    known = list(boundaries)
    at = known.index(bundle.low) if bundle.low in known else len(known)
    if known[at + 1 : at + 2] != [bundle.high]:
        listed = ", ".join(f"0x{boundary:08x}" for boundary in known)
        raise PlanError(
            f"bundle {bundle.key} is not one of its namespace, whose boundaries are {listed}; read them again"
        )
    for position in positions:
        if not bundle.low < position < bundle.high:
            raise PlanError(
                f"bundle {bundle.key} cannot be cut at 0x{position:08x}: a cut lies strictly between its "
                "ends; choose another position"
            )
    ordered = sorted(positions)
    if len(set(ordered)) < len(ordered):
        listed = ", ".join(f"0x{position:08x}" for position in ordered)
        raise PlanError(f"bundle {bundle.key} would be cut twice at one position ({listed}); give each once")
    return (*known[: at + 1], *ordered, *known[at + 1 :])

"""The tables of a lake, of the balancer that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.balancers import BALANCERS, balancer_named
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from trimtab.files.store import Location
    from trimtab.observe.lake.open_tables import OpenTables


def open_tables(lake: Location, balancer: str | None) -> OpenTables:
    """The tables published last.

    Parameters
    ----------
    lake
        The lake's folder or address.
    balancer
        Whose; None where the lake holds those of one balancer only.

    Raises
    ------
    InputError
        If the lake has no tables of the balancer, or of several where none is named.
    """
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.open_tables import OpenTables

    asked = [balancer_named(balancer, "balancer")] if balancer is not None else list(BALANCERS.values())
    found = [OpenTables(Lake(lake, one.pipeline())) for one in asked]
    held = [one for one in found if one.manifest.version]
    if not held:
        whose = "" if balancer is None else f" of level {balancer}"
        raise InputError(
            f"lake {lake} holds no tables{whose}: collect samples, then run `trimtab pipeline run`"
        )
    if len(held) > 1:
        names = " and ".join(one.lake.balancer.name for one in held)
        raise InputError(f"lake {lake} holds tables of balancers {names}: say which by balancer")
    return held[0]

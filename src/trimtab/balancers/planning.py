"""The snapshot, the plan and the tables that a caller means, for any balancer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.balancers import BALANCER_NAMES, BALANCERS, balancer_named
from trimtab.balancers.balancer import Balancer, Planner, PlanRequest, PlanResult, setting_overrides
from trimtab.balancers.settings import read_settings
from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import balancer_of, open_plan
from trimtab.files.store import Location
from trimtab.model.errors import PlanError
from trimtab.observe.lake.lake import Lake
from trimtab_common.errors import InputError
from trimtab_common.settings import Overrides

if TYPE_CHECKING:
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


def plan_balancer(balancer: Balancer, request: PlanRequest) -> PlanResult:
    """The plan of a balancer, by the balancer's own way where it has one.

    Raises
    ------
    TrimtabError
        If there is nothing to plan from, or a setting or a name is wrong.
    """
    if balancer.make_plan is not None:
        return balancer.make_plan()(request)
    words: Overrides = (*request.overrides, *setting_overrides(balancer.plan_options, request.own))
    settings = read_settings(request.settings, words, os.environ).of(balancer.settings())
    if request.strategy is not None:
        settings = replace(settings, strategy=request.strategy)
    snapshot = snapshot_on(
        balancer, request.own.get("system"), request.snapshot, request.lake, request.cluster
    )
    planner = planner_of(balancer, settings.strategy)
    request.loaded()
    return PlanResult(plan=planner(snapshot, settings), snapshot=snapshot)


def planner_of(balancer: Balancer, strategy: str) -> Planner:
    """The planner of a balancer by the name of its strategy.

    Raises
    ------
    PlanError
        If there is none of that name.
    """
    if strategy not in balancer.planners:
        raise PlanError(f"strategy {strategy!r} is not known; choose one of {', '.join(balancer.planners)}")
    return balancer.planners[strategy]()


def opened_plan(path: Path) -> tuple[Balancer, JsonDocument]:
    """A plan file that is read so far that its level is known; `from_document` of the balancer's plans reads
    on.

    Raises
    ------
    InputError
        If it is no plan, or of no balancer that there is.
    """
    document = open_plan(path)
    return BALANCERS[balancer_of(document, BALANCER_NAMES)], document


def snapshot_on(
    balancer: Balancer, system: str | None, path: Path | None, lake: Location, cluster: str | None
) -> Any:
    """The snapshot of a balancer on one of its systems, as `snapshot_of`; None for its own system.

    Raises
    ------
    TrimtabError
        As `snapshot_of`, or if the balancer does not act on the system.
    """
    binding = balancer.binding(system)
    if binding is None:
        return snapshot_of(balancer, path, lake, cluster)
    first = next(one for one in BALANCERS.values() if one.system is binding.system)
    return binding.as_balancer_snapshot()(snapshot_of(first, path, lake, cluster))


def snapshot_of(balancer: Balancer, path: Path | None, lake: Location, cluster: str | None) -> Any:
    """A snapshot out of a file or folder, or else the newest of the lake.

    Raises
    ------
    InputError
        If it is of another cluster than the one that is asked for.
    ObserveError
        If the lake holds none.
    """
    source = path if path is not None else Lake(lake, balancer.pipeline()).newest_snapshot(cluster)
    found = balancer.snapshot().read(source)
    if cluster is not None and found.reference.cluster != cluster:
        raise InputError(
            f"{source}: is a snapshot of cluster {found.reference.cluster}, not of {cluster}; name another"
        )
    return found

"""The functions and values behind `import trimtab`, for notebooks, scripts and services of one's own.

One function a verb, over every balancer: the balancer is found by the value's own kind. `docs/python.md`
shows them and says what is stable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import signature
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trimtab import executions
from trimtab.act.control import ExecutionControl
from trimtab.balancers import BALANCERS, Balancer, balancer_named
from trimtab.balancers.planning import opened_plan, planner_of
from trimtab.balancers.settings import read_settings
from trimtab.executions import (
    Done,
    ExecutionContext,
    ExecutionEvent,
    ExecutionOutcome,
    Interrupted,
    PreparedExecution,
    Refused,
    Stopped,
)
from trimtab.extras import require
from trimtab.files.snapshot_format import format_of
from trimtab.model.documents import SnapshotReference
from trimtab.model.load import Imbalance
from trimtab.model.plan import AnyPlan, Plan
from trimtab_common.errors import InputError, TrimtabError, did_you_mean

if TYPE_CHECKING:
    from pandas import DataFrame

    from trimtab.executions.measuring import Measurement
    from trimtab.observe.lake.open_tables import OpenTables

__all__ = [
    "BALANCERS",
    "Balancer",
    "Done",
    "ExecutionControl",
    "ExecutionEvent",
    "ExecutionOutcome",
    "Interrupted",
    "Plan",
    "PreparedExecution",
    "Refused",
    "Snapshot",
    "Stopped",
    "TrimtabError",
]  # which trimtab takes from here, with the functions


class Snapshot(Protocol):
    """A cluster at one moment, as arrays: what every balancer's snapshot has; each adds its own."""

    @property
    def reference(self) -> SnapshotReference:
        """Cluster, time, and digest of the bytes it was read from."""

    def imbalance(self) -> Imbalance:
        """The measures of its newest loads."""

    @property
    def row_names(self) -> Sequence[int | str]:
        """Names of the rows of `imbalance().usage`: what carries the load."""


def read_snapshot(path: str | Path) -> Snapshot:
    """Read and check a snapshot of any balancer.

    Parameters
    ----------
    path
        A JSON file, plain or compressed by gzip, or a folder, as the pipeline leaves it in the lake.

    Raises
    ------
    InputError
        If there is none, or it is malformed or contradicts itself.
    """
    place = _path("path", path)
    formats = {level.snapshot().name: level.snapshot() for level in BALANCERS.values()}
    snapshot: Snapshot = formats[format_of(place, tuple(formats))].read(place)
    return snapshot


def write_snapshot(snapshot: Snapshot, path: str | Path) -> SnapshotReference:
    """Write a snapshot; the form is chosen by the name: `.json`, `.json.gz`, else a folder.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    reference: SnapshotReference = (
        _balancer_of_snapshot(snapshot).snapshot().write(snapshot, _path("path", path))
    )
    return reference


def make_plan(
    snapshot: Snapshot,
    settings: str | Path | None = None,
    *,
    strategy: str | None = None,
    **overrides: object,
) -> AnyPlan:
    """Find the smallest set of moves that balances a cluster; changes nothing.

    The same snapshot, settings and seed give the same plan. The first plan on a machine compiles the planner,
    which takes a minute or two.

    Parameters
    ----------
    settings
        A settings file; None for `trimtab.toml` in the working folder if there is one. Environment variables
        are not read.
    strategy
        A planner of the balancer by its name; None for that of the settings.
    overrides
        Settings of the balancer's section by name, like `epsilon=0.05` or `theta={"cpu": 0.7}`.

    Raises
    ------
    TrimtabError
        If a setting is unknown, of the wrong type or out of range, or there is no such strategy.
    """
    level = _balancer_of_snapshot(snapshot)
    words = [word for name, value in overrides.items() for word in _overrides(f"{level.name}.{name}", value)]
    file = None if settings is None else _path("settings", settings)
    asked = read_settings(file, words, {}).of(level.settings())
    name = strategy if strategy is not None else getattr(asked, "strategy", next(iter(level.planners)))
    found: AnyPlan = planner_of(level, name)(snapshot, asked)
    return found


def read_plan(path: str | Path) -> AnyPlan:
    """Read and check a plan of any balancer, also one that was edited by hand.

    Raises
    ------
    InputError
        If it is no plan, or its moves, assignments and cost contradict each other.
    """
    level, document = opened_plan(_path("path", path))
    found: AnyPlan = level.plan().from_document(document)
    return found


def write_plan(plan: AnyPlan, path: str | Path) -> None:
    """Write a plan as `trimtab apply` takes it; equal plans have equal bytes.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    _balancer_of_plan(plan).plan().write(plan, _path("path", path))


def plan_text(plan: AnyPlan, snapshot: Snapshot | None = None, *, all_moves: bool = False) -> str:
    """A plan for people, as `trimtab plan` shows it; with the load, if the snapshot is given.

    Parameters
    ----------
    all_moves
        Every move, instead of the first of each group.

    Raises
    ------
    InputError
        If it is no plan, or the snapshot is of another level.
    """
    level = _balancer_of_plan(plan)
    if snapshot is not None and _balancer_of_snapshot(snapshot) is not level:
        other = _balancer_of_snapshot(snapshot).name
        raise InputError(
            f"the plan is of balancer {level.name}, and the snapshot of {other}: give the plan's own"
        )
    return level.renderer().plan_text(plan, snapshot, all_moves=all_moves)


def moves(plan: AnyPlan) -> DataFrame:
    """The moves of a plan in order, a row each; the fields of its reason stand in columns `reason_...`."""
    _balancer_of_plan(plan)
    return _frames()([dict(_flat("", move)) for move in plan.moves])


def predicted(plan: AnyPlan) -> DataFrame:
    """The measures before and after a plan, a row a resource.

    Returns
    -------
    DataFrame
        Columns `sigma_before`, `sigma_after`, and the same for `worst_deviation` and `peak_usage`; fractions.
    """
    _balancer_of_plan(plan)
    before, after = plan.predicted.before, plan.predicted.after
    columns = {
        f"{name}_{when}": getattr(measured, name)
        for name in ("sigma", "worst_deviation", "peak_usage")
        for when, measured in (("before", before), ("after", after))
    }
    return _frames()(columns).rename_axis("resource")


def measures(snapshot: Snapshot) -> DataFrame:
    """Imbalance of a cluster, a row a resource.

    Returns
    -------
    DataFrame
        Columns `mean` (utilisation), `sigma`, `worst_deviation`, `peak_usage`, as `docs/glossary.md` defines
        them; NaN where no broker limits the resource.
    """
    _balancer_of_snapshot(snapshot)
    found = snapshot.imbalance()
    columns = {name: getattr(found, name) for name in ("mean", "sigma", "worst_deviation", "peak_usage")}
    return _frames()(columns, index=list(found.resources)).rename_axis("resource")


def usage(snapshot: Snapshot) -> DataFrame:
    """The load of each broker, a row a broker and a column a resource.

    Returns
    -------
    DataFrame
        Fractions of capacity; NaN where a broker is out of service or does not limit the resource.
    """
    _balancer_of_snapshot(snapshot)
    found = snapshot.imbalance()
    frame = _frames()(found.usage, index=list(snapshot.row_names), columns=list(found.resources))
    return frame.where(found.counted).rename_axis("broker")


def replay(
    recording: str | Path, strategies: Sequence[str], *, balancer: str | None = None, **request: object
) -> DataFrame:
    """Effects of strategies on recorded load, a row a strategy, the recording as it is first.

    Parameters
    ----------
    recording
        A file of recorded load, or a folder of them.
    strategies
        Names, as `trimtab replay` takes them.
    balancer
        The balancer that the recording is of; None where only one has recordings.
    request
        Further choices of that level's replay, by the names of its options.

    Returns
    -------
    DataFrame
        The balancer's figures in columns: how uneven, at what price.

    Raises
    ------
    TrimtabError
        If the recording, a strategy or a choice is wrong.
    """
    replayed = [one for one in BALANCERS.values() if one.figures is not None]
    chosen = balancer_named(balancer, "balancer") if balancer is not None else replayed[0]
    if chosen.figures is None or (balancer is None and len(replayed) > 1):
        names = " or ".join(one.name for one in replayed)
        raise InputError(f"level is {balancer!r}, and recordings are replayed of {names}: name one")
    if isinstance(strategies, str):
        raise InputError(f"strategies is {strategies!r}, expected a list of names: write [{strategies!r}]")
    figures = chosen.figures()
    choices = [name for name, one in signature(figures).parameters.items() if one.kind is one.KEYWORD_ONLY]
    for name in request:
        if name not in choices:
            hint = did_you_mean(name, choices, f"choose of {', '.join(choices)}")
            raise InputError(f"{name} is no choice of replays of {chosen.name}: {hint}")
    rows = figures(_path("recording", recording), strategies, **request)
    return _frames().from_dict(rows, orient="index").rename_axis("strategy")


def apply(
    plan: AnyPlan,
    cluster: str,
    *,
    settings: str | Path | None = None,
    state: str | Path | None = None,
    lake: str | Path | None = None,
    skip_changed: bool = False,
    confirm: Callable[[PreparedExecution], bool] = lambda prepared: True,
    control: ExecutionControl | None = None,
    notify: Callable[[ExecutionEvent], None] = lambda event: None,
    **overrides: object,
) -> ExecutionOutcome:
    """Execute a plan on its cluster in batches, to its end; this changes the cluster.

    Temporary settings of the cluster, such as throttles, are always restored. `resume` continues an execution
    whose process was killed.

    Parameters
    ----------
    cluster
        An address like `kafka://host:9092`, or the name of a cluster in the settings.
    settings
        A settings file; None for `trimtab.toml` in the working folder if there is one. Environment variables
        are not read.
    state
        Folder of the journal; None for that of `TRIMTAB_STATE`, else the usual one.
    lake
        A folder or an address; None for that of `TRIMTAB_LAKE`, else the usual one.
    skip_changed
        Whether parts of the plan that no longer fit the cluster are left out, instead of refusing the plan.
    confirm
        Receives the steps before anything changes, and answers whether to start.
    control
        Stops or cancels the execution, from another thread or from a signal handler.
    notify
        Receives messages and progress, in the calling thread.
    overrides
        Settings of the table `[execution]` by name, like `throttle=5_000_000`.

    Returns
    -------
    Done | Stopped | Refused | Interrupted
        The outcome; `Refused` and `Interrupted` name their reasons.

    Raises
    ------
    TrimtabError
        If a setting or the name of the cluster is wrong.
    """
    _balancer_of_plan(plan)
    context = _execution_context(cluster, settings, state, lake, notify, overrides)
    return executions.apply(plan, context, skip_changed=skip_changed, confirm=confirm, control=control)


def resume(
    execution: int | None,
    cluster: str,
    *,
    request: Literal["stop", "cancel"] | None = None,
    settings: str | Path | None = None,
    state: str | Path | None = None,
    lake: str | Path | None = None,
    control: ExecutionControl | None = None,
    notify: Callable[[ExecutionEvent], None] = lambda event: None,
    **overrides: object,
) -> ExecutionOutcome:
    """Continue an execution that no process runs, or stop or cancel it.

    Parameters
    ----------
    execution
        Its id in the journal; None for the newest.
    request
        `stop` or `cancel` ends the execution; None continues it.
    overrides
        Settings of the table `[execution]` that replace those with which the execution was started.

    The other parameters and the returned values are those of `apply`.

    Raises
    ------
    TrimtabError
        If the journal has no such execution, or a setting or the name of the cluster is wrong.
    """
    context = _execution_context(cluster, settings, state, lake, notify, overrides)
    return executions.resume(
        execution, context, request=request, new_settings=bool(overrides), control=control
    )


def measure(
    execution: int | None = None,
    cluster: str | None = None,
    *,
    ticks: int = 10,
    live_seconds: float | None = None,
    settings: str | Path | None = None,
    state: str | Path | None = None,
    lake: str | Path | None = None,
    stop: Event | None = None,
    notify: Callable[[ExecutionEvent], None] = lambda event: None,
) -> Measurement:
    """Compare the load before an execution with the load after it.

    Parameters
    ----------
    execution
        Its id in the journal; None for the newest.
    cluster
        The cluster of fresh samples; without `live_seconds` it is not used.
    ticks
        Maximum number of samples of each side.
    live_seconds
        Duration of fresh samples of the cluster, which Spark processes; None to read all samples from the
        lake.
    stop
        Ends fresh samples early.

    The other parameters are those of `apply`.

    Returns
    -------
    Measurement
        Its `effect` is `helped`, `nothing` or `worse`; `comparison` has the figures.

    Raises
    ------
    TrimtabError
        If the execution has not ended, or there are too few samples from before or after it.
    """
    from trimtab.executions import measuring

    context = _execution_context(cluster, settings, state, lake, notify, {})
    return measuring.measure(execution, context, ticks=ticks, live_seconds=live_seconds, stop=stop)


def _execution_context(
    cluster: str | None,
    settings: str | Path | None,
    state: str | Path | None,
    lake: str | Path | None,
    notify: Callable[[ExecutionEvent], None],
    overrides: Mapping[str, object],
) -> ExecutionContext:
    from trimtab.balancers.clusters import connection_of
    from trimtab.files.machine import lake_place, state_folder

    words = [word for name, value in overrides.items() for word in _overrides(f"execution.{name}", value)]
    read = read_settings(None if settings is None else _path("settings", settings), words, {})
    choice = None if cluster is None else (cluster, "cluster")
    return ExecutionContext(
        state_folder=state_folder() if state is None else _path("state", state),
        lake=lake_place(lake),
        settings=read,
        connect=lambda system: connection_of(read, system, choice),
        notify=notify,
    )


def tables(lake: str | Path | None = None, *, balancer: str | None = None) -> OpenTables:
    """The tables of a lake that were published last, by name, as streams of Arrow record batches.

    They fit together, whatever is published while they are read; `docs/pipeline.md` says what is in each.

    Parameters
    ----------
    lake
        A folder or an address; None for that of `TRIMTAB_LAKE`, else the usual one.
    balancer
        Whose tables; None where the lake holds those of one balancer only.

    Raises
    ------
    TrimtabError
        If the lake has no tables of the balancer, or of several where none is named.
    """
    from trimtab.balancers.planning import open_tables
    from trimtab.files.machine import lake_place

    return open_tables(lake_place(lake), balancer)


def _balancer_of_snapshot(snapshot: Snapshot) -> Balancer:
    """The balancer whose snapshots are of this kind.

    Raises
    ------
    InputError
        If it is no snapshot.
    """
    for level in BALANCERS.values():
        if isinstance(snapshot, level.snapshot().kind):
            return level
    raise InputError(f"{type(snapshot).__name__} is no snapshot: read one by trimtab.read_snapshot")


def _frames() -> type[DataFrame]:
    require("pandas")
    from pandas import DataFrame

    found: type[DataFrame] = DataFrame
    return found


def _balancer_of_plan(plan: AnyPlan) -> Balancer:
    """The balancer of a plan.

    Raises
    ------
    InputError
        If it is no plan.
    """
    if not isinstance(plan, Plan):
        raise InputError(f"{type(plan).__name__} is no plan: make one by trimtab.make_plan or read a file")
    return balancer_named(plan.balancer, "the plan's level")


def _path(name: str, value: object) -> Path:
    """A path that a caller gave.

    Raises
    ------
    InputError
        If it is neither text nor a path.
    """
    if not isinstance(value, str | Path):
        raise InputError(f"{name} is of type {type(value).__name__}, expected text or a Path")
    return Path(value)


def _overrides(name: str, value: object) -> Iterator[str]:
    """Overrides as `--set` takes them: the same parser checks them and says what is wrong."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _overrides(f"{name}.{key}", inner)
    else:
        try:
            yield f"{name}={json.dumps(value)}"
        except (TypeError, ValueError):
            raise InputError(
                f"{name} is of type {type(value).__name__}, expected a number, text, switch, list or table"
            ) from None


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, object]]:
    """The fields of a dataclass, those of dataclasses in it by longer names."""
    for field in fields(value):
        inner = getattr(value, field.name)
        if is_dataclass(inner):
            yield from _flat(f"{prefix}{field.name}_", inner)
        else:
            yield f"{prefix}{field.name}", inner.value if isinstance(inner, Enum) else inner

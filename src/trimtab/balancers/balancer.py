"""A balancer as a value: one place where load piles up, and the names of its parts in every room.

A row holds names only, so that the table of balancers costs nothing to read: `trimtab --help` shows every
balancer without loading one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.act.executor import AnyExecutor
    from trimtab.files.plan_format import PlanFormat
    from trimtab.files.snapshot_format import SnapshotFormat
    from trimtab.files.store import Location
    from trimtab.model.documents import AnyReceipt
    from trimtab.model.errors import Finding
    from trimtab.model.plan import AnyPlan, Problem
    from trimtab.observe.collect.sampler import SystemSampler
    from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
    from trimtab.observe.lake.balancer_pipeline import BalancerPipeline
    from trimtab.report.renderer import Renderer
    from trimtab.systems.connection import ClusterTable
    from trimtab_common.settings import Override, Section

ImportedT = TypeVar("ImportedT")


@dataclass(frozen=True, slots=True)
class LazyImport(Generic[ImportedT]):
    """A part of a balancer or a system in some package, named by its location: `module:name`, or `module`."""

    place: str

    def __call__(self) -> ImportedT:
        """Import the module and return the named object."""
        path, _, name = self.place.partition(":")
        module: Any = import_module(path)
        found: ImportedT = getattr(module, name) if name else module
        return found


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command.

    Attributes
    ----------
    flag
        As it is written, `--reports`; its value is handed on under the same name, `reports`.
    help
        One sentence for `--help`.
    kind
        Type of a value; `list[str]` for an option that may be given again, `bool` for a switch.
    default
        The value where it is not given.
    minimum
        Smallest value of a number; None for any.
    setting
        The setting, `section.key`, that the option is a short way to write; None where it is not one.
    table
        The setting is a table of numbers: each word is `NAME=NUMBER`.
    """

    flag: str
    help: str
    kind: Any = str | None
    default: Any = None
    minimum: float | None = None
    setting: str | None = None
    table: bool = False

    @property
    def name(self) -> str:
        """The name of its value, a valid one of Python."""
        return self.flag.removeprefix("--").replace("-", "_")


OptionValues = Mapping[str, Any]
"""Values of options by name, as `Option.kind` types them."""


def setting_overrides(options: Iterable[Option], values: OptionValues) -> tuple[Override, ...]:
    """The options given that are a short way to write a setting, as overrides of that setting."""
    from trimtab_common.settings import Override

    words = []
    for option in options:
        value = values.get(option.name)
        if option.setting is not None and value not in (None, False, []):
            text = ",".join(value) if isinstance(value, list) else str(value)
            text = _table_of(option, value) if option.table else text
            typed = option.flag if value is True else f"{option.flag} {_typed(value)}"
            words.append(Override(f"{option.setting}={'true' if value is True else text}", typed))
    return tuple(words)


def _typed(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _table_of(option: Option, overrides: Iterable[str]) -> str:
    """Words `NAME=NUMBER` as a table in one line of TOML."""
    table: dict[str, int] = {}
    for word in overrides:
        name, _, number = (part.strip() for part in word.rpartition("="))
        if not name or not (number.isascii() and number.isdigit()):
            raise SettingsError(f"{option.flag} {word}: expected NAME=NUMBER, like orders=3")
        if table.setdefault(name, int(number)) != int(number):
            raise SettingsError(f"{option.flag} {word}: {name} was given {table[name]} before; name it once")
    return "{" + ", ".join(f"{json.dumps(name)} = {number}" for name, number in table.items()) + "}"


@dataclass(frozen=True, slots=True)
class AddressForm:
    """How an address names a cluster of a system.

    Attributes
    ----------
    schemes
        Beginnings of such an address, like `kafka://`.
    key
        The field of the connection that holds it.
    example
        For messages.
    value
        The address as the connection has it.
    """

    schemes: tuple[str, ...]
    key: str
    example: str
    value: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class System:
    """One messaging system: how a command line names a cluster of it, and how it is reached and sampled.

    Levels stand on systems, several on one where it comes to that: collectors, connections and sandboxes
    belong to the system.

    Attributes
    ----------
    name
        Also part of the environment variable of its secret.
    title
        For people.
    address
        How an address names a cluster of it.
    connection
        The keys of a cluster to a connection. The return annotation is a dataclass whose fields are the keys
        of `[clusters.NAME]`.
    collecting
        How its clusters are sampled.
    checking
        Findings on a cluster, from a connection and the settings of collectors and capacities; None where
        nothing can be told before it is sampled.
    """

    name: str
    title: str
    address: AddressForm
    connection: LazyImport[Callable[[ClusterTable], object]]
    collecting: LazyImport[SystemSampler]
    checking: LazyImport[Callable[[object, CollectSettings, CapacitySettings], Iterator[Finding]]] | None = (
        None
    )


@dataclass(frozen=True, slots=True)
class SystemBinding:
    """A further system that a balancer acts on: its plans name it in their field `system`.

    Attributes
    ----------
    system
        Which one.
    as_balancer_snapshot
        Observe: a snapshot of the balancer that first stands on that system, as a snapshot of this balancer.
    open
        Act: as `Balancer.open`.
    """

    system: System
    as_balancer_snapshot: LazyImport[Callable[[object], Any]]
    open: LazyImport[Callable[[object, Callable[[], float]], AbstractContextManager[Any]]]


Planner = Callable[[Any, Any], Any]
"""Snapshot and settings of a balancer to its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A request for a plan, on a command line or from Python.

    Attributes
    ----------
    snapshot
        A file or folder to plan from; None for the newest of the lake.
    lake
        The lake's folder.
    settings
        The settings file; None for the usual one.
    cluster
        The cluster that is meant; None where there is but one.
    strategy
        Name of a planner; None for that of the settings.
    writes
        Whether the plan is to be kept in a file, so that there must be exactly one.
    overrides
        Overrides of settings as given, `section.key=value`; a balancer may take further words here.
    own
        Values of the options that only this balancer has.
    loaded
        Called once the planner is loaded, before it plans: a compiled one may have to be compiled first.
    """

    snapshot: Path | None
    lake: Location
    settings: Path | None = None
    cluster: str | None = None
    strategy: str | None = None
    writes: bool = False
    overrides: tuple[str, ...] = ()
    own: OptionValues = field(default_factory=dict)
    loaded: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The answer to a request for a plan.

    Attributes
    ----------
    plan, snapshot
        The plan, and what it was made from; None where several strategies were asked side by side.
    text
        Text after that of the plan; all of the text where there is no single plan.
    document
        The answer as plain JSON values where there is no single plan.
    binding
        Whether an infeasible verdict is the planner's own proof, and no mere figure of somebody else's
        decision.
    """

    plan: AnyPlan | None = None
    snapshot: Any = None
    text: str = ""
    document: object = None
    binding: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancer:
    """One balancer.

    Attributes
    ----------
    name, title
        As in commands and settings, and for people.
    system
        On which it acts, with its connection and its collector.
    target_kind, remedy
        What carries load, as tables and sentences call one of them; and what a plan does about what is not
        level, as `trimtab status` says it.
    moves, across, trigger
        The thing that is moved, between what it is moved, and the event that starts a turn.
    settings
        Files: the section of `trimtab.toml` that a planner is asked by.
    snapshot, plan
        Files: how its snapshots and plans are read and written.
    pipeline
        Observe: its samples, tables and snapshots in a lake, and the transformations that make them.
    planners
        Plan: its strategies by name; the setting `strategy`, or `--strategy`, chooses.
    executor
        Act: how a plan becomes an execution.
    open
        Act: the system as a port to act through, from a connection and a clock.
    renderer
        Report: what people read.
    further_systems
        Further systems that it acts on, which `trimtab plan NAME --system` names.
    programs
        What `trimtab NAME` runs, in a sentence, where the balancer has programs of its own
        (`trimtab.cli.NAME`).
    live_status
        Observe: one look at a cluster without a lake, from a connection and the settings of collectors.
    findings
        Plan: what a snapshot shows under settings that breaks no goal and that an operator should know.
    direct_source_option, read_directly
        Observe: where Spark reads samples out of the system itself, the option that names what is read, and
        that reading: from a connection, the name, settings, those of the pipeline, a lake and who is told.
        Samples are filed under `name@cluster`, and a glance is at the newest snapshot.
    back
        Model: the plan that takes another one back, where `trimtab apply --revert` can.
    undo
        Plan: from an executed plan, its receipt and a snapshot of now to the plan that undoes it, where the
        moves of the balancer can be undone.
    warm_up
        Plan: compiles the planner where the machine has no machine code of it; None without kernels.
    observed
        Decide: what decisions of a service see of a snapshot; None for its load alone.
    present_state
        Act: from a connection and a clock to the names of the brokers that are online, and to what programs
        change in the cluster now, as a sentence or an empty text.
    impact
        For operators: the setting that limits what an execution does to clients and brokers.
    make_plan
        A way of its own from what was asked to a plan, where a snapshot is not all that it plans from.
    strategy_help, set_help
        What can be written after `--strategy` and `--set` of `trimtab plan NAME`, one sentence each.
    plan_options, apply_options
        Options of `trimtab plan NAME` and `trimtab apply` that only this balancer has.
    formats
        Forms of a plan that tools of the system take, by the name that `--format` gives them.
    replay, replay_options, replay_help
        Recorded load through strategies, the options of that, and what people should know of it; its answer
        is an exit code.
    figures
        A recording, names of strategies and further choices to a row of figures for each strategy.
    """

    name: str
    title: str
    system: System
    moves: str
    across: str
    trigger: str
    settings: LazyImport[Section[Any]]
    snapshot: LazyImport[SnapshotFormat[Any]]
    plan: LazyImport[PlanFormat[AnyPlan]]
    pipeline: LazyImport[BalancerPipeline]
    planners: Mapping[str, LazyImport[Planner]]
    executor: LazyImport[AnyExecutor]
    open: LazyImport[Callable[[object, Callable[[], float]], AbstractContextManager[Any]]]
    renderer: LazyImport[Renderer]
    impact: str
    target_kind: str = "broker"
    remedy: str = "finds the fewest moves that help"
    further_systems: tuple[SystemBinding, ...] = ()
    programs: str = ""
    live_status: LazyImport[Callable[[object, CollectSettings], object]] | None = None
    findings: LazyImport[Callable[[object, object], list[Problem]]] | None = None
    direct_source_option: Option | None = None
    read_directly: LazyImport[Callable[..., AbstractContextManager[Any]]] | None = None
    back: LazyImport[Callable[[AnyPlan], AnyPlan]] | None = None
    undo: LazyImport[Callable[[AnyPlan, AnyReceipt, object], AnyPlan]] | None = None
    warm_up: LazyImport[Callable[[], None]] | None = None
    observed: LazyImport[Callable[..., Any]] | None = None
    present_state: LazyImport[Callable[[Any, Callable[[], float]], tuple[frozenset[str], str]]] | None = None
    make_plan: LazyImport[Callable[[PlanRequest], PlanResult]] | None = None
    strategy_help: str
    set_help: str
    plan_options: tuple[Option, ...] = ()
    apply_options: tuple[Option, ...] = ()
    formats: Mapping[str, LazyImport[Callable[[AnyPlan], tuple[str, str]]]] = field(default_factory=dict)
    replay: LazyImport[Callable[[OptionValues], int]] | None = None
    replay_options: tuple[Option, ...] = ()
    replay_help: str = ""
    figures: LazyImport[Callable[..., Mapping[str, Mapping[str, float | None]]]] | None = None

    @property
    def systems(self) -> tuple[System, ...]:
        """Its own system, and those of its seats."""
        return (self.system, *(seat.system for seat in self.further_systems))

    def binding(self, system: str | None) -> SystemBinding | None:
        """The seat on a system by that name; None for the balancer's own system, or none.

        Raises
        ------
        SettingsError
            If the balancer does not act on it.
        """
        if system in (None, self.system.name):
            return None
        for seat in self.further_systems:
            if seat.system.name == system:
                return seat
        known = " or ".join(one.name for one in self.systems)
        raise SettingsError(f"--system is {system!r}: plans of {self.name} are for {known}")

    def system_of(self, plan: AnyPlan) -> System:
        """The system that a plan is for."""
        seat = self.binding(getattr(plan, "system", None))
        return self.system if seat is None else seat.system

    def opened(
        self, plan: AnyPlan, connection: object, clock: Callable[[], float]
    ) -> AbstractContextManager[Any]:
        """The system of a plan as a port to act through."""
        seat = self.binding(getattr(plan, "system", None))
        return (self.open if seat is None else seat.open)()(connection, clock)

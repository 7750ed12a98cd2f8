"""The commands with their arguments and options, as typer declares them.

A command's docstring is its help. Its body is a module of its own, imported when the command is called, so
that help and completion import nothing heavy. Options that a balancer or a system adds are values of class
`Option`; `with_options` adds them to a command, which receives their values by name.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

import typer

from trimtab.balancers import BALANCERS, DEFAULT_BALANCER, Balancer, Option, balancer_named
from trimtab.balancers.balancer import OptionValues, PlanRequest
from trimtab.balancers.clusters import ENVIRONMENT_VARIABLE, examples
from trimtab.balancers.systems import LARGE_JOB as LARGE_JOB
from trimtab.balancers.systems import SPARK_MASTER as SPARK_MASTER
from trimtab.balancers.systems import spark_overrides
from trimtab.files.store import Location
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from trimtab.cli.context import CommandContext
    from trimtab_common.settings import Overrides


EXAMPLES: Final = Path(__file__).parents[3] / "examples"
"""Packages of a source checkout; an installed trimtab does not have them."""


def import_example(command: str, module: str) -> ModuleType:
    """A module of a package in `EXAMPLES`.

    Raises
    ------
    SandboxError
        If this is an installed trimtab, which does not have it.
    """
    path = EXAMPLES.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        from trimtab.model.errors import SandboxError

        raise SandboxError(
            f"trimtab {command} needs a source checkout of trimtab: {path} does not exist. "
            "Get the sources of trimtab, run make demo in their folder, and use its .venv/bin/trimtab"
        )
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return import_module(module)


LAKE = typer.Option(
    None,
    "--lake",
    help="Folder or address of the lake; default: $TRIMTAB_LAKE, else ~/.local/share/trimtab/lake.",
)
SETTINGS = typer.Option(
    None,
    "--settings",
    help="Settings file; default: $TRIMTAB_SETTINGS, else ./trimtab.toml, else "
    "~/.config/trimtab/trimtab.toml.",
)
SET = typer.Option([], "--set", help="Setting, like section.key=value; repeatable.")
CLUSTER = typer.Option(
    None,
    "--cluster",
    help=f"Cluster: a name of [clusters.NAME] in the settings, or an address ({examples()}); default: "
    f"${ENVIRONMENT_VARIABLE}, else the only one of the settings.",
)
LAKE_CLUSTER = typer.Option(
    None,
    "--cluster",
    help="Cluster, if the lake holds several: its id, or a name of [clusters.NAME] in the settings.",
)
SNAPSHOT = typer.Option(
    None, "--snapshot", help="Snapshot file (.json, .json.gz) or folder; default: the newest of the lake."
)
BALANCER = typer.Option(None, "--balancer", help=f"Balancer, if it is ambiguous: {' or '.join(BALANCERS)}.")
FORMS = ("text", "json", *dict.fromkeys(form for level in BALANCERS.values() for form in level.formats))
"""Forms that a plan is shown in: for people, as it is, and as tools of the systems take it."""

JSON = typer.Option(False, "--json", help="Print one JSON document instead of text.")
VIA = typer.Option(
    None, "--via", metavar="URL", help="Do it by the service at this address (`trimtab serve`), not here."
)
TOKEN_FILE = typer.Option(
    None, "--token-file", help="File with the token for --via; default: the variable TRIMTAB_TOKEN."
)
SERVED_CLUSTER = typer.Option(None, "--cluster", help="With --via: a cluster of the service, by its name.")


def reading_options() -> list[Option]:
    """The options by which balancers name what Spark reads out of a system itself."""
    return [
        level.direct_source_option for level in BALANCERS.values() if level.direct_source_option is not None
    ]


def with_options(command: Callable[..., None], options: Iterable[Option]) -> Callable[..., None]:
    """A command with further options, whose values it is handed together as `values`, by name.

    Parameters
    ----------
    command
        With a last parameter `values`, which is not an option itself.
    options
        The options to add, after the command's own.
    """
    further = list(options)
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [one for one in own if one.name != "values"]
    parameters += [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=_declared(one), annotation=one.kind
        )
        for one in further
    ]

    def called(**arguments: Any) -> None:
        values = {one.name: arguments.pop(one.name) for one in further}
        command(**arguments, values=values)

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _declared(option: Option) -> Any:
    return typer.Option(option.default, option.flag, help=option.help, min=option.minimum)


def form_of(form: str, as_json: bool) -> str:
    """The form that is asked for, by `--format` or `--json`.

    Raises
    ------
    InputError
        If there is no such form.
    """
    if form not in FORMS:
        raise InputError(f"--format is {form!r}: write {' or '.join(FORMS)}")
    return "json" if as_json else form


def lake_path(values: Path | None) -> Location:
    """The lake's folder or address, given or by default."""
    from trimtab.files.machine import lake_place

    return lake_place(values)


def command_context(
    lake: Path | None,
    settings: Path | None,
    overrides: Overrides,
    cluster: str | None = None,
    values: OptionValues | None = None,
) -> CommandContext:
    """The cluster, the lake and the settings of a command, as it was given them."""
    from trimtab.cli.context import CommandContext

    return CommandContext(lake_path(lake), settings, overrides, cluster, values or {})


def check(
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Check the prerequisites of the other commands; each check prints OK or how to fix it.

    Checks all sections of the settings, folders, Java and Spark; addresses, rights, metrics endpoints and
    capacities of each named cluster; and the age of the lake. Changes nothing. Exit code 0: no problem; 1:
    something is missing, and plans can be made without it; 2: something is broken.
    """
    from trimtab.cli import check as body

    body.check(command_context(lake, settings, overrides, cluster), as_json=as_json)


def import_capacity(
    file: Path = typer.Argument(..., help="Capacity file of Cruise Control (JSON)."),
) -> None:
    """Print the table [capacity] of trimtab.toml for a capacity file of Cruise Control.

    Takes the forms of capacity.json, capacityCores.json and capacityJBOD.json. Units become bytes, bytes per
    second and cores. Standard error names what has no counterpart.
    """
    from trimtab.files.capacity_file import capacity_tables
    from trimtab.report.formats import warn

    text, notes = capacity_tables(file)
    print(text, end="")
    for note in notes:
        warn(note)


METRICS = typer.Option(
    None,
    "--metrics",
    metavar="HOST:PORT",
    help="Serve metrics for Prometheus at this address.",
)


def collect(
    interval: float | None = typer.Option(None, "--interval", help="Seconds between two ticks; default: 30."),
    ticks: int | None = typer.Option(None, "--ticks", min=1, help="Number of ticks; default: no limit."),
    to: str = typer.Option(
        "lake",
        "--sink",
        help="Destination: lake, or a topic of Kafka: kafka:TOPIC, or kafka:CLUSTER/TOPIC if the "
        "settings name several Kafka clusters.",
    ),
    metrics: str | None = METRICS,
    record: Path | None = typer.Option(
        None, "--record", help="Pulsar: also append load reports to this file, for trimtab replay."
    ),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Sample a cluster until Ctrl-C. Installs nothing on the brokers.

    Kafka: placement, sizes, offsets, consumer groups, and metrics if the brokers have an exporter. Pulsar:
    load reports, bundles and their owners, topics, policies. Redis: counters of queues. A store: masters.
    """
    from trimtab.cli import collect as body

    if interval is not None:
        overrides = [*overrides, f"collect.interval_seconds={interval}"]
    where = command_context(lake, settings, overrides, cluster)
    body.collect(where, to=to, record=record, ticks=ticks, metrics=metrics, as_json=as_json)


MASTER = typer.Option(None, SPARK_MASTER.flag, help=SPARK_MASTER.help)
WINDOW = typer.Option(None, "--window", help="Length of a window in seconds; also sets its slide.")
HEAVY = typer.Option(False, LARGE_JOB.flag, help=LARGE_JOB.help)


def run(
    since: str | None = typer.Option(None, "--since", help="First tick, like 2026-11-21T05:00 (UTC)."),
    until: str | None = typer.Option(None, "--until", help="End of the ticks, exclusive."),
    window: float | None = WINDOW,
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    master: str | None = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
    *,
    values: OptionValues,
) -> None:
    """Rebuild the tables from raw samples, of all history or a part, and write the newest snapshots.

    Builds the tables of every balancer with samples in the lake. With --keys Spark first reads the records of
    a topic, and only the tables of that balancer are built.
    """
    from trimtab.cli import pipeline as body

    where = command_context(lake, settings, _spark(overrides, master, heavy), cluster, values)
    body.run(since, until, window, where, as_json=as_json)


def stream(
    source: str = typer.Option(
        "lake", "--source", help="Source: lake, or a topic of Kafka: kafka:TOPIC, or kafka:CLUSTER/TOPIC."
    ),
    balancer: str | None = BALANCER,
    trigger: str = typer.Option("10s", "--trigger", help="Minimum time between two micro-batches."),
    once: bool = typer.Option(False, "--once", help="End when all existing samples are processed."),
    most: int | None = typer.Option(
        None,
        "--max-per-batch",
        min=1,
        help="Maximum number of files or records per micro-batch (default for a topic: 500000).",
    ),
    metrics: str | None = METRICS,
    window: float | None = WINDOW,
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    master: str | None = MASTER,
    heavy: bool = HEAVY,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
    *,
    values: OptionValues,
) -> None:
    """Update tables and snapshots with new samples, exactly once, until Ctrl-C.

    A topic holds the samples of one balancer (--balancer; default: the first); the files of a lake name
    theirs. With --keys the records of a topic are read at each trigger.
    """
    from trimtab.cli import pipeline as body

    where = command_context(lake, settings, _spark(overrides, master, heavy), cluster, values)
    body.stream(source, balancer, trigger, most, window, where, metrics=metrics, once=once, as_json=as_json)


def _spark(overrides: list[str], master: str | None, heavy: bool) -> Overrides:
    """The overrides, after those that options about Spark are a short way to write."""
    return [*spark_overrides({"master": master, "large_job": heavy}), *overrides]


def compact(
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the files to remove and to merge; change nothing."
    ),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Merge small files of raw samples and tables, and remove data beyond the retention ([lake]); no Spark.

    A stream does the same at intervals.
    """
    from trimtab.cli import lake as body

    body.compact(command_context(lake, settings, overrides), dry_run=dry_run, as_json=as_json)


def export_tables(
    delta: str = typer.Option(..., "--delta", help="Folder or address for the Delta tables."),
    balancer: str | None = BALANCER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Write the tables as Delta tables, consistent with one another; a later export writes only changes.

    Needs the extra `delta`; no Spark.
    """
    from trimtab.cli import lake as body

    body.export_tables(delta, balancer, command_context(lake, settings, overrides), as_json=as_json)


def accuracy(
    folder: Path = typer.Argument(
        ..., help="Folder of *.truth.jsonl written by `trimtab sandbox kafka load`."
    ),
    cluster: str | None = LAKE_CLUSTER,
    lake: Path | None = LAKE,
    as_json: bool = JSON,
    figure: Path | None = typer.Option(
        None, "--figure", help="Draw measured against true figures, SVG or PNG."
    ),
) -> None:
    """Compare the tables of every partition and broker with the actual load of a load generator.

    Needs a source checkout of trimtab.
    """
    body = import_example("pipeline accuracy", "demos.accuracy")
    body.print_accuracy(folder, cluster, lake_path(lake), as_json, figure)


def status(
    lake: Path | None = LAKE,
    cluster: str | None = CLUSTER,
    live: bool = typer.Option(
        False, "--live", help="Ask the cluster itself; implied if --cluster is an address."
    ),
    watch: bool = typer.Option(
        False, "--watch", help="Keep running, and print again when there is new data."
    ),
    as_json: bool = JSON,
    every: bool = typer.Option(False, "--all", help="Show all brokers or queues."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    via: str | None = VIA,
    token_file: Path | None = TOKEN_FILE,
    *,
    values: OptionValues,
) -> None:
    """Show the load as a heat map of brokers and resources, and the goals that hold.

    Reads the output of `trimtab pipeline`; starts no JVM and sends no request to a cluster. With --live, or
    with an address as --cluster, it shows the current placement from that cluster instead. With --keys it
    shows the last reading of a topic: hot keys, and the balance over its partitions. With --via it shows
    the verdicts of a service, and what it waits for.
    """
    if via is not None:
        from trimtab.cli import via as remote

        local = {"lake": lake, "live": live, "watch": watch, "all": every, "settings": settings}
        remote.reject_local_options(**local, set=overrides, **values)
        return remote.status(remote.client_of(via, token_file), cluster, as_json=as_json)

    from trimtab.cli import status as body

    where = command_context(lake, settings, overrides, cluster, values)
    body.show(body.status_source(where, live=live, every=every), watch=watch, as_json=as_json)


def top(
    snapshot: Path | None = SNAPSHOT,
    partitions: bool = typer.Option(False, "--partitions", help="List the largest partitions (default)."),
    topics: bool = typer.Option(False, "--topics", help="List the largest topics."),
    brokers: bool = typer.Option(False, "--brokers", help="List the busiest brokers."),
    sort: str = typer.Option(
        "",
        "--sort",
        help="Column: a resource, or replicas or leaders of brokers. Default: disk, and of "
        "brokers the largest utilization.",
    ),
    count: int = typer.Option(20, "--count", min=1, max=1000, help="Largest number of rows."),
    watch: float | None = typer.Option(
        None, "--watch", min=0.2, metavar="SECONDS", help="Keep running, and look again at this interval."
    ),
    lake: Path | None = LAKE,
    cluster: str | None = LAKE_CLUSTER,
    balancer: str | None = BALANCER,
    as_json: bool = JSON,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    via: str | None = VIA,
    token_file: Path | None = TOKEN_FILE,
) -> None:
    """List the largest partitions or topics, or the busiest brokers.

    Reads the newest snapshot of the lake, a snapshot file, or with --via what a service holds. A partition
    and a topic have the load of their leaders; a broker has its load, utilization and deviation from the
    mean.
    """
    from trimtab.cli import status as looks
    from trimtab.cli import top as body

    flags = {"partitions": partitions, "topics": topics, "brokers": brokers}
    kinds = [name for name, is_set in flags.items() if is_set]
    if len(kinds) > 1:
        raise InputError(f"--{kinds[0]} and --{kinds[1]} exclude each other: choose one")
    kind: Any = kinds[0] if kinds else "partitions"
    chosen = DEFAULT_BALANCER if balancer is None else balancer_named(balancer, "--balancer")
    if via is not None:
        from trimtab.cli import via as remote

        remote.reject_local_options(lake=lake, snapshot=snapshot, settings=settings, set=overrides)
        source = body.of_service(remote.client_of(via, token_file), chosen, cluster, kind, sort, count)
    else:
        where = command_context(lake, settings, overrides, cluster)
        source = body.of_snapshot(where, chosen, snapshot, kind, sort, count)
    seconds = watch or looks.WATCH_SECONDS
    looks.show(source, watch=watch is not None, as_json=as_json, watch_seconds=seconds)


def _snapshot() -> None:
    """Write snapshots of clusters to files."""


def export_snapshot(
    out: Path = typer.Option(
        Path("snapshot.json"), "--out", help="File (.json or .json.gz), or folder (any other name)."
    ),
    cluster: str | None = LAKE_CLUSTER,
    lake: Path | None = LAKE,
    balancer: str | None = BALANCER,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Write the newest snapshot of a cluster: brokers, placement, loads, quality."""
    from trimtab.cli import lake as body

    body.export(out, command_context(lake, settings, overrides, cluster), balancer, as_json=as_json)


FORMAT = typer.Option(
    "text",
    "--format",
    help=f"{', '.join(FORMS)}: text, the plan itself (as --json), or the input of a system's own tools.",
)
ALL_MOVES = typer.Option(False, "--all-moves", help="List every move in the text.")


def _plan_command(balancer: Balancer) -> Any:
    def plan(
        snapshot: Path | None = SNAPSHOT,
        lake: Path | None = LAKE,
        cluster: str | None = LAKE_CLUSTER,
        out: Path | None = typer.Option(None, "--out", help="Write the plan (trimtab/plan/1) to this file."),
        form: str = FORMAT,
        as_json: bool = JSON,
        all_moves: bool = ALL_MOVES,
        strategy: str | None = typer.Option(None, "--strategy", help=balancer.strategy_help),
        overrides: list[str] = typer.Option([], "--set", help=balancer.set_help),
        settings: Path | None = SETTINGS,
        detailed: bool = typer.Option(
            False, "--detailed-exitcode", help="Exit code 4 instead of 0 if the plan has moves."
        ),
        via: str | None = VIA,
        token_file: Path | None = TOKEN_FILE,
        *,
        values: OptionValues,
    ) -> None:
        if via is not None:
            from trimtab.cli import via as remote

            local = {"snapshot": snapshot, "lake": lake, "strategy": strategy, "settings": settings}
            remote.reject_local_options(**local)
            return remote.plan(
                remote.client_of(via, token_file),
                balancer,
                cluster,
                overrides,
                values,
                out,
                form_of(form, as_json),
                all_moves=all_moves,
                detailed=detailed,
            )

        from trimtab.cli import plan as body

        asked = PlanRequest(
            snapshot=snapshot,
            lake=lake_path(lake),
            settings=settings,
            cluster=command_context(lake, settings, overrides, cluster).lake_cluster(),
            strategy=strategy,
            overrides=tuple(overrides),
            own=values,
        )
        body.plan(balancer, asked, out, form_of(form, as_json), all_moves=all_moves, detailed=detailed)

    plan.__doc__ = f"""Plan moves of {balancer.title}; changes nothing.

    Exit code 0: the verdict is `balanced` or `improved`. 3: it is `incomplete` or `infeasible`, and the
    problems name the reason. 2: invalid input or settings; nothing is written. With --detailed-exitcode,
    0: there is nothing to do; 4: the plan has moves.
    """
    return with_options(plan, balancer.plan_options)


def show_plan(
    path: Path = typer.Argument(..., metavar="PLAN.json", help="Plan file (trimtab/plan/1)."),
    snapshot: Path | None = typer.Option(
        None, "--snapshot", help="Snapshot of the plan, to show its load too."
    ),
    form: str = FORMAT,
    as_json: bool = JSON,
    all_moves: bool = ALL_MOVES,
) -> None:
    """Check and show a plan file, also one edited by hand."""
    from trimtab.cli import plan as body

    body.show(path, snapshot, form_of(form, as_json), all_moves=all_moves)


def undo_plan(
    execution: int | None = typer.Argument(None, help="Id of the execution; default: the newest."),
    snapshot: Path | None = SNAPSHOT,
    lake: Path | None = LAKE,
    out: Path | None = typer.Option(None, "--out", help="Write the plan (trimtab/plan/1) to this file."),
    form: str = FORMAT,
    as_json: bool = JSON,
    all_moves: bool = ALL_MOVES,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Plan moves that undo an execution, from a snapshot taken after it; changes nothing.

    Moves return only what is still as the execution left it. Exit code 0: the plan undoes the whole
    execution. 3: it cannot undo everything, for example splits of bundles; the problems name the reasons.
    """
    from trimtab.cli import plan as body

    where = command_context(lake, settings, overrides)
    body.undo(execution, snapshot, where, out, form_of(form, as_json), all_moves=all_moves)


def diff_plans(
    first: Path = typer.Argument(..., metavar="A.json"), second: Path = typer.Argument(..., metavar="B.json")
) -> None:
    """Show the differences of two plans; exit code 1 if they differ."""
    from trimtab.cli import plan as body

    body.diff(first, second)


def apply(
    plan: Path = typer.Argument(help="Plan file (trimtab/plan/1); with --via also the digest of a plan."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the steps and change nothing."),
    rebase: bool = typer.Option(
        False, "--skip-changed", help="Leave out moves that no longer fit the cluster."
    ),
    back: bool = typer.Option(
        False, "--revert", help="Revert the plan: restore the previous routes of keys."
    ),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
    via: str | None = VIA,
    token_file: Path | None = TOKEN_FILE,
    *,
    values: OptionValues,
) -> None:
    """Execute a plan in batches; temporary settings are always restored.

    The cluster must be of the plan's system. Ctrl-C once stops
    (steps in flight finish), twice cancels (copies are rolled back; unloads cannot be). A killed execution
    can be resumed. Exit code 0: finished; 1: steps are left, or the plan was rejected; 2: invalid input.
    With --via the service executes a plan that it holds; Ctrl-C then stops the display alone.
    """
    if via is not None:
        from trimtab.cli import via as remote

        local = {
            "skip_changed": rebase,
            "revert": back,
            "cluster": cluster,
            "lake": lake,
            "settings": settings,
        }
        remote.reject_local_options(**local, set=overrides, **values)
        service = remote.client_of(via, token_file)
        return remote.apply(service, plan, yes=yes, dry_run=dry_run, as_json=as_json)

    from trimtab.cli import execution as body

    where = command_context(lake, settings, overrides, cluster, values)
    body.apply(plan, where, yes=yes, dry_run=dry_run, rebase=rebase, back=back, as_json=as_json)


ID = typer.Argument(None, help="Id of the execution; default: the newest.")


def serve(
    listen: str | None = typer.Option(None, "--listen", help="Address and port; default: 127.0.0.1:8230."),
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Balance clusters without a person: observe, decide, act, and say why it waits.

    The section [serve] of the settings has the policy; by default the service only proposes plans. It serves
    an API and pages, and ends with Ctrl-C or SIGTERM. An execution that runs then goes on after its next
    start, or on another instance with the same lake.
    """
    from trimtab.cli import serve as body

    words = [*overrides, *([f"serve.listen={json.dumps(listen)}"] if listen is not None else [])]
    context = command_context(lake, settings, words)
    body.serve(context.settings, context.overrides, context.lake)


def list_executions(
    as_json: bool = JSON, via: str | None = VIA, token_file: Path | None = TOKEN_FILE
) -> None:
    """List all executions of the state folder, newest first; with --via those of a service."""
    if via is not None:
        from trimtab.cli import via as remote

        return remote.list_executions(remote.client_of(via, token_file), as_json=as_json)

    from trimtab.cli import execution as body

    body.list_executions(as_json=as_json)


def show_execution(
    execution: int | None = ID,
    cluster: str | None = SERVED_CLUSTER,
    as_json: bool = JSON,
    via: str | None = VIA,
    token_file: Path | None = TOKEN_FILE,
) -> None:
    """Show one execution: its steps, their progress, and the end of its log."""
    if via is not None:
        from trimtab.cli import via as remote

        return remote.show(remote.client_of(via, token_file), execution, cluster, as_json=as_json)
    if cluster is not None:
        raise InputError("--cluster is for --via only; give the id of the execution")

    from trimtab.cli import execution as body

    body.show(execution, as_json=as_json)


def _on_a_cluster(name: Literal["resume", "stop", "cancel"], story: str) -> Callable[..., None]:
    def command(
        execution: int | None = ID,
        cluster: str | None = CLUSTER,
        lake: Path | None = LAKE,
        settings: Path | None = SETTINGS,
        overrides: list[str] = SET,
        as_json: bool = JSON,
        via: str | None = VIA,
        token_file: Path | None = TOKEN_FILE,
    ) -> None:
        if via is not None:
            from trimtab.cli import via as remote

            remote.reject_local_options(lake=lake, settings=settings, set=overrides)
            service = remote.client_of(via, token_file)
            return remote.request(service, name, execution, cluster, as_json=as_json)

        from trimtab.cli import execution as body

        where = command_context(lake, settings, overrides, cluster)
        body.request(name, execution, where, as_json=as_json)

    command.__doc__ = story
    return command


def throttle(
    throttle: str = typer.Argument(..., help="auto, none, or bytes per second for each broker."),
    execution: int | None = ID,
    cluster: str | None = CLUSTER,
    as_json: bool = JSON,
    via: str | None = VIA,
    token_file: Path | None = TOKEN_FILE,
) -> None:
    """Change the throttle of a running execution; copies in flight go on at the new rate."""
    if via is not None:
        from trimtab.cli import via as remote

        service = remote.client_of(via, token_file)
        return remote.change_throttle(service, throttle, execution, cluster, as_json=as_json)
    if cluster is not None:
        raise InputError("--cluster is for --via only; give the id of the execution")

    from trimtab.cli import execution as body

    body.change_throttle(throttle, execution, as_json=as_json)


_STORIES: Final[dict[Literal["resume", "stop", "cancel"], str]] = {
    "resume": "Resume an interrupted, stopped or cancelled execution.",
    "stop": "Stop an execution: steps in flight finish, the others can be resumed later.",
    "cancel": """Cancel an execution: steps in flight are rolled back, completed steps stay.

              Unloads of Pulsar bundles cannot be rolled back: bundles in transit get an owner, the others
              stay. No throttle, reassignment or lease remains.
              """,
}


def measure(
    execution: int | None = typer.Argument(None, help="Id of the execution; default: the newest."),
    ticks: int = typer.Option(
        10,
        "--ticks",
        min=1,
        help="Maximum number of samples of each side: the nearest before, the newest after.",
    ),
    plot: Path | None = typer.Option(
        None, "--plot", help="Draw before and after to this file, .png or .svg."
    ),
    live: bool = typer.Option(
        False,
        "--live",
        help="Sample the cluster now, for --duration, instead of reading later samples from the lake.",
    ),
    long: str = typer.Option("60s", "--duration", help="Duration of --live."),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Compare the load before an execution, as predicted by its plan, and as measured after it.

    Reads the lake: first collect samples after the execution and run the pipeline. With --live it takes the
    later samples itself, from the cluster that the settings or an option name. The last line is the result.
    Exit code 0: every goal holds, under a comparable load; 1: otherwise, or too few samples.
    """
    from trimtab.cli import execution as body

    where = command_context(lake, settings, overrides, cluster)
    body.measure(execution, ticks, plot, long if live else None, where, as_json=as_json)


def _group() -> None:
    """Replay recorded load with strategies and compare them."""


def _replay_command(balancer: Balancer) -> Any:
    def replay(*, values: OptionValues) -> None:
        assert balancer.replay is not None
        raise typer.Exit(balancer.replay()(values))

    replay.__doc__ = f"""Replay recorded load of {balancer.system.title} with strategies and compare them.

    {balancer.replay_help}

    Exit code 2: the recording, a strategy or an option is invalid; nothing further is written.
    """
    return with_options(replay, balancer.replay_options)


def _alone(command: Callable[..., None]) -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return app


def _apply_app() -> typer.Typer:
    # Balancers may share an option: it is offered once.
    own = {option.name: option for level in BALANCERS.values() for option in level.apply_options}
    return _alone(with_options(apply, own.values()))


def _pipeline_app() -> typer.Typer:
    app = typer.Typer(add_completion=False, no_args_is_help=True)
    for command in (run, stream):
        app.command()(with_options(command, reading_options()))
    app.command()(compact)
    app.command("export")(export_tables)
    app.command()(accuracy)
    return app


def _snapshot_app() -> typer.Typer:
    app = typer.Typer(add_completion=False, help="Write snapshots to files.", no_args_is_help=True)
    app.callback()(_snapshot)
    app.command("export")(export_snapshot)
    return app


def _plan_app() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        help="Find the smallest set of moves that balances a cluster; changes nothing.",
        no_args_is_help=True,
    )
    for balancer in BALANCERS.values():
        app.command(balancer.name)(_plan_command(balancer))
    app.command("show")(show_plan)
    app.command("diff")(diff_plans)
    app.command("undo")(undo_plan)
    return app


def _execution_app() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        help="Show, resume, stop, cancel and change executions.",
        no_args_is_help=True,
    )
    app.command("list")(list_executions)
    app.command("show")(show_execution)
    for name, story in _STORIES.items():
        app.command(name)(_on_a_cluster(name, story))
    app.command("throttle")(throttle)
    return app


def _replay_app() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        help="Replay recorded load with strategies and compare them.",
        no_args_is_help=True,
    )
    app.callback()(_group)
    for balancer in BALANCERS.values():
        if balancer.replay is not None:
            app.command(balancer.name)(_replay_command(balancer))
    return app


APPS: Final[dict[str, Callable[[], typer.Typer]]] = {
    "check": lambda: _alone(check),
    "import-capacity": lambda: _alone(import_capacity),
    "collect": lambda: _alone(collect),
    "pipeline": _pipeline_app,
    "status": lambda: _alone(with_options(status, reading_options())),
    "top": lambda: _alone(top),
    "snapshot": _snapshot_app,
    "plan": _plan_app,
    "apply": _apply_app,
    "execution": _execution_app,
    "measure": lambda: _alone(measure),
    "replay": _replay_app,
    "serve": lambda: _alone(serve),
}
"""The commands by name. The options of a command are put together when it is called."""

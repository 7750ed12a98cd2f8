"""`trimtab status`: load and missed goals from the lake or from a cluster, once or until Ctrl-C."""

from __future__ import annotations

import datetime
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live

from trimtab.balancers import BALANCERS, Balancer
from trimtab.balancers.clusters import Cluster
from trimtab.cli.context import CommandContext
from trimtab.files.machine import state_folder
from trimtab.files.store import Location
from trimtab.model.errors import ObserveError
from trimtab.model.goals import GoalStatus, GoalViolation, goal_status, out_of_service, violations_not_in
from trimtab.model.plan import Problem
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.status import TICKS, ClusterStatus, read_statuses
from trimtab.report.measured import MIN_SAMPLES, SETTLING, measured_between
from trimtab.report.status_text import finding_lines, status_document, status_text
from trimtab_common.errors import ConnectError, InputError, SettingsError
from trimtab_common.settings import Settings

LINE_SECONDS = 5.0
"""Minimum time between two lines of progress where no terminal rewrites a line."""


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set: what is in hand is finished, nothing is begun; twice kills."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop


def handled_signals(handle: Callable[[int, int], None]) -> Callable[[], None]:
    """Handle SIGINT and SIGTERM; returns a function that restores the previous handlers.

    Parameters
    ----------
    handle
        Receives the number of the signal, and the number of signals so far.
    """
    count = 0

    def received(number: int, _: object) -> None:
        nonlocal count
        count += 1
        handle(number, count)

    previous = {number: signal.signal(number, received) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    return restore


class ProgressLine:
    """One line that is rewritten on a terminal, or a line now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._printed_at = 0.0
        self._last = ""

    def show(self, line: str) -> None:
        """Show a line, unless one was shown a moment ago."""
        now = time.monotonic()
        if line == self._last or now - self._printed_at < (0.1 if self._terminal else LINE_SECONDS):
            return
        self._printed_at, self._last = now, line
        sys.stderr.write(f"\r\033[K{line}" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def print_line(self, line: str) -> None:
        """Print a line that later updates do not overwrite."""
        sys.stderr.write(f"\r\033[K{line}\n" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the line of progress as it is and begin a new one."""
        if self._terminal and self._last:
            sys.stderr.write("\n")
            sys.stderr.flush()


WATCH_SECONDS = 2.0
_PASSING = (ObserveError, ConnectError)
"""What may be over at the next look: the pipeline publishes its first tables, a service starts again."""

StatusSource = Callable[[], tuple[Mapping[str, object] | Sequence[object], Iterable[RenderableType]]]
"""Gives what is to be shown now: as plain JSON values, and as text."""


def status_source(context: CommandContext, *, live: bool, every: bool) -> StatusSource:
    """The look that is asked for: at brokers where a cluster is named, else at the lake."""
    for level in BALANCERS.values():
        if (
            level.direct_source_option is not None
            and (name := context.option_values.get(level.direct_source_option.name)) is not None
        ):
            return _of_reading(level, str(name), context, context.lake_cluster(), every=every)
    settings = context.read()
    if live or context.names_an_address():
        return _of_brokers(context.only(settings), settings, every=every)
    cluster = context.lake_cluster()

    def from_lake() -> tuple[Mapping[str, object], Iterable[RenderableType]]:
        now = datetime.datetime.now(datetime.UTC)
        lakes = [Lake(context.lake, level.pipeline()) for level in BALANCERS.values()]
        found = [(one, *_evaluate(one, context.lake, settings)) for one in read_statuses(lakes, cluster)]
        documents = [status_document(*one[:2], now, one[2]) for one in found]
        texts = [part for one in found for part in (*_text(*one, now, every), "")][:-1]
        return documents[0] if len(documents) == 1 else {"clusters": documents}, texts

    return from_lake


def _text(
    status: ClusterStatus,
    goal_status: GoalStatus | str,
    findings: Sequence[Problem],
    now: datetime.datetime,
    every: bool,
) -> Iterator[RenderableType]:
    level = BALANCERS[status.balancer]
    yield from status_text(status, goal_status, now, every, carrier=level.target_kind, remedy=level.remedy)
    yield from finding_lines(findings)


def _evaluate(
    status: ClusterStatus, lake: Location, settings: Settings
) -> tuple[GoalStatus | str, Sequence[Problem]]:
    """How level the newest snapshot is, as a plan sees it, or why that is not known; and what it shows."""
    level = BALANCERS[status.balancer]
    try:
        home = Lake(lake, level.pipeline())
        snapshot = level.snapshot().read(home.newest_snapshot(status.cluster))
        asked = settings.of(level.settings())
    except (InputError, ObserveError) as error:
        return str(error), ()
    standing = goal_status(snapshot, asked)
    missed = _missed_by_samples(home, status.cluster, snapshot, asked, standing)
    findings = () if level.findings is None else level.findings()(snapshot, asked)
    return replace(standing, sampled=missed), findings


def _missed_by_samples(
    lake: Lake, cluster: str, snapshot: Any, settings: Any, status: GoalStatus
) -> tuple[GoalViolation, ...]:
    """Goals that the samples since the last execution miss, as `measure` has them, and the snapshot holds."""
    if not hasattr(snapshot, "partitions"):
        return ()
    # The journal is a database, which most looks at a cluster do not need.
    from trimtab.executions import known_executions

    known = known_executions(state_folder())
    ended = [one.ended_at or one.created_at for one in known if one.cluster == cluster]
    after = datetime.datetime.fromtimestamp(max(ended), datetime.UTC) if ended else None
    found = measured_between(lake, cluster, TICKS, after, None, settling=SETTLING)
    if found is None or found.instants < MIN_SAMPLES:
        return ()
    seen = found.without(out_of_service(snapshot, vars(settings))).as_planned(snapshot)
    return violations_not_in(seen.violations(status.goals), status.violations)


def _of_brokers(cluster: Cluster, settings: Settings, *, every: bool) -> StatusSource:
    """The live status of a cluster, by the first balancer of its system that has one."""
    system = cluster.system
    level = next(
        (one for one in BALANCERS.values() if one.system is system and one.live_status is not None), None
    )
    if level is None or level.live_status is None:
        raise SettingsError(f"--live: there is no live status of {system.title}; collect samples into a lake")
    glance, words = level.live_status(), level.renderer()
    connection = cluster.connection()
    how = settings.section("collect", CollectSettings)

    def from_brokers() -> tuple[Mapping[str, object], Iterable[RenderableType]]:
        seen = glance(connection, how)
        return words.status_document(seen), words.status_text(seen, every)

    return from_brokers


def _of_reading(
    balancer: Balancer, name: str, context: CommandContext, cluster: str | None, *, every: bool
) -> StatusSource:
    """A look at the newest snapshot of what a balancer read out of its system under a name."""
    lake, words = Lake(context.lake, balancer.pipeline()), balancer.renderer()

    def from_lake() -> tuple[Mapping[str, object], Iterable[RenderableType]]:
        read = [one for one in lake.clusters() if one.rpartition("@")[0] == name and cluster in (None, one)]
        if len(read) != 1:
            flag = "" if balancer.direct_source_option is None else balancer.direct_source_option.flag
            what = f"readings of {name} on {len(read)} clusters" if read else f"no reading of {name}"
            raise ObserveError(
                f"lake {lake.path} holds {what}: "
                + ("say which with --cluster" if read else f"run `trimtab pipeline run {flag} {name}`")
            )
        seen = balancer.snapshot().read(lake.newest_snapshot(read[0]))
        return words.status_document(seen), words.status_text(seen, every)

    return from_lake


def show(
    observation: StatusSource, *, watch: bool, as_json: bool, watch_seconds: float = WATCH_SECONDS
) -> None:
    """Show it once, or again and again."""
    if as_json:
        typer.echo(json.dumps(observation()[0], indent=1))
    elif watch:
        _watch(observation, watch_seconds)
    else:
        console = Console(highlight=False)
        for part in observation()[1]:
            console.print(part, soft_wrap=isinstance(part, str))


def _watch(observation: StatusSource, watch_seconds: float) -> None:
    if not Console().is_terminal:
        _follow(observation, watch_seconds)
        return
    with (
        suppress(KeyboardInterrupt),
        Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="visible") as live,
    ):
        while True:
            try:
                live.update(Group(*observation()[1]), refresh=True)
            except _PASSING as error:
                live.update(f"[yellow]![/] {error}", refresh=True)
            time.sleep(watch_seconds)


def _follow(observation: StatusSource, watch_seconds: float) -> None:
    """Print what there is whenever it changes, where nothing can be drawn over: a pipe or a file."""
    console, last = Console(highlight=False), ""
    with suppress(KeyboardInterrupt):
        while True:
            with console.capture() as captured:
                try:
                    for part in observation()[1]:
                        console.print(part, soft_wrap=isinstance(part, str))
                except _PASSING as error:
                    console.print(f"waiting: {error}", soft_wrap=True, markup=False)
            if (now := captured.get()) != last:
                typer.echo(now, nl=False)
                sys.stdout.flush()
                last = now
            time.sleep(watch_seconds)

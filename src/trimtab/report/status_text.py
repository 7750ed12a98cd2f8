"""The texts of `trimtab status` and `trimtab check`.

From a lake, the status shows the heat map as measured, the goals as a plan sees them, the age and the quality
of the data. Without a lake it shows the placement at this moment, as the brokers report it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.markup import escape

from trimtab.model.errors import Finding, FindingStatus, fine, missing
from trimtab.model.goals import topic_violation_text
from trimtab.model.load import resource_name, sigma_threshold
from trimtab.report.formats import broker_name, counted, duration_text, known_value
from trimtab.report.tables import HeatmapPanel, figures_table, terminal_heatmap

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from trimtab.model.goals import GoalStatus, GoalViolation, IntraBrokerBalance
    from trimtab.model.load import FloatArray
    from trimtab.model.plan import Problem
    from trimtab.observe.lake.lake import LakeAge
    from trimtab.observe.lake.status import BrokerStatus, ClusterStatus


MAX_LISTED = 40
"""Rows of the heat map; of larger clusters the brokers that deviate most."""

TOPICS = 10
"""Topics that are named where their numbers miss goals."""

STALE_SECONDS = 600.0

CPU_LABELS = {
    "measured": "CPU by a fitted model",
    "shares": "CPU by fixed shares",
    "absent": "no CPU signal: three resources",
}


def status_text(
    status: ClusterStatus,
    goal_status: GoalStatus | str,
    now: datetime.datetime,
    every: bool = False,
    *,
    carrier: str = "broker",
    remedy: str = "finds the fewest moves that help",
) -> Iterator[RenderableType]:
    """The whole text of `trimtab status` from a lake.

    Parameters
    ----------
    goal_status
        The load and its violated goals, or why there is none.
    now
        What ages are counted to.
    every
        Show all brokers, however many.
    carrier, remedy
        Of the balancer, as `Balancer` has them.
    """
    yield _head(status, now, carrier)
    rows, hidden = worst_rows(status.deviation, every)
    names = [broker_text(status.brokers[row]) for row in rows]
    yield terminal_heatmap(
        names,
        HeatmapPanel(status.usage[rows], status.deviation[rows]),
        columns=[resource_name(name) for name in status.resources],
        epsilon=0.1 if isinstance(goal_status, str) else goal_status.goals.epsilon,
    )
    if hidden:
        yield f"[dim]{hidden} more {carrier}s deviate less; --all shows them[/]"
    yield ""
    if not isinstance(goal_status, str):
        yield _measures(status, goal_status)
        if goal_status.intra_broker is not None:
            yield intra_broker_text(goal_status.intra_broker)
    yield from _notes(status, now, carrier)
    yield from _verdict(status, goal_status, carrier, remedy)


def finding_lines(findings: Sequence[Problem]) -> Iterator[str]:
    """A line for each finding about a snapshot that breaks no goal."""
    yield from (f"[yellow]![/] {escape(finding.text)}" for finding in findings)


def status_document(
    status: ClusterStatus,
    goal_status: GoalStatus | str,
    now: datetime.datetime,
    findings: Sequence[Problem] = (),
) -> dict[str, Any]:
    """The same figures as plain JSON values; unknown figures are null."""
    return {
        "balancer": status.balancer,
        "cluster": status.cluster,
        "at": _rfc3339(status.last_tick),
        "newest_tick": _rfc3339(status.newest_tick),
        "age_seconds": round((now - status.last_tick).total_seconds(), 3),
        "ticks": status.ticks,
        "snapshot": None if isinstance(goal_status, str) else goal_status.taken_at,
        "resources": {} if isinstance(goal_status, str) else _resources(goal_status),
        **({} if isinstance(goal_status, str) else _intra_broker_violations(goal_status)),
        "missed_by_samples": []
        if isinstance(goal_status, str)
        else [one._asdict() for one in goal_status.sampled],
        "brokers": [
            {
                "id": broker.id,
                "host": broker.host,
                "rack": broker.rack,
                "state": broker.state,
                "usage": _by_resource(status.resources, status.usage[row]),
                "deviation": _by_resource(status.resources, status.deviation[row]),
            }
            for row, broker in enumerate(status.brokers)
        ],
        **_secondary_violations(goal_status),
        "findings": [{"kind": one.kind, "text": one.text, "proof": one.proof} for one in findings],
        "traffic_collapse": status.traffic_collapse,
        "quality": status.quality,
    }


def _secondary_violations(status: GoalStatus | str) -> dict[str, object]:
    """The violated goals besides brokers' load, by kind; empty if there are no such goals."""
    if isinstance(status, str):
        return {}
    return {
        f"{one.kind}s": {"breaches": [breach._asdict() for breach in one.violations()]}
        for one in status.secondary_goals
    }


def _head(status: ClusterStatus, now: datetime.datetime, carrier: str) -> str:
    age = _seconds_text((now - status.last_tick).total_seconds())
    ticks = "1 tick" if status.ticks == 1 else f"{status.ticks} ticks"
    line = (
        f"[bold]{status.cluster}[/]: {counted(len(status.brokers), carrier)}, {ticks} up to "
        f"{status.last_tick:%Y-%m-%d %H:%M:%S} UTC, {age} ago"
    )
    quality = status.quality
    if "valid_share" in quality:
        line += f"; {quality['valid_share']:.0%} of samples valid"
    if "cpu" in status.resources and quality.get("cpu") in CPU_LABELS:
        line += f"; {CPU_LABELS[quality['cpu']]}"
    return line


def _resources(status: GoalStatus) -> dict[str, dict[str, Any]]:
    """Figures of every resource in its worst view, and its violated goals."""
    views = list(status.measured.values())

    def worst(figure: str, place: int) -> float | None:
        return known_value(max(float(getattr(view, figure)[place]) for view in views))

    found: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(views[0].resources):
        brokers, epsilon = int(views[0].counted[:, place].sum()), float(status.goals.epsilon[place])
        missed = {one.goal: one._asdict() for one in status.violations if one.resource == name}
        found[name] = {
            "sigma": worst("sigma", place),
            "eta": known_value(sigma_threshold(epsilon, brokers)) if brokers else None,
            "worst_deviation": worst("worst_deviation", place),
            "epsilon": known_value(epsilon),
            "peak_usage": None if name in status.nominal else worst("peak_usage", place),
            "theta": known_value(float(status.goals.theta[place])),
            "idle": all(view.mean[place] < status.goals.idle[place] for view in views),
            "holds": {goal: goal not in missed for goal in ("theta", "epsilon")} if brokers else None,
            "breaches": list(missed.values()),
        }
    return found


def _measures(status: ClusterStatus, goal_status: GoalStatus) -> Table:
    table = figures_table(["resource"], ["peak", "θ", "worst γ", "ε", "σ", "η"])
    table.add_column("")
    for place, (name, of) in enumerate(_resources(goal_status).items()):
        if of["holds"] is None:
            unknown = np.isnan(status.deviation[:, place]).all()
            why = "not measured" if unknown else "no capacity, not balanced"
            table.add_row(resource_name(name), *["–"] * 6, f"[dim]{why}[/]")
            continue
        level = "[dim]idle, not judged[/]" if of["idle"] else "[green]balanced[/]"
        held = of["holds"] | {"idle": None}
        shown = [_figure(of["peak_usage"], "{:.0%}", held["theta"]), _figure(of["theta"], "{:.0%}")]
        shown.append(_figure(of["worst_deviation"], "{:.1%}", held["idle" if of["idle"] else "epsilon"]))
        shown += [_figure(of["epsilon"], "{:.1%}"), *(_figure(of[one], "{:.4f}") for one in ("sigma", "eta"))]
        table.add_row(resource_name(name), *shown, "[red]not balanced[/]" if of["breaches"] else level)
    return table


def _notes(status: ClusterStatus, now: datetime.datetime, carrier: str) -> Iterator[str]:
    for broker in status.brokers:
        if broker.state != "alive":
            yield f"[red]![/] {broker_name(broker.id)} is {broker.state}"
    quality = status.quality
    if quality.get("x_samples_ahead_until"):
        yield (
            f"[yellow]![/] samples up to {quality['x_samples_ahead_until']} are not used: the clock of a "
            "collector was ahead"
        )
    for name, what in (
        ("x_partitions_without_rates", "without rates: network load counts as 0"),
        ("x_partitions_estimated", "without counters, which others have: network load is estimated"),
    ):
        if number := quality.get(name):
            yield f"[yellow]![/] {counted(number, 'partition')} {what}"
    if status.traffic_collapse:
        yield "[red]![/] clients are served less than half of what they offer"
    if (now - status.last_tick).total_seconds() > STALE_SECONDS:
        yield "[yellow]![/] old figures: keep `trimtab collect` and `trimtab pipeline stream` running"
    lag = (status.newest_tick - status.last_tick).total_seconds()
    if lag > 0:
        missing_for = _seconds_text(lag)
        yield f"[yellow]![/] the newest {missing_for} of samples lack a {carrier}; figures end before them"


def _verdict(
    status: ClusterStatus, goal_status: GoalStatus | str, carrier: str, remedy: str
) -> Iterator[str]:
    if isinstance(goal_status, str):
        yield f"[yellow]![/] No goal is evaluated, because there is no snapshot: {goal_status}"
        return
    yield from (f"[red]![/] {violation_text(breach, carrier)}" for breach in goal_status.violations)
    inside = goal_status.intra_broker
    if inside is not None and inside.violation_count:
        yield (
            f"[red]![/] {inside.violation_count} of {inside.number} {inside.name} are above θ, or further "
            "than ε from "
            f"the mean of their broker's. `trimtab plan {status.balancer}` balances them too."
        )
    yield from (
        f"[red]![/] {violation_text(breach, carrier)}, by the brokers' own samples; the snapshot, which "
        "looks back longer, is within the goal"
        for breach in goal_status.sampled
    )
    further = [(one.kind, breach) for one in goal_status.secondary_goals for breach in one.violations()]
    of_topics = [breach for kind, breach in further if kind == "topic"]
    yield from (
        f"[red]![/] {secondary_violation_text(kind, breach)}" for kind, breach in further if kind != "topic"
    )
    yield from (f"[red]![/] {secondary_violation_text('topic', breach)}" for breach in of_topics[:TOPICS])
    if len(of_topics) > TOPICS:
        yield f"[red]![/] {len(of_topics) - TOPICS} more such numbers of topics; --json names them all"
    if goal_status.violations or goal_status.sampled or further:
        missed = [*(("", breach) for breach in (*goal_status.violations, *goal_status.sampled)), *further]
        uneven = ", ".join(
            dict.fromkeys(
                f"{resource_name(breach.goal if kind == 'topic' else breach.resource)}"
                f"{' of hosts' if kind == 'host' else ''}"
                for kind, breach in missed
            )
        )
        yield f"{uneven}: not balanced. `trimtab plan {status.balancer}` {remedy}."
    elif inside is None or not inside.violation_count:
        left = [
            resource_name(name)
            for name, of in _resources(goal_status).items()
            if of["idle"] or not of["holds"]
        ]
        level = f"No goal is missed; not balanced: {', '.join(left)}."
        yield level if left else "Every measured resource is balanced."
    yield (
        f"[dim]Goals are judged by the snapshot of {goal_status.taken_at}, as in a plan; "
        f"the map is measured, the mean of {counted(status.ticks, 'tick')}[/]"
    )


def intra_broker_text(within: IntraBrokerBalance) -> str:
    """Parts of brokers in a line: peak usage, and the worst deviation within a broker."""
    worst = f": {within.part} of {broker_name(within.broker)}" if within.worst_deviation > 0 else ""
    return (
        f"{within.name}: {within.number}, peak {within.peak_usage:.0%}, worst γ "
        f"{within.worst_deviation:.1%} of the mean of its broker's{worst}"
    )


def _intra_broker_violations(status: GoalStatus) -> dict[str, object]:
    if status.intra_broker is None:
        return {}
    figures = status.intra_broker._asdict()
    return {figures.pop("name").replace(" ", "_"): figures}


def secondary_violation_text(kind: str, violation: GoalViolation) -> str:
    """A violation of a host's, a broker's or a topic's goal in a line."""
    if kind == "topic":
        return f"{topic_violation_text(violation)} ({violation.goal})"
    if kind == "host":
        told = violation_text(
            violation._replace(broker=f"host {violation.broker}", goal=f"host_{violation.goal}")
        )
        return told.replace("more broker", "more host")
    return violation_text(
        violation._replace(goal="count_epsilon" if violation.goal == "epsilon" else violation.goal)
    )


def violation_text(violation: GoalViolation, carrier: str = "broker") -> str:
    """The worst broker, its figure and the limit, with enough digits to tell them apart."""
    pairs = ([f"{one:.{n}%}" for one in (abs(violation.value), violation.limit)] for n in range(18))
    value, limit = next(pair for pair in pairs if pair[0] != pair[1])
    side = (
        "" if violation.goal.endswith("theta") else f" {'above' if violation.value > 0 else 'below'} the mean"
    )
    where = f" in {violation.view}" if violation.view else ""
    more = f", and {counted(violation.brokers - 1, f'more {carrier}')}" if violation.brokers > 1 else ""
    name = resource_name(violation.resource)
    return f"{broker_name(violation.broker)}: {name} {value}{side} > {violation.goal} {limit}{where}{more}"


def worst_rows(deviation: FloatArray, every: bool) -> tuple[Sequence[int], int]:
    """The rows to show, in their order, and the number of hidden rows."""
    worst = np.abs(np.nan_to_num(deviation)).max(axis=1, initial=0.0)
    if every or len(worst) <= MAX_LISTED:
        return list(range(len(worst))), 0
    chosen = np.argsort(-worst, kind="stable")[:MAX_LISTED]
    return sorted(chosen.tolist()), len(worst) - MAX_LISTED


def broker_text(broker: BrokerStatus) -> str:
    """The name of a row: a broker with its host, and its state if it is not alive."""
    state = "" if broker.state == "alive" else f" ({broker.state})"
    host = "" if broker.host is None else f" {broker.host}"
    return f"{broker_name(broker.id)}{host}{state}"


def _figure(value: float | None, form: str, held: bool | None = None) -> str:
    if value is None:
        return "–"
    text = form.format(value)
    return f"[dim]{text}[/]" if held is None else f"[green]{text}[/]" if held else f"[red]{text}[/]"


def _seconds_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _by_resource(resources: Sequence[str], values: FloatArray) -> dict[str, float | None]:
    return {name: known_value(value) for name, value in zip(resources, values, strict=True)}


def _rfc3339(at: datetime.datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def live_status_text(
    status: Any,
    head: str,
    names: Sequence[str],
    columns: Mapping[str, float],
    remarks: Iterable[str],
    *,
    every: bool,
    carrier: str = "broker",
    source: str = "the brokers",
) -> Iterator[RenderableType]:
    """The whole text of a status that is read directly from a cluster.

    Parameters
    ----------
    head
        What there is besides brokers.
    names
        Length (brokers,).
    columns
        Headings of the figures, and the unit that each is shown in.
    remarks
        Lines below the map.
    every
        Whether to show all brokers, however many.
    carrier, source
        What carries load, in the singular, and who has told of it.
    """
    carriers = counted(len(status.brokers), carrier)
    yield f"[bold]{status.cluster}[/]: {carriers}, {head}; read directly from {source}"
    rows, hidden = worst_rows(status.deviation, every)
    yield terminal_heatmap(
        [names[row] for row in rows],
        HeatmapPanel(status.values[rows] / [*columns.values()], status.deviation[rows], percent=False),
        columns=tuple(columns),
    )
    if hidden:
        yield f"[dim]{hidden} more {carrier}s deviate less; --all shows them[/]"
    yield ""
    yield from (f"[yellow]![/] {problem}" for problem in status.problems)
    yield from remarks


def live_status_document(
    status: Any,
    balancer: str,
    facts: Mapping[str, object],
    brokers: Sequence[Mapping[str, object]],
    figures: Sequence[str],
) -> dict[str, object]:
    """The same as plain JSON values.

    Parameters
    ----------
    facts, brokers
        What is told of the cluster, and of each broker besides its figures.
    figures
        Names of the figures.
    """
    return {
        "cluster": status.cluster,
        "balancer": balancer,
        "source": "admin",
        **facts,
        "brokers": [
            {**broker, **{name: known_value(value) for name, value in zip(figures, values, strict=True)}}
            for broker, values in zip(brokers, status.values.tolist(), strict=True)
        ],
        "problems": list(status.problems),
    }


STATUS_SYMBOLS: Final = {FindingStatus.FINE: "✓", FindingStatus.MISSING: "!", FindingStatus.BROKEN: "✗"}
SUBJECT_COLUMNS: Final = 24


def check_lines(finding: Finding, part_before: str | None) -> list[str]:
    """A finding as a line, below a heading if a new part begins."""
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    line = f"  {STATUS_SYMBOLS[finding.grade]} {finding.subject:{SUBJECT_COLUMNS}}  {finding.text}{remedy}"
    heading = [] if part_before is None else [""]
    return [line] if finding.part == part_before else [*heading, finding.part, line]


def lake_finding(balancer: str, age: LakeAge, now: float, stale_seconds: float) -> Finding:
    """The ages of samples, tables and snapshots of a balancer, and whether they suffice for a plan.

    Parameters
    ----------
    now
        Seconds since 1970.
    stale_seconds
        From which age on plans are warned of.
    """
    if age.samples_at is None and not age.clusters:
        return missing("lake", balancer, "no samples yet", "`trimtab collect`")
    told = [
        f"newest {name} {'none' if at is None else duration_text(max(0.0, now - at)) + ' old'}"
        for name, at in (("samples", age.samples_at), ("tables", age.tables_until))
    ]
    told.append(f"snapshots of {counted(len(age.clusters), 'cluster')}")
    text = ", ".join(told)
    if age.samples_at is not None and now - age.samples_at > stale_seconds:
        return missing(
            "lake", balancer, f"{text}: too old to plan from", "`trimtab collect`, `trimtab pipeline run`"
        )
    if not age.clusters or age.tables_until is None:
        return missing("lake", balancer, text, "`trimtab pipeline run`")
    if age.samples_at is not None and age.samples_at - age.tables_until > stale_seconds:
        return missing("lake", balancer, f"{text}: tables are behind", "`trimtab pipeline run`")
    return fine("lake", balancer, text)

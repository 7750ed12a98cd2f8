"""The texts of the balancer `replicas`: partitions, replicas, leader roles, and bytes to copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.model.load import resource_name
from trimtab.model.replicas.plan import Plan, ReplicaMove, ReplicaMoveKind, ReplicasReceipt
from trimtab.model.replicas.settings import DISK, LOADS, RESOURCES
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    ReplicaBrokerState,
    ReplicasSnapshot,
    snapshot_after,
    with_load,
)
from trimtab.report.formats import bytes_text, counted, duration_text
from trimtab.report.plan_text import (
    bound_text,
    idle_resources,
    load_lines,
    move_lines,
    prediction_lines,
    purpose_text,
    text_of_plan,
)
from trimtab.report.renderer import MAX_LISTED, comparison_lines, progress_line, text_of_receipt
from trimtab.report.status_text import broker_text, live_status_document, live_status_text
from trimtab.report.tables import table_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.act.executor import PreparedPlan
    from trimtab.act.replicas.load_check import ReplicasForecast, ReplicasProgress
    from trimtab.act.replicas.overrides import NetworkPath
    from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState, ReplicaStep
    from trimtab.model.load import FloatArray
    from trimtab.model.replicas.plan import ReplicaOutcome
    from trimtab.systems.kafka.status import KafkaStatus


CANCEL_EFFECT: Final = "rolls back what is in flight and cleans up"
"""The effect of `cancel` on steps in flight."""
CANCELLING: Final = "rolling back what is in flight"
"""The effect of a running `cancel`."""


@dataclass(frozen=True)
class ExecutionCost:
    """The cost of an execution; `led_along` leader roles went with a copied replica.

    `log_dir_moves` replicas changed the log dir on their broker, which copied `log_dir_bytes` between disks.
    `added` and `dropped` replicas are counted in no other number; the bytes of the added are copied ones.
    """

    replica_moves: int
    leader_moves: int
    bytes_copied: int
    seconds: float
    led_along: int = 0
    log_dir_moves: int = 0
    log_dir_bytes: int = 0
    added: int = 0
    dropped: int = 0


def spent(receipt: ReplicasReceipt | None) -> ExecutionCost:
    """The cost of an execution."""
    if receipt is None:
        return ExecutionCost(0, 0, 0, 0.0)
    done = receipt.done
    copies = [outcome for outcome in done if outcome.kind == "copy"]
    # Each copy ends with an election; where the first of the list has not changed, nobody takes a role over.
    new_first = {(one.topic, one.partition) for one in copies if one.before[0] != one.after[0]}
    leads = [outcome for outcome in done if outcome.kind == "lead"]
    along = [one for one in leads if not one.moves and (one.topic, one.partition) in new_first]
    return ExecutionCost(
        replica_moves=sum(len(set(one.before) - set(one.after)) for one in copies) - receipt.dropped_replicas,
        leader_moves=sum(bool(one.moves) for one in leads),
        bytes_copied=receipt.copied_bytes,
        seconds=receipt.seconds,
        led_along=len(along),
        log_dir_moves=sum(outcome.kind == "log_dir" for outcome in done),
        log_dir_bytes=receipt.log_dir_bytes,
        added=receipt.added_replicas,
        dropped=receipt.dropped_replicas,
    )


def spent_text(receipt: ReplicasReceipt | None) -> str:
    """The cost of an execution in a sentence."""
    return cost_text(spent(receipt))


def cost_text(spent: ExecutionCost) -> str:
    """Moves, bytes and seconds in one sentence."""
    rate = (
        f", {bytes_text(spent.bytes_copied / spent.seconds)}/s"
        if spent.bytes_copied and spent.seconds
        else ""
    )
    dirs = (
        f"{counted(spent.log_dir_moves, 'replica')} to another log dir ({bytes_text(spent.log_dir_bytes)}), "
        if spent.log_dir_moves
        else ""
    )
    copied = f"{bytes_text(spent.bytes_copied)}{rate}"
    if spent.added or spent.dropped:
        moved = f"{counted(spent.replica_moves, 'replica')} copied, " if spent.replica_moves else ""
        made = f"{counted(spent.added, 'replica')} added ({copied}), {moved}{spent.dropped} dropped, {dirs}"
    else:
        made = f"{counted(spent.replica_moves, 'replica')} copied ({copied}), {dirs}"
    along = f", {spent.led_along} more along with their replica" if spent.led_along else ""
    return f"{made}{counted(spent.leader_moves, 'leader role')} handed over{along}, in {spent.seconds:.1f} s"


def load_basis_text(snapshot: ReplicasSnapshot, load: str) -> str:
    """The sentence about a plan for another load than the recent one."""
    if load == "recent":
        return ""
    if not snapshot.partitions.hours:
        return f"loads: recent, not {load}: the snapshot has no forecast (pipeline.profile_weeks)"
    return f"loads: {LOADS[load]} ({load}; {snapshot.partitions.hours} hours){_expected(snapshot)}"


def _expected(snapshot: ReplicasSnapshot) -> str:
    """The forecast errors of the last day, and the resources with a trend."""
    errors = snapshot.forecast_errors
    if not errors:
        return ""
    trend = [name for name in RESOURCES if name in snapshot.backtest.get("trend", ())]
    parts = [f"{resource_name(name)} {one:.1%}" for name, one in errors.items()]
    used = f"; with the trend of the weeks: {', '.join(map(resource_name, trend))}" if trend else ""
    return f"\nexpected loads were off by {', '.join(parts)} over the last day{used}"


KINDS = {"lead": "leader moves", "copy": "copies", "log_dir": "moves between log dirs"}


def plan_text(plan: Plan, snapshot: ReplicasSnapshot | None = None, *, all_moves: bool = False) -> str:
    """The text of a plan, with the load of its snapshot if that is given."""
    load = str(plan.settings.get("load", "recent"))
    told = "" if snapshot is None else load_basis_text(snapshot, load)
    snapshot = None if snapshot is None else with_load(snapshot.with_overrides(plan.settings), load)
    beyond = "takes more bytes than this plan copies"
    serving = None if snapshot is None else int(snapshot.brokers.in_service.sum())
    nominal = () if snapshot is None else snapshot.quality.nominal_capacity
    idle = [] if snapshot is None else idle_resources(plan, snapshot.imbalance(), nominal)
    plan, requested = _with_requested_goals(plan), _requested(plan)
    return text_of_plan(
        plan,
        () if snapshot is None else _load(snapshot, told),
        plan_cost(plan),
        bound_text(plan, plan.bound.proof, plan.cost.bytes, plan.bound.bytes, bytes_text, "copies", beyond),
        [
            *prediction_lines(plan, RESOURCES, serving, idle, nominal),
            *_log_dirs(plan),
            *_secondary_goal_lines(plan, nominal),
        ],
        move_lines(
            plan.moves,
            purpose=lambda move: purpose_text(move.reason),
            together=lambda moves: bytes_text(sum(move.bytes for move in moves)),
            cells=_cells,
            all_moves=all_moves,
        ),
        requested=requested,
    )


LIMIT_GOALS = ("theta", "epsilon")


def _goals_of(plan: Plan) -> list[str]:
    """The goals of a plan; a plan that changes replication factors has no goal epsilon."""
    goals = plan.settings.get("goals", LIMIT_GOALS)
    asked = [str(goal) for goal in goals] if isinstance(goals, list | tuple) else []
    return [goal for goal in asked if goal != "epsilon" or not plan.settings.get("replication_factor")]


def _with_requested_goals(plan: Plan) -> Plan:
    """The plan with the limits of its goals only, for the row of goals."""
    goals = _goals_of(plan)
    left = {k: v for k, v in plan.settings.items() if k not in LIMIT_GOALS or k in goals}
    return replace(plan, settings=left)


def _requested(plan: Plan) -> str:
    """The request of a plan that does not balance load; else empty."""
    goals = _goals_of(plan)
    if "epsilon" in goals:
        return ""
    words = {"drain": "empty {}", "demote": "no leader on {}", "add": "fill {}"}
    parts = []
    for name, form in words.items():
        brokers: Any = plan.settings.get(name) or ()
        if brokers:
            noun = "broker" if len(brokers) == 1 else "brokers"
            parts.append(form.format(f"{noun} {', '.join(map(str, brokers))}"))
    factors: Any = plan.settings.get("replication_factor") or {}
    parts += [f"{number} replicas of {topic}" for topic, number in factors.items()]
    parts += ["repair what is offline"] * bool(plan.settings.get("fix_offline_replicas"))
    parts += ["balance log dirs"] * bool(plan.settings.get("intra_broker_only"))
    held = [
        goal.replace("_", " ")
        for goal in goals
        if goal != "log_dirs" or not plan.settings.get("intra_broker_only")
    ]
    parts += [f"goals: {', '.join(held)}"] * bool(held)
    return "; ".join(parts) or "no goal"


def _secondary_goal_lines(plan: Plan, nominal: Collection[str]) -> list[str]:
    """The predictions for hosts and numbers, if they are goals."""
    lines = []
    if plan.hosts is not None:
        settings = dict(plan.settings)
        for name in ("theta", "epsilon"):
            usual: Any = settings.get(name)
            own: Any = settings.get(f"host_{name}") or {}
            settings[name] = {**usual, **own} if isinstance(usual, dict) else usual
        of_hosts = replace(plan, predicted=plan.hosts, settings=settings)
        lines = ["", "  of hosts:", *prediction_lines(of_hosts, RESOURCES, None, (), nominal)]
    if plan.numbers:
        rows = [["per broker", "least", "mean", "most", "after: least", "most"]]
        for name, one in plan.numbers.items():
            told = "{:.1%}" if name == "potential_network_out" else "{:.6g}"
            figures = (
                one.before.minimum,
                one.before.mean,
                one.before.maximum,
                one.after.minimum,
                one.after.maximum,
            )
            rows.append([name.replace("_", " "), *map(told.format, figures)])
        lines += ["", *table_lines(rows, "lrrrrr")]
    if plan.topics:
        missed = [["per topic", "topics", "missed by", "after"]]
        missed += [
            [goal.replace("_", " "), *(str(n) for n in (one.topics, one.before, one.after))]
            for goal, one in plan.topics.items()
        ]
        lines += ["", *table_lines(missed, "lrrr")]
    return lines


def _load(snapshot: ReplicasSnapshot, text: str) -> Iterator[str]:
    brokers, partitions, reference = snapshot.brokers, snapshot.partitions, snapshot.reference
    replicas = np.bincount(partitions.replicas[partitions.replicas >= 0], minlength=len(brokers))
    leaders = np.bincount(partitions.leader[partitions.leader >= 0], minlength=len(brokers))
    head = [
        f"{reference.cluster} at {reference.taken_at}: {len(brokers)} brokers, "
        f"{len(partitions)} partitions, {int(replicas.sum())} replicas"
    ]
    quality = snapshot.quality
    if quality.valid_share < 1 or quality.cpu != "measured":
        head.append(f"samples: {quality.valid_share:.0%} valid; CPU signal: {quality.cpu}")
    if text:
        head.append(text)
    texts = {
        "broker": [str(number) for number in brokers.id],
        "host": brokers.host,
        "state": [ReplicaBrokerState(state).name.lower() for state in brokers.state.tolist()],
    }
    counts = {"leaders": [str(one) for one in leaders], "replicas": [str(one) for one in replicas]}
    return load_lines(head, snapshot.imbalance(), texts, counts, nominal=quality.nominal_capacity)


def _log_dirs(plan: Plan) -> list[str]:
    if plan.log_dirs is None:
        return []
    before, after = plan.log_dirs.before, plan.log_dirs.after
    return [
        f"  log dirs: peak {before.peak_usage:.1%} -> {after.peak_usage:.1%}, worst deviation from the mean "
        f"of the broker's dirs {before.worst_deviation:.1%} -> {after.worst_deviation:.1%}"
    ]


def plan_cost(plan: Plan) -> str:
    """The cost of a plan in a sentence."""
    cost = plan.cost
    if cost.added_replicas or cost.dropped_replicas:
        parts = [f"{counted(cost.added_replicas, 'replica')} to add ({bytes_text(cost.bytes)})"]
        parts.append(f"{counted(cost.dropped_replicas, 'replica')} to drop, nothing else to move")
    else:
        parts = [f"{counted(cost.replica_moves, 'replica')} to copy ({bytes_text(cost.bytes)})"]
    parts.append(f"{counted(cost.leader_moves, 'leader role')} to hand over")
    if cost.log_dir_moves:
        size = bytes_text(cost.log_dir_bytes)
        of = "its broker" if cost.log_dir_moves == 1 else "their brokers"
        parts.append(f"{counted(cost.log_dir_moves, 'replica')} to another log dir of {of} ({size})")
    if cost.order_moves:
        parts.append(f"{counted(cost.order_moves, 'replica list')} to put in order")
    return ", ".join(parts)


def _cells(move: ReplicaMove) -> tuple[str, str, str]:
    if move.kind is ReplicaMoveKind.LOG_DIR:
        way = f"{move.source_dir or '?'} → {move.target_dir or '?'} on {move.target}"
    elif move.kind is ReplicaMoveKind.ORDER:
        way = f"{move.target} first"
    elif move.kind is ReplicaMoveKind.ADD:
        way = f"→ {move.target}"
    elif move.kind is ReplicaMoveKind.DROP:
        way = f"{move.source} →"
    else:
        way = f"{_source(move)} → {move.target}"
    return f"{move.topic}-{move.partition}", way, bytes_text(move.bytes) if move.bytes else ""


def move_text(move: ReplicaMove) -> str:
    """The change of a move in a line."""
    directory = f" {move.target_dir}" if move.target_dir else ""
    return f"{move.topic}-{move.partition}: {move.kind} {_source(move)} → {move.target}{directory}"


def _source(move: ReplicaMove) -> str:
    return "nobody" if move.source is None else str(move.source)


def forecast_text(
    prepared: PreparedPlan, expected: ReplicasForecast, settings: ReplicasExecutionSettings, every: bool
) -> str:
    """The batches with bytes and time, with every partition or not, and the changes that are left out."""
    from trimtab.act.replicas.overrides import drained_brokers

    lines = []
    drained = drained_brokers(prepared.plan) if settings.cordon_drained and expected.batches else ()
    if drained:
        noun = "broker" if len(drained) == 1 else "brokers"
        numbers = ", ".join(map(str, drained))
        lines.append(f"  first: {noun} {numbers} cordoned (cordoned.log.dirs = *), where Kafka supports it")
    shown = len(expected.batches) if every else MAX_LISTED
    for number, batch in enumerate(expected.batches[:shown], 1):
        kinds = Counter(_kind(step) for step in batch.steps)
        steps = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        size = f", {bytes_text(batch.bytes)}" if batch.bytes else ""
        lines.append(f"  batch {number}: {steps}{size}")
        lines += [f"    {step_text(step)}" for step in batch.steps if every]
    if len(expected.batches) > shown:
        lines.append(f"  and {len(expected.batches) - shown} more batches")
    if not expected.batches:
        lines.append("  nothing to do")
    if expected.batches:
        lines += [f"  {line}" for line in _throttle_text(expected, settings)]
    lines += comparison_lines(prepared, "partitions are already as planned")
    lines += [f"  cannot begin now: {step}: {why}" for step, why in expected.blocked[:MAX_LISTED]]
    return "\n".join(lines)


def _kind(step: ReplicaStep) -> str:
    if step.kind == "copy" and step.resizes and not step.removed:
        return "partitions with replicas added"
    return "partitions with replicas dropped" if step.kind == "copy" and not step.added else KINDS[step.kind]


def _throttle_text(expected: ReplicasForecast, settings: ReplicasExecutionSettings) -> Iterator[str]:
    """Bytes and time of an execution, and its limits."""
    copies = [step for batch in expected.batches for step in batch.steps if step.added]
    between_dirs = any(step.kind == "log_dir" for batch in expected.batches for step in batch.steps)
    if not copies:
        if between_dirs:
            yield "copies nothing between brokers; the moves between log dirs take as long as the disks need"
        else:
            yield "copies nothing"
        return
    seconds = expected.seconds
    if seconds is not None:
        took = f"in about {duration_text(seconds)}"
        took += ", the moves between log dirs not counted" if between_dirs else ""
    elif expected.rate_bytes_per_second is None:
        took = "the time is not known without a throttle"
    else:
        took = "the time is not known: more may be written to the partitions than the throttle lets through"
    yield f"copies {bytes_text(expected.bytes)} in all, {took}"
    batches = counted(len(expected.batches), "batch", "batches")
    yield f"{batches}, at first at most {settings.initial_copies_per_broker} copies a broker at once"
    if expected.rate_bytes_per_second is not None:
        rate = bytes_text(expected.rate_bytes_per_second)
        yield f"throttle at first {rate}/s a broker{_limit(expected.limit, settings)}"


def _limit(path: NetworkPath | None, settings: ReplicasExecutionSettings) -> str:
    """The origin of a throttle."""
    if not settings.follows_headroom:
        return " (execution.throttle)"
    if path is None:
        return " (execution.throttle_initial_bytes_per_second): no free network of these brokers is known"
    room = f"broker {path.broker} has {bytes_text(path.free_bytes_per_second)}/s of "
    room += f"{resource_name(path.resource)} left"
    share = settings.throttle_headroom_fraction
    if share * path.free_bytes_per_second < settings.throttle_min_bytes_per_second:
        return f" (execution.throttle_min_bytes_per_second): {room}"
    return f": {room}, and copies take {share:.0%} of it"


def progress_reporter() -> Callable[[ReplicasExecutionState], str]:
    """A function from states to lines of progress, with the rate of the last seconds."""
    from trimtab.act.replicas.load_check import ProgressMeter

    meter = ProgressMeter()
    return lambda state: progress_text(meter(state))


def progress_text(progress: ReplicasProgress) -> str:
    """The progress in a line: bytes left, rate, and time left."""
    parts = []
    if progress.bytes_total:
        parts.append(f"{bytes_text(progress.bytes_left)} left of {bytes_text(progress.bytes_total)}")
        if progress.steps_active:
            parts.append(f"{bytes_text(progress.bytes_per_second)}/s")
            if progress.seconds_left is not None:
                parts.append(f"{duration_text(progress.seconds_left)} left")
    return progress_line(progress, parts)


def step_text(step: ReplicaStep) -> str:
    """A step in a line."""
    change = f"{list(step.before)} -> {list(step.after)}"
    if step.kind == "log_dir":
        change = ", ".join(f"broker {broker} -> {path}" for broker, path in step.directories)
    size = f", {bytes_text(step.bytes)}" if step.bytes else ""
    return f"{step.kind:<7} {step.partition} {change}{size}"


def receipt_text(receipt: ReplicasReceipt) -> str:
    """The work done, its duration, and the steps left with their reasons."""
    dirs = f" and {bytes_text(receipt.log_dir_bytes)} between log dirs" if receipt.log_dir_bytes else ""
    copied = f"copied {bytes_text(receipt.copied_bytes)}{dirs} in {duration_text(receipt.seconds)}"
    done = [f"  {copied}, {receipt.batches} batches"]
    if receipt.added_replicas or receipt.dropped_replicas:
        done.append(f"  {receipt.added_replicas} replicas added, {receipt.dropped_replicas} dropped")
    if receipt.measured is not None:
        done.append(f"  the load, {receipt.measured_from}:")
        for name, sigma in receipt.measured.sigma.items():
            worst, peak = receipt.measured.worst_deviation[name], receipt.measured.peak_usage[name]
            done.append(f"    {name:<12} σ {sigma:.4f}, worst deviation {worst:.1%}, peak {peak:.1%}")
    done += [f"  note: {note}" for note in receipt.notes]
    left = f"and {bytes_text(sum(outcome.bytes for outcome in receipt.left))} left, none in flight"
    return text_of_receipt(receipt, "replicas", done, _outcome, left)


def _outcome(outcome: ReplicaOutcome) -> str:
    return f"{outcome.topic}-{outcome.partition} {list(outcome.before)} -> {list(outcome.after)}"


def status_text(status: KafkaStatus, every: bool = False) -> Iterator[RenderableType]:
    """The placement of a cluster: counts and sizes, no rates."""
    disk = bytes_text(float(np.nansum(status.values[:, 0])))
    return live_status_text(
        status,
        f"{status.partitions:,} partitions, {disk} on disk; placement only",
        [broker_text(broker) for broker in status.brokers],
        {"disk MB": 1e6, "replicas": 1, "leaders": 1},
        _notes(status),
        every=every,
    )


def _notes(status: KafkaStatus) -> Iterator[str]:
    if status.leaderless:
        yield f"[red]![/] {status.leaderless} partitions have no leader: they cannot be read or written"
    if status.under_replicated:
        yield f"[yellow]![/] {status.under_replicated} partitions have replicas that are not in sync"
    if uneven := status.uneven_topics:
        more = f" and {len(uneven) - 3} more" if len(uneven) > 3 else ""
        yield (
            f"[yellow]![/] the partitions of {', '.join(uneven[:3])}{more} have different numbers of "
            "replicas; `trimtab plan replicas --replication-factor TOPIC=NUMBER` gives them one"
        )
    yield (
        "[dim]CPU and network need two samples and more: `trimtab collect`, then `trimtab pipeline run`, "
        "then `trimtab status`.[/]"
    )


def status_document(status: KafkaStatus) -> dict[str, object]:
    """The same figures as plain JSON values."""
    facts = {
        "partitions": status.partitions,
        "leaderless_partitions": status.leaderless,
        "under_replicated_partitions": status.under_replicated,
        "topics_with_different_replication_factors": list(status.uneven_topics),
    }
    brokers = [{"id": b.id, "host": b.host, "rack": b.rack, "state": b.state} for b in status.brokers]
    return live_status_document(status, "replicas", facts, brokers, ("disk_bytes", "replicas", "leaders"))


def broker_figures(snapshot: ReplicasSnapshot) -> dict[str, Sequence[Any]]:
    """Figures of each broker: host, load and capacity by resource, numbers, bytes per second by role.

    `potential_network_out` is what the broker would send if it led all partitions that it holds.
    """
    parts, brokers = snapshot.partitions, len(snapshot.brokers)
    rows, columns = np.nonzero(parts.replicas != NO_BROKER)
    holder = parts.replicas[rows, columns]
    leads = holder == parts.leader[rows]

    def total(chosen: np.ndarray, load: FloatArray, resource: str) -> list[float]:
        weights = load[rows[chosen], RESOURCES.index(resource)]
        found: list[float] = np.bincount(holder[chosen], weights, minlength=brokers).tolist()
        return found

    load = snapshot.broker_load()
    return {
        "host": snapshot.brokers.host,
        "load": load.tolist(),
        "capacity": snapshot.brokers.capacity.tolist(),
        "replica_count": np.bincount(holder, minlength=brokers).tolist(),
        "leaders": np.bincount(holder[leads], minlength=brokers).tolist(),
        "bytes_stored": load[:, DISK].tolist(),
        "leader_network_in": total(leads, parts.leader_load, "network_in"),
        "follower_network_in": total(~leads, parts.follower_load, "network_in"),
        "potential_network_out": total(np.ones_like(leads), parts.leader_load, "network_out"),
    }


def snapshot_after_plan(snapshot: ReplicasSnapshot, plan: Plan) -> ReplicasSnapshot:
    """The snapshot with the placement after all moves of a plan."""
    return snapshot_after(snapshot, plan.assignments)


def largest(
    snapshot: ReplicasSnapshot, count: int, of: str = "partitions", sort: str = "disk"
) -> Iterator[tuple[str, str, tuple[str, ...], dict[str, float], int]]:
    """The largest partitions or topics by a resource: name, leader, brokers, load, number of partitions.

    The load is that of the leaders: CPU in cores, disk in bytes, network in bytes per second.
    """
    parts, ids = snapshot.partitions, snapshot.brokers.id
    by, load, numbers = RESOURCES.index(sort), parts.leader_load, np.ones(len(parts), dtype=int)
    if of == "topics":
        numbers = np.bincount(parts.topic, minlength=len(parts.topics))
        columns = [np.bincount(parts.topic, one, minlength=len(parts.topics)) for one in load.T]
        load = np.stack(columns, axis=1)
    rows = np.argsort(-load[:, by], kind="stable")[:count]
    names = {at: str(one) for at, one in enumerate(ids.tolist())}
    for row, values, number in zip(rows.tolist(), load[rows].tolist(), numbers[rows].tolist(), strict=True):
        if of == "topics":
            name, leader, holders = parts.topics[row], "", np.unique(parts.replicas[parts.rows_of(row)])
        else:
            name, holders = parts.name_of(row), parts.replicas[row]
            leader = names.get(int(parts.leader[row]), "")
        brokers = tuple(names[one] for one in holders.tolist() if one != NO_BROKER)
        yield name, leader, brokers, dict(zip(RESOURCES, values, strict=True)), number

"""When a trigger fires, and what forbids to plan or to execute: both as values with a reason and a time."""

from collections.abc import Iterator
from math import floor, inf
from typing import NamedTuple

from trimtab.decide.events import BrokenLimit, Observed
from trimtab.decide.state import Retry, Spent, State, Work
from trimtab.decide.windows import opening_at
from trimtab.model.load import resource_name
from trimtab.model.policy import DAY, HOUR, Mode, Policy, Trigger
from trimtab.model.text import bytes_text, clock_text, counted, duration_text

Settings = tuple[tuple[str, object], ...]


class Condition(NamedTuple):
    """A trigger whose condition holds.

    Attributes
    ----------
    at
        When it fires, seconds since 1970; not after now: it fires.
    settings
        Settings of the plan that answers it.
    limits
        Broker and resource of each broken limit.
    """

    trigger: Trigger
    at: float
    reason: str
    settings: Settings
    limits: tuple[tuple[str, str], ...] = ()


class Obstacle(NamedTuple):
    """Something that forbids to plan or to execute.

    Attributes
    ----------
    until
        When it may be over by itself, seconds since 1970; infinite where only an event ends it.
    alert
        Key of the condition that people are notified of; empty where nobody is.
    """

    reason: str
    until: float
    remedy: str
    alert: str = ""


# ---------------------------------------------------------------- triggers


def conditions(state: State, policy: Policy, now: float) -> Iterator[Condition]:
    """All conditions that hold, in order of precedence; some of them fire later.

    What a person has asked for comes before what does not act by itself.
    """
    urgent = [one for one in (_broker_lost(state, policy), _hard_limit(state, policy, now)) if one]
    asks = [one for one in urgent if state.requests and mode(state, policy, one.trigger) is not Mode.ACT]
    for found in (
        _undo(state, now),
        *(one for one in urgent if one not in asks),
        _request(state, now),
        *asks,
        _broker_added(state, policy),
        _drift(state, policy),
    ):
        if found is None:
            continue
        retry = state.retries.get(found.trigger)
        yield found if retry is None or retry.until <= found.at else _later(found, retry)


def _later(condition: Condition, retry: Retry) -> Condition:
    return condition._replace(at=retry.until, reason=f"{condition.reason}; {retry.reason}")


def _undo(state: State, now: float) -> Condition | None:
    if not state.undo:
        return None
    execution = state.undo[0]
    return Condition(
        Trigger.UNDO, now, f"execution {execution} made the load less even", (("undo", execution),)
    )


def _broker_lost(state: State, policy: Policy) -> Condition | None:
    if not state.lost_since:
        return None
    at = max(state.lost_since.values()) + policy.broker_lost.after_seconds
    names = _names(state.lost_since)
    reason = (
        f"{names} lost since {clock_text(min(state.lost_since.values()))}; replicas are moved "
        f"{duration_text(policy.broker_lost.after_seconds)} after the loss"
    )
    return Condition(Trigger.BROKER_LOST, at, reason, (("fix_offline_replicas", True),))


def _hard_limit(state: State, policy: Policy, now: float) -> Condition | None:
    observed, least = state.observed, policy.hard_limit.min_snapshots
    if observed is None or not (state.broken_snapshots or state.forecast_snapshots):
        return None
    in_forecast = state.forecast_snapshots > state.broken_snapshots
    count = max(state.broken_snapshots, state.forecast_snapshots)
    limits = observed.forecast_limits if in_forecast else observed.broken_limits
    if not limits:
        return None
    rested = -inf if state.last_execution_at is None else state.last_execution_at
    at = max(now + (least - count) * policy.interval_seconds, rested + policy.hard_limit.rest_seconds)
    aims = tuple((f"theta.{name}", policy.hard_limit.aim * limit) for name, limit in observed.limits)
    goal: Settings = (("goals", ("theta",)),)
    if in_forecast and state.drift_since is not None and policy.drift.mode is not Mode.OBSERVE:
        # There is time, and the drift would have the same data copied again: one plan for both.
        goal = _evenness(policy)
    settings = (*goal, ("load", "peak" if in_forecast else "recent"), *aims)
    named = tuple((one.broker, one.resource) for one in limits)
    return Condition(Trigger.HARD_LIMIT, at, _limit_text(limits, in_forecast, count), settings, named)


def _evenness(policy: Policy) -> Settings:
    """Settings of a plan that ends a drift."""
    drift = policy.drift
    return ("epsilon", drift.end), ("recent_move_hours", drift.recent_move_seconds / HOUR)


def _limit_text(limits: tuple[BrokenLimit, ...], in_forecast: bool, count: int) -> str:
    worst = limits[0]
    verb = "will use" if in_forecast else "uses"
    more = f", and {counted(len(limits) - 1, 'more limit')}" if len(limits) > 1 else ""
    return (
        f"broker {worst.broker} {verb} {worst.value:.1%} of its {worst.resource}, limit {worst.limit:.0%}"
        f"{more}, in {counted(count, 'snapshot')} in a row"
    )


def _request(state: State, now: float) -> Condition | None:
    if not state.requests:
        return None
    first = state.requests[0]
    return Condition(Trigger.REQUEST, now, f"{first.by} asked for a plan", first.settings)


def _broker_added(state: State, policy: Policy) -> Condition | None:
    if not state.arrived_since:
        return None
    at = max(state.arrived_since.values()) + policy.broker_added.after_seconds
    share = policy.broker_added.max_replica_share
    reason = f"{_names(state.arrived_since)} in service, below {share:.0%} of the mean number of replicas"
    return Condition(Trigger.BROKER_ADDED, at, reason, (("add", tuple(sorted(state.arrived_since))),))


def _drift(state: State, policy: Policy) -> Condition | None:
    observed, drift = state.observed, policy.drift
    if state.drift_since is None or observed is None:
        return None
    at = state.drift_since + drift.hold_seconds
    if state.last_execution_at is not None:
        at = max(at, state.last_execution_at + drift.rest_seconds)
    reason = (
        f"broker {observed.worst_broker} deviates {observed.worst_deviation:.0%} from the mean of "
        f"{resource_name(observed.worst_resource)}, above {drift.begin:.0%} since "
        f"{clock_text(state.drift_since)}; a plan is made after {duration_text(drift.hold_seconds)}"
    )
    return Condition(Trigger.DRIFT, at, reason, (*_evenness(policy), ("load", drift.load)))


def _names(brokers: dict[str, float]) -> str:
    names = sorted(brokers)
    shown = ", ".join(names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{'broker' if len(names) == 1 else 'brokers'} {shown}{more}"


# ---------------------------------------------------------------- obstacles


def planning_obstacle(state: State, policy: Policy, trigger: Trigger, now: float) -> Obstacle | None:
    """Why no plan is made for a trigger; None where one may be."""
    found = _cluster_obstacle(state, policy, trigger, now)
    if found is not None:
        return found
    if mode(state, policy, trigger) is Mode.ACT:
        return time_obstacle(state, policy, now) or _budget(state, policy, trigger, now)
    return None


def execution_obstacle(state: State, policy: Policy, work: Work, now: float) -> Obstacle | None:
    """Why an approved plan is not executed; None where it may be."""
    return (
        _cluster_obstacle(state, policy, work.trigger, now)
        or time_obstacle(state, policy, now)
        or worse_obstacle(state, policy, work.trigger)
        or _budget(state, policy, work.trigger, now, work)
    )


def _cluster_obstacle(state: State, policy: Policy, trigger: Trigger, now: float) -> Obstacle | None:
    """What the state of the cluster forbids, for plans and for executions alike."""
    return (
        blind(state, policy, now)
        or outage(state, policy)
        or _foreign_work(state.observed)
        or _restarts(state, policy, trigger, now)
        or _unexplained(state)
        or _changed_brokers(state.observed)
    )


def mode(state: State, policy: Policy, trigger: Trigger) -> Mode:
    """The mode of a trigger; `act` becomes `ask` after an execution that made it worse."""
    configured = policy.mode_of(trigger)
    return Mode.ASK if configured is Mode.ACT and trigger in state.must_ask else configured


def blind(state: State, policy: Policy, now: float) -> Obstacle | None:
    """No snapshot, an old one, or one with too few samples."""
    observed = state.observed
    if observed is None:
        return Obstacle("no snapshot yet", inf, "start `trimtab collect` and `trimtab pipeline stream`")
    oldest = policy.max_snapshot_intervals * policy.interval_seconds
    age = now - observed.taken_at
    if age > oldest:
        reason = f"the newest snapshot is {duration_text(age)} old, limit {duration_text(oldest)}"
        return Obstacle(reason, inf, "see whether collector and pipeline run", "stale")
    if observed.coverage < policy.min_coverage:
        reason = f"the snapshot knows {observed.coverage:.0%} of the loads, limit {policy.min_coverage:.0%}"
        return Obstacle(reason, inf, "see which brokers the collector cannot reach")
    return None


def outage(state: State, policy: Policy) -> Obstacle | None:
    """An outage that no plan may answer: too many brokers, or all brokers of a rack."""
    lost, known = state.lost_since, state.known
    if not lost:
        return None
    most = max(1, floor(policy.broker_lost.max_lost_share * len(known)))
    remedy = "bring the brokers back; the service moves nothing meanwhile"
    if len(lost) > most:
        reason = f"{len(lost)} of {counted(len(known), 'broker')} lost at once, limit {most}"
        return Obstacle(reason, inf, remedy, "outage")
    by_rack: dict[str, list[str]] = {}
    for name, rack in known.items():
        by_rack.setdefault(rack, []).append(name)
    gone = [rack for rack, names in by_rack.items() if len(names) > 1 and all(name in lost for name in names)]
    if gone:
        return Obstacle(f"all brokers of rack {gone[0]} are lost", inf, remedy, "outage")
    return None


def _foreign_work(observed: Observed | None) -> Obstacle | None:
    if observed is None or not observed.foreign_work:
        return None
    return Obstacle(
        f"another program changes the cluster: {observed.foreign_work}", inf, "wait until it has ended"
    )


def _restarts(state: State, policy: Policy, trigger: Trigger, now: float) -> Obstacle | None:
    """Brokers may be restarted in turn: each that is down or has just come back may be part of it."""
    back = {name: at for name, at in state.back_since.items() if now < at + policy.restart_quiet_seconds}
    if back:
        until = max(back.values()) + policy.restart_quiet_seconds
        reason = f"{_names(back)} came back less than {duration_text(policy.restart_quiet_seconds)} ago"
        return Obstacle(reason, until, "wait until no broker restarts")
    if state.lost_since:
        until = max(state.lost_since.values()) + policy.broker_lost.after_seconds
        if now < until:
            reason = f"{_names(state.lost_since)} lost, perhaps for a restart"
            return Obstacle(reason, until, "wait, or bring the broker back")
        if trigger in (Trigger.DRIFT, Trigger.BROKER_ADDED):
            reason = f"{_names(state.lost_since)} lost; replicas on lost brokers come first"
            return Obstacle(reason, inf, "bring the broker back, or let its replicas be moved")
    return None


def _unexplained(state: State) -> Obstacle | None:
    if state.observed is None or not state.observed.unexplained:
        return None
    number = counted(state.observed.unexplained, "partition")
    reason = f"{number} offline or below min.insync.replicas, not because of a lost broker"
    return Obstacle(reason, inf, "repair these partitions first")


def _changed_brokers(observed: Observed | None) -> Obstacle | None:
    """A planner sees the snapshot only."""
    if observed is None or not observed.changed_brokers:
        return None
    lost = {one.name for one in observed.brokers if not one.alive}
    first = observed.changed_brokers[0]
    states = ("dead", "alive") if first in lost else ("alive", "dead")
    more = f", and {len(observed.changed_brokers) - 1} more" if len(observed.changed_brokers) > 1 else ""
    reason = f"broker {first} is {states[0]}, and the newest snapshot has it {states[1]}{more}"
    return Obstacle(reason, inf, "wait for the next snapshot")


def time_obstacle(state: State, policy: Policy, now: float) -> Obstacle | None:
    """A pause, a freeze, or a time outside the maintenance windows."""
    pause = state.pause
    if pause is not None and (pause.until is None or now < pause.until):
        until = inf if pause.until is None else pause.until
        return Obstacle(f"paused by {pause.by}: {pause.reason}", until, "resume the service")
    opening = opening_at(policy, now)
    if not opening.is_open:
        return Obstacle(opening.reason, opening.until, "wait for the next window, or change the windows")
    return None


def worse_obstacle(state: State, policy: Policy, trigger: Trigger) -> Obstacle | None:
    """Too many executions that made the load less even; only an undo goes on."""
    if len(state.worse_at) < policy.max_worse or trigger is Trigger.UNDO:
        return None
    reason = f"{len(state.worse_at)} executions within 24 hours made the load less even"
    return Obstacle(reason, inf, "resume the service after a look at its history")


def _budget(
    state: State, policy: Policy, trigger: Trigger, now: float, work: Work | None = None
) -> Obstacle | None:
    """The budget of 24 hours; an undo costs what it gives back, and is not counted."""
    if trigger is Trigger.UNDO:
        return None
    spent = counted_executions(state, now)
    plan = None if work is None else work.plan
    limits = policy.budget
    for name, limit, used, wanted in (
        ("executions", limits.max_executions, len(spent), 1),
        ("bytes", limits.max_bytes, sum(one.bytes for one in spent), plan.bytes if plan else 0),
        (
            "leaderships",
            limits.max_leader_moves,
            sum(one.leader_moves for one in spent),
            plan.leader_moves if plan else 0,
        ),
    ):
        if limit is not None and used + wanted > limit:
            text = bytes_text if name == "bytes" else "{:.0f}".format
            reason = (
                f"budget of {name} in 24 hours: {text(used)} used, {text(wanted)} needed, limit {text(limit)}"
            )
            until = min((one.at for one in spent), default=now) + DAY
            return Obstacle(reason, until, "wait, or raise the budget")
    return None


def counted_executions(state: State, now: float) -> list[Spent]:
    """Executions of the last 24 hours that count against the budget."""
    return [one for one in state.spent if now - one.at < DAY and not one.is_undo]


def remaining(state: State, policy: Policy, now: float) -> Settings:
    """Settings that keep a plan within what is left of the budget of 24 hours."""
    if policy.budget.max_bytes is None:
        return ()
    used = sum(one.bytes for one in counted_executions(state, now))
    return (("max_bytes", max(0, policy.budget.max_bytes - used)),)

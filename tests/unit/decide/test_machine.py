"""Decisions, by examples worked by hand: times are seconds from the start of each example."""

from dataclasses import replace
from typing import TypeVar

import pytest

from trimtab.decide.events import (
    Approved,
    BrokenLimit,
    BrokerObservation,
    Decision,
    Effect,
    EffectMeasured,
    Event,
    Execute,
    ExecutionEnded,
    ExecutionResumed,
    ExecutionStarted,
    LeadershipChanged,
    MakePlan,
    Measure,
    Notify,
    Observed,
    Outcome,
    Paused,
    PlanFailed,
    PlanMade,
    PlanRequested,
    PlanSummary,
    Propose,
    Refuse,
    Rejected,
    Restarted,
    Resume,
    Resumed,
    Stop,
    TimeReached,
    Wait,
    Withdraw,
)
from trimtab.decide.machine import decide
from trimtab.decide.state import APPROVED_BY, Stage, State
from trimtab.model.plan import Verdict
from trimtab.model.policy import BrokerAdded, BrokerLost, Budget, Drift, HardLimit, Mode, Policy, Trigger

MINUTE, HOUR = 60.0, 3600.0
ACT = Policy(
    broker_lost=BrokerLost(Mode.ACT),
    hard_limit=HardLimit(Mode.ACT),
    broker_added=BrokerAdded(Mode.ACT),
    drift=Drift(Mode.ACT),
)
PLAN = PlanSummary("d" * 64, Verdict.IMPROVED, 4, 2_000_000_000, 3)

D = TypeVar("D", bound=Decision)


class Service:
    """A leading service at time 0, with six brokers of 100 replicas each, on three racks."""

    def __init__(self, policy: Policy = ACT) -> None:
        self.policy, self.now, self.state = policy, 0.0, State()
        self.decisions: tuple[Decision, ...] = ()
        self.send(LeadershipChanged(True))

    def send(self, event: Event, after: float = 0.0) -> tuple[Decision, ...]:
        """An event, some time after the one before."""
        self.now += after
        self.state, self.decisions = decide(self.state, event, self.now, self.policy)
        return self.decisions

    def observe(
        self,
        after: float = 5 * MINUTE,
        *,
        lost: str = "",
        empty: str = "",
        deviation: float = 0.05,
        times: int = 1,
        **other: object,
    ) -> tuple[Decision, ...]:
        """Snapshots, `after` seconds apart, until a decision orders something; brokers by their digits."""
        brokers = tuple(
            BrokerObservation(one, f"r{int(one) % 3}", one not in lost, 0 if one in empty else 100)
            for one in "0123456"
            if one != "6" or one in empty
        )
        for _ in range(times):
            self.now += after
            observed = Observed(self.now, 1.0, brokers, deviation, "cpu", "4", (("disk", 0.8),))
            self.send(replace(observed, **other))  # type: ignore[arg-type]
            if any(not isinstance(one, Wait) for one in self.decisions):
                break
        return self.decisions

    def one(self, kind: type[D]) -> D:
        """The only decision of its kind."""
        (found,) = [one for one in self.decisions if isinstance(one, kind)]
        return found

    def run(self, execution: int = 1, effect: Effect = Effect.HELPED) -> None:
        """From an order to plan to the end of the execution that follows."""
        self.send(PlanMade(replace(PLAN, digest=f"{execution:064d}")))
        self.send(ExecutionStarted(execution))
        self.send(ExecutionEnded(execution, Outcome.FINISHED, 1000, 2, can_undo=True), after=HOUR)
        self.observe(15 * MINUTE)
        self.one(Measure)
        self.send(EffectMeasured(execution, effect, "γ 0.3 → 0.1"))


def test_a_wait_has_its_remedy() -> None:
    """Without a snapshot the collector is named; where the load is even, nothing has to be done."""
    service = Service()
    assert "trimtab collect" in service.one(Wait).remedy
    service.observe()
    assert service.one(Wait).remedy == ""


def test_drift_fires_after_four_hours_and_plans_for_the_forecast() -> None:
    """γ = 0.31 from minute 5 on; the plan is ordered at minute 245, with ε = 0.10."""
    service = Service()
    service.observe(deviation=0.31)
    wait = service.one(Wait)
    assert "deviates 31% from the mean of CPU, above 20%" in wait.reason
    service.observe(deviation=0.31, times=100)
    assert service.now == 245 * MINUTE
    order = service.one(MakePlan)
    assert (order.trigger, dict(order.settings)) == (
        Trigger.DRIFT,
        {"epsilon": 0.10, "load": "forecast", "recent_move_hours": 24.0},
    )


def test_a_dip_below_the_threshold_restarts_the_count() -> None:
    """Three hours above, one snapshot below: the plan comes four hours after that."""
    service = Service()
    service.observe(deviation=0.31, times=36)
    service.observe(deviation=0.19)
    service.observe(deviation=0.31, times=100)
    assert service.now == (180 + 5 + 5 + 240) * MINUTE


def test_drift_rests_twelve_hours_after_an_execution() -> None:
    """The execution ends at 5 h 5 min; four hours above the threshold are over long before 17 h 5 min."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.run()
    service.observe(deviation=0.31, times=300)
    service.one(MakePlan)
    assert service.now == 245 * MINUTE + HOUR + 12 * HOUR


def test_a_lost_broker_is_answered_after_its_waiting_time() -> None:
    """Lost at minute 10, 15 minutes of waiting: the plan at minute 25 moves the offline replicas only."""
    service = Service()
    service.observe()
    service.observe(lost="2")
    assert "broker 2 lost" in service.one(Wait).reason
    service.observe(lost="2", times=10)
    order = service.one(MakePlan)
    assert service.now == 25 * MINUTE
    assert (order.trigger, order.settings) == (Trigger.BROKER_LOST, (("fix_offline_replicas", True),))


def test_the_time_of_a_loss_outlives_a_restart() -> None:
    """The service restarts ten minutes after the loss; the plan is ordered five minutes later."""
    service = Service()
    service.observe()
    service.observe(lost="2")
    service.observe(lost="2", times=2)
    service.send(Restarted())
    service.observe(lost="2", times=10)
    service.one(MakePlan)
    assert service.now == 25 * MINUTE


def test_a_rolling_restart_is_not_answered() -> None:
    """Each broker is down for seven minutes, one after another: no plan, also right afterwards."""
    service = Service()
    service.observe()
    for broker in "012345":
        for _ in range(7):
            assert not any(isinstance(one, MakePlan) for one in service.observe(MINUTE, lost=broker))
    for _ in range(30):
        assert not any(isinstance(one, MakePlan) for one in service.observe(MINUTE))


def test_a_mass_outage_is_alerted_once_and_not_answered() -> None:
    """Three of six brokers at once: limit one. The alert ends when they are back."""
    service = Service()
    service.observe()
    service.observe(lost="135")
    alert = service.one(Notify)
    assert (alert.key, alert.over) == ("outage", False)
    assert alert.reason == "3 of 6 brokers lost at once, limit 1"
    service.observe(lost="135", times=50)
    assert [type(one) for one in service.decisions] == [Wait]
    service.observe()
    assert service.one(Notify).over


def test_a_lost_rack_is_not_answered() -> None:
    """Two of twelve brokers would be few enough; here they are all of one rack."""
    policy = replace(ACT, broker_lost=BrokerLost(Mode.ACT, max_lost_share=0.5))
    service = Service(policy)
    service.observe()
    service.observe(lost="14", times=50)
    assert service.one(Notify).reason == "all brokers of rack r1 are lost"


def test_a_broken_limit_needs_three_snapshots_and_asks_for_theta_only() -> None:
    """The plan is made for θ, not for evenness."""
    service = Service()
    limits = (BrokenLimit("disk", "3", 0.91, 0.80),)
    for _ in range(2):
        service.observe(broken_limits=limits)
        assert "broker 3 uses 91.0% of its disk, limit 80%" in service.one(Wait).reason
    service.observe(broken_limits=limits)
    order = service.one(MakePlan)
    assert (order.trigger, dict(order.settings)) == (
        Trigger.HARD_LIMIT,
        {"goals": ("theta",), "load": "recent", "theta.disk": 0.76},
    )


def test_a_forecast_with_a_large_error_breaks_no_limit() -> None:
    """The limit of the forecast's error is 20 %."""
    service = Service()
    limits = (BrokenLimit("disk", "3", 0.91, 0.80),)
    service.observe(forecast_limits=limits, forecast_error=0.21, times=5)
    assert [type(one) for one in service.decisions] == [Wait]
    service.observe(forecast_limits=limits, forecast_error=0.20, times=5)
    assert dict(service.one(MakePlan).settings)["load"] == "peak"


def test_a_limit_that_will_break_in_a_drifting_cluster_gets_one_plan_for_both() -> None:
    """Evenness is asked too: else the drift would have the same data copied a second time."""
    service = Service()
    limits = (BrokenLimit("disk", "3", 0.91, 0.80),)
    service.observe(deviation=0.31, forecast_limits=limits, forecast_error=0.10, times=3)
    order = service.one(MakePlan)
    expected = {"epsilon": 0.10, "recent_move_hours": 24.0, "load": "peak", "theta.disk": 0.76}
    assert (order.trigger, dict(order.settings)) == (Trigger.HARD_LIMIT, expected)


def test_a_limit_that_is_broken_asks_for_theta_only_in_a_drifting_cluster_too() -> None:
    """Now the fewest moves count; evenness waits for the drift. So it does where nobody asks for evenness."""
    limits = (BrokenLimit("disk", "3", 0.91, 0.80),)
    service = Service()
    service.observe(deviation=0.31, broken_limits=limits, times=3)
    assert dict(service.one(MakePlan).settings)["goals"] == ("theta",)
    service = Service(replace(ACT, drift=Drift(Mode.OBSERVE)))
    service.observe(deviation=0.31, forecast_limits=limits, forecast_error=0.10, times=3)
    assert dict(service.one(MakePlan).settings)["goals"] == ("theta",)


def limit_work(after: tuple[BrokenLimit, ...]) -> Service:
    """A service whose execution for broker 3 had no effect, and the limits that are broken then."""
    service = Service()
    service.observe(broken_limits=(BrokenLimit("cpu", "3", 0.91, 0.80),), times=3)
    service.send(PlanMade(PLAN))
    service.send(ExecutionStarted(1))
    service.send(ExecutionEnded(1, Outcome.FINISHED, 0, 2, can_undo=True), after=MINUTE)
    service.observe(15 * MINUTE, broken_limits=after)
    service.one(Measure)
    service.send(EffectMeasured(1, Effect.NOTHING))
    service.observe(broken_limits=after, times=3)
    return service


def test_the_end_of_a_burst_is_no_failure_of_the_plan_for_it() -> None:
    """The next burst, on broker 4, gets a plan after 15 minutes, not after the pause of a failed plan."""
    service = limit_work(())
    service.observe(broken_limits=(BrokenLimit("cpu", "4", 0.91, 0.80),), times=3)
    assert service.one(MakePlan).trigger is Trigger.HARD_LIMIT


def test_another_broker_above_the_limit_is_no_failure_either() -> None:
    """Broker 4 was above it already when the effect was measured."""
    assert limit_work((BrokenLimit("cpu", "4", 0.91, 0.80),)).one(MakePlan).trigger is Trigger.HARD_LIMIT


def test_a_limit_that_stays_broken_pauses_its_trigger() -> None:
    """Broker 3 is still above the limit: the plan did not help."""
    service = limit_work((BrokenLimit("cpu", "3", 0.91, 0.80),))
    assert "again after 1 h 0 min: execution 1 had the effect `nothing`" in service.one(Wait).reason


def test_load_that_the_forecast_evens_out_is_no_drift() -> None:
    """γ = 0.31 now, 0.12 in the mean of the coming day: a plan for that load would have little to do."""
    service = Service()
    service.observe(deviation=0.31, forecast_deviation=0.12, times=100)
    reason = "the worst deviation is 31%, limit 20%, but that of the forecast is 12%"
    assert service.one(Wait).reason == f"{reason}: the load becomes even without moves"
    service.observe(deviation=0.31, forecast_deviation=0.21, times=100)
    assert service.one(MakePlan).trigger is Trigger.DRIFT
    recent = Service(replace(ACT, drift=Drift(Mode.ACT, load="recent")))
    recent.observe(deviation=0.31, forecast_deviation=0.12, times=100)
    assert recent.one(MakePlan).trigger is Trigger.DRIFT, "plans for the recent load need no forecast"


def test_a_returned_broker_gets_its_share_back() -> None:
    """Broker 6 is new and empty; ten minutes later the plan adds it."""
    service = Service()
    service.observe()
    service.observe(empty="6", times=10)
    order = service.one(MakePlan)
    assert service.now == 20 * MINUTE
    assert (order.trigger, order.settings) == (Trigger.BROKER_ADDED, (("add", ("6",)),))


def test_the_default_policy_proposes_and_executes_nothing() -> None:
    """The plan is shown; an operator may approve it, by its digest."""
    service = Service(Policy())
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    assert not service.one(Propose).ask
    service.observe(deviation=0.31, times=20)
    assert service.one(Wait).reason == "the plan waits for an approval"
    service.send(Approved("0" * 64, "ada"))
    assert "is not on offer" in service.one(Refuse).reason
    service.send(Approved(PLAN.digest, "ada"))
    order = service.one(Execute)
    assert (order.digest, order.by) == (PLAN.digest, "ada")


def test_a_changed_cluster_withdraws_an_approved_plan() -> None:
    """What was approved no longer fits: the differences are the reason."""
    service = Service(Policy())
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.observe(deviation=0.31, conflict="live-0 has moved to brokers 1, 2")
    assert service.one(Withdraw).reason == "the cluster has changed: live-0 has moved to brokers 1, 2"
    service.send(Approved(PLAN.digest, "ada"))
    service.one(Refuse)


def test_a_plan_is_withdrawn_when_its_condition_has_ended() -> None:
    """The load is even again before anybody approves."""
    service = Service(Policy())
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.observe(deviation=0.05)
    assert service.one(Withdraw).reason == "the condition of drift has ended"


def test_an_unapproved_plan_expires_after_a_day() -> None:
    """The offer ends after 24 hours, and a new plan is ordered for what lasts."""
    service = Service(replace(Policy(), drift=Drift(Mode.ASK)))
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    assert service.one(Notify).key == PLAN.digest
    begun = service.now
    service.observe(deviation=0.31, times=1000)
    assert service.now == begun + 24 * HOUR
    service.one(Withdraw)
    service.one(MakePlan)


def test_a_rejected_plan_is_not_made_again_at_once() -> None:
    """The trigger waits an hour."""
    service = Service(Policy())
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.send(Rejected(PLAN.digest, "ada", "not before Monday"))
    assert service.one(Withdraw).reason == "rejected by ada: not before Monday"
    begun = service.now
    service.observe(deviation=0.31, times=100)
    service.one(MakePlan)
    assert service.now == begun + HOUR


def test_a_request_replaces_an_unapproved_proposal() -> None:
    """The proposal is withdrawn, the request's plan asks for an approval."""
    service = Service(Policy())
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.send(PlanRequested("ada", (("drain", ("5",)),)))
    assert service.one(Withdraw).reason == "request comes first: ada asked for a plan"
    assert service.one(MakePlan).settings == (("drain", ("5",)),)
    service.send(PlanMade(replace(PLAN, digest="e" * 64)))
    assert service.one(Propose).ask
    service.observe(lost="2", times=50)
    assert [type(one) for one in service.decisions] == [Wait]


def test_a_request_may_approve_its_own_plan() -> None:
    """Who applies a plan that was shown has approved it: nobody is asked, and nobody is notified."""
    service = Service(Policy())
    service.observe()
    service.send(PlanRequested("ada", (("plan", PLAN.digest), (APPROVED_BY, "ada"))))
    service.one(MakePlan)
    service.send(PlanMade(PLAN))
    assert not service.one(Propose).ask
    assert (service.one(Execute).digest, service.one(Execute).by) == (PLAN.digest, "ada")
    assert [one for one in service.decisions if isinstance(one, Notify)] == []


def test_a_broker_absent_from_the_cluster_is_lost_before_any_snapshot() -> None:
    """The waiting time counts from then; the plan waits for a snapshot that has the broker as dead."""
    service = Service()
    service.observe()
    found = service.state.observed
    assert found is not None
    brokers = tuple(replace(one, alive=one.name != "2") for one in found.brokers)
    service.send(replace(found, brokers=brokers, changed_brokers=("2",)), after=7.0)
    assert service.state.lost_since == {"2": 307.0}
    assert "broker 2 lost" in service.one(Wait).reason
    service.observe(brokers=brokers, changed_brokers=("2",), times=7)
    assert service.one(Wait).reason.startswith("broker 2 is dead, and the newest snapshot has it alive")
    service.observe(5.0, lost="2")
    assert service.one(MakePlan).trigger is Trigger.BROKER_LOST
    assert service.state.lost_since == {"2": 307.0}


def test_a_returned_broker_counts_before_any_snapshot() -> None:
    """Nothing is moved off a broker that the cluster lists again."""
    service = Service()
    service.observe()
    service.observe(lost="2")
    found = service.state.observed
    assert found is not None
    brokers = tuple(replace(one, alive=True) for one in found.brokers)
    service.send(replace(found, brokers=brokers, changed_brokers=("2",)), after=60.0)
    assert (service.state.lost_since, service.state.back_since) == ({}, {"2": 660.0})
    service.send(PlanRequested("ada"))
    service.observe(brokers=brokers, changed_brokers=("2",), times=6)
    assert service.one(Wait).reason.startswith("broker 2 is alive, and the newest snapshot has it dead")


def test_brokers_of_an_older_snapshot_are_ignored() -> None:
    """A lake that is restored may offer one."""
    service = Service()
    service.observe()
    found = service.state.observed
    assert found is not None
    brokers = tuple(replace(one, alive=False) for one in found.brokers)
    service.send(replace(found, taken_at=found.taken_at - 1, brokers=brokers))
    assert service.state.lost_since == {}


def test_requests_precede_unapproved_healings() -> None:
    """One is withdrawn for the other, and the other is planned next: not the first again."""
    service = Service(replace(ACT, broker_lost=BrokerLost(Mode.ASK)))
    service.observe()
    service.observe(lost="2", times=10)
    service.send(PlanMade(PLAN))
    service.send(PlanRequested("ada"))
    assert "request comes first" in service.one(Withdraw).reason
    assert service.one(MakePlan).trigger is Trigger.REQUEST


def test_a_conflict_is_of_one_plan() -> None:
    """The next plan, made from the snapshot that showed the conflict, is not withdrawn by the same words."""
    service = Service(Policy(drift=Drift(Mode.ASK)))
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.observe(deviation=0.31, conflict="live-0 has moved to brokers 1, 2")
    service.one(Withdraw)
    service.one(MakePlan)
    service.send(PlanMade(replace(PLAN, digest="e" * 64)))
    assert [type(one) for one in service.decisions] == [Propose, Notify, Wait]


def test_a_request_that_waits_a_day_is_refused() -> None:
    """A plan for a wish of yesterday is a surprise."""
    service = Service(Policy())
    service.observe(foreign_work="a reassignment")
    service.send(PlanRequested("ada", (("drain", ("5",)),)))
    service.observe(foreign_work="a reassignment", times=1000)
    assert service.one(Refuse).reason == "the request of ada waited 24 h 0 min for a plan"
    service.observe(times=50)
    assert [type(one) for one in service.decisions] == [Wait]


def test_incomplete_plans_are_refused_with_their_problem() -> None:
    """Nothing is executed; people are notified; the trigger waits."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(replace(PLAN, verdict=Verdict.INFEASIBLE, problems="disk: add 2 brokers")))
    assert service.one(Refuse).reason == "the plan is infeasible: disk: add 2 brokers"
    service.one(Notify)
    service.observe(deviation=0.31)
    assert "again after 1 h 0 min: the plan is infeasible" in service.one(Wait).reason


def test_the_pause_of_a_trigger_doubles() -> None:
    """One hour, then two, then four: plans that cannot help are not made without end."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    for hours in (1, 2, 4):
        service.send(PlanMade(replace(PLAN, moves=0)))
        begun = service.now
        service.observe(deviation=0.31, times=1000)
        service.one(MakePlan)
        assert service.now == begun + hours * HOUR


def test_a_pause_holds_the_execution_and_survives_a_restart() -> None:
    """The plan is approved by policy; it is executed when the pause ends."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(Paused("ada", "upgrade", until=service.now + HOUR))
    service.send(PlanMade(PLAN))
    assert service.one(Wait).reason == "paused by ada: upgrade"
    service.send(Restarted())
    assert service.one(Wait).until <= service.now + HOUR
    service.send(Resumed("ada"))
    service.one(Execute)


def test_a_spent_budget_holds_the_execution() -> None:
    """The plan copies 2 GB; 1 GB is allowed in 24 hours."""
    service = Service(replace(ACT, budget=Budget(max_bytes=1_000_000_000)))
    service.observe(deviation=0.31, times=100)
    assert dict(service.one(MakePlan).settings)["max_bytes"] == 1_000_000_000
    service.send(PlanMade(PLAN))
    assert service.one(Wait).reason == "budget of bytes in 24 hours: 0 B used, 2.0 GB needed, limit 1.0 GB"


def test_an_outage_stops_the_execution_and_its_end_resumes_it() -> None:
    """Stopped after the steps under way; resumed when the brokers have been back for ten minutes."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.send(ExecutionStarted(7))
    service.observe(lost="135")
    assert service.one(Stop).execution == 7
    service.send(ExecutionEnded(7, Outcome.STOPPED, 1000, 0))
    service.observe()
    begun = service.now
    service.observe(times=10)
    assert service.one(Resume).execution == 7
    assert service.now == begun + 10 * MINUTE


def test_a_restart_resumes_the_execution() -> None:
    """The journal has it; nothing else is ordered."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.send(ExecutionStarted(7))
    service.send(Restarted())
    assert service.one(Resume).execution == 7


def test_an_execution_that_a_person_stopped_stays_stopped() -> None:
    """Only a resume or a cancel from outside moves it."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.send(ExecutionStarted(7))
    service.send(ExecutionEnded(7, Outcome.STOPPED, 1000, 0))
    service.observe(times=20)
    assert service.one(Wait).reason == "execution 7 was stopped by a person: resume or cancel it"
    service.send(ExecutionEnded(7, Outcome.CANCELLED, 1000, 0))
    assert service.state.work is not None
    assert service.state.work.stage is Stage.SETTLING


def test_an_approved_plan_is_checked_again_after_a_restart() -> None:
    """The process ended before the execution began; a pause that came meanwhile counts."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.one(Execute)
    service.send(Paused("ada", "release"))
    service.send(Restarted())
    assert "release" in service.one(Wait).reason
    assert service.state.spent == ()
    service.send(Resumed("ada"))
    assert service.one(Execute).digest == PLAN.digest


def test_a_request_outlives_a_restart_while_its_plan_is_made() -> None:
    """The request is planned again, with its own settings and its approval."""
    service = Service(Policy())
    service.observe()
    settings = (("drain", ("5",)), (APPROVED_BY, "ada"))
    service.send(PlanRequested("ada", settings))
    service.send(Restarted())
    assert service.one(MakePlan).settings == settings


def test_a_person_lets_a_stopped_execution_go_on() -> None:
    """The resume of another execution changes nothing."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.send(ExecutionStarted(7))
    service.send(ExecutionEnded(7, Outcome.STOPPED, 1000, 0))
    service.send(ExecutionResumed(8, "ada"))
    assert [type(one) for one in service.decisions] == [Wait]
    service.send(ExecutionResumed(7, "ada"))
    assert service.one(Resume).execution == 7


def test_a_worse_effect_is_undone_and_the_trigger_asks_from_then_on() -> None:
    """The undo is planned at once and executed without an approval."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.run(1, Effect.WORSE)
    assert "made the load less even (γ 0.3 → 0.1); it is undone" in service.one(Notify).reason
    order = service.one(MakePlan)
    assert (order.trigger, order.settings) == (Trigger.UNDO, (("undo", 1),))
    service.run(2)
    service.observe(deviation=0.31, times=300)
    service.one(MakePlan)
    service.send(PlanMade(replace(PLAN, digest="f" * 64)))
    assert service.one(Propose).ask
    assert service.state.work is not None
    assert service.state.work.stage is Stage.PROPOSED


@pytest.mark.parametrize("failure", ["plan", "execution", "changed", "incomplete"])
def test_an_undo_that_fails_once_is_tried_again(failure: str) -> None:
    """After the pause of a trigger; the cause may have passed."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.run(1, Effect.WORSE)
    assert service.one(MakePlan).trigger is Trigger.UNDO
    if failure == "plan":
        service.send(PlanFailed("the lake does not answer"))
    elif failure == "incomplete":
        service.send(PlanMade(replace(PLAN, verdict=Verdict.INCOMPLETE)))
    elif failure == "execution":
        service.send(PlanMade(PLAN))
        service.send(ExecutionEnded(None, Outcome.REFUSED, reason="another trimtab acts there"))
    else:
        service.send(Paused("ada", "release", None))
        service.send(PlanMade(PLAN))
        service.observe(conflict="t-0 is on 1, 2")
        assert service.one(Withdraw).digest == PLAN.digest
        service.send(Paused("ada", "it ends by itself", service.now + 1))
    assert not any(isinstance(one, MakePlan) for one in service.decisions)
    assert 1 in service.state.undo
    service.observe(times=12)
    assert service.one(MakePlan).settings == (("undo", 1),)
    service.run(2)
    assert service.state.undo == ()
    assert Trigger.UNDO not in service.state.retries


def test_an_undo_that_keeps_failing_ends_with_a_notification() -> None:
    """Its pauses double: 1, 2, 4, 8 and 16 hours; the next would be longer than a day."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.run(1, Effect.WORSE)
    for _ in range(5):
        service.send(PlanFailed("the lake does not answer"))
        service.observe(times=200)
        assert len(service.state.undo) == 1
    service.send(PlanFailed("the lake does not answer"))
    assert not service.state.undo
    assert service.one(Notify).key == "undo-1"
    assert "not undone" in service.one(Notify).reason


def test_a_rejected_undo_and_one_without_moves_are_not_tried_again() -> None:
    """A person has said no; nothing is left to undo."""
    for answer in "reject", "nothing":
        service = Service()
        service.observe(deviation=0.31, times=100)
        service.run(1, Effect.WORSE)
        if answer == "reject":
            service.send(Paused("ada", "release", None))
            service.send(PlanMade(PLAN))
            service.send(Rejected(PLAN.digest, "ada", "we keep it"))
        else:
            service.send(PlanMade(replace(PLAN, verdict=Verdict.BALANCED, moves=0)))
        assert service.state.undo == ()
        assert Trigger.UNDO not in service.state.retries


def test_a_healing_with_a_worse_effect_is_not_undone() -> None:
    """An undo would return replicas to the lost broker; the next loss is healed without a person."""
    service = Service()
    service.observe(times=3)
    service.observe(lost="3", times=100)
    assert service.one(MakePlan).trigger is Trigger.BROKER_LOST
    service.run(1, Effect.WORSE)
    assert service.state.undo == ()
    assert service.one(Notify).reason.startswith("execution 1 replaced lost replicas, and the load is less")
    assert (service.state.must_ask, service.state.worse_at, service.state.retries) == (frozenset(), (), {})
    service.observe(30 * MINUTE)
    service.observe(lost="4", times=100)
    assert service.one(MakePlan).trigger is Trigger.BROKER_LOST
    service.send(PlanMade(replace(PLAN, digest="e" * 64)))
    assert service.one(Execute).by == "policy"


def test_a_lost_broker_ends_the_wait_for_a_measurement() -> None:
    """Lost 5 minutes after an execution: healed 15 minutes later, not after 15 minutes and two hours."""
    service = Service()
    service.observe(deviation=0.31, times=100)
    service.send(PlanMade(PLAN))
    service.send(ExecutionStarted(1))
    service.send(ExecutionEnded(1, Outcome.FINISHED, 1000, 2), after=HOUR)
    ended = service.now
    service.observe(lost="2")
    service.observe(lost="2", times=2)
    service.one(Measure)
    service.observe(lost="2", times=2)
    assert service.now == ended + 20 * MINUTE
    assert "execution 1 is not measured: broker 2 lost" in service.one(Notify).reason
    assert service.one(MakePlan).trigger is Trigger.BROKER_LOST
    late, before = service.state, service.state
    service.send(EffectMeasured(1, Effect.WORSE, "too late"))
    assert (late.worse_at, service.state.worse_at) == ((), before.worse_at)


def test_a_loss_from_before_an_execution_does_not_end_its_measurement() -> None:
    """Replicas that could not be moved stay on the lost broker; the execution is measured all the same."""
    service = Service()
    service.observe()
    service.observe(lost="2", times=10)
    service.one(MakePlan)
    service.send(PlanMade(PLAN))
    service.send(ExecutionStarted(1))
    service.send(ExecutionEnded(1, Outcome.INCOMPLETE, 1000, 2), after=HOUR)
    for _ in range(3):
        service.observe(lost="2")
    service.one(Measure)


def test_two_worse_effects_in_a_day_pause_the_service() -> None:
    """A person has to resume it."""
    service = Service(replace(ACT, undo=False, hard_limit=HardLimit(Mode.ACT, rest_seconds=0.0)))
    limits = (BrokenLimit("disk", "3", 0.91, 0.80),)
    service.observe(deviation=0.31, times=100)
    service.run(1, Effect.WORSE)
    service.observe(broken_limits=limits, times=10)
    service.run(2, Effect.WORSE)
    assert service.state.pause is not None
    assert service.state.pause.by == "trimtab"
    assert any(isinstance(one, Notify) and one.key == "paused" for one in service.decisions)
    service.send(Resumed("ada"))
    assert service.state.pause is None


def test_a_standby_orders_nothing() -> None:
    """It observes, and says who decides."""
    service = Service()
    service.send(LeadershipChanged(False))
    service.observe(deviation=0.31, times=100)
    assert [type(one) for one in service.decisions] == [Wait]
    assert service.one(Wait).reason == "another instance decides"


def test_an_old_snapshot_is_alerted_and_nothing_is_planned() -> None:
    """Three intervals of five minutes are the limit."""
    service = Service()
    service.observe(deviation=0.31)
    service.send(TimeReached(), after=15 * MINUTE)
    assert not any(isinstance(one, Notify) for one in service.decisions)
    service.send(TimeReached(), after=MINUTE)
    assert service.one(Notify).key == "stale"
    assert service.one(Wait).reason == "the newest snapshot is 16 min 0 s old, limit 15 min 0 s"

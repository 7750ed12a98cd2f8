"""Settings of the balancer `bundles` as a planner sees them; `files.bundles.settings` checks them."""

from dataclasses import dataclass

UNOWNED = ("leave", "assign")
"""The ways with bundles that nobody owns."""

OUTSIDE_POLICY = ("leave", "move")
"""The ways with bundles on brokers that the isolation policies do not allow them."""


@dataclass(frozen=True)
class BundlesSettings:
    """The goals and limits of a plan of the balancer `bundles`.

    Attributes
    ----------
    theta
        Highest utilisation allowed in every view, per resource (cpu, bandwidth_in, bandwidth_out,
        message_rate), 0 < θ <= 1.
    epsilon
        Highest deviation γ from the mean allowed in every view, per resource, 0 < ε < 1.
    min_utilization
        ε is not asked of a resource in a view where the brokers use less than this share of it on average: no
        client is disconnected to level a network that is one part in a thousand full. Of a resource without
        known capacity it is asked.
    grace_seconds
        A bundle does not go back to a broker that it left within this time.
    max_unloads
        Most unloads of the whole plan; none is no limit.
    max_sessions
        Most clients that the whole plan may disconnect; none is no limit.
    excluded_namespaces
        Names or glob patterns of namespaces whose bundles are not moved to balance the cluster.
    evacuate_excluded_namespaces
        Whether bundles of excluded namespaces leave brokers that are not in service.
    unowned_bundles
        `leave`: bundles that nobody owns are left to Pulsar, which places them when they are looked up;
        `assign`: the plan gives them a broker.
    policy_violations
        `leave`: a bundle on a broker that its namespace's isolation policy does not name stays there unless
        the goals move it, and the plan names it; `move`: the plan moves it to a broker that the policy names.
    allow_splits
        Whether a bundle that is too big for every broker may be split.
    max_bundles_per_namespace
        No split gives a namespace more bundles than this.
    seed
        For the search, where it draws; the same seed gives the same plan.
    time_budget_seconds
        0 is the deterministic default; more buys search steps (a fixed number per second asked for, so that
        the same budget gives the same plan on any machine).
    """

    theta: tuple[float, ...] = (0.8, 0.8, 0.8, 0.8)
    epsilon: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1)
    min_utilization: float = 0.01
    grace_seconds: float = 1800.0
    max_unloads: int | None = None
    max_sessions: int | None = None
    excluded_namespaces: tuple[str, ...] = ()
    evacuate_excluded_namespaces: bool = True
    unowned_bundles: str = "leave"
    policy_violations: str = "leave"
    allow_splits: bool = True
    max_bundles_per_namespace: int = 128
    seed: int = 0
    time_budget_seconds: float = 0.0

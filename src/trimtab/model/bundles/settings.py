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
        Highest utilisation θ in every view, per resource (cpu, bandwidth_in, bandwidth_out, message_rate), 0
        < θ <= 1.
    epsilon
        Highest deviation γ from the mean in every view, per resource, 0 < ε < 1.
    min_utilization
        Resources with mean utilisation below this share in a view are not balanced in that view. Resources
        without known capacity always are.
    grace_seconds
        Time for which a bundle does not return to a broker that it left.
    max_unloads
        Maximum number of unloads of a plan; none: no limit.
    max_sessions
        Maximum number of clients that a plan may disconnect; none: no limit.
    excluded_namespaces
        Names or glob patterns of namespaces whose bundles are not moved to balance the cluster.
    evacuate_excluded_namespaces
        Whether bundles of excluded namespaces leave brokers that are not in service.
    unowned_bundles
        `leave`: Pulsar places bundles without owner at their next lookup; `assign`: the plan assigns them to
        a broker.
    policy_violations
        A bundle on a broker that its namespace's isolation policy excludes. `leave`: the plan names it, and
        moves it only if the goals require it; `move`: the plan moves it to a broker that the policy allows.
    allow_splits
        Whether a plan may split a bundle that is too large for every broker.
    max_bundles_per_namespace
        Maximum number of bundles of a namespace after a split.
    seed
        Seed of random choices; the same seed gives the same plan.
    time_budget_seconds
        Search effort: 0 is the deterministic default; a larger value adds a fixed number of search steps per
        second, so that the same value gives the same plan on any machine.
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

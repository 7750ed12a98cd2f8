"""The cheapest placement of a small cluster, solved exactly as a mixed-integer program by HiGHS."""

import math

import highspy

THETA, EPSILON = 0.8, 0.25


def cheapest(brokers: list[dict], partitions: list[dict], level: bool) -> float | None:
    """Bytes that the cheapest placement copies, None if there is no placement.

    Parameters
    ----------
    brokers, partitions
        As `support.replica_clusters` makes them: states alive and draining, every replica in sync.
    level
        Whether ε is asked for as well as θ, racks and the emptying of draining brokers.
    """
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    serving = [b for b in brokers if b["state"] == "alive"]
    racks = {b["rack"] for b in serving}
    holds = {(i, b["id"]): solver.addBinary() for i, _ in enumerate(partitions) for b in serving}
    leads = {(i, b["id"]): solver.addBinary() for i, _ in enumerate(partitions) for b in serving}
    for i, p in enumerate(partitions):
        factor = len(p["replicas"])
        solver.addConstr(sum(holds[i, b["id"]] for b in serving) == factor)
        solver.addConstr(sum(leads[i, b["id"]] for b in serving) == 1)
        for b in serving:
            solver.addConstr(leads[i, b["id"]] <= holds[i, b["id"]])
        for rack in racks:
            inside = [holds[i, b["id"]] for b in serving if b["rack"] == rack]
            solver.addConstr(sum(inside) <= math.ceil(factor / len(racks)))
    for r in range(4):
        total = sum(
            p["leader_load"][r] + (len(p["replicas"]) - 1) * p["follower_load"][r] for p in partitions
        )
        mean = total / sum(b["capacity"][r] for b in serving)
        for b in serving:
            load = sum(
                p["follower_load"][r] * holds[i, b["id"]]
                + (p["leader_load"][r] - p["follower_load"][r]) * leads[i, b["id"]]
                for i, p in enumerate(partitions)
            )
            high = min(THETA, mean * (1 + EPSILON)) if level else THETA
            solver.addConstr(load <= high * b["capacity"][r])
            if level:
                solver.addConstr(load >= mean * (1 - EPSILON) * b["capacity"][r])
    solver.minimize(
        sum(
            p["leader_load"][1] * holds[i, b["id"]]
            for i, p in enumerate(partitions)
            for b in serving
            if b["id"] not in p["replicas"]
        )
        + 0.0 * next(iter(holds.values()))
    )
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        assert solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        return None
    return float(solver.getObjectiveValue())

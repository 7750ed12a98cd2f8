"""Why a replica is added there, and why this one is dropped, in words."""

from collections.abc import Callable

import numpy as np

from trimtab.model.load import FloatArray, resource_name
from trimtab.model.replicas.plan import ReplicaReason
from trimtab.model.replicas.resources import RESOURCES, UNITS
from trimtab.model.replicas.snapshot import ReplicaBrokerState
from trimtab.plan.replicas.explain import RULES
from trimtab.plan.replicas.factor_verdicts import GOAL
from trimtab.plan.replicas.moves import LEADER_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.search.reasons import StepReasons, UnitScale, change, rejections


def factor_narrator(
    problem: ReplicasProblem, steps: StepArrays, reasons: StepReasons, usage: FloatArray, order: list[int]
) -> Callable[[int], ReplicaReason]:
    """A function from the number of a step to its reason.

    Parameters
    ----------
    usage
        Shape (rows, columns), before all steps.
    order
        The place of each step among the plan's moves, from 1.
    """
    return _Narrator(problem, steps, reasons, usage, order)


class _Narrator:
    def __init__(
        self,
        problem: ReplicasProblem,
        steps: StepArrays,
        reasons: StepReasons,
        usage: FloatArray,
        order: list[int],
    ) -> None:
        self.problem, self.steps, self.reasons, self.order = problem, steps, reasons, order
        self.ids = problem.snapshot.brokers.id.tolist()
        held = (problem.arrays.initial >= 0) & (problem.arrays.initial < problem.brokers)
        self.number = held.sum(axis=1).tolist()
        self.usage = usage[: problem.brokers, : len(RESOURCES)].copy()
        self.departs = {
            (int(p), int(b)): at
            for kind, p, b, at in zip(*(c.tolist() for c in steps[:3]), order, strict=True)
            if kind != LEADER_STEP
        }

    def __call__(self, i: int) -> ReplicaReason:
        """The reason of a step; to be asked for one after the other."""
        problem = self.problem
        kind, p, source, target, role = (int(column[i]) for column in self.steps)
        wanted = int(problem.target_factor[p])
        if kind == LEADER_STEP:
            use = problem.arrays.use[p, 1] - problem.arrays.use[p, 0]
            text = "the partition's leader is offline"
            if source >= 0 and (p, source) in self.departs:
                drop = self.departs[p, source]
                text = (
                    f"broker {self.ids[source]} hands over, so that its replica can be dropped (move {drop})"
                )
            self._bear(target, use)
            if source >= 0:
                self._bear(source, -use)
            told = f"{text}; broker {self.ids[target]} holds the partition in sync"
            return ReplicaReason(
                GOAL, None, self.ids[source if source >= 0 else target], None, None, None, told
            )
        use, before = problem.arrays.use[p, role], self.number[p]
        if target >= problem.brokers:
            self.number[p] -= 1
            what, side = source, -1.0
            why = f"broker {self.ids[source]} {self._state(p, source)}"
        else:
            self.number[p] += 1
            what, side = target, 1.0
            why = f"broker {self.ids[target]} bears it best"
        after = self.number[p]
        load = self._load(what, side * use)
        text = f"{wanted} replicas asked for: {before} -> {after}; {why}{load}"
        if side > 0:
            rejected = self.reasons.rejected[i].tolist()
            rejected[0] -= problem.vacancies - 1
            text = f"{text}; {rejections(problem.brokers - 1, 'others', rejected, RULES)}"
        return ReplicaReason(GOAL, None, self.ids[what], float(before), float(after), float(wanted), text)

    def _bear(self, b: int, use: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add a load to a broker; its usage before and after."""
        was = self.usage[b].copy()
        self.usage[b] += use[: len(RESOURCES)] * self.problem.arrays.inverse[b]
        return was, self.usage[b]

    def _load(self, b: int, use: FloatArray) -> str:
        """The resource of the broker that changes most, before and after; nothing of a dead broker."""
        if self.problem.snapshot.brokers.state[b] == ReplicaBrokerState.DEAD:
            return ""
        was, now = self._bear(b, use)
        r = int(np.argmax(np.abs(now - was)))
        name, scale = RESOURCES[r], None
        if name in self.problem.snapshot.quality.nominal_capacity:
            scale = UnitScale(float(self.problem.snapshot.brokers.capacity[b, r]), UNITS[name])
        return f": {resource_name(name)} {change(float(was[r]), max(0.0, float(now[r])), scale)}"

    def _state(self, p: int, b: int) -> str:
        """Why the replica of a broker goes first, or that its going levels best."""
        problem = self.problem
        s = int(np.flatnonzero(problem.arrays.initial[p] == b)[0])
        state = problem.snapshot.brokers.state[b]
        if state == ReplicaBrokerState.DEAD:
            return "is dead"
        if problem.offline[p, s]:
            return "holds it in a log dir that is offline"
        if state == ReplicaBrokerState.DRAINING:
            return "is to be emptied"
        return "can spare it best" if problem.snapshot.partitions.in_sync[p, s] else "is not in sync"

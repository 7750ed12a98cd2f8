"""Goals per topic held against a plan: what it predicts of them, and what it misses."""

from trimtab.model.goals import topic_violation_text
from trimtab.model.load import IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.plan import TopicGoalPrediction
from trimtab.model.replicas.topics import TopicCounts, topic_numbers
from trimtab.plan.replicas.problem import ReplicasProblem

NAMED = 5
"""Topics named in a text; the proof names them all."""

TopicPair = tuple[TopicCounts, TopicCounts]
"""The topics under the snapshot, and under the plan."""


def topic_pair(problem: ReplicasProblem, replicas: IntArray, leader: IntArray) -> TopicPair | None:
    """The topics that goals are about, under the snapshot and a plan's end, broker indices; None for none."""
    snapshot, settings = problem.snapshot, problem.settings
    before = topic_numbers(snapshot, settings, problem.arrays.initial, problem.first_leader)
    after = topic_numbers(snapshot, settings, replicas, leader)
    return None if before is None or after is None else (before, after)


def predicted_topics(pair: TopicPair | None) -> dict[str, TopicGoalPrediction] | None:
    """How many topics miss each goal, before and after; None where no goal is about topics."""
    if pair is None:
        return None
    before, after = (
        {goal: sum(breach.goal == goal for breach in one.violations()) for goal in one.goals} for one in pair
    )
    return {goal: TopicGoalPrediction(pair[1].about(goal), before[goal], after[goal]) for goal in after}


def topic_problems(pair: TopicPair | None) -> tuple[list[Problem], list[Problem]]:
    """What is proven impossible, and what is only not achieved."""
    if pair is None:
        return [], []
    after, proven, open_ = pair[1], [], []
    short = after.short()
    if short:
        proven.append(_too_few(after, short))
    for goal in after.goals:
        found = [breach for breach in after.violations() if breach.goal == goal]
        if goal == "min_leaders_per_topic":
            found = [breach for breach in found if breach.resource not in short]
        if not found:
            continue
        told = "; ".join(topic_violation_text(breach) for breach in found[:NAMED])
        more = f"; and {len(found) - NAMED} more topics" if len(found) > NAMED else ""
        open_.append(
            Problem(
                "unmet_goal",
                f"{goal}: {told}{more}; no move that was tried helps within the rules",
                proof={"goal": goal, "topics": [breach.resource for breach in found]},
            )
        )
    return proven, open_


def _too_few(after: TopicCounts, short: dict[str, int]) -> Problem:
    """Fewer partitions than brokers need to lead: no plan makes more."""
    number = int(after.topic_goals.counted[:, 1].sum())
    rows = {name: row for row, name in enumerate(after.topic_goals.name)}
    least = {name: int(after.topic_goals.minimum[rows[name]]) for name in short}
    has = {name: int(after.topic_goals.partitions[rows[name]]) for name in short}
    told = "; ".join(
        f"topic {name} has {has[name]} partitions, and {number} brokers are to lead {least[name]} each: add "
        f"{lack}"
        for name, lack in list(short.items())[:NAMED]
    )
    more = f"; and {len(short) - NAMED} more topics" if len(short) > NAMED else ""
    return Problem(
        "add_partitions",
        f"{told}{more}; or ask for fewer in replicas.min_leaders_per_topic",
        count=sum(short.values()),
        proof={
            "goal": "min_leaders_per_topic",
            "brokers_that_may_lead": number,
            "least_leaders": least,
            "partitions": has,
        },
    )

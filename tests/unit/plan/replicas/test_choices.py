"""Placements of small clusters chosen among all lawful sets of brokers; capacities are 100, and θ is 80 %."""

import pytest

from support.judge_plans import judged_request
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import choices
from trimtab.plan.replicas.choices import feasible_below_theta
from trimtab.plan.replicas.problem import problem_data

FULL = (100.0,) * 4


def brokers(number: int) -> list:
    """So many brokers, each a rack of its own."""
    return [broker(b, rack=f"r{b}", capacity=FULL) for b in range(1, number + 1)]


def held(partitions: list, there: list, **settings: object) -> dict[str, tuple[set[int], int | None]] | None:
    """Brokers and leader of each partition, by its topic; None if no placement is found."""
    problem = problem_data(snapshot(there, partitions), ReplicasSettings(**settings))  # type: ignore[arg-type]
    placement = feasible_below_theta(problem)
    if placement is None:
        return None
    ids, parts = [*problem.snapshot.brokers.id.tolist(), None], problem.snapshot.partitions
    return {
        parts.topics[parts.topic[p]]: ({ids[b] for b in row if b >= 0}, ids[leader])
        for p, (row, leader) in enumerate(zip(placement.place, placement.leader.tolist(), strict=True))
    }


def cpu(topic: str, replicas: list[int], load: float, **fields: object) -> dict:
    """A partition whose replicas all use the CPU; its size is a tenth of that."""
    each = (load, load / 10, 0.0, 0.0)
    return partition(topic, 0, replicas, load=each, follower=each, **fields)


def test_a_chain_of_moves_is_found() -> None:
    """`a` (60) fits on broker 2 alone after `b` (30) went to 3, and that needs `c` (40) to go to 4."""
    there = brokers(4)
    parts = [cpu("a", [1], 60), cpu("b", [2], 30), cpu("c", [3], 40), cpu("d", [3], 25), cpu("e", [4], 40)]
    found = held(parts, there, drain=(1,))
    assert found is not None
    carried = {b: sum(p["leader_load"][0] for p in parts if b in found[p["topic"]][0]) for b in range(1, 5)}
    assert carried[1] == 0
    assert max(carried.values()) <= 80


def test_of_several_the_one_that_copies_least_is_taken() -> None:
    """Broker 2 has to give up 10: `b` alone is enough."""
    parts = [cpu("a", [1], 30), cpu("b", [2], 12), cpu("c", [2], 40), cpu("d", [2], 38)]
    found = held(parts, brokers(3), goals=("theta",))
    assert found is not None
    assert {topic for topic, (on, _) in found.items() if on == {2}} == {"c", "d"}
    assert found["a"][0] == {1}


def test_arriving_replicas_need_space_before_others_leave() -> None:
    """`a` (50 on disk) could take the place of `b` on 2, but both are there for a while: it goes to 3."""
    parts = [partition(t, 0, [at], load=(0, size, 0, 0)) for t, at, size in (("a", 1, 50), ("b", 2, 40))]
    found = held(parts, brokers(3), drain=(1,))
    assert found is not None
    assert found["a"][0] == {3}
    small = [*brokers(2), broker(3, rack="r3", capacity=(100.0, 55.0, 100.0, 100.0))]
    assert held(parts, small, drain=(1,)) is None


def test_replicas_that_need_not_move_are_copied_to_added_brokers_only() -> None:
    """Broker 2 is above θ; 3 is empty, and 4 is the one that is added."""
    parts = [cpu("a", [2], 60), cpu("b", [2], 30)]
    found = held(parts, brokers(4), add=(4,))
    assert found is not None
    assert {4} in [one for one, _ in found.values()]
    assert {3} not in [one for one, _ in found.values()]


def test_excluded_topics_lose_only_replicas_that_must_leave() -> None:
    """Broker 1 is emptied, and 2 has to give up `a` or `c`: `a` is smaller, but stays."""
    parts = [
        partition("a", 0, [1, 2], load=(50, 1, 0, 0), follower=(50, 1, 0, 0)),
        partition("c", 0, [2], load=(45, 30, 0, 0)),
    ]
    asked = {"drain": (1,), "rebalance": True, "goals": ("theta",)}
    found, free = (held(parts, brokers(4), **asked, excluded_topics=names) for names in (("a",), ()))
    assert found is not None and free is not None
    assert 2 in found["a"][0]
    assert 2 not in free["a"][0]


def test_racks_are_respected() -> None:
    """Broker 3 is in the rack of 2, so `a` goes to 4, although it is bigger there than `b` allows."""
    there = [broker(b, rack=rack, capacity=FULL) for b, rack in ((1, "x"), (2, "y"), (3, "y"), (4, "x"))]
    parts = [cpu("a", [1, 2], 50), cpu("b", [4], 40)]
    found = held(parts, there, drain=(1,))
    assert found is not None
    assert {topic: on for topic, (on, _) in found.items()} == {"a": {2, 4}, "b": {3}}


def test_a_leader_without_a_substitute_leaves_with_another_replica() -> None:
    """Broker 1 leads and is second; 2 lags and may receive nothing, so that it has to make room for good."""
    there = [
        broker(1, capacity=FULL),
        broker(2, state="no_new_replicas", capacity=FULL),
        *(broker(b, capacity=FULL) for b in (3, 4)),
    ]
    parts = [cpu("a", [2, 1], 10, leader=1, in_sync=[1])]
    found = held(parts, there, drain=(1,), goals=("theta",))
    assert found is not None
    assert found["a"][0] == {3, 4}


def test_bytes_are_limited() -> None:
    """A copy of 6 is needed, and 5 are allowed."""
    parts = [cpu("a", [1], 60)]
    assert held(parts, brokers(2), drain=(1,), max_bytes=6) == {"a": ({2}, 2)}
    assert held(parts, brokers(2), drain=(1,), max_bytes=5) is None


def test_clusters_of_too_many_sets_are_left_to_the_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets, and one is allowed."""
    monkeypatch.setattr(choices, "MAX_CHOICES", 1)
    assert held([cpu("a", [1], 60)], brokers(3), drain=(1,)) is None


@pytest.mark.parametrize("seed", [161, 472])
def test_drains_missed_by_the_descent_are_still_planned(seed: int) -> None:
    """Drains of small clusters: one was held back on the way, one lifted a broker to 93 % of its network."""
    assert judged_request(seed) == ("balanced", [])

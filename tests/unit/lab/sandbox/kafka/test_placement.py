"""Formulas that place new topics, against Kafka's own description of them and against the paper's slip."""

import random

import pytest

from trimtab.lab.sandbox.kafka.placement import (
    choose_placement,
    draw_placement,
    kafka_formula,
    paper_formula,
    read_placement,
)
from trimtab.lab.sandbox.kafka.workload import skewed
from trimtab.model.errors import SandboxError

SIX = [1, 2, 3, 4, 5, 6]
RACKS = {1: "r1", 2: "r1", 3: "r2", 4: "r2", 5: "r3", 6: "r3"}


def test_kafka_2_without_racks_as_its_documentation_shows():
    """Five brokers, ten partitions, three copies, start and shift 0: the example in Kafka 2's own sources."""
    assert kafka_formula(10, 3, [0, 1, 2, 3, 4], 0, 0) == (
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    )


def test_start_and_shift_move_leader_and_followers():
    """The two random numbers of a topic move its first leader and the distance of its followers."""
    assert kafka_formula(1, 3, [0, 1, 2, 3, 4], 3, 0) == ((3, 4, 0),)
    assert kafka_formula(1, 3, [0, 1, 2, 3, 4], 0, 2) == ((0, 3, 4),)


@pytest.mark.parametrize("seed", range(30))
def test_racks_are_separate_and_leaders_even(seed):
    """With racks no two copies share one, and leaders of many partitions differ by at most one."""
    draw = random.Random(seed)
    placed = kafka_formula(13, 3, SIX, draw.randrange(6), draw.randrange(6), RACKS)
    assert all(len({RACKS[broker] for broker in replicas}) == 3 for replicas in placed)
    leaders = [sum(replicas[0] == broker for replicas in placed) for broker in SIX]
    assert max(leaders) - min(leaders) <= 1


def test_more_copies_than_racks_fill_up_with_other_brokers():
    """When every rack has a copy, the next one goes to any broker that has none."""
    for replicas in kafka_formula(6, 5, SIX, 1, 4, RACKS):
        assert len(set(replicas)) == 5
        assert {RACKS[broker] for broker in replicas} == {"r1", "r2", "r3"}


def test_the_papers_formula_is_redrawn_in_a_third_of_the_draws():
    """For six brokers and three copies α = 0 and α = 3 put two copies on one broker: two draws of six."""
    placed, redraws = paper_formula(6000, 3, SIX, random.Random(1))
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert redraws / (redraws + 6000) == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("formula", ["kafka-2", "paper"])
def test_a_drawn_placement_fits_its_load_and_is_read_back(formula, tmp_path):
    """A draw can be recorded and made again on another cluster."""
    load = skewed(5)
    placement = draw_placement(load.topics, SIX, formula, seed=9, racks=RACKS)
    assert {name: len(part) for name, part in placement.replicas.items()} == {
        topic.name: topic.partitions for topic in load.topics
    }
    (tmp_path / "placement.json").write_text(placement.to_json())
    assert read_placement(tmp_path / "placement.json") == placement
    assert choose_placement(str(tmp_path / "placement.json"), load, RACKS, 0) == placement
    assert choose_placement(formula, load, RACKS, 9) == placement


def test_kafka_itself_may_place():
    """`controller` leaves the choice to the cluster."""
    assert choose_placement("controller", skewed(5), RACKS, 0) is None


def test_too_few_brokers_are_refused():
    """Three copies on two brokers are rejected before Kafka is called."""
    with pytest.raises(SandboxError, match="3 copies need as many brokers, and there are 2"):
        kafka_formula(1, 3, [1, 2], 0, 0)


def test_an_unknown_formula_or_file_is_refused(tmp_path):
    """A typing error in the name of a formula reads as a file that is not there."""
    with pytest.raises(SandboxError, match="choose kafka-2 or paper"):
        draw_placement(skewed(5).topics, SIX, "kafka-3", 0)
    with pytest.raises(SandboxError, match="is not a recorded placement"):
        choose_placement(str(tmp_path / "kafka-3"), skewed(5), RACKS, 0)

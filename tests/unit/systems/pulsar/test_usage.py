"""Whether brokers report their own CPU or their host's, told from what they report."""

from trimtab.systems.pulsar.collector import APART_SECONDS, DECLARED, MEASURED, UsageSource, undeclared

ALIKE = {"h:1": (134.9, 200.0), "h:2": (134.2, 200.0), "h:3": (135.5, 200.0)}
OWN = {"h:1": (20.6, 30.0), "h:2": (8.4, 30.0), "h:3": (8.5, 30.0)}
"""As three brokers on one machine reported: without control groups, and with one for each."""


def test_one_hosts_figures_are_not_the_brokers_own():
    """Three ports of one host, one limit, nearly one usage."""
    source = UsageSource("auto")
    assert set(source.of(ALIKE, 0.0).values()) == {DECLARED}
    assert "the brokers on h report" in str(source.warning())


def test_control_groups_are_recognised_by_their_differences():
    """Same limit, other usage, for longer than samples of one host can differ: each has its own."""
    source = UsageSource("auto")
    assert set(source.of(OWN, 0.0).values()) == {DECLARED}
    assert set(source.of(OWN, APART_SECONDS).values()) == {DECLARED}
    assert set(source.of(OWN, 1.0 + APART_SECONDS).values()) == {MEASURED}
    assert source.warning() is None


def test_brokers_that_have_just_been_started_are_not_taken_at_their_word():
    """One sampled the host before the load, the others after; all are equal a minute later."""
    source = UsageSource("auto")
    begun = {"h:1": (0.0, 200.0), "h:2": (134.2, 200.0), "h:3": (135.5, 200.0)}
    assert set(source.of(begun, 0.0).values()) == {DECLARED}
    assert set(source.of(ALIKE, 60.0).values()) == {DECLARED}
    assert set(source.of(ALIKE, 61.0 + APART_SECONDS).values()) == {DECLARED}


def test_other_limits_are_other_groups():
    """As much in use of different limits is no host's figure."""
    told = {"h:1": (20.0, 200.0), "h:2": (10.0, 100.0)}
    assert set(UsageSource("auto").of(told, 0.0).values()) == {MEASURED}


def test_each_host_is_evaluated_by_itself():
    """Brokers on hosts of their own are measured, however alike; those that share one are not."""
    told = ALIKE | {"a:1": (50.0, 200.0), "b:1": (50.0, 200.0)}
    found = UsageSource("auto").of(told, 0.0)
    assert found == dict.fromkeys(ALIKE, DECLARED) | {"a:1": MEASURED, "b:1": MEASURED}


def test_a_step_of_load_does_not_change_the_judgement():
    """Brokers sample once a minute, each at its own second: figures of one host differ for a while."""
    source = UsageSource("auto")
    source.of(ALIKE, 0.0)
    step = {"h:1": (190.0, 200.0), "h:2": (134.2, 200.0), "h:3": (135.5, 200.0)}
    assert set(source.of(step, 60.0).values()) == {DECLARED}
    assert set(source.of(ALIKE, 120.0).values()) == {DECLARED}
    assert set(source.of(step, 130.0 + APART_SECONDS).values()) == {DECLARED}


def test_figures_that_stay_apart_are_the_brokers_own():
    """An idle cluster with control groups resembles one host until its load starts."""
    source = UsageSource("auto")
    idle = dict.fromkeys(OWN, (0.2, 30.0))
    assert set(source.of(idle, 0.0).values()) == {DECLARED}
    assert set(source.of(OWN, 60.0).values()) == {DECLARED}
    assert set(source.of(OWN, 61.0 + APART_SECONDS).values()) == {MEASURED}
    assert set(source.of(idle, 62.0 + APART_SECONDS).values()) == {MEASURED}
    assert source.warning() is None


def test_configured_usage_precedes_reported_usage():
    """The operator knows."""
    assert set(UsageSource("measured").of(ALIKE, 0.0).values()) == {MEASURED}
    source = UsageSource("declared")
    assert set(source.of(OWN, 0.0).values()) == {DECLARED}
    assert "collect.pulsar.usage" in str(source.warning())


def test_brokers_that_do_not_know_their_cpu_yet_wait():
    """Nothing is decided on nothing."""
    source = UsageSource("auto")
    assert set(source.of({"h:1": None, "h:2": None}, 0.0).values()) == {MEASURED}
    assert set(source.of(ALIKE, 1.0).values()) == {DECLARED}


def test_missing_capacities_are_named():
    """As the settings call them."""
    full = {
        "bandwidth_in_capacity_bytes_per_second": 1.0,
        "bandwidth_out_capacity_bytes_per_second": 1.0,
        "message_rate_capacity_per_second": 1.0,
    }
    assert undeclared({"b": full}) is None
    said = undeclared({"b": full, "c": full | {"message_rate_capacity_per_second": None}})
    assert str(said).startswith("capacity.message_rate_per_second is not declared")

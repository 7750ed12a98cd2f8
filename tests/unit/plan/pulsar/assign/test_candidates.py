"""Which brokers are candidates: every filter by itself, at its edges."""

import pytest

from support.placement_views import RANGES, bundle_key, known, load, view_of
from trimtab.model.bundles.policies import BrokerTraits, BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BundleStats
from trimtab.plan.pulsar.candidates import (
    available_brokers,
    by_anti_affinity,
    by_policies,
    may_leave,
    of_load_manager,
    of_newest_version,
    precedence,
    with_fewest_bundles,
    without_many_topics,
)
from trimtab.plan.pulsar.view import LeaderLoadView

SOME = BundleStats(topics=1)


def owners(**namespaces: str) -> LeaderLoadView:
    """Brokers with one bundle of each namespace named after a letter: `b1="xy"` owns one of t/x and t/y."""
    return view_of(
        {
            broker: load(stats={bundle_key(f"t/{one}"): SOME for one in letters})
            for broker, letters in namespaces.items()
        }
    )


def isolated(primary: str, secondary: str = "none", min_limit: int = 1) -> ClusterMetadata:
    """Namespaces of tenant t are on some brokers."""
    policy = IsolationPolicy(("t/.*",), (primary,), (secondary,), min_limit)
    return ClusterMetadata(policies=BundlePolicies((policy,)))


BROKERS = ("p1:80", "p2:80", "s1:80", "x1:80")


@pytest.mark.parametrize(
    ("min_limit", "candidates"),
    [(1, ["p1:80", "p2:80"]), (2, ["p1:80", "p2:80"]), (3, ["p1:80", "p2:80", "s1:80"])],
)
def test_secondary_brokers_help_if_there_are_too_few_primary_ones(
    min_limit: int, candidates: list[str]
) -> None:
    """Two primary brokers are enough for a limit of two, not of three."""
    assert by_policies("t/a", BROKERS, isolated("p.*", "s.*", min_limit)) == candidates


def test_a_broker_that_is_both_is_a_primary_one() -> None:
    """It is not listed twice."""
    assert by_policies("t/a", BROKERS, isolated("p1", "[ps].*", 2)) == ["p1:80", "p2:80", "s1:80"]


def test_isolated_namespaces_never_overflow_to_the_rest() -> None:
    """No primary and no secondary broker up means no candidate at all."""
    assert by_policies("t/a", ("x1:80",), isolated("p.*", "s.*")) == []


def test_other_namespaces_keep_off_primary_brokers() -> None:
    """They use brokers that are no primary broker of any policy, secondary ones included."""
    assert by_policies("u/a", BROKERS, isolated("p.*", "s.*")) == ["s1:80", "x1:80"]


def test_brokers_serve_kinds_of_topics_unless_isolation_overrides_them() -> None:
    """A broker for non-persistent topics takes no others; an isolation policy does not ask for the kind."""
    traits = {"a": BrokerTraits(persistent=False), "b": BrokerTraits(non_persistent=False)}
    metadata = ClusterMetadata(traits=traits)
    assert by_policies("t/a", ("a", "b", "c"), metadata) == ["b", "c"]
    assert by_policies("t/a", ("a", "b", "c"), metadata, non_persistent=True) == ["a", "c"]
    asked = ClusterMetadata(policies=isolated("a").policies, traits=traits)
    assert by_policies("t/a", ("a", "b"), asked) == ["a"]


def test_brokers_with_reports_are_available_by_default() -> None:
    """A recording contains no other brokers."""
    view = owners(a="x", b="x")
    assert available_brokers(view, ClusterMetadata()) == ("a", "b")
    assert available_brokers(view, ClusterMetadata(brokers=("b", "c"))) == ("b", "c")


def test_topics_count_reported_and_preallocated() -> None:
    """At the limit a broker is kept, above it not; where all are above, all are kept."""
    view = view_of(
        {
            "a": load(
                stats={bundle_key("t/a"): BundleStats(topics=70), bundle_key("t/b"): BundleStats(topics=30)}
            ),
            "b": load(
                stats={bundle_key("t/a"): BundleStats(topics=70)},
                preallocated={bundle_key("t/c"): known(topics=31)},
            ),
        }
    )
    assert without_many_topics(["a", "b", "new"], view, 100) == ["a", "new"]
    assert without_many_topics(["a", "b"], view, 101) == ["a", "b"]
    assert without_many_topics(["a", "b"], view, 99) == ["a", "b"]


def test_the_fewest_bundles_of_the_namespace_win() -> None:
    """Other namespaces do not count, preallocated bundles do, and one that is also reported counts once."""
    first, second = bundle_key("t/a", 0), bundle_key("t/a", 1)
    view = view_of(
        {
            "one": load(stats={first: SOME, bundle_key("t/z", 0): SOME, bundle_key("t/z", 1): SOME}),
            "same": load(stats={second: SOME}, preallocated={second: known()}),
            "two": load(stats={bundle_key("t/a", 2): SOME}, preallocated={bundle_key("t/a", 3): known()}),
        }
    )
    assert with_fewest_bundles("t/a", ["one", "same", "two"], view) == ["one", "same"]
    assert with_fewest_bundles("t/a", ["two"], view) == ["two"]
    assert with_fewest_bundles("t/a", ["one", "new"], view) == ["new"]
    assert with_fewest_bundles("t/a", [], view) == []


def test_a_namespace_with_a_common_name_prefix_is_another_namespace() -> None:
    """t/a and t/ab share a prefix only."""
    view = view_of(
        {"b": load(stats={f"t/ab/{RANGES[0]}": SOME}), "c": load(stats={f"t/a/{RANGES[0]}": SOME})}
    )
    assert with_fewest_bundles("t/a", ["b", "c"], view) == ["b"]


GROUP = {f"t/{one}": "web" for one in "abcdefghij"}
DOMAINS = {"b1": "d1", "b2": "d1", "b3": "d2", "b4": "d2", "b5": "d3", "b6": "d3"}


def test_pulsars_own_example_of_domains() -> None:
    """Domains with 3, 3 and 4 namespaces, brokers with 2+1, 2+1 and 2+2: b2 and b4 are left."""
    view = owners(b1="ab", b2="c", b3="de", b4="f", b5="gh", b6="ij")
    policies = BundlePolicies(anti_affinity_groups=GROUP, failure_domains=DOMAINS)
    left = by_anti_affinity("t/a", list(DOMAINS), view, policies, failure_domains=True)
    assert left == ["b2", "b4"]


def test_domains_count_their_candidates_only() -> None:
    """Without b1, its domain has one namespace and not three."""
    view = owners(b1="ab", b2="c", b3="de", b4="f", b5="gh", b6="ij")
    policies = BundlePolicies(anti_affinity_groups=GROUP, failure_domains=DOMAINS)
    left = by_anti_affinity("t/a", ["b2", "b3", "b4"], view, policies, failure_domains=True)
    assert left == ["b2"]


def test_the_least_used_domain_precedes_the_least_used_broker() -> None:
    """An idle broker is no candidate if another domain has fewer namespaces in all."""
    view = owners(b1="abc", b2="", b3="d", b4="e")
    policies = BundlePolicies(anti_affinity_groups=GROUP, failure_domains=DOMAINS)
    brokers = ["b1", "b2", "b3", "b4"]
    assert by_anti_affinity("t/j", brokers, view, policies, failure_domains=True) == ["b3", "b4"]
    assert by_anti_affinity("t/j", brokers, view, policies, failure_domains=False) == ["b2"]


def test_brokers_without_a_domain_share_one() -> None:
    """They count together as the domain `default`."""
    view = owners(b1="a", x="b", y="")
    policies = BundlePolicies(anti_affinity_groups=GROUP, failure_domains={"b1": "d1"})
    left = by_anti_affinity("t/j", ["b1", "x", "y"], view, policies, failure_domains=True)
    assert left == ["y"]
    left = by_anti_affinity("t/j", ["b1", "x"], view, policies, failure_domains=True)
    assert left == ["b1", "x"]


def test_groups_are_the_same_whatever_their_case() -> None:
    """Web and WEB keep apart from each other; another group does not matter, nor does no group."""
    policies = BundlePolicies(anti_affinity_groups={"t/a": "Web", "t/b": "WEB", "t/c": "db"})
    view = owners(b1="b", b2="c", b3="z")
    assert by_anti_affinity("t/a", ["b1", "b2", "b3"], view, policies, failure_domains=False) == ["b2", "b3"]
    assert by_anti_affinity("t/z", ["b1", "b2"], view, policies, failure_domains=False) == ["b1", "b2"]
    assert by_anti_affinity("t/a", [], view, policies, failure_domains=False) == []


def test_a_namespace_keeps_apart_from_itself() -> None:
    """Its other bundles count as one namespace of the group, reported or preallocated."""
    policies = BundlePolicies(anti_affinity_groups={"t/a": "web"})
    view = view_of(
        {
            "b1": load(stats={bundle_key("t/a", 0): SOME, bundle_key("t/a", 1): SOME}),
            "b2": load(preallocated={bundle_key("t/a", 2): known()}),
            "b3": load(),
        }
    )
    assert by_anti_affinity("t/a", ["b1", "b2"], view, policies, failure_domains=False) == ["b1", "b2"]
    assert by_anti_affinity("t/a", ["b1", "b2", "b3"], view, policies, failure_domains=False) == ["b3"]


def test_brokers_of_another_load_manager_get_nothing() -> None:
    """During a migration a leader places on brokers of its own kind; brokers without a name
    are of another.
    """
    traits = {"a": BrokerTraits(load_manager="Modular"), "b": BrokerTraits(load_manager="Extensible")}
    metadata = ClusterMetadata(traits=traits, load_manager="Modular")
    assert of_load_manager(["a", "b", "c"], metadata) == ["a"]
    assert of_load_manager(["a", "b"], ClusterMetadata(traits=traits)) == ["a", "b"]


def test_versions_are_compared_as_semantic_ones() -> None:
    """10 is after 9, a release after its candidates, and build metadata does not matter."""
    ascending = [
        "3.9.9",
        "4.0.0-alpha",
        "4.0.0-alpha.1",
        "4.0.0-rc.2",
        "4.0.0-rc.10",
        "4.0.0",
        "4.0.7",
        "4.0.10",
    ]
    ranks = [precedence(version) for version in ascending]
    assert ranks == sorted(ranks)  # type: ignore[type-var]
    assert len(set(ranks)) == len(ranks)
    assert precedence("4.0.7+build.5") == precedence("4.0.7")
    assert precedence("4.0") is None
    assert precedence("4.0.7.1") is None


def test_only_the_newest_version_or_a_failed_filter() -> None:
    """One broker without a version makes the filter fail for all."""
    traits = {
        name: BrokerTraits(version) for name, version in [("a", "4.0.7"), ("b", "4.2.4"), ("c", "4.2.4")]
    }
    metadata = ClusterMetadata(traits=traits)
    assert of_newest_version(["a", "b", "c"], metadata) == ["b", "c"]
    assert of_newest_version(["a", "b", "unknown"], metadata) is None
    assert of_newest_version([], metadata) is None


def test_a_bundle_stays_if_no_other_broker_is_permitted() -> None:
    """With one primary broker up, unloading would only bring the bundle back."""
    view = owners(**{"p1": "a", "p2": "", "x1": ""})
    assert not may_leave(bundle_key("t/a"), "p1", view, isolated("p1"))
    assert may_leave(bundle_key("t/a"), "p1", view, isolated("p.*"))
    assert may_leave(bundle_key("t/a"), "x1", view, isolated("p1"))  # it is where it should not be
    assert not may_leave(bundle_key("t/a"), "p1", view, ClusterMetadata(brokers=()))


@pytest.mark.parametrize(
    ("counts", "leaves"),
    [
        ({"b1": "a", "b2": "b"}, False),  # all have one: it would come back
        ({"b1": "ab", "b2": "c"}, True),  # another one has fewer
        ({"b1": "a", "b2": ""}, True),  # another one has none
        ({"b1": "a", "b2": "bc"}, True),  # not all the same, as Pulsar's rule says, though b1 has the fewest
        ({"b1": "", "b2": ""}, True),  # nobody has any
    ],
)
def test_anti_affinity_lets_go_unless_all_are_alike(counts: dict[str, str], leaves: bool) -> None:
    """A namespace of a group is unloaded only if it can end elsewhere."""
    metadata = ClusterMetadata(policies=BundlePolicies(anti_affinity_groups=GROUP))
    assert may_leave(bundle_key("t/a"), "b1", owners(**counts), metadata) is leaves

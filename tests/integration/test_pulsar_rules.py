"""Single rules of this project against Pulsar's own classes: topics, cuts and filters, and ties of them."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.placement_views import known, load, view_of
from support.pulsar_classes import THROWN, Asked, Rules, require_same
from trimtab.model.bundles.policies import BrokerTraits, BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BundleStats
from trimtab.model.bundles.snapshot import FULL_UPPER, BundleRange, bundles_between, topic_hash
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.candidates import (
    by_policies,
    of_newest_version,
    with_fewest_bundles,
    without_many_topics,
)
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.selection import filtered
from trimtab.plan.pulsar.splits import (
    FLOW_OR_QPS_EQUALLY_DIVIDE,
    RANGE_EQUALLY_DIVIDE,
    SPECIFIED_POSITIONS_DIVIDE,
    TOPIC_COUNT_EQUALLY_DIVIDE,
    TopicTraffic,
    flow_or_qps_equally_divide,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)

pytestmark = pytest.mark.pulsar


def ask_bundles(chance: random.Random) -> Asked:
    """Topics of all kinds of names; boundaries are often the very hash of one, or the one after it."""
    names = [
        f"{chance.choice(('persistent', 'non-persistent'))}://t/n/"
        + chance.choice(("a", "Ünïcode-ß", "日本", "x" * 200, "a b", "😀"))
        + f"{chance.randrange(10**6)}"
        + chance.choice(("", "-partition-0", "-partition-12"))
        for _ in range(6)
    ]
    edges = [topic_hash(name) + chance.choice((0, 0, 1)) for name in chance.sample(names, 3)]
    edges += [chance.randrange(1, FULL_UPPER) for _ in range(chance.randrange(3))]
    return {"boundaries": sorted({0, FULL_UPPER, *edges}), "topics": names}


def find_bundles(asked: Asked) -> Any:
    """Hash and bundle of each topic."""
    bundles = bundles_between("t/n", asked["boundaries"])
    hashes = [topic_hash(name) for name in asked["topics"]]
    return [[one, next(bundle.key for bundle in bundles if bundle.holds(one))] for one in hashes]


ALGORITHMS = (
    RANGE_EQUALLY_DIVIDE,
    TOPIC_COUNT_EQUALLY_DIVIDE,
    SPECIFIED_POSITIONS_DIVIDE,
    f"{SPECIFIED_POSITIONS_DIVIDE}_force",
    FLOW_OR_QPS_EQUALLY_DIVIDE,
    FLOW_OR_QPS_EQUALLY_DIVIDE,
)


def ask_split(chance: random.Random) -> Asked:
    """Few hashes, so that topics have equal and neighbouring ones; traffic often exactly on a limit."""
    low = chance.choice((0, 0, 5, 0x7FFFFFFF))
    high = chance.choice((FULL_UPPER, low + 30, low + 2))
    topics = [
        {
            "name": f"persistent://t/n/{number}#{low + chance.randrange(min(30, high - low))}",
            "rate": chance.choice((0, 0, 1, 50, 55, 60, 100, 33.3)),
            "throughput": chance.choice((0, 0, 1, 2**19, 2**20, 2**20 * 1.1)),
        }
        for number in range(chance.choice((0, 1, 2, 2, 3, 5, 9)))
    ]
    inside = [low + chance.randrange(-1, 32) for _ in range(chance.choice((0, 1, 2, 4)))]
    return {
        **{"algorithm": chance.choice(ALGORITHMS), "low": low, "high": high, "topics": topics},
        **{"positions": [*inside, *chance.sample([low, high], chance.randrange(2))]},
        **{"rate": chance.choice((50, 100, 1)), "bandwidth": 1, "difference": chance.choice((10, 0, 20))},
    }


def find_split(asked: Asked) -> Any:
    """Positions, or None."""
    bundle = BundleRange("t/n", asked["low"], asked["high"])
    topics = [
        TopicTraffic(int(one["name"].partition("#")[2]), one["rate"], one["throughput"])
        for one in asked["topics"]
    ]
    name = asked["algorithm"]
    if name == RANGE_EQUALLY_DIVIDE:
        return range_equally_divide(bundle)
    if name == TOPIC_COUNT_EQUALLY_DIVIDE:
        return topic_count_equally_divide([topic.position for topic in topics])
    if name == FLOW_OR_QPS_EQUALLY_DIVIDE:
        limits = asked["rate"], asked["bandwidth"], asked["difference"]
        return flow_or_qps_equally_divide(topics, *limits)
    try:
        forced = name.endswith("_force")
        return specified_positions_divide(bundle, len(topics), asked["positions"], forced=forced)
    except PlanError:
        return THROWN


def brokers(chance: random.Random, value: Callable[[], Any]) -> dict[str, Any]:
    """Some brokers, each with a drawn value."""
    return {f"broker-{number}:8080": value() for number in range(chance.choice((1, 2, 3, 6)))}


def ask_topics(chance: random.Random) -> Asked:
    """Sums just below, on and above the limit; often nobody is below it."""

    def held() -> Asked:
        return {
            "reported": chance.choice((0, 3, 5, 6)),
            "given": chance.sample((0, 1, 2, 3), chance.randrange(3)),
        }

    return {"most": chance.choice((5, 2, 0)), "brokers": brokers(chance, held)}


def find_topics(asked: Asked) -> Any:
    """The modular manager's brokers with few topics."""
    view = view_of(
        {
            name: load(
                stats={"t/n/0x00000000_0x10000000": BundleStats(topics=one["reported"])},
                preallocated={f"t/n/{at}": known(topics=topics) for at, topics in enumerate(one["given"])},
            )
            for name, one in asked["brokers"].items()
        }
    )
    return sorted(without_many_topics(list(asked["brokers"]), view, asked["most"]))


def ask_fewest(chance: random.Random) -> Asked:
    """Equal numbers of bundles are the rule; other namespaces do not count."""
    keys = [bundle.key for name in ("t/n", "t/m") for bundle in bundles_between(name, range(0, 100, 10))]
    return {
        "bundle": keys[0],
        "brokers": brokers(chance, lambda: chance.sample(keys, chance.choice((0, 1, 2, 4)))),
    }


def find_fewest(asked: Asked) -> Any:
    """The brokers with the fewest bundles of the namespace."""
    view = view_of(
        {
            name: load(stats=dict.fromkeys(held, BundleStats(topics=1)))
            for name, held in asked["brokers"].items()
        }
    )
    return sorted(with_fewest_bundles("t/n", list(asked["brokers"]), view))


VERSIONS = ("4.0.7", "4.0.7", "4.2.4", "4.2.4-rc1", "4.2.4-rc.2", "4.2.4-SNAPSHOT", "4.2.4+build", "4.10.0")


def ask_version(chance: random.Random) -> Asked:
    """Releases, candidates and builds of them; now and then one that says none, or none that can be read."""
    odd = (None, "4.2", "") if chance.random() < 0.2 else VERSIONS
    return {"brokers": brokers(chance, lambda: chance.choice((*VERSIONS, *odd)))}


def find_version(asked: Asked) -> Any:
    """The brokers of the newest version."""
    traits = {name: BrokerTraits(version=version) for name, version in asked["brokers"].items()}
    found = of_newest_version(list(asked["brokers"]), ClusterMetadata(traits=traits))
    return THROWN if found is None else sorted(found)


HOSTS = ("a1", "a2", "b1", "b2", "c")


def ask_isolation(chance: random.Random) -> Asked:
    """Policies for the namespace or another one, by regular expressions that overlap, with a limit that the
    primary brokers meet exactly, or do not.
    """

    def patterns() -> list[str]:
        return chance.sample(("a.*", "a1", "b1", "b.", "c|a2", "x"), chance.randrange(3))

    def policy(namespace: str) -> Asked:
        primary = patterns() or ["a.*"]
        return {
            **{"namespaces": [namespace], "primary": primary, "secondary": patterns()},
            "min_limit": chance.choice((1, 1, 2, 3)),
        }

    names = chance.choice((("t/n",), ("t/.*",), ("t/m",), ("t/n", "t/m"), ()))
    hosts = chance.sample(HOSTS, chance.choice((1, 3, 5)))
    return {"policies": [policy(name) for name in names], "brokers": [f"{host}:8080" for host in hosts]}


def find_isolation(asked: Asked) -> Any:
    """The brokers that policies allow."""
    policies = [
        IsolationPolicy(
            tuple(one["namespaces"]), tuple(one["primary"]), tuple(one["secondary"]), one["min_limit"]
        )
        for one in asked["policies"]
    ]
    metadata = ClusterMetadata(policies=BundlePolicies(isolation=tuple(policies)))
    return sorted(by_policies("t/n", asked["brokers"], metadata))


def ask_published(chance: random.Random) -> Asked:
    """Under the extensible manager a broker on the limit is out already, and nobody may be left."""
    return {"most": 5, "brokers": brokers(chance, lambda: chance.choice((0, 4, 5, 6)))}


def find_published(asked: Asked) -> Any:
    """The extensible manager's brokers with few topics."""
    stats = {
        name: {"t/n/0x00000000_0x10000000": BundleStats(topics=n)} for name, n in asked["brokers"].items()
    }
    view = view_of({name: load(stats=held) for name, held in stats.items()})
    options = make_options({"loadBalancerBrokerMaxTopics": asked["most"]})
    return sorted(filtered("t/n", view, ClusterMetadata(), options).candidates)


RULES: Rules = {
    "bundles": (ask_bundles, find_bundles),
    "split": (ask_split, find_split),
    "topics": (ask_topics, find_topics),
    "fewest": (ask_fewest, find_fewest),
    "version": (ask_version, find_version),
    "isolation": (ask_isolation, find_isolation),
    "published topics": (ask_published, find_published),
}


@pytest.mark.parametrize("version", [pytest.param("4.0.7", marks=pytest.mark.long), "4.2.4"])
def test_rules_are_those_of_pulsars_own_classes(version: str, tmp_path: Path) -> None:
    """Where a topic lies, where each algorithm cuts and whom each filter leaves: all answers alike."""
    kinds = Counter(
        (asked.get("algorithm", asked["rule"]), _kind(found))
        for asked, found in require_same(version, "RuleRecorder", RULES, tmp_path)
    )
    for rule, kind in WANTED:
        assert kinds[rule, kind] > 5, f"{rule} hardly ever gives {kind}: {kinds}"


def _kind(found: Any) -> str:
    """Nothing, an error, one, or several."""
    if found is None or found == THROWN:
        return str(found)
    return ("none", "one")[len(found)] if len(found) < 2 else "several"


WANTED = (
    *(("bundles", "several"), ("version", THROWN), ("version", "several")),
    *(
        (RANGE_EQUALLY_DIVIDE, "one"),
        (TOPIC_COUNT_EQUALLY_DIVIDE, "one"),
        (TOPIC_COUNT_EQUALLY_DIVIDE, "None"),
    ),
    *((SPECIFIED_POSITIONS_DIVIDE, kind) for kind in ("None", "one", "several", THROWN)),
    *((FLOW_OR_QPS_EQUALLY_DIVIDE, kind) for kind in ("None", "one", "several")),
    *((rule, kind) for rule in ("topics", "fewest", "published topics") for kind in ("one", "several")),
    *(("isolation", kind) for kind in ("none", "one", "several")),
    ("published topics", "none"),
)

"""Rules that want a broker around them against Pulsar's own classes: splits by owners, anti-affinity."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.bundle_views import owner_split
from support.placement_views import load, view_of
from support.pulsar_classes import THROWN, Asked, Rules, require_same
from trimtab.model.bundles.policies import BrokerTraits, BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BundleStats
from trimtab.model.bundles.snapshot import bundles_between, namespace_of
from trimtab.plan.pulsar import splits as rules
from trimtab.plan.pulsar.candidates import (
    by_anti_affinity,
    by_policies,
    departure_rules,
    group_bundles,
    group_namespaces,
    of_load_manager,
)
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.splits import ALGORITHMS, TopicTraffic
from trimtab.plan.pulsar.view import LeaderLoadView

pytestmark = pytest.mark.pulsar

MIB = 2**20


def ask_splits(chance: random.Random) -> Asked:
    """Some cycles of one owner: figures on limits and just above them, bundles that come and change hands.

    One namespace's name begins like another's, and some bundles are being split meanwhile.
    """
    keys = [one.key for name in ("t/n", "t/nn") for one in bundles_between(name, range(0, 121, 30))]
    keys = [*chance.sample(keys, chance.choice((3, 5, 8))), "t/n/0x000000f0_0x000000f1"]
    every = {
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": (0, 0, 1, 3),
        "loadBalancerMaxNumberOfBundlesToSplitPerCycle": (10, 1, 2),
        "loadBalancerNamespaceMaximumBundles": (128, 6, 4),
        "loadBalancerNamespaceBundleMaxTopics": (1000, 5),
        "loadBalancerNamespaceBundleMaxSessions": (1000, 0, 10, -1),
        "loadBalancerNamespaceBundleMaxMsgRate": (30000, 100),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": (1, 100, 2048, 4096),
        "flowOrQpsDifferenceThresholdPercentage": (10, 0),
        "defaultNamespaceBundleSplitAlgorithm": ALGORITHMS,
    }

    def stats() -> Asked:
        return {
            "topics": chance.choice((0, 1, 2, 5, 6)),
            "producerCount": chance.choice((0, 5, 6)),
            "consumerCount": chance.choice((0, 5, 500)),
            "msgRateIn": chance.choice((50, 50.5, 30000)),
            "msgRateOut": chance.choice((0, 50)),
            "msgThroughputIn": chance.choice((0, MIB, MIB + 1)),
            "msgThroughputOut": chance.choice((0, 0, 1)),
        }

    def topics(key: str) -> list[Asked]:
        low = int(key.rpartition("/")[2].partition("_")[0], 16)
        return [
            {
                "name": f"persistent://t/n/{number}#{low + chance.choice((0, 1, chance.randrange(30)))}",
                "rate": chance.choice((0, 40, 60, 100)),
                "throughput": chance.choice((0, MIB / 2, MIB)),
            }
            for number in range(chance.choice((0, 1, 2, 2, 3, 6)))
        ]

    heavy = {key: stats() for key in keys}
    cycles = []
    for _ in range(chance.choice((1, 3, 6))):
        there = [key for key in keys if chance.random() < 0.9]
        cycles.append(
            {
                "stats": {key: heavy[key] if chance.random() < 0.8 else stats() for key in there},
                "owned": [key for key in there if chance.random() < 0.9],
                "splitting": chance.sample(
                    ("t/n/0x00000000_0x0000003c", "t/nn/0x0000003c_0x0000005a", "t/x/0x00000000_0x0000001e"),
                    chance.choice((0, 0, 1)),
                ),
            }
        )
    return {
        "options": {name: str(chance.choice(values)) for name, values in every.items()},
        "bundles": {"t/n": chance.choice((3, 4, 5)), "t/nn": chance.choice((4, 6))},
        "topics": {key: topics(key) for key in keys},
        "cycles": cycles,
    }


def find_splits(asked: Asked) -> Any:
    """The splits of each cycle: reason and position of each bundle."""
    options = make_options(asked["options"])
    counts = {name: tuple(range(number + 1)) for name, number in asked["bundles"].items()}
    topics = {
        key: [
            TopicTraffic(int(one["name"].partition("#")[2]), one["rate"], one["throughput"]) for one in held
        ]
        for key, held in asked["topics"].items()
    }
    state, found = rules.SplitState(), []
    for cycle in asked["cycles"]:
        stats = {
            key: BundleStats(
                topics=one["topics"],
                producer_count=one["producerCount"],
                consumer_count=one["consumerCount"],
                msg_rate_in=one["msgRateIn"],
                msg_rate_out=one["msgRateOut"],
                msg_throughput_in=one["msgThroughputIn"],
                msg_throughput_out=one["msgThroughputOut"],
            )
            for key, one in cycle["stats"].items()
        }
        view = view_of({"a:8080": load(stats=stats, bundles=tuple(cycle["owned"]))})
        metadata = ClusterMetadata(boundaries=counts)
        decision, state = rules.find_owner_splits(view, state, options, metadata, topics, cycle["splitting"])
        outcomes = [one["outcome"] for one in decision.facts["bundles"].values() if "outcome" in one]
        splits = {split.bundle: [split.reason, owner_split(split).position] for split in decision.splits}
        found.append(THROWN if rules.FAILS in outcomes else splits)
    return found


NAMESPACES = ("t/n", "t/m", "t/o", "t/p")
BUNDLES = [one.key for name in NAMESPACES for one in bundles_between(name, (0, 10, 20, 30))]
HOSTS = ("a1", "a2", "b1", "b2", "c")


def ask_group(chance: random.Random) -> Asked:
    """Few namespaces in few groups on few brokers, so that equal counts are the rule."""
    names = [f"{host}:8080" for host in chance.sample(HOSTS, chance.choice((1, 2, 3, 5)))]
    free = set(BUNDLES)
    held = {}
    for name in names:
        held[name] = chance.sample(sorted(free), min(len(free), chance.choice((0, 1, 2, 4))))
        free -= set(held[name])
    return {
        "bundle": BUNDLES[0],
        "groups": {name: chance.choice(("g", "G", "g", "h", " ")) for name in NAMESPACES[:3]},
        "held": held,
        "free": chance.sample(sorted(free), min(len(free), 1)),
        "candidates": chance.sample(names, chance.randint(1, len(names))),
        "domains": {name: chance.choice(("east", "west")) for name in names if chance.random() < 0.6},
        "options": {"failureDomainsEnabled": chance.choice(("true", "false"))},
    }


def held_view(asked: Asked) -> LeaderLoadView:
    """Brokers that own bundles and report them."""
    return view_of(
        {name: load(stats=dict.fromkeys(held, BundleStats(topics=1))) for name, held in asked["held"].items()}
    )


def find_group(asked: Asked, counted: Any) -> Any:
    """The candidates with the least of the group."""
    policies = BundlePolicies(anti_affinity_groups=asked["groups"], failure_domains=asked["domains"])
    domains = asked["options"]["failureDomainsEnabled"] == "true"
    namespace = namespace_of(asked["bundle"])
    return sorted(
        by_anti_affinity(
            namespace,
            asked["candidates"],
            held_view(asked),
            policies,
            failure_domains=domains,
            counted=counted,
        )
    )


def ask_policies(chance: random.Random) -> Asked:
    """Policies for the namespace or others, by expressions that overlap, with a limit that is met or not."""

    def policy(namespace: str) -> Asked:
        expressions = ("a.*", "a1", "b1", "b.", "c|a2", "x")
        primary, secondary = (chance.sample(expressions, chance.randrange(3)) for _ in range(2))
        return {
            **{"namespaces": [namespace], "primary": primary or ["a.*"], "secondary": secondary},
            "min_limit": chance.choice((1, 1, 2, 3)),
        }

    names = chance.choice((("t/n",), ("t/.*",), ("t/m",), ("t/n", "t/m"), ()))
    candidates = [f"{host}:8080" for host in chance.sample(HOSTS, chance.choice((1, 3, 5)))]
    return {
        "bundle": BUNDLES[0],
        "policies": [policy(name) for name in names],
        "candidates": candidates,
    }


def isolation(asked: Asked) -> tuple[IsolationPolicy, ...]:
    """The policies of a question."""
    return tuple(
        IsolationPolicy(
            tuple(one["namespaces"]), tuple(one["primary"]), tuple(one["secondary"]), one["min_limit"]
        )
        for one in asked["policies"]
    )


def ask_leaving(chance: random.Random) -> Asked:
    """Both at once, for a bundle on each of the brokers, of which some are not up any more."""
    grouped, isolated = ask_group(chance), ask_policies(chance)
    policies = isolated["policies"] if chance.random() < 0.5 else []
    return {**grouped, "policies": policies, "owners": list(grouped["held"])}


def find_leaving(asked: Asked) -> Any:
    """For each owner, whether a bundle of the namespace may leave it."""
    policies = BundlePolicies(isolation(asked), asked["groups"])
    metadata = ClusterMetadata(brokers=tuple(asked["candidates"]), policies=policies)
    found = departure_rules(namespace_of(asked["bundle"]), held_view(asked), metadata)
    return [found.allowed(owner) for owner in asked["owners"]]


def find_isolated(asked: Asked) -> Any:
    """The brokers that policies allow."""
    metadata = ClusterMetadata(policies=BundlePolicies(isolation(asked)))
    return sorted(by_policies(namespace_of(asked["bundle"]), asked["candidates"], metadata))


def ask_manager(chance: random.Random) -> Asked:
    """Brokers of two load managers, while one is being replaced by the other; some name none."""
    names = [f"{host}:8080" for host in HOSTS]
    return {
        "bundle": BUNDLES[0],
        "candidates": chance.sample(names, chance.choice((1, 3, 5))),
        "managers": {name: chance.choice(("x.Modular", "x.Extensible", None)) for name in names},
        "options": {"loadManagerClassName": "x.Extensible"},
    }


def find_manager(asked: Asked) -> Any:
    """Those under the leader's own."""
    traits = {name: BrokerTraits(load_manager=one) for name, one in asked["managers"].items()}
    metadata = ClusterMetadata(traits=traits, load_manager=asked["options"]["loadManagerClassName"])
    return sorted(of_load_manager(asked["candidates"], metadata))


RULES: Rules = {
    "splits": (ask_splits, find_splits),
    "anti-affinity": (ask_group, lambda asked: find_group(asked, group_namespaces)),
    "owned anti-affinity": (ask_group, lambda asked: find_group(asked, group_bundles)),
    "leaving": (ask_leaving, find_leaving),
    "published isolation": (ask_policies, find_isolated),
    "load manager": (ask_manager, find_manager),
}
WANTED = {
    "splits": {"Topics", "Sessions", "MsgRate", "Bandwidth", THROWN},
    "anti-affinity": {"all", "some"},
    "owned anti-affinity": {"all", "some"},
    "leaving": {"True", "False"},
    "published isolation": {"all", "some", "none"},
    "load manager": {"all", "some", "none"},
}
"""What each rule must have answered more than ten times, so that it says something."""


@pytest.mark.parametrize("version", [pytest.param("4.0.7", marks=pytest.mark.long), "4.2.4"])
def test_rules_are_those_of_pulsars_own_classes(version: str, tmp_path: Path) -> None:
    """What owners split cycle after cycle, whom each filter leaves, and what may leave its broker."""
    kinds = Counter(
        (asked["rule"], kind)
        for asked, found in require_same(version, "BrokerRecorder", RULES, tmp_path)
        for kind in kinds_of(asked, found)
    )
    for rule, wanted in WANTED.items():
        for kind in wanted:
            assert kinds[rule, kind] > 10, f"{rule} hardly ever gives {kind}: {kinds}"


def kinds_of(asked: Asked, found: Any) -> set[str]:
    """What an answer says: reasons of splits, yes and no, or how many of the candidates are left."""
    if asked["rule"] == "splits":
        reasons = {one for cycle in found if cycle != THROWN for one, _ in cycle.values()}
        return reasons | ({THROWN} & {cycle for cycle in found if isinstance(cycle, str)})
    if asked["rule"] == "leaving":
        return set(map(str, found))
    if not found:
        return {"none"}
    return {"all" if len(found) == len(asked["candidates"]) else "some"}

"""Recordings drawn at random in which decisions hang on edges: equals, thresholds met exactly, hand-overs."""

import random
from typing import Any

from support.bundle_views import MB

SHEDDERS = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder", "TransferShedder")

_ANY: dict[str, tuple[object, ...]] = {
    "loadBalancerHistoryResourcePercentage": (0.9, 0.5, 0.0, 0.3),
    "loadBalancerSheddingGracePeriodMinutes": (30, 1, 2, 5),
    "loadBalancerCPUResourceWeight": (1.0, 1.0, 1.0, 1.5, 0.5, 0),
    "loadBalancerMemoryResourceWeight": (0, 0, 0.7),
    "loadBalancerDirectMemoryResourceWeight": (0, 0, 0.7, 1.0),
    "loadBalancerBandwidthInResourceWeight": (1.0, 1.0, 0.7, 0),
    "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": (10, 5, 20, 0),
    "loadBalancerNamespaceBundleMaxTopics": (1000, 5),
    "loadBalancerNamespaceBundleMaxSessions": (1000, 0, 10, -1),
    "loadBalancerNamespaceBundleMaxMsgRate": (30000, 500),
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": (100, 1, 2048, 4096),
    "loadBalancerNamespaceMaximumBundles": (128, 10, 16),
}
_UNLOADING: dict[str, tuple[object, ...]] = {
    "minUnloadMessage": (1000, 1, 100, 200),
    "minUnloadMessageThroughput": (1048576, 1000, 1),
    "maxUnloadPercentage": (0.2, 0.5, 0.25),
}
_OWN: dict[str, dict[str, tuple[object, ...]]] = {
    "OverloadShedder": {"loadBalancerBrokerOverloadedThresholdPercentage": (85, 80, 60, 50, 40)},
    "ThresholdShedder": {
        "loadBalancerBrokerThresholdShedderPercentage": (10, 5, 20, 15, 0),
        "loadBalancerBundleUnloadMinThroughputThreshold": (10, 1, 0, 0.5, 0.02),
        "lowerBoundarySheddingEnabled": ("true", "true", "false"),
    },
    "UniformLoadShedder": {
        **_UNLOADING,
        "loadBalancerMsgRateDifferenceShedderThreshold": (50, 0, 10, 200),
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": (4, 0, 2, 1.5),
        "maxUnloadBundleNumPerShedding": (-1, 0, 1, 2),
    },
    "AvgShedder": {
        **_UNLOADING,
        "loadBalancerAvgShedderLowThreshold": (15, 10, 5, 0, 1),
        "loadBalancerAvgShedderHighThreshold": (40, 20, 30, 50),
        "loadBalancerAvgShedderHitCountLowThreshold": (8, 1, 2, 3),
        "loadBalancerAvgShedderHitCountHighThreshold": (2, 1, 3),
    },
    "TransferShedder": {
        "loadBalancerBrokerLoadTargetStd": (0.25, 0.1, 0.05, 0.2, 0.5, 1.0),
        "loadBalancerSheddingConditionHitCountThreshold": (3, 0, 0, 1),
        "loadBalanceSheddingDelayInSeconds": (180, 60, 0, 120),
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle": (3, 1, 2, 10),
        "loadBalancerMaxNumberOfBundlesInBundleLoadReport": (10, 3, 5, 2),
        "loadBalancerTransferEnabled": ("true", "true", "false"),
        "loadBalancerDebugModeEnabled": ("true", "false", "false"),
        "loadBalancerSheddingExcludedNamespaces": ("", "t/n0"),
    },
}


def options_for(strategy: str, chance: random.Random) -> dict[str, str]:
    """Half of the options that matter to a strategy, each at one of a few values."""
    given = {**_ANY, **_OWN[strategy]}
    return {name: str(chance.choice(values)) for name, values in given.items() if chance.random() < 0.5}


def ticks_for(strategy: str, chance: random.Random) -> list[dict[str, Any]]:
    """Some minutes of some brokers, which come and go, with usages and traffic that are often equal."""
    names = [
        chance.choice(("broker-%d:8080", "10.0.0.%d:8080", "pulsar-%d.example.com:8443")) % number
        for number in range(chance.choice((1, 2, 2, 3, 4, 5, 6, 6, 11, 12, 13, 20, 40)))
    ]
    bundles = [
        f"t/n{namespace}/0x{number << 26:08x}_0x{min((number + 1) << 26, 0xFFFFFFFF):08x}"
        for namespace in range(chance.choice((1, 2, 3)))
        for number in range(64)
    ]
    chance.shuffle(bundles)
    owned = {
        name: [bundles.pop() for _ in range(chance.choice((0, 1, 1, 2, 3, 4, 6, 8))) if bundles]
        for name in names
    }
    for name in names if chance.random() < 0.3 else ():
        owned[name].append(f"pulsar/{name}/0x00000000_0xffffffff")
    snapped = chance.random() < 0.7
    traffic = {
        bundle: (_throughput(chance, snapped), _rate(chance, snapped))
        for held in owned.values()
        for bundle in held
    }
    steady = {name: _percent(chance, snapped) for name in names} if chance.random() < 0.5 else None
    ticks, at = [], 1_700_000_000_000
    for _ in range(chance.choice((1, 3, 6, 10, 12))):
        at += chance.choice((60_000, 60_000, 60_000, 120_000, 31 * 60_000))
        there = names if chance.random() < 0.85 else chance.sample(names, max(1, len(names) - 1))
        brokers = {}
        for name in there:
            stats = {bundle: _stats(*traffic[bundle], chance) for bundle in owned[name]}
            if strategy != "TransferShedder" and chance.random() < 0.05:
                # Moving: another broker reports it too, and does not list it any more.
                for bundle in owned[chance.choice(names)][:1]:
                    stats.setdefault(bundle, _stats(7.0 * MB, 71.0, chance))
            usage = _percent(chance, snapped) if steady is None else steady[name]
            brokers[name] = _report(stats, owned[name], usage, snapped, chance)
        ticks.append({"ms": at, "brokers": brokers})
    return ticks


def _throughput(chance: random.Random, snapped: bool) -> float:
    return (
        chance.choice((0, 1, 50_000, 100_000, 3e5, MB, 5 * MB, 20 * MB, 60 * MB))
        if snapped
        else (chance.uniform(0, 60 * MB))
    )


def _rate(chance: random.Random, snapped: bool) -> float:
    return chance.choice((0, 1, 100, 500, 500.9, 1000, 2000)) if snapped else chance.uniform(0, 3000)


def _percent(chance: random.Random, snapped: bool) -> float:
    return (
        chance.choice((5, 10, 20, 30, 40, 50, 60, 75, 80, 85, 90, 100))
        if snapped
        else (chance.uniform(0, 110))
    )


def _stats(throughput: float, rate: float, chance: random.Random) -> dict[str, float]:
    share = chance.choice((1, 1, 1, 0.5, 0.25))
    return {
        "msgThroughputIn": throughput * share,
        "msgThroughputOut": throughput * (1 - share),
        "msgRateIn": rate,
        "msgRateOut": rate * (1 - share),
        "topics": chance.choice((0, 1, 2, 3, 6)),
        "consumerCount": chance.choice((0, 3, 6, 500)),
        "producerCount": chance.choice((0, 1, 5, 501)),
        "cacheSize": 0,
    }


def _report(
    stats: dict[str, dict[str, float]], owned: list[str], usage: float, snapped: bool, chance: random.Random
) -> dict[str, Any]:
    def resource(percent: float) -> dict[str, float]:
        limit = chance.choice((100, 100, 200, 30))
        return {"usage": percent * limit / 100, "limit": limit if chance.random() < 0.97 else 0}

    totals = {
        name: sum(one[name] for one in stats.values()) * chance.choice((1, 1, 1, 100))
        for name in ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")
    }
    return {
        "cpu": resource(usage),
        "memory": resource(chance.choice((10, 90))),
        "directMemory": resource(_percent(chance, snapped) / 2),
        "bandwidthIn": resource(_percent(chance, snapped) / 2),
        "bandwidthOut": resource(_percent(chance, snapped) / 2),
        **totals,
        "bundles": owned,
        "lastStats": stats,
    }

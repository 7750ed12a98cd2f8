"""One measured run: ten simultaneous samples under the recorded load, and what they say."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from demos.machine import MachineLog, SampleValidity, check_samples, failures
from demos.sampling import MeasuredPeriod, measured_load
from demos.sampling import SampledSandbox as World
from trimtab.model.errors import SandboxError
from trimtab.model.load import FloatArray
from trimtab.model.replicas.settings import RESOURCES
from trimtab.report.measured import MeasuredLoad

SETTLE_SECONDS = 6.0


def sample_period(world: World, ticks: int, say: Any) -> MeasuredPeriod:
    """Let the cluster settle, then wait for so many whole intervals."""
    time.sleep(SETTLE_SECONDS)
    return world.sample(
        ticks, lambda done, of, _: say(f"sample {done} of {of}") if done and done % 5 == 0 else None
    )


def validity_of(world: World, period: MeasuredPeriod, machine: MachineLog) -> list[SampleValidity]:
    """The checks of each sample of a period."""
    ends = np.linspace(period.begin(world.interval_seconds), period.end, period.ticks + 1)
    return check_samples(world.load.ticks(), machine, ends.tolist())


def figures_of(world: World, period: MeasuredPeriod, validity: list[SampleValidity]) -> dict[str, Any]:
    """What the table `imbalance` says of a period, over its valid samples (over all, if none is valid)."""
    found = measured_load(world.lake, period, world.sandbox.hosts)
    ends = [
        period.begin(world.interval_seconds) + world.interval_seconds * (i + 1) for i in range(period.ticks)
    ]
    sound = {round(end) for end, one in zip(ends, validity, strict=True) if one.valid}
    chosen = [place for place, tick in enumerate(found.ticks) if round(tick.timestamp()) in sound]
    used = found.at(chosen or range(found.instants))
    measures = used.measures()
    return {
        "sigma": measures.sigma,
        "sigma_spread": _named(used.sigma.std(axis=0)),
        "worst_deviation": measures.worst_deviation,
        "worst_deviation_of_any_sample": _named(used.deviation.max(axis=(0, 1))),
        "peak_usage": measures.peak_usage,
        "mean_usage": _named(used.mean.mean(axis=0)),
        "host_sigma": _named(host_sigma(used).mean(axis=0)),
        "samples": {
            "used": used.instants,
            "taken": period.ticks,
            "invalid": [asdict(one) for one in validity if not one.valid],
            "outside_cores": round(float(np.nanmean([one.outside_cores for one in validity])), 3),
            "produced": round(float(np.mean([one.produced for one in validity])), 4),
            "late_records": sum(one.late_records for one in validity),
            "errors": sum(one.errors for one in validity),
            "sigma": {name: _rounded(used.sigma[:, place]) for place, name in enumerate(RESOURCES)},
            "peak": {
                name: _rounded(used.usage[:, :, place].max(axis=1)) for place, name in enumerate(RESOURCES)
            },
            "usage_by_broker": {
                name: _rounded(used.usage[:, :, place].mean(axis=0)) for place, name in enumerate(RESOURCES)
            },
        },
    }


def host_sigma(found: MeasuredLoad) -> FloatArray:
    """σ over hosts instead of brokers, shape (instants, resources); all brokers have the same capacity."""
    names = sorted(set(found.hosts))
    members = np.array([[host == name for host in found.hosts] for name in names], dtype=float)
    load = np.einsum("hb,tbr->thr", members, found.usage)
    share = load / load.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(((share - 1 / len(names)) ** 2).mean(axis=1)))


def clients_between(
    world: World, begin: float, end: float, machine: MachineLog, *, moved: bool = True
) -> dict[str, Any]:
    """What clients felt in a stretch of time, in which replicas moved or not."""
    moving = (begin, end) if moved else None
    ticks = [tick for tick in world.load.ticks() if begin <= tick.at + tick.seconds and tick.at <= end]
    producer = [tick for tick in ticks if tick.client == "producer"]
    due = sum(part.bytes for tick in producer for part in tick.planned.values())
    done = sum(part.bytes for tick in producer for part in tick.done.values())
    latencies = [tick.latency_p99_ms for tick in producer if tick.latency_p99_ms is not None]
    return {
        "seconds": round(end - begin, 1),
        "errors": sum(tick.errors for tick in ticks),
        "failed": failures(ticks, moving, machine),
        "late_records": sum(tick.late_records for tick in ticks),
        "produced_share": round(done / due, 4) if due else None,
        "latency_p99_ms_median": round(float(np.median(latencies)), 1) if latencies else None,
        "latency_p99_ms_worst": max(latencies, default=None),
    }


def look_for_records(world: World, say: Any) -> dict[str, Any]:
    """Stop the load, and look for every record that brokers confirmed.

    Raises
    ------
    SandboxError
        If one is lost, there twice, or out of order: then no figure of the run is worth anything.
    """
    world.load.stop()
    found = world.load.read_back()
    say(found.text("records"))
    if not found.ok:
        raise SandboxError(found.text("records"))
    return asdict(found)


def _named(values: FloatArray) -> dict[str, float]:
    return {name: float(value) for name, value in zip(RESOURCES, values, strict=True)}


def _rounded(values: FloatArray) -> list[float]:
    return [round(float(value), 5) for value in values]

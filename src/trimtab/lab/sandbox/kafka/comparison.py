"""The accuracy of attribution: how far it lies from what is known to be true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.lake.lake import instant, microseconds
from trimtab.observe.replicas.pipeline import CAUSES, FIXED_SHARES
from trimtab.observe.steps.cpu_fit import by_fixed_shares, fit_cpu

if TYPE_CHECKING:
    from trimtab.model.load import FloatArray
    from trimtab.observe.lake.lake import Lake

Bytes = Mapping[tuple[str, int], float]
"""Bytes by (topic, partition)."""


@dataclass(frozen=True, eq=False)
class MeasureComparison:
    """One measure: what was found beside what is true.

    Attributes
    ----------
    measure
        `bytes_in`, `bytes_out`, `disk` or `cpu`.
    scope
        `partition` or `broker`.
    unit
        Of both arrays.
    names
        Of the entities.
    truth, found
        Shape (entities,).
    """

    measure: str
    scope: str
    unit: str
    names: tuple[str, ...]
    truth: FloatArray
    found: FloatArray

    def summary(self) -> dict[str, Any]:
        """Total error (bias), error per entity weighted by size, and of shares of the total.

        `share_error` is Σ|d − d₀|/2 over shares d of the total: the part of the load that is attributed to
        the wrong entity, whatever the total. Balancing depends on that alone.
        """
        total, found = float(self.truth.sum()), float(self.found.sum())
        error = np.abs(self.found - self.truth)
        busy = self.truth > 0
        relative = error[busy] / self.truth[busy]
        shares = (
            np.abs(self.found / found - self.truth / total).sum() / 2 if total > 0 and found > 0 else None
        )
        return {
            "measure": self.measure,
            "scope": self.scope,
            "unit": self.unit,
            "entities": len(self.truth),
            "truth_total": total,
            "found_total": found,
            "bias": found / total - 1 if total > 0 else None,
            "weighted_error": float(error.sum()) / total if total > 0 else None,
            "median_error": float(np.median(relative)) if len(relative) else None,
            "p95_error": float(np.quantile(relative, 0.95)) if len(relative) else None,
            "share_error": None if shares is None else float(shares),
        }


def compare(
    lake: Lake, cluster: str | None, produced: Bytes, consumed: Bytes, begin: float, end: float
) -> list[MeasureComparison]:
    """Hold the tables against the truth of a period.

    Bytes are those of the load generator. Disk is held against the size of every single replica, where the
    pipeline gives one size per partition. No one knows what a partition costs in CPU: there the truth is
    every broker's measured CPU, and the figure found is what the fit over the *other* brokers says of it.

    Parameters
    ----------
    lake, cluster
        The tables; the cluster may be left out where there is one.
    produced, consumed
        Value bytes by partition between `begin` and `end`.
    begin, end
        Two ticks, seconds since the epoch.

    Returns
    -------
    list of Compared
        What can be compared: CPU only where it is measured.

    Raises
    ------
    ObserveError
        If the tables hold nothing of that period.
    """
    low, high = round(begin * SECOND) + 1, round(end * SECOND) + 1
    keep = None if cluster is None else pc.field("cluster") == cluster
    manifest = lake.manifest()

    def rows(table: str, columns: list[str] | None = None) -> pa.Table:
        return lake.table(table, columns, instant(low), instant(high), keep, manifest)

    traffic = rows("traffic")
    if not traffic.num_rows:
        raise ObserveError(
            f"lake {lake.path} has no traffic of that period: run `trimtab pipeline run` first"
        )
    found_in: dict[tuple[str, int], float] = {}
    found_out: dict[tuple[str, int], float] = {}
    leader: dict[tuple[str, int], int] = {}
    for row in traffic.sort_by("tick").to_pylist():
        key = (row["topic"], row["partition"])
        found_in[key] = found_in.get(key, 0.0) + (row["bytes_in"] or 0)
        found_out[key] = found_out.get(key, 0.0) + (row["bytes_out"] or 0)
        leader[key] = row["leader"] if row["leader"] is not None else -1
    compared = []
    for measure, truth, found in (("bytes_in", produced, found_in), ("bytes_out", consumed, found_out)):
        keys = sorted(key for key in leader if key in truth or found.get(key))
        if not keys:
            continue
        known = np.array([float(truth.get(key, 0.0)) for key in keys])
        told = np.array([found.get(key, 0.0) for key in keys])
        names = tuple(f"{topic}:{partition}" for topic, partition in keys)
        compared.append(MeasureComparison(measure, "partition", "bytes", names, known, told))
        compared.append(_by_broker(measure, [leader[key] for key in keys], known, told))
    compared += _disk(
        rows("rates", ["tick", "kind", "broker", "topic", "partition", "size_bytes", "is_future"]), traffic
    )
    cpu = _cpu(lake.table("windows", None, instant(low), instant(high), keep, manifest))
    return compared + ([cpu] if cpu is not None else [])


def ticks_between(lake: Lake, cluster: str | None, begin: float, end: float) -> list[float]:
    """Ticks that the table `traffic` has between two times, seconds since the epoch, ascending."""
    keep = None if cluster is None else pc.field("cluster") == cluster
    rows = lake.table(
        "traffic", ["tick"], instant(round(begin * SECOND)), instant(round(end * SECOND) + 1), keep
    )
    return (
        sorted(microseconds(tick) / SECOND for tick in pc.unique(rows["tick"]).to_pylist())
        if rows.num_rows
        else []
    )


def _by_broker(measure: str, leader: list[int], truth: FloatArray, found: FloatArray) -> MeasureComparison:
    ids, place = np.unique(leader, return_inverse=True)
    sums = [np.zeros(len(ids)), np.zeros(len(ids))]
    for total, values in zip(sums, (truth, found), strict=True):
        np.add.at(total, place, values)
    return MeasureComparison(
        measure, "broker", "bytes", tuple(f"broker {one}" for one in ids), sums[0], sums[1]
    )


def _disk(sizes: pa.Table, traffic: pa.Table) -> list[MeasureComparison]:
    last = pc.max(traffic["tick"])
    given = {
        (row["topic"], row["partition"]): row["size_bytes"]
        for row in traffic.filter(pc.equal(traffic["tick"], last)).to_pylist()
    }
    replicas = sizes.filter(
        pc.and_(
            pc.and_(pc.equal(sizes["kind"], "replica"), pc.equal(sizes["tick"], last)),
            pc.invert(pc.fill_null(sizes["is_future"], False)),
        )
    ).to_pylist()
    replicas = [
        row
        for row in replicas
        if row["size_bytes"] is not None and given.get((row["topic"], row["partition"]))
    ]
    if not replicas:
        return []
    truth = np.array([float(row["size_bytes"]) for row in replicas])
    found = np.array([float(given[(row["topic"], row["partition"])]) for row in replicas])
    names = tuple(f"{row['topic']}:{row['partition']} on {row['broker']}" for row in replicas)
    return [
        MeasureComparison("disk", "partition", "bytes", names, truth, found),
        _by_broker("disk", [row["broker"] for row in replicas], truth, found),
    ]


def _cpu(windows: pa.Table) -> MeasureComparison | None:
    """Each broker's mean CPU against what a fit over the other brokers makes of its load."""
    if not windows.num_rows:
        return None
    rows = [
        row for row in windows.to_pylist() if row["kind"] == "broker" and row["cpu"] and row["network_out"]
    ]
    rows = [row for row in rows if row["leader_in"] is not None and row["follower_in"] is not None]
    broker = np.array([row["broker"] for row in rows])
    cores = np.array([row["cpu"]["mean"] for row in rows], dtype=float)
    causes = [[row["leader_in"], row["network_out"]["mean"], row["follower_in"]] for row in rows]
    carried = np.array(causes, dtype=float).reshape(len(rows), len(CAUSES))
    ids = np.unique(broker)
    if len(ids) < 3:
        return None
    truth, found = [], []
    for one in ids:
        its = broker == one
        fit = fit_cpu(cores[~its], carried[~its], by_fixed_shares(FIXED_SHARES))
        truth.append(cores[its].mean())
        found.append(fit.idle_cores + float((carried[its] @ fit.cost).mean()))
    return MeasureComparison(
        "cpu", "broker", "cores", tuple(f"broker {one}" for one in ids), np.array(truth), np.array(found)
    )

"""The accuracy of the pipeline's tables: measured loads of partitions and brokers against the true load."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.files.store import Location
from trimtab.lab.sandbox.truth import Traffic, TruthTick, read_truth
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.lake.lake import Lake, instant, microseconds
from trimtab.observe.replicas.pipeline import CAUSES, FIXED_SHARES, PIPELINE
from trimtab.observe.steps.cpu_fit import by_fixed_shares, fit_cpu
from trimtab.report.charts import FAINT, INK, style_axes, write_figure
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.model.load import FloatArray


Bytes = Mapping[tuple[str, int], float]
"""Bytes by (topic, partition)."""


def traffic_between(
    ticks: Iterator[TruthTick] | list[TruthTick], begin: float, end: float
) -> dict[str, dict[str, Traffic]]:
    """The traffic of each client in the ticks that lie wholly between two times, by client and partition."""
    totals: dict[str, dict[str, Traffic]] = {}
    for tick in ticks:
        if begin <= tick.at and tick.at + tick.seconds <= end:
            done = totals.setdefault(tick.client, {})
            for key, part in tick.done.items():
                before = done.get(key, Traffic(0, 0))
                done[key] = Traffic(before.records + part.records, before.bytes + part.bytes)
    return totals


@dataclass(frozen=True, eq=False)
class MeasureComparison:
    """One measure: the values of the tables and the true ones.

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


def compare_measures(
    lake: Lake, cluster: str | None, produced: Bytes, consumed: Bytes, begin: float, end: float
) -> list[MeasureComparison]:
    """Compare the tables with the truth of a period.

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
    """Each broker's mean CPU, and the CPU predicted for its load by a fit over the other brokers."""
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


DOT = "#2b6cb0"
TITLES = {"bytes_in": "bytes in", "bytes_out": "bytes out", "disk": "disk", "cpu": "CPU"}


def draw_comparison(compared: Sequence[MeasureComparison], path: Path) -> None:
    """Draw one panel per measure, true share of the total across, found share up; equal on the diagonal.

    Totals may differ by as much as compression saves; who carries which share of them is what balancing
    depends on, and what the titles tell.

    Parameters
    ----------
    compared
        As `comparison.compare` gives them; CPU per broker, the others per partition.
    path
        The picture; its suffix says in which form, `.svg` or `.png`.
    """
    from matplotlib.figure import Figure

    panels = [one for one in compared if one.scope == "partition" or one.measure == "cpu"]
    figure = Figure(figsize=(3.4 * len(panels), 3.7), facecolor="white", layout="constrained")
    for place, one in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        true, found = (100 * some / (some.sum() or 1.0) for some in (one.truth, one.found))
        top = 1.05 * max(true.max(initial=0.0), found.max(initial=0.0)) or 1.0
        axes.plot([0, top], [0, top], color=FAINT, linewidth=0.8)
        axes.scatter(true, found, s=14, color=DOT, alpha=0.75, linewidths=0)
        axes.set_xlim(0, top)
        axes.set_ylim(0, top)
        axes.set_aspect("equal")
        axes.set_xlabel("true share of the total, %", color=FAINT)
        axes.set_ylabel("found share of the total, %" if place == 0 else "", color=FAINT)
        error = one.summary()["share_error"]
        told = "" if error is None or not np.isfinite(error) else f": {100 * error:.2f} % misplaced"
        axes.set_title(f"{TITLES[one.measure]} per {one.scope}{told}", fontsize=10, color=INK)
        style_axes(axes)
    write_figure(figure, path)


def print_accuracy(
    folder: Path, cluster: str | None, lake: Location, as_json: bool, figure: Path | None
) -> None:
    """Compare, and print the measures: a table, or one JSON document.

    Parameters
    ----------
    folder
        Of `*.truth.jsonl`, as a load on Kafka writes them.
    cluster
        Whose tables; None for the only one of the lake.
    lake
        Where the tables lie.
    as_json
        Whether one JSON document is wanted.
    figure
        Where found is drawn against true, SVG or PNG; None for no picture.

    Raises
    ------
    InputError
        If the folder has no tick, or the tables hold fewer than two of the load's time.
    """
    where = Lake(lake, PIPELINE)
    ticks = list(read_truth(folder))
    if not ticks:
        raise InputError(f"{folder} holds no *.truth.jsonl with a tick in it: name the folder of a load")
    # All clients must be at work at both ends, or the truth would lack what one did before or after.
    by_client = {name: [tick for tick in ticks if tick.client == name] for name in {t.client for t in ticks}}
    begin = max(min(tick.at for tick in own) for own in by_client.values())
    end = min(max(tick.at + tick.seconds for tick in own) for own in by_client.values())
    known = ticks_between(where, cluster, begin, end)
    if len(known) < 2:
        raise InputError(
            f"the tables hold {len(known)} ticks of the load's time, 2 are needed: collect while it runs"
        )
    produced, consumed = bytes_by_partition(ticks, known[0], known[-1])
    compared = compare_measures(where, cluster, produced, consumed, known[0], known[-1])
    _print_progress(f"{known[-1] - known[0]:.0f} s of load, {len(known)} ticks")
    summaries = [one.summary() for one in compared]
    if as_json:
        print(json.dumps({"seconds": known[-1] - known[0], "compared": summaries}, indent=1))
    else:
        _print_accuracy(summaries)
    if figure is not None:
        pass

        draw_comparison(compared, figure)
        _print_progress(f"drew {figure}")


def bytes_by_partition(
    ticks: list[TruthTick], begin: float, end: float
) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
    """Bytes produced to and read from each partition between two times, seconds since the epoch."""
    produced: dict[tuple[str, int], float] = {}
    consumed: dict[tuple[str, int], float] = {}
    for client, parts in traffic_between(ticks, begin, end).items():
        total = produced if client == "producer" else consumed
        for name, part in parts.items():
            topic, _, partition = name.rpartition(":")
            key = (topic, int(partition))
            total[key] = total.get(key, 0.0) + part.bytes
    return produced, consumed


def _print_accuracy(summaries: list[dict[str, Any]]) -> None:
    names = ("bias", "weighted_error", "median_error", "p95_error", "share_error")
    print(f"{'measure':<10} {'per':<10} {'number':>6}  " + "  ".join(f"{name:>14}" for name in names))
    for row in summaries:
        figures = "  ".join(
            f"{'-':>14}" if row[name] is None else f"{100 * row[name]:>13.2f}%" for name in names
        )
        print(f"{row['measure']:<10} {row['scope']:<10} {row['entities']:>6}  {figures}")


def _print_progress(line: str) -> None:
    """Overwrite the terminal's line with the progress."""
    print(f"trimtab: {line}", file=sys.stderr, flush=True)

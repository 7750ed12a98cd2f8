"""`trimtab status` and `trimtab snapshot export` as commands."""

import json
import shutil
from pathlib import Path

import pytest

from simulate.kafka.cluster import cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from support.replica_clusters import broker, partition, snapshot
from support.small_lake import NOON, broker_rows, imbalance_rows, publish, snapshot_folder
from trimtab.cli.app import main
from trimtab.files.replicas.snapshot import write_snapshot
from trimtab.model.replicas.snapshot import ReplicasSnapshot

UNEVEN = {1: (0.6, 0.3, 0.3, 0.1), 2: (0.2, 0.3, 0.1, 0.3)}
SNAPSHOT = {
    "format": "trimtab/replicas-snapshot/1",
    "cluster": "orders",
    "taken_at": "2026-11-21T12:00:00Z",
    "brokers": [{"id": 1, "state": "alive", "capacity": {"disk": 1e9}}],
    "partitions": [
        {
            "topic": "t",
            "partition": 0,
            "replicas": [1],
            "leader": 1,
            "leader_load": {"cpu": 0, "disk": 5, "network_in": 1, "network_out": 0},
            "follower_load": {"cpu": 0, "disk": 5, "network_in": 1, "network_out": 0},
        }
    ],
    "quality": {"valid_share": 1.0, "oldest_sample_seconds": 60, "cpu": "absent"},
}


def run(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def snapshot_of_disks(*used: float) -> ReplicasSnapshot:
    """Brokers of a disk of 1 GB each, and nothing else that has a capacity."""
    return snapshot(
        [broker(one, capacity=(None, 1e9, None, None)) for one in range(1, 1 + len(used))],
        [partition("t", one, [one], load=(0, size, 0, 0)) for one, size in enumerate(used, 1)],
    )


def test_status_of_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The heat map for people, one document for programs."""
    lake = publish(
        tmp_path,
        {
            "imbalance": [imbalance_rows(NOON, UNEVEN)],
            "brokers": [broker_rows(NOON, {1: "alive", 2: "alive"})],
        },
    )
    folder = snapshot_folder(lake)
    assert run("status", "--lake", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "60% ▲+50%" in out
    assert "No goal is evaluated, because there is no snapshot" in out
    shutil.rmtree(folder)
    write_snapshot(snapshot_of_disks(84e7, 30e7), folder)
    assert run("status", "--lake", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "! broker 1: disk 84% > theta 80%\n" in out
    assert "disk: not balanced. `trimtab plan replicas`" in out
    settings = ["--set", "replicas.theta=0.9", "--set", "replicas.epsilon=0.6"]
    assert run("status", "--lake", str(tmp_path), *settings) == 0
    assert "not balanced." not in capsys.readouterr().out
    assert run("status", "--lake", str(tmp_path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["cluster"] == "orders"


def test_status_without_anything_to_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on standard error, exit code 1, nothing on standard output."""
    assert run("status", "--lake", str(tmp_path / "nothing")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trimtab: lake ")
    assert err.count("\n") == 1


def test_status_straight_from_the_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything was collected: sizes, replicas and leaders, and missing figures are reported."""
    cluster = cluster_of(3)
    cluster.controller.create_topic("t", {0: [1, 2], 1: [1, 3], 2: [1, 2]}, size_bytes=60e6)
    cluster.controller.create_topic("uneven", {0: [1], 1: [1]}, size_bytes=0)
    cluster.controller.reassign("uneven", 0, [1, 2])
    cluster.advance(10)
    with SimulatedKafkaServer(cluster) as server:
        bootstrap = ",".join(server.bootstrap)
        assert run("status", "--cluster", f"kafka://{bootstrap}") == 0
        text = capsys.readouterr().out
        assert run("status", "--cluster", f"kafka://{bootstrap}", "--json") == 0
        document = json.loads(capsys.readouterr().out)
    assert "3 brokers, 5 partitions, 360 MB on disk; placement only" in text
    assert "CPU and network need two samples" in text
    assert "! the partitions of uneven have different numbers of replicas" in " ".join(text.split())
    assert document["topics_with_different_replication_factors"] == ["uneven"]
    assert [(b["disk_bytes"], b["replicas"], b["leaders"]) for b in document["brokers"]] == [
        (180e6, 5, 5),
        (120e6, 3, 0),
        (60e6, 1, 0),
    ]


def test_a_snapshot_is_exported_in_each_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, gzip and folder hold the same snapshot; a wrong ending is refused and nothing is written."""
    from trimtab.files.replicas.snapshot import read_snapshot

    source = tmp_path / "source.json"
    source.write_text(json.dumps(SNAPSHOT))
    folder = tmp_path / "lake" / "snapshots" / "orders" / "2026-11-21T12:00:00.000000Z"
    folder.parent.mkdir(parents=True)
    write_snapshot(read_snapshot(source), folder)
    lake = str(tmp_path / "lake")
    for name in ("out.json", "out.json.gz", "out"):
        assert run("snapshot", "export", "--lake", lake, "--out", str(tmp_path / name)) == 0
        assert "1 brokers, 1 partitions of orders" in capsys.readouterr().out
        assert read_snapshot(tmp_path / name).partitions.leader_load[0, 1] == 5
    capsys.readouterr()
    assert run("snapshot", "export", "--lake", lake, "--out", str(tmp_path / "a.json"), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["balancer"], document["path"]) == ("replicas", str(tmp_path / "a.json"))
    assert len(document["sha256"]) == 64
    assert run("snapshot", "export", "--lake", lake, "--out", str(tmp_path / "out.csv")) == 2
    assert not (tmp_path / "out.csv").exists()
    assert (
        run("snapshot", "export", "--lake", lake, "--cluster", "other", "--out", str(tmp_path / "x.json"))
        == 1
    )


def test_the_balancer_of_a_snapshot_is_selected_by_cluster_or_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lake of both systems: what is exported is never guessed."""
    from hand_written_tables import lake_with
    from trimtab.files.bundles.snapshot import read_bundles_snapshot
    from trimtab.files.replicas.snapshot import read_snapshot
    from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.bundles.snapshot import write_newest_snapshots

    key = "public/shop/0x00000000_0xffffffff"
    rows = {
        "brokers": [{"cluster": "pulsar", "tick": NOON, "broker": "a:1", "broker_state": "alive"}],
        "bundles": [{"cluster": "pulsar", "tick": NOON, "bundle": key, "owner": "a:1", "is_known": False}],
    }
    bundles = lake_with(tmp_path / "lake", rows, BUNDLES)
    write_newest_snapshots(bundles, bundles.manifest(), BundlesPipelineSettings())
    lake, out = f"--lake={bundles.path}", f"--out={tmp_path / 'out.json'}"
    assert run("snapshot", "export", lake, out) == 0
    assert "1 brokers, 1 bundles and 0 topics of pulsar" in capsys.readouterr().out
    assert read_bundles_snapshot(tmp_path / "out.json").bundles.key == (key,)

    source = tmp_path / "source.json"
    source.write_text(json.dumps(SNAPSHOT))
    folder = tmp_path / "lake" / "snapshots" / "orders" / "2026-11-21T12:00:00.000000Z"
    folder.parent.mkdir(parents=True)
    write_snapshot(read_snapshot(source), folder)
    assert run("snapshot", "export", lake, out) == 2
    assert "holds snapshots of balancers replicas and bundles: say --balancer" in capsys.readouterr().err
    assert run("snapshot", "export", lake, out, "--balancer=replicas") == 0
    assert run("snapshot", "export", lake, out, "--cluster=pulsar") == 0
    assert "of pulsar" in capsys.readouterr().out
    assert run("snapshot", "export", lake, out, "--balancer=shards") == 2

"""Queues over a real cluster of three nodes: moves between slots, and deaths in the middle of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis
from redis.crc import key_slot
from taskiq.receiver import Receiver

from support.journey import CAPACITY, SLOTS
from support.queue_backends import drained, message, put_all
from support.queue_snapshots import TICK, a_class, a_queue, a_snapshot
from support.redis_server import RedisClusterProcess
from trimtab.files.queues import SNAPSHOT_FORMAT
from trimtab.model.documents import SnapshotReference
from trimtab_common.errors import InputError
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.backend import MICROSECONDS
from trimtab_queues.broker.balancing import Scheduler
from trimtab_queues.broker.redis_streams.cluster import RedisClusterBackend
from trimtab_queues.broker.redis_streams.streams import owner
from trimtab_queues.core.scheduling import MoveMessages, SchedulingSettings
from trimtab_queues.format.documents import nodes_of

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisClusterProcess]:
    """One cluster for all tests."""
    cluster = RedisClusterProcess(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


async def _name(cluster: RedisClusterProcess) -> str:
    """A name whose two slots lie on different nodes."""
    while True:
        name = uuid4().hex
        bases = [f"{{trimtab:{name}/{slot}}}" for slot in range(SLOTS)]
        if len({await owner(nodes_of(cluster.url), base) for base in bases}) == SLOTS:
            return name


def _backend(cluster: RedisClusterProcess, name: str) -> RedisClusterBackend:
    return RedisClusterBackend(cluster.url, name, CAPACITY, SLOTS, heartbeat_timeout_seconds=2.0)


async def _fence(backend: RedisClusterBackend) -> int:
    """The lease, also after one who died with it."""
    for _ in range(600):
        if (fence := await backend.lease("test", 60.0)) is not None:
            return fence
        await asyncio.sleep(0.1)
    raise AssertionError("nobody lets go of the lease")


async def _checked(backend: RedisClusterBackend, messages: int) -> None:
    counts = (await backend.counts()).queues
    assert tuple(one.derivable() for one in counts) == await backend.recount()
    assert sum(one.length for one in counts) == messages
    assert await backend.in_transit() == 0


def _run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_set_of_queues_spans_slots(cluster: RedisClusterProcess) -> None:
    """Workers of all slots, keys in order in one slot, moves within and between slots."""

    async def story() -> None:
        backend = _backend(cluster, await _name(cluster))
        await backend.open()
        fence = await _fence(backend)
        claims = [await backend.claim(one) for one in "stuv"]
        assert sorted(one.queue for one in claims if one) == [0, 1, 2, 3]
        assert await backend.claim("w") is None
        workers = {claim.queue: who for who, claim in zip("stuv", claims, strict=True) if claim}
        await put_all(backend, 0, "a", "b", "c", weight=MICROSECONDS)
        await _checked(backend, 3)
        assert (await backend.move(MoveMessages(0, 2, 1, None), fence)).messages == 1
        assert (await backend.move(MoveMessages(0, 1, None, 1.0), fence)).work == 1.0
        assert (await backend.move(MoveMessages(0, 1, 9, None), fence - 1)).messages == 0
        await _checked(backend, 3)
        home = key_slot(b"k") % SLOTS
        assert await backend.put(message("k0", key="k"), home) == home
        assert [await backend.put(message(f"k{n}", key="k"), n) for n in (1, 2, 3)] == [home] * 3
        once = [await backend.put(message("o", once="once"), queue) for queue in (0, 1)]
        assert once[0] == once[1] is not None
        assert await backend.mark(1, True, fence)
        await _checked(backend, 8)
        assert backend.ledger.open == [True, False, True, True]
        found = {queue: await drained(backend, worker, queue) for queue, worker in workers.items()}
        assert (found[0][0], found[2][0], found[1][0]) == ("a", "c", "b")
        assert [one for one in found[home] if one.startswith("k")] == ["k0", "k1", "k2", "k3"]
        assert sorted(one for each in found.values() for one in each) == sorted(
            [*"abco", "k0", "k1", "k2", "k3"]
        )
        await _checked(backend, 0)
        await backend.close()

    _run(story())


def test_fewer_queues_are_drained_within_their_slots(cluster: RedisClusterProcess) -> None:
    """Also messages with a key, though the lightest queue is in the other slot; fewer slots are refused."""

    async def story() -> None:
        name = await _name(cluster)
        before = RedisClusterBackend(cluster.url, name, [9] * 8, SLOTS, heartbeat_timeout_seconds=2.0)
        await before.open()
        home = key_slot(b"k") % SLOTS
        beyond = 6 + home
        for one in range(4):
            assert await before.put(message(f"k{one}", key="k"), beyond) == beyond
        await put_all(before, 4, "a")
        after = RedisClusterBackend(cluster.url, name, [9] * 4, SLOTS, heartbeat_timeout_seconds=2.0)
        await after.open()
        assert (await after.server_counts()).stranded == {4: 1, beyond: 4}
        fewer = RedisClusterBackend(cluster.url, name, [9], 1)
        with pytest.raises(InputError, match="slots is 1, and 5 messages lie in 2 slots: start workers with"):
            await fewer.open()
        assert await after.put(message("k4", key="k"), home) == beyond
        claims = {claim.queue: one for one in "stuv" if (claim := await after.claim(one))}
        await put_all(after, home, "b", weight=MICROSECONDS)
        await put_all(after, 2 + home, "c", weight=MICROSECONDS)
        await Scheduler(after, "test", SchedulingSettings(), 1.0).turn(await _fence(after))
        assert (await after.server_counts()).stranded == {}
        await _checked(after, 8)
        found = [one for queue, worker in claims.items() for one in await drained(after, worker, queue)]
        assert [one for one in found if one.startswith("k")] == ["k0", "k1", "k2", "k3", "k4"]
        assert sorted(found) == ["a", "b", "c", "k0", "k1", "k2", "k3", "k4"]
        await fewer.open()
        for backend in (before, after, fewer):
            await backend.close()

    _run(story())


def test_a_slot_with_one_queue_reports_that_queue(cluster: RedisClusterProcess) -> None:
    """Also where it refuses a message: the others stay open."""

    async def story() -> None:
        backend = RedisClusterBackend(cluster.url, await _name(cluster), [1, 1, 1], SLOTS)
        await backend.open()
        assert [await backend.put(message(one), 1) for one in "ab"] == [1, None]
        assert (backend.ledger.length, backend.ledger.open) == ([0, 1, 0], [True, False, True])
        await backend.close()

    _run(story())


@pytest.mark.parametrize("step", ["send_away", "before_arrive", "arrive", "cross_out"])
def test_a_kill_during_a_move_loses_and_duplicates_nothing(cluster: RedisClusterProcess, step: str) -> None:
    """Killed with signal 9 between the steps: the next to hold the lease ends the journey, once."""

    async def story() -> None:
        name = await _name(cluster)
        backend = _backend(cluster, name)
        await backend.open()
        names = [f"m{number}" for number in range(8)]
        await put_all(backend, 0, *names)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path))}
        command = [sys.executable, "-m", "support.journey", cluster.url, name, step]
        died = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert await backend.in_transit() == (0 if step == "cross_out" else 1)
        counts = (await backend.counts()).queues
        assert tuple(one.derivable() for one in counts) == await backend.recount()
        assert sum(one.length for one in counts) >= len(names)  # some twice for a moment, none never
        await _fence(backend)
        await _checked(backend, 8)
        assert [one.length for one in (await backend.counts()).queues] == [3, 5, 0, 0]
        found = []
        for who in "stuv":
            claim = await backend.claim(who)
            assert claim is not None
            found += await drained(backend, who, claim.queue)
        assert sorted(found) == sorted(names)
        await backend.close()

    _run(story())


def test_a_node_that_was_away_has_its_queues_again(cluster: RedisClusterProcess) -> None:
    """Killed and started again: what it held is there, and clients find it by themselves."""

    async def story() -> None:
        name = await _name(cluster)
        backend = _backend(cluster, name)
        await backend.open()
        await put_all(backend, 0, "a")
        _, port = await owner(nodes_of(cluster.url), f"{{trimtab:{name}/0}}")
        node = next(one for one in cluster.nodes if one.port == port)
        await asyncio.to_thread(node.stop, signal.SIGKILL)
        await asyncio.to_thread(node.start)
        await backend.open()  # waits for it
        await put_all(backend, 1, "b")
        await _checked(backend, 2)
        await backend.close()

    _run(story())


def test_a_broker_runs_on_a_cluster(cluster: RedisClusterProcess) -> None:
    """The address is all that changes; the only worker is sent the work of the other slot, too."""

    async def story() -> None:
        done: list[int] = []
        broker = BalancedBroker(
            cluster.url,
            name=await _name(cluster),
            queues=2,
            slots=2,
            heartbeat_timeout_seconds=1.0,
            default_weight=0.01,
        )
        broker.is_worker_process = True

        @broker.task(task_name="note")
        async def note(number: int) -> None:
            done.append(number)

        await broker.startup()
        for number in range(10):
            await note.kiq(number)
        assert [one.length for one in (await broker.backend.counts()).queues] == [5, 5]
        stop = asyncio.Event()
        working = asyncio.create_task(Receiver(broker, max_async_tasks=1, run_startup=False).listen(stop))
        await asyncio.wait_for(broker.drained(), 60)
        stop.set()
        await working
        assert sorted(done) == list(range(10))
        await broker.shutdown()

    _run(story())


def test_commands_know_a_cluster_and_its_password(cluster: RedisClusterProcess, tmp_path: Path) -> None:
    """Observed, sampled and published over all slots; the broker applies it; all use the password."""
    name, lake, (seen, plan) = (
        asyncio.run(_name(cluster)),
        tmp_path / "lake",
        (tmp_path / "seen.json", tmp_path / "plan.json"),
    )
    settings = tmp_path / "trimtab.toml"
    (tmp_path / "secret").write_text("open sesame\n")
    table = f'[clusters.work]\naddress = "{cluster.url}"\nname = "{name}"\n'
    settings.write_text(f'{table}password_file = "secret"\n[queues]\nqueues = 4\n')
    (tmp_path / "without.toml").write_text(table)

    def trimtab(*words: object, settings: Path = settings) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ, "TRIMTAB_STATE": str(tmp_path / "state"), "TRIMTAB_SETTINGS": str(settings)
        }  # fmt: skip
        command = [sys.executable, "-m", "trimtab", *map(str, words)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    async def story() -> None:
        broker = BalancedBroker.from_settings(settings, slots=2)

        async def vote() -> None: ...

        task = broker.register_task(vote, task_name="vote")
        await broker.startup()
        for _ in range(6):
            await task.kiq()
        await broker.reporter.exchange()
        status = json.loads((await asyncio.to_thread(trimtab, "status", "--live", "--json")).stdout)
        assert [one["messages"] for one in status["brokers"]] == [2, 2, 1, 1], status
        assert (status["processes"], status["version"]) == (1, 0)
        collect = ("collect", "--lake", lake, "--ticks", 1, "--interval", 1)
        assert (await asyncio.to_thread(trimtab, *collect)).returncode == 0
        load = a_class("vote", weight=1.0, mean_seconds=0.25, standard_error_seconds=0.001, samples=99)
        SNAPSHOT_FORMAT.write(a_snapshot(a_queue(0, 0, 0.0), classes=(load,), reference=_named(name)), seen)
        asked = await asyncio.to_thread(trimtab, "plan", "queues", "--snapshot", seen, "--out", plan)
        assert asked.returncode == 0, asked.stderr
        applied = await asyncio.to_thread(trimtab, "apply", plan, "--yes")
        assert "published as version 1" in applied.stdout, applied.stderr
        await broker.reporter.exchange()
        assert broker.weight_of("vote") == 0.25
        refused = await asyncio.to_thread(trimtab, "status", "--live", settings=tmp_path / "without.toml")
        assert refused.returncode != 0
        assert "correct the cluster's address and password" in refused.stderr
        assert "sesame" not in refused.stderr + refused.stdout
        await broker.shutdown()

    _require(cluster, "", "open sesame")
    try:
        _run(story())
    finally:
        _require(cluster, "open sesame", "")


def _require(cluster: RedisClusterProcess, old: str, new: str) -> None:
    for node in cluster.nodes:
        with Redis.from_url(node.url, password=old or None) as client:
            client.config_set("requirepass", new)


def _named(name: str) -> SnapshotReference:
    return SnapshotReference(name, TICK, "0" * 64)


def test_addresses_and_slots_are_checked() -> None:
    """One sentence with what was found and what is expected."""
    with pytest.raises(InputError, match="redis\\+cluster://host:port"):
        nodes_of("redis+cluster://host")
    with pytest.raises(InputError, match="slots is 3, expected 1 to 2"):
        RedisClusterBackend("redis+cluster://host:1", "name", [9, 9], 3)

"""Real worker processes on a real server, killed without warning: nothing accepted is lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from support.clocks import clock_off_by
from support.queue_schedules import Source
from support.redis_server import Server, binaries
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.redis_streams.streams import RedisBackend

TESTS = Path(__file__).parents[1]
PATIENCE_SECONDS = 120.0
SEED = 20261123


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """One for a test that changes more about it than what it holds."""
    server = Server(binaries()["valkey"], tmp_path / "server")
    yield server
    server.stop()


class Workers:
    """Worker processes with a log each."""

    def __init__(self, server: Server, folder: Path, **environment: str) -> None:
        self._folder = folder
        self._environment = {
            **os.environ, "QUEUES_URL": server.url, "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path)),
            **environment,
        }  # fmt: skip
        self.running: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def start(self, count: int = 1, program: tuple[str, ...] = ("-m", "support.queue_workload")) -> None:
        for _ in range(count):
            self._started += 1
            name = f"worker-{self._environment.get('QUEUES')}-{self._started}.log"
            with (self._folder / name).open("wb") as log:
                self.running.append(
                    subprocess.Popen(
                        [sys.executable, *program], env=self._environment, stdout=log, stderr=log
                    )
                )

    def kill(self, which: subprocess.Popen[bytes]) -> None:
        which.kill()
        which.wait(60)
        self.running.remove(which)

    def logs(self) -> str:
        return "\n".join(one.read_text()[-1500:] for one in sorted(self._folder.glob("worker-*.log")))

    def end(self) -> None:
        for one in list(self.running):
            self.kill(one)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Callable[..., Workers]]:
    """Makes worker processes, all of which are gone afterwards."""
    made: list[Workers] = []

    def make(server: Server, **environment: str) -> Workers:
        made.append(Workers(server, tmp_path, **environment))
        return made[-1]

    yield make
    for one in made:
        one.end()


class Journal:
    """What trials have written: `begins` or `ends`, name, number of the retry, process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"
        self.path.touch()

    def lines(self, what: str) -> list[tuple[str, int, int]]:
        rows = [line.split() for line in self.path.read_text().splitlines()]
        return [(name, int(retry), int(process)) for kind, name, retry, process in rows if kind == what]

    def ended(self) -> set[str]:
        return {name for name, _, _ in self.lines("ends")}

    def begun_again(self, killed: set[int]) -> list[tuple[str, int]]:
        """Runs that were begun again though the process that had begun them was not killed."""
        begun: dict[tuple[str, int], int] = {}
        found = []
        for name, retry, process in self.lines("begins"):
            if (name, retry) in begun and begun[name, retry] not in killed:
                found.append((name, retry))
            begun[name, retry] = process
        return found


def _until(holds: Callable[[], object], workers: Workers) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, workers.logs()
        time.sleep(0.05)


def _until_done(client: Redis, number: float, workers: Workers) -> None:
    _until(lambda: client.hlen("results") >= number, workers)


def _send(url: str, send: Callable[[Any], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a sender with a broker of its own."""

    async def story() -> None:
        broker = BalancedBroker(
            url, **{"queues": 3, "default_weight": 0.01, "enqueue_timeout_seconds": None, **settings}
        )
        await broker.startup()
        await send(broker)
        await broker.shutdown()

    asyncio.run(story())


def _votes(users: int, each: int, seconds: float) -> Callable[[Any], Coroutine[Any, Any, None]]:
    async def send(broker: BalancedBroker) -> None:
        async def vote(user: str, number: int, seconds: float) -> None: ...

        task = broker.register_task(vote, task_name="vote")
        for number in range(each):
            for user in range(users):
                labels = {"affinity_key": f"u{user}", "idempotency_key": f"u{user}/{number}"}
                await task.kicker().with_labels(**labels).kiq(f"u{user}", number, seconds)

    return send


def _all_done(client: Redis, users: int, each: int) -> None:
    """Every vote has one result, and no user's votes were begun out of turn."""
    results = sorted(one.decode() if isinstance(one, bytes) else one for one in client.hvals("results"))
    assert results == sorted(f"u{user}/{number}" for user in range(users) for number in range(each))
    for user in range(users):
        runs = [int(one) for one in client.lrange(f"runs:u{user}", 0, -1)]
        assert runs == sorted(runs)  # again after a death, never before an earlier one


def _true_counters(url: str) -> None:
    async def story() -> None:
        backend = RedisBackend(url, "queues", [10_000] * 3)
        counts = (await backend.counts()).queues
        assert tuple(one.derivable() for one in counts) == await backend.recount()
        assert sum(one.length for one in counts) == 0
        assert sum(one.arrived_microseconds - one.served_microseconds for one in counts) == 0
        await backend.close()

    asyncio.run(story())


def test_a_sender_of_one_message_ends(server: Server) -> None:
    """Its report is in flight when it is stopped: redis-py may lose that, and once waited forever."""

    async def sent(broker: BalancedBroker) -> None:
        await broker.startup()
        await broker.backend.counts()
        await broker.shutdown()

    for _ in range(20):
        broker = BalancedBroker(server.url, queues=3)
        asyncio.run(asyncio.wait_for(sent(broker), PATIENCE_SECONDS / 4))


def test_workers_are_killed_and_nothing_is_lost(server: Server, workers: Callable[..., Workers]) -> None:
    """Also the one that schedules: another holds the lease afterwards; users keep their order."""
    users, each, kills = 12, 20, 6
    some, chance = workers(server), random.Random(SEED)
    some.start(3)
    with Redis.from_url(server.url) as client:
        sender = threading.Thread(target=_send, args=(server.url, _votes(users, each, 0.05)))
        sender.start()
        for kill in range(kills):
            # The next kill comes when some more are done, however fast the machine is.
            _until_done(client, (kill + 1) * users * each / (kills + 2), some)
            if kill == 0:
                _until(lambda: client.get("{trimtab:queues}:lease"), some)
                holder = client.get("{trimtab:queues}:lease")
                assert holder is not None
                pid = int(holder.decode().split(":")[-2])
                victim = next(one for one in some.running if one.pid == pid)
            else:
                victim = chance.choice(some.running)
            some.kill(victim)
            some.start()
        sender.join()
        _until(lambda: client.hlen("results") == users * each, some)
        _until(lambda: client.hget("{trimtab:queues}:keys", "u0") is None, some)
        assert int(client.get("{trimtab:queues}:fence") or 0) >= 2
        _until(lambda: not client.hlen("{trimtab:queues}:in_flight"), some)
        _all_done(client, users, each)
    _true_counters(server.url)


@pytest.mark.timeout(600)
def test_the_server_is_away_in_mid_burst(
    own_server: Server, workers: Callable[..., Workers], tmp_path: Path
) -> None:
    """Killed; killed for longer than the heartbeat time-out; half a minute unresponsive. Accepted messages
    are in its file; senders without a response send again under the same idempotency key. After the first
    death the server's clock is an hour behind, after the second it is correct again, an hour ahead.
    """
    users, each, server, program = 6, 20, own_server, tmp_path / "server.sh"
    behind = [f"{name}={value}" for name, value in clock_off_by(-3600, tmp_path).items()]
    program.write_text(f'#!/bin/sh\nexec env {" ".join(behind)} {server.binary} "$@"\n')
    program.chmod(0o755)
    right, wrong = server.binary, str(program)
    some = workers(server)
    some.start(2)
    with Redis.from_url(server.url) as client:
        sender = threading.Thread(target=_send, args=(server.url, _votes(users, each, 0.02)))
        sender.start()
        for part, binary, seconds in ((1, wrong, 1.0), (2, right, 4.0)):
            _until_done(client, part * users * each / 5, some)
            server.stop(signal.SIGKILL)
            time.sleep(seconds)
            server.binary = binary
            server.start()
            assert abs(time.time() - client.time()[0] - 3600 * (binary == wrong and behind != [])) < 60
        _until(lambda: client.hlen("results") >= 3 * users * each / 5, some)
        assert server.process is not None
        # Connections stay open, and what clients have given up meanwhile is carried out afterwards.
        server.process.signal(signal.SIGSTOP)
        time.sleep(30.0)
        server.process.signal(signal.SIGCONT)
        sender.join()
        _until(lambda: client.hlen("results") == users * each, some)
        _until(lambda: not client.hlen("{trimtab:queues}:in_flight"), some)
        _all_done(client, users, each)
    _true_counters(server.url)


@pytest.mark.parametrize("away_seconds", [0.3, pytest.param(4.0, marks=pytest.mark.long)])
def test_a_living_worker_keeps_its_work_over_a_restart_of_the_server(
    own_server: Server, workers: Callable[..., Workers], tmp_path: Path, away_seconds: float
) -> None:
    """Ten tasks each; one standby worker; the server is away for longer than the heartbeat time-out."""
    journal, server = Journal(tmp_path), own_server
    some = workers(server, TASKS="10", JOURNAL=str(journal.path))
    some.start(4)

    async def send(broker: BalancedBroker) -> None:
        async def trial(name: str, seconds: float, failures: int) -> None: ...

        task = broker.register_task(trial, task_name="trial")
        for number in range(30):
            await task.kiq(f"t{number}", 3.0 + away_seconds, 0)

    with Redis.from_url(server.url) as client:
        # All have a queue before anything is sent: then each has ten, and nothing has to move.
        _until(
            lambda: (
                [client.hget("{trimtab:queues}:counts", f"owner:{one}") for one in range(3)].count(None) == 0
            ),
            some,
        )
        _send(server.url, send, schedule=False)
        _until(lambda: len(journal.lines("begins")) == 30, some)
        server.stop(signal.SIGKILL)
        time.sleep(away_seconds)
        server.start()
        _until(lambda: len(journal.lines("ends")) >= 30, some)
        _until(lambda: not any(_counter(client, "length", one) for one in range(3)), some)
    assert len(journal.lines("begins")) == len(journal.lines("ends")) == 30
    _true_counters(server.url)


@pytest.mark.parametrize("queues", [4, *(pytest.param(one, marks=pytest.mark.long) for one in (32, 100))])
def test_chaos_with_retries_schedules_and_fewer_queues(
    own_server: Server, workers: Callable[..., Workers], tmp_path: Path, queues: int
) -> None:
    """Ten tasks in progress at each worker while half of the queues are removed, the server dies, and workers
    die. Every accepted message takes effect; none starts again while its worker lives; the first runs of
    each key are in order of acceptance; nothing is left behind.
    """
    journal, server, chance, fewer = Journal(tmp_path), own_server, random.Random(SEED), queues // 2
    more = {"TASKS": "10", "JOURNAL": str(journal.path), "HANG_SECONDS": "5"}
    old = workers(server, QUEUES=str(queues), RECEIVERS=str(queues // 4), **more)
    new = workers(server, QUEUES=str(fewer), RECEIVERS=str(fewer // 2), **more)
    old.start(4)
    names, killed = [f"u{number % 40}/{number}" for number in range(400)], set[int]()

    async def send(broker: BalancedBroker) -> None:
        async def trial(name: str, seconds: float, failures: int) -> None: ...

        task, source = broker.register_task(trial, task_name="trial"), Source()
        # What the decorator says in a program that sends and works.
        labels: dict[str, Any] = {"retry_on_error": True, "max_retries": 10}
        for number, name in enumerate(names):
            labels |= {"affinity_key": name.partition("/")[0], "idempotency_key": name}
            arguments = (name, 0.2, chance.choice([0, 0, 1, 2]))
            if number % 8 == 0:
                at = datetime.now(UTC)
                await task.kicker().with_labels(**labels).schedule_by_time(source, at, *arguments)
                await source.fire(broker)
            else:
                for _ in range(1 + (number % 8 == 1)):
                    await task.kicker().with_labels(**labels).kiq(*arguments)
            await asyncio.sleep(0.02)

    def kill(some: Workers) -> None:
        victim = chance.choice(some.running)
        killed.add(victim.pid)
        some.kill(victim)

    def until(share: float) -> None:
        _until(lambda: len(journal.ended()) >= share * len(names), old)

    sender = threading.Thread(
        target=_send, args=(server.url, send), kwargs={"queues": queues, "schedule": False}
    )
    sender.start()
    until(0.2)
    kill(old)
    new.start()
    until(0.35)
    server.stop(signal.SIGKILL)
    time.sleep(1.0)
    server.start()
    until(0.5)
    for one in old.running:
        one.send_signal(signal.SIGTERM)
    new.start()
    until(0.65)
    kill(new)
    new.start()
    sender.join()
    until(1.0)
    assert journal.ended() == set(names)
    with Redis.from_url(server.url) as client:
        _until(lambda: not client.hlen("{trimtab:queues}:in_flight"), new)
    assert journal.begun_again(killed) == []
    first = dict.fromkeys(name for name, retry, _ in journal.lines("begins") if retry == 0)
    for user in range(40):
        of_user = [name for name in first if name.startswith(f"u{user}/")]
        assert of_user == [name for name in names if name.startswith(f"u{user}/")]

    async def nothing_is_left() -> None:
        backend = RedisBackend(server.url, "queues", [10_000] * queues)
        counts = (await backend.counts()).queues
        assert tuple(one.derivable() for one in counts) == await backend.recount()
        assert sum(one.length for one in counts) == 0
        await backend.close()

    asyncio.run(nothing_is_left())


def test_a_poison_message_is_a_dead_letter_and_takes_no_other_along(
    server: Server, workers: Callable[..., Workers]
) -> None:
    """It kills each worker that begins it, three of them; the others in their hands are all done."""

    async def send(broker: BalancedBroker) -> None:
        async def poison() -> None: ...

        await broker.register_task(poison, task_name="poison").kiq()

    some = workers(server, QUEUES="3", DEATHS_MAX="3")
    _send(server.url, _votes(6, 2, 0.05), schedule=False)
    _send(server.url, send)
    _send(server.url, _votes(6, 4, 0.05))
    with Redis.from_url(server.url) as client:

        def over() -> bool:
            for one in list(some.running):
                if one.poll() is not None:
                    some.kill(one)
            while len(some.running) < 2:
                some.start()
            return client.xlen("{trimtab:queues}:dead") == 1 and client.hlen("results") == 24

        _until(over, some)
        _until(lambda: not client.hlen("{trimtab:queues}:in_flight"), some)
        _all_done(client, 6, 4)

    async def letters() -> None:
        backend = RedisBackend(server.url, "queues", [10_000] * 3)
        ((letter, trace),) = await backend.dead_letters()
        assert letter.class_name == "poison"
        assert len(trace.split()) == 3
        assert len({one.split("@")[0] for one in trace.split()}) == 3  # three workers
        await backend.close()

    asyncio.run(letters())
    _true_counters(server.url)


def test_a_worker_that_hangs_is_not_waited_for(server: Server, workers: Callable[..., Workers]) -> None:
    """Stopped in mid-work: another does its messages; when it wakes up, what it ends counts once."""
    some = workers(server)
    some.start(2)
    with Redis.from_url(server.url) as client:
        sender = threading.Thread(target=_send, args=(server.url, _votes(6, 10, 0.05)))
        sender.start()
        _until(lambda: client.hlen("results") >= 10, some)
        some.running[0].send_signal(signal.SIGSTOP)
        sender.join()
        _until(lambda: client.hlen("results") == 60, some)
        some.running[0].send_signal(signal.SIGCONT)
        _until(lambda: not client.hlen("{trimtab:queues}:in_flight"), some)
        assert sorted(client.hvals("results")) == sorted(
            f"u{user}/{number}".encode() for user in range(6) for number in range(10)
        )
    _true_counters(server.url)


def test_a_task_that_hangs_keeps_its_worker_and_nothing_else(
    server: Server, workers: Callable[..., Workers]
) -> None:
    """The task blocks the event loop; its worker lives, so no other worker starts it, and others process
    waiting messages.
    """

    async def send(broker: BalancedBroker) -> None:
        async def hang(user: str, number: int) -> None: ...

        await broker.register_task(hang, task_name="hang").kiq("ann", 0)

    some = workers(server, HANG_SECONDS="1")
    some.start(2)
    _send(server.url, send)
    with Redis.from_url(server.url) as client:
        _until(lambda: client.exists("hangs"), some)
        began = time.monotonic()
        _send(server.url, _votes(6, 4, 0.01))
        _until(lambda: client.hlen("results") == 24, some)
        time.sleep(max(0.0, began + 6.0 - time.monotonic()))  # twice as long as a sign of life counts
        assert not client.exists("runs:ann")
        client.set("let_go", 1)
        _until(lambda: client.hlen("results") == 25, some)
        _until(lambda: not client.hlen("{trimtab:queues}:in_flight"), some)
        _until(lambda: not _lengths(client), some)
        assert client.lrange("runs:ann", 0, -1) == [b"0"]
        client.hdel(
            "results", *[key for key, value in client.hgetall("results").items() if value == b"ann/0"]
        )
        _all_done(client, 6, 4)
    _true_counters(server.url)


def test_a_worker_of_taskiqs_own_command_stops_in_order(
    server: Server, workers: Callable[..., Workers]
) -> None:
    """SIGTERM in mid-burst: what is in work ends, once; the rest waits for the next worker."""
    some = workers(server, LIFE_SECONDS="20")
    command = (
        "-m",
        "taskiq",
        "worker",
        "support.queue_workload:broker",
        "--workers",
        "2",
        "--max-async-tasks",
        "3",
    )
    some.start(program=command)
    _send(server.url, _votes(6, 10, 0.1))
    with Redis.from_url(server.url) as client:
        _until(lambda: client.hlen("results") >= 12, some)
        some.running[0].send_signal(signal.SIGTERM)
        some.running[0].wait(60)
        some.running.clear()
        assert not client.hlen("{trimtab:queues}:started")
        some.start(2)  # the queues were given back, so nobody waits for a death
        _until(lambda: client.hlen("results") == 60, some)
        _until(lambda: not client.hlen("{trimtab:queues}:in_flight"), some)
        _all_done(client, 6, 10)
        runs = sum(client.llen(f"runs:u{user}") for user in range(6))
        assert runs == 60
    _true_counters(server.url)


def _counter(client: Redis, name: str, queue: int) -> int:
    return int(client.hget("{trimtab:queues}:counts", f"{name}:{queue}") or 0)


def _lengths(client: Redis) -> int:
    return sum(client.xlen(f"{{trimtab:queues}}:queue:{queue}") for queue in range(3))

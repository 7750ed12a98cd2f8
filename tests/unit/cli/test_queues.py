"""`trimtab queues`: dead letters on a real server, listed, shown and re-queued."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import pytest

from support.redis_server import Server
from trimtab.cli.app import main
from trimtab.systems.redis.client import DeadLetter, QueueServerClient
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.redis_streams.streams import RedisBackend


def _trimtab(
    capsys: pytest.CaptureFixture[str], *words: str, command: str = "queues"
) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([command, *words])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_dead_letters_are_listed_printed_and_requeued(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers die with three messages of a key; two come back behind what was sent since, one by one."""
    name = uuid4().hex
    where = ("--set", f"clusters.q.address={server.url}", "--set", f"clusters.q.name={name}")

    def broker_of() -> BalancedBroker:
        broker = BalancedBroker(
            server.url,
            name=name,
            queues=2,
            heartbeat_timeout_seconds=0.2,
            max_worker_crashes=2,
            schedule=False,
            scheduling=None,
        )

        async def vote(user: str) -> None: ...

        broker.register_task(vote, task_name="vote", affinity_key="ann", weight=0.001)
        return broker

    async def send(*users: str) -> None:
        broker = broker_of()
        for user in users:
            task = broker.find_task("vote")
            assert task is not None
            await task.kicker().with_task_id(user).kiq(user)
        await broker.shutdown()

    async def die(worker: str) -> None:
        """Begin all that is there, and be gone without a word."""
        backend = RedisBackend(
            server.url, name, [9, 9], heartbeat_timeout_seconds=0.2, max_worker_crashes=2, hand_seconds=1.0
        )
        await backend.open()
        while not (await backend.server_counts()).dead_letters:
            claim = await backend.claim(worker)
            assert claim is not None
            for one in claim.left_over:
                assert await backend.start(worker, one)
            while await backend.take(worker, claim.queue, 0.001) is not None:
                pass
            if (await backend.counts()).queues[claim.queue].length:
                break
            await backend.release(worker, claim.queue)  # that of the one before is not free yet
            await asyncio.sleep(0.02)
        await backend.close()

    async def health() -> tuple[list[str], str]:
        broker = broker_of()
        await broker.startup()
        found = await broker.unhealthy(), await broker.metrics()
        await broker.shutdown()
        return found

    async def order() -> list[str]:
        backend = RedisBackend(server.url, name, [9, 9], heartbeat_timeout_seconds=60.0)
        await backend.open()
        claim = await backend.claim("d")
        assert claim is not None
        found = []
        while (delivery := await backend.take("d", claim.queue, 0.001)) is not None:
            found.append(delivery.envelope.task_id)
            assert delivery.deaths == 0
            assert await backend.finish(delivery)
        counts = (await backend.counts()).queues
        assert tuple(one.derivable() for one in counts) == await backend.recount()
        assert sum(one.arrived_microseconds - one.served_microseconds for one in counts) == 0
        await backend.release("d", claim.queue)
        await backend.close()
        return found

    assert _trimtab(capsys, "dead-letters", *where) == (0, "no dead letters\n", "")
    asyncio.run(send("eve", "bob", "cleo"))
    for worker in "abc":
        asyncio.run(die(worker))
    code, said, _ = _trimtab(capsys, "dead-letters", *where)
    assert (code, said.count("vote"), said.count("ann")) == (0, 3, 3)
    told, metrics = asyncio.run(health())
    assert "3 messages are dead letters: trimtab queues dead-letters lists them" in told
    assert "\ntrimtab_queues_dead_letters 3\n" in metrics
    code, status, _ = _trimtab(capsys, "--live", *where, command="status")
    assert (code, "3 dead letters: trimtab queues dead-letters lists them" in status) == (0, True)
    letters = json.loads(_trimtab(capsys, "dead-letters", "--json", *where)[1])
    of_task = {one["task_id"]: one for one in letters}
    assert of_task["eve"]["message"]["args"] == ["eve"]
    assert [one["worker"] for one in of_task["eve"]["deaths"]] == ["a", "b"]
    shown = json.loads(_trimtab(capsys, "show", of_task["bob"]["id"], *where)[1])
    assert shown == of_task["bob"]
    code, _, error = _trimtab(capsys, "show", "1-1", *where)
    assert (code, error) == (
        2, "trimtab: 1-1 is none of the 3 dead letters: trimtab queues dead-letters lists them\n"
    )  # fmt: skip
    assert _trimtab(capsys, "requeue", *where)[0] == 2
    asyncio.run(send("dora"))
    for one in ("cleo", "eve"):
        told_of = _trimtab(capsys, "requeue", of_task[one]["id"], *where)
        assert told_of == (0, f"{of_task[one]['id']} vote re-queued\n", "")
    assert asyncio.run(order()) == ["dora", "cleo", "eve"]
    code, said, _ = _trimtab(capsys, "requeue", "--all", *where)
    assert (code, said) == (0, f"{of_task['bob']['id']} vote re-queued\n")
    assert asyncio.run(order()) == ["bob"]
    asyncio.run(send("fay", "gil"))
    for worker in "efg":
        asyncio.run(die(worker))
    read = QueueServerClient.dead_letters
    others: list[DeadLetter] = []

    def another_is_faster(of: QueueServerClient) -> list[DeadLetter]:
        found = read(of)
        others.append(found[0])
        assert of.requeue(found[0])
        return found

    monkeypatch.setattr(QueueServerClient, "dead_letters", another_is_faster)
    code, said, error = _trimtab(capsys, "requeue", "--all", *where)
    assert (code, said.count("re-queued")) == (1, 1)
    assert error == (
        f"trimtab: {others[0].id}: no dead letter any more, 1 of 2 were not re-queued; another command was "
        "faster: trimtab queues dead-letters lists what is left\n"
    )
    monkeypatch.undo()
    assert asyncio.run(order()) == ["fay", "gil"]
    assert _trimtab(capsys, "dead-letters", *where)[1] == "no dead letters\n"

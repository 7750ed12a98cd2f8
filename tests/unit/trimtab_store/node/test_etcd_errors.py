"""What etcd itself says of why it fails, and what is to be done about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trimtab_common.errors import ConnectError
from trimtab_store.node.etcd import EtcdClient

aetcd = pytest.importorskip("aetcd", reason="the extra masters-etcd is not installed")
ENDPOINTS = ["h:1", "h:2", "h:3"]


def failing(client: EtcdClient, error: Exception) -> None:
    """Have every put to every member fail."""

    async def put(*_: Any) -> None:
        raise error

    for one in client._clients:
        one.put = put


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            "etcdserver: mvcc: database space exceeded",
            r"it is full.*compact and defragment.* or raise its --quota-backend-bytes, then .*alarm disarm",
        ),
        ("etcdserver: request is too large", "set its --max-request-bytes to 1572864"),
        ("grpc: received message larger than max", "set its --max-request-bytes to 1572864"),
        ("failed to connect to all addresses", "a majority of its members must run"),
        ("", "no answer in 2 s.: a majority of its members must run"),
    ],
)
def test_an_error_states_the_remedy(said: str, remedy: str) -> None:
    """A full etcd runs, and no member that is started would help."""

    async def story() -> None:
        client = EtcdClient(ENDPOINTS, 0, 2.0)
        failing(client, aetcd.ClientError(said))
        with pytest.raises(ConnectError, match=rf"etcd at h:1 fails \({said}.*{remedy}"):
            await client.put(b"key", b"value")
        await client.close()

    asyncio.run(story())


def test_a_full_etcd_is_reported_only_a_few_times(capsys: pytest.CaptureFixture[str]) -> None:
    """Each proposal fails at another member, until an operator fixes it."""

    async def story() -> None:
        client = EtcdClient(ENDPOINTS, 0, 2.0)
        failing(client, aetcd.ClientError("etcdserver: mvcc: database space exceeded"))
        for _ in range(100):
            with pytest.raises(ConnectError):
                await client.put(b"key", b"value")
        await client.close()

    asyncio.run(story())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10 and lines[0].startswith("etcd at h:1 fails") and "h:2" in lines[1]

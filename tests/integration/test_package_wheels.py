"""Each data plane's wheel, installed alone and used: no control plane, no numba, below 30 MB."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.installations import PACKAGES
from support.wheels import build_wheels, install, installed_bytes

MAX_BYTES = 30_000_000
"""On disk, the data plane's own requirements included."""

CONTROL_PLANE = ("trimtab", "numba", "numpy", "pyarrow", "rich", "typer")

QUEUES = """
import asyncio
from trimtab_queues import BalancedBroker, QueueLedger, policy_named

broker = BalancedBroker(queues=2, weights={"double": 0.01})

@broker.task(task_name="double")
async def double(value: int) -> int:
    return 2 * value

async def main() -> None:
    await broker.startup()
    tasks = [await double.kiq(value) for value in range(20)]
    print(sum([(await task.wait_result(timeout=20)).return_value for task in tasks]))
    await broker.shutdown()

asyncio.run(main())
"""

KEYS = """
import sqlite3
from trimtab_keys import RoutingConfig, SqliteCheckpointStore
from trimtab_keys.clients.kafka_python import Consumer, Partitioner, Producer

config = RoutingConfig({"bootstrap_servers": "127.0.0.1:1"}, tables_topic="tables")
store = SqliteCheckpointStore(sqlite3.connect(":memory:", isolation_level=None))
try:
    Producer("orders", config, bootstrap_servers="127.0.0.1:1", acks=0)
except Exception as error:
    print(type(error).__name__, error)
"""

STORE = """
import asyncio, sys
from pathlib import Path
from trimtab_store import Consumer, Producer, StoreConfig

cluster = StoreConfig.read(Path(sys.argv[1]))

async def main() -> None:
    async with Producer(cluster, "votes") as producer:
        for number in range(5):
            await producer.send(b"%d" % number)
    found = []
    async with Consumer(cluster, "votes", "counter") as consumer:
        async for message in consumer:
            found.append(int(message.payload))
            consumer.done(message)
            if len(found) == 5:
                break
    print(found)

asyncio.run(asyncio.wait_for(main(), 60))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of the data planes and of what they share."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheels(folder, *PACKAGES)
    return folder


def _run(python: Path, home: Path, *words: str) -> str:
    own = {"HOME": str(home), "PATH": f"{python.parent}{os.pathsep}{os.defpath}"}
    done = subprocess.run(
        [str(python), *words], cwd=home, env=own, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _is_alone(python: Path, home: Path) -> None:
    program = f"from importlib.util import find_spec; print([n for n in {CONTROL_PLANE} if find_spec(n)])"
    assert _run(python, home, "-c", program) == "[]\n"


def _own_folder(python: Path, home: Path, package: str) -> Path:
    program = f"import {package}; from pathlib import Path; print(Path({package}.__file__).parent)"
    return Path(_run(python, home, "-c", program).strip())


def test_the_queue_broker_works_alone(wheels: Path, tmp_path: Path) -> None:
    """Twenty tasks go through balanced queues of one process; the scripts for servers are packed too."""
    python = install(tmp_path / "fresh", wheels, "trimtab-queues")
    _is_alone(python, tmp_path)
    assert _run(python, tmp_path, "-c", QUEUES) == "380\n"
    folder = _own_folder(python, tmp_path, "trimtab_queues")
    assert (folder / "py.typed").is_file()
    assert len(list(folder.rglob("*.lua"))) > 10
    _run(python, tmp_path, "-c", "import trimtab_queues.broker.redis_streams.streams")
    assert installed_bytes(python) < MAX_BYTES


@pytest.mark.parametrize(
    ("extras", "module", "client"),
    [
        ((), "kafka_python", ()),
        (("aiokafka",), "aiokafka", ("aiokafka",)),
        (("confluent",), "confluent", ("confluent-kafka",)),
    ],
    ids=["kafka-python", "aiokafka", "confluent-kafka"],
)
def test_a_client_of_keys_works_alone(
    wheels: Path, tmp_path: Path, extras: tuple[str, ...], module: str, client: tuple[str, ...]
) -> None:
    """It checks its configuration before it connects; another client's module is there and not needed."""
    python = install(tmp_path / "fresh", wheels, "trimtab-keys", *extras)
    _is_alone(python, tmp_path)
    assert "acks" in _run(python, tmp_path, "-c", KEYS)
    _run(python, tmp_path, "-c", f"from trimtab_keys.clients.{module} import Consumer, Producer")
    assert (_own_folder(python, tmp_path, "trimtab_keys") / "py.typed").is_file()
    assert installed_bytes(python, "kafka-python", *client) < MAX_BYTES


def test_the_store_works_alone(wheels: Path, tmp_path: Path) -> None:
    """A node runs by its own command; a producer and a consumer of another process use it."""
    python = install(tmp_path / "fresh", wheels, "trimtab-store")
    _is_alone(python, tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    config = tmp_path / "node.json"
    config.write_text(
        json.dumps(
            {
                "format": "trimtab/masters-node/1",
                "cluster": "alone",
                "node": 0,
                "addresses": [address],
                "folder": str(tmp_path / "log"),
                "groups": 1,
            }
        )
    )
    command = [str(python.parent / "trimtab-store"), "node", "--config", str(config)]
    node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert _run(python, tmp_path, "-c", STORE, str(config)) == "[0, 1, 2, 3, 4]\n"
    finally:
        node.terminate()
        node.communicate(timeout=20)
    assert (_own_folder(python, tmp_path, "trimtab_store") / "py.typed").is_file()
    assert installed_bytes(python) < MAX_BYTES


def test_a_missing_extra_is_named(wheels: Path, tmp_path: Path) -> None:
    """A node on etcd without aetcd says what to install, and how."""
    python = install(tmp_path / "fresh", wheels, "trimtab-store")
    program = (
        "from trimtab_common.errors import TrimtabError\n"
        "from trimtab_store.node.etcd import EtcdClient\n"
        "try:\n    EtcdClient(['127.0.0.1:1'], 0, 1.0)\n"
        "except TrimtabError as error:\n    print(error)"
    )
    said = _run(python, tmp_path, "-c", program)
    assert "this needs the package aetcd (extra etcd)" in said
    assert said.rstrip().endswith("'aetcd<2,>=1.0'"), said
    assert sys.prefix not in said.partition("--python")[2]

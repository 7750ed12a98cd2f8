"""The simulated cluster behind real sockets, so that real clients talk to it in Kafka's own protocol.

Every running broker listens on a loopback port of its own; a dead one refuses connections. One thread serves
all. Virtual time passes when `SimulatedKafkaServer.advance` is called, or by itself at a multiple of real
time.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from trimtab.simulate.kafka_cluster import SimulatedKafka
from trimtab.simulate.kafka_frames import answer_frame, take_frame
from trimtab.simulate.kafka_sockets import BrokerSockets, Connection
from trimtab.simulate.kafka_state import KafkaRefusal

T = TypeVar("T")

POLL_SECONDS = 0.02


class SimulatedKafkaServer:
    """Serves one simulated cluster; a context manager.

    Parameters
    ----------
    speed
        Virtual seconds per real second; 0 (the default) lets time pass by `advance` only.

    Attributes
    ----------
    requests
        (broker, client id, name of the request), in the order of arrival.
    """

    def __init__(self, cluster: SimulatedKafka, speed: float = 0.0) -> None:
        self.cluster = cluster
        self.requests: list[tuple[int, str, str]] = []
        self._speed = speed
        self._lock = threading.RLock()
        self._sockets = BrokerSockets()
        self._stopping = threading.Event()
        self._last_real = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="simulated-kafka", daemon=True)

    def __enter__(self) -> Self:
        self._match_sockets()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._sockets.close_all()

    @property
    def bootstrap(self) -> list[str]:
        """Addresses of all running brokers, as clients want them."""
        with self._lock:
            return [f"127.0.0.1:{self._sockets.ports[broker]}" for broker in self._sockets.listening]

    def advance(self, seconds: float) -> None:
        """Let virtual time pass at once."""
        with self._lock:
            self.cluster.advance(seconds)
            self._match_sockets()

    def do(self, action: Callable[[SimulatedKafka], T]) -> T:
        """Do something to the cluster from another thread: `do(lambda cluster: cluster.kill_broker(3))`."""
        with self._lock:
            result = action(self.cluster)
            self._match_sockets()
            return result

    def _serve(self) -> None:
        while not self._stopping.is_set():
            for ready in self._sockets.ready(POLL_SECONDS):
                with self._lock:
                    if isinstance(ready, Connection):
                        self._read(ready)
                    else:
                        self._sockets.accept(ready)
            with self._lock:
                self._pass_real_time()
                for connection in list(self._sockets.connections):
                    frames, connection.waiting = connection.waiting, []
                    for frame in frames:
                        self._answer(connection, frame)

    def _pass_real_time(self) -> None:
        now = time.monotonic()
        elapsed, self._last_real = now - self._last_real, now
        if self._speed:
            self.cluster.advance(elapsed * self._speed)
            self._match_sockets()

    def _match_sockets(self) -> None:
        self._sockets.match(self.cluster.brokers.values())

    def _read(self, connection: Connection) -> None:
        if self._sockets.receive(connection):
            while (frame := take_frame(connection.received)) is not None:
                self._pass_real_time()
                self._answer(connection, frame)

    def _answer(self, connection: Connection, frame: bytes) -> None:
        if connection not in self._sockets.connections:
            return
        try:
            answer = answer_frame(self.cluster, connection.broker, self._sockets.ports, frame)
        except KafkaRefusal:
            connection.waiting.append(frame)
            return
        if answer is None:
            self._sockets.close(connection)  # what Kafka does with a request that it does not know
            return
        self.requests.append((connection.broker, answer.actor, answer.request))
        self._sockets.send(connection, answer.frame)

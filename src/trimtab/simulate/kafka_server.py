"""The simulated cluster behind real sockets, so that real clients talk to it in Kafka's own protocol.

Every running broker listens on a loopback port of its own; a dead one refuses connections. One thread serves
all. Virtual time passes when `SimulatedKafkaServer.advance` is called, or by itself at a multiple of real
time.
"""

import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from trimtab.simulate import kafka_answers_admin, kafka_answers_metadata, kafka_answers_offsets
from trimtab.simulate.kafka_answers import Asked, Handler, Message
from trimtab.simulate.kafka_cluster import SimulatedKafka
from trimtab.simulate.kafka_state import KafkaRefusal

T = TypeVar("T")

HANDLERS: dict[Message, Handler] = (
    kafka_answers_metadata.HANDLERS | kafka_answers_admin.HANDLERS | kafka_answers_offsets.HANDLERS
)
BY_KEY = {request.API_KEY: request for request in (*HANDLERS, ApiVersionsRequest)}
POLL_SECONDS = 0.02


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    broker: int
    received: bytearray = field(default_factory=bytearray)
    waiting: list[bytes] = field(default_factory=list)
    """Requests that a broker keeps until there is a controller again."""


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
        self._selector = selectors.DefaultSelector()
        self._listeners: dict[int, socket.socket] = {}
        self._connections: set[_Connection] = set()
        self._ports: dict[int, int] = {}
        self._stopping = threading.Event()
        self._last_real = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="simulated-kafka", daemon=True)

    def __enter__(self) -> Self:
        self._match_listeners()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        for connection in list(self._connections):
            self._close(connection)
        for listener in self._listeners.values():
            listener.close()
        self._selector.close()

    @property
    def bootstrap(self) -> list[str]:
        """Addresses of all running brokers, as clients want them."""
        with self._lock:
            return [f"127.0.0.1:{self._ports[broker]}" for broker in sorted(self._listeners)]

    def advance(self, seconds: float) -> None:
        """Let virtual time pass at once."""
        with self._lock:
            self.cluster.advance(seconds)
            self._match_listeners()

    def do(self, action: Callable[[SimulatedKafka], T]) -> T:
        """Do something to the cluster from another thread: `do(lambda cluster: cluster.kill_broker(3))`."""
        with self._lock:
            result = action(self.cluster)
            self._match_listeners()
            return result

    # ------------------------------------------------------------ the serving thread

    def _serve(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(POLL_SECONDS):
                with self._lock:
                    if isinstance(key.data, _Connection):
                        self._read(key.data)
                    elif key.data in self._listeners:
                        self._accept(key.data)
            with self._lock:
                self._pass_real_time()
                for connection in list(self._connections):
                    frames, connection.waiting = connection.waiting, []
                    for frame in frames:
                        self._answer(connection, frame)

    def _pass_real_time(self) -> None:
        now = time.monotonic()
        elapsed, self._last_real = now - self._last_real, now
        if self._speed:
            self.cluster.advance(elapsed * self._speed)
            self._match_listeners()

    def _match_listeners(self) -> None:
        """Open the ports of running brokers, close everything of dead ones."""
        for broker in self.cluster.brokers.values():
            listener = self._listeners.get(broker.id)
            if broker.running and listener is None:
                listener = socket.create_server(
                    ("127.0.0.1", self._ports.get(broker.id, 0)), reuse_port=False
                )
                self._ports[broker.id] = listener.getsockname()[1]
                self._listeners[broker.id] = listener
                self._selector.register(listener, selectors.EVENT_READ, broker.id)
            elif not broker.running and listener is not None:
                self._selector.unregister(listener)
                listener.close()
                del self._listeners[broker.id]
                for connection in [c for c in self._connections if c.broker == broker.id]:
                    self._close(connection)

    def _accept(self, broker: int) -> None:
        accepted, _ = self._listeners[broker].accept()
        connection = _Connection(accepted, broker)
        self._connections.add(connection)
        self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _close(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._selector.unregister(connection.socket)
            connection.socket.close()

    def _read(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        try:
            chunk = connection.socket.recv(1 << 16)
        except ConnectionError:
            chunk = b""
        if not chunk:
            self._close(connection)
            return
        connection.received += chunk
        while len(connection.received) >= 4:
            (size,) = struct.unpack_from(">i", connection.received)
            if len(connection.received) < 4 + size:
                return
            frame = bytes(connection.received[4 : 4 + size])
            del connection.received[: 4 + size]
            self._pass_real_time()
            self._answer(connection, frame)

    def _answer(self, connection: _Connection, frame: bytes) -> None:
        if connection not in self._connections:
            return
        key, version = struct.unpack_from(">hh", frame)
        request_class = BY_KEY.get(key)
        if request_class is None:
            self._close(connection)  # what Kafka does with a request that it does not know
            return
        request = request_class[version].decode(frame, header=True)
        asked = Asked(self.cluster, connection.broker, request.header.client_id or "", self._ports)
        if request_class is ApiVersionsRequest:
            response = _api_versions()
        else:
            try:
                response = HANDLERS[request_class](asked, request)
            except KafkaRefusal:
                connection.waiting.append(frame)
                return
        self.requests.append((connection.broker, asked.actor, request_class.__name__.removesuffix("Request")))
        response.API_VERSION = version
        response.with_header(correlation_id=request.header.correlation_id)
        try:
            connection.socket.sendall(response.encode(header=True, framed=True))
        except ConnectionError:
            self._close(connection)


def _api_versions() -> Message:
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key,
                min_version=request.valid_versions[0],
                max_version=request.valid_versions[1],
            )
            for key, request in BY_KEY.items()
        ],
    )

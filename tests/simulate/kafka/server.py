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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from simulate.kafka import answers, answers_metadata, answers_placement
from simulate.kafka.answers import Asked, Handler, Message
from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.state import KafkaRefusal, SimulatedBroker

HANDLERS: dict[Message, Handler] = answers.HANDLERS | answers_metadata.HANDLERS | answers_placement.HANDLERS
BY_KEY = {request.API_KEY: request for request in (*HANDLERS, ApiVersionsRequest)}


@dataclass(frozen=True)
class Answer:
    """One request answered.

    Attributes
    ----------
    actor
        The client id of the request.
    request
        Its name in Kafka's protocol.
    frame
        What to send back.
    """

    actor: str
    request: str
    frame: bytes


def take_frame(received: bytearray) -> bytes | None:
    """Take the first request out of what has been received; None while it is not whole."""
    if len(received) < 4:
        return None
    (size,) = struct.unpack_from(">i", received)
    if len(received) < 4 + size:
        return None
    frame = bytes(received[4 : 4 + size])
    del received[: 4 + size]
    return frame


def client_of(frame: bytes) -> str:
    """The client id in the header of a request."""
    (length,) = struct.unpack_from(">h", frame, 8)
    return frame[10 : 10 + max(0, length)].decode()


def answer_frame(cluster: SimulatedKafka, broker: int, ports: dict[int, int], frame: bytes) -> Answer | None:
    """Let a broker answer a request; None where no broker here knows such requests.

    Raises
    ------
    KafkaRefusal
        The request has to wait until there is a controller again.
    """
    key, version = struct.unpack_from(">hh", frame)
    request_class = BY_KEY.get(key)
    if request_class is None:
        return None
    request = request_class[version].decode(frame, header=True)
    asked = Asked(cluster, broker, request.header.client_id or "", ports)
    if request_class is ApiVersionsRequest:
        response = _api_versions()
    else:
        response = HANDLERS[request_class](asked, request)
    response.API_VERSION = version
    response.with_header(correlation_id=request.header.correlation_id)
    name = request_class.__name__.removesuffix("Request")
    return Answer(asked.actor, name, response.encode(header=True, framed=True))


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


@dataclass(eq=False)
class Connection:
    """A client's connection to one broker."""

    socket: socket.socket
    broker: int
    received: bytearray = field(default_factory=bytearray)
    waiting: list[bytes] = field(default_factory=list)
    """Requests that a broker keeps until there is a controller again."""


class BrokerSockets:
    """The sockets of all brokers of one cluster.

    Attributes
    ----------
    ports
        Where every broker listens, or has listened before it died; it comes back to the same port.
    connections
        Those that are open.
    """

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.connections: set[Connection] = set()
        self._listeners: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()

    @property
    def listening(self) -> list[int]:
        """Brokers that accept connections."""
        return sorted(self._listeners)

    def match(self, brokers: Iterable[SimulatedBroker]) -> None:
        """Open the ports of running brokers, close everything of dead ones."""
        for broker in brokers:
            listener = self._listeners.get(broker.id)
            if broker.running and listener is None:
                listener = socket.create_server(("127.0.0.1", self.ports.get(broker.id, 0)), reuse_port=False)
                self.ports[broker.id] = listener.getsockname()[1]
                self._listeners[broker.id] = listener
                self._selector.register(listener, selectors.EVENT_READ, broker.id)
            elif not broker.running and listener is not None:
                self._selector.unregister(listener)
                listener.close()
                del self._listeners[broker.id]
                for connection in [c for c in self.connections if c.broker == broker.id]:
                    self.close(connection)

    def ready(self, seconds: float) -> list[Connection | int]:
        """Wait so long at most for connections with something to read, and brokers with one to accept."""
        return [key.data for key, _ in self._selector.select(seconds)]

    def accept(self, broker: int) -> None:
        """Accept a connection, unless the broker has died meanwhile."""
        if broker not in self._listeners:
            return
        accepted, _ = self._listeners[broker].accept()
        connection = Connection(accepted, broker)
        self.connections.add(connection)
        self._selector.register(accepted, selectors.EVENT_READ, connection)

    def receive(self, connection: Connection) -> bool:
        """Read what is there; False where the connection is closed, or has been closed meanwhile."""
        if connection not in self.connections:
            return False
        try:
            chunk = connection.socket.recv(1 << 16)
        except ConnectionError:
            chunk = b""
        if not chunk:
            self.close(connection)
            return False
        connection.received += chunk
        return True

    def send(self, connection: Connection, frame: bytes) -> None:
        """Send an answer; a client that is gone loses it."""
        try:
            connection.socket.sendall(frame)
        except ConnectionError:
            self.close(connection)

    def close(self, connection: Connection) -> None:
        """Close a connection, if that has not happened yet."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._selector.unregister(connection.socket)
            connection.socket.close()

    def close_all(self) -> None:
        """Close every connection and every port."""
        for connection in list(self.connections):
            self.close(connection)
        for listener in self._listeners.values():
            listener.close()
        self._selector.close()


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
    cut_off
        Client ids whose requests are lost on their way.
    """

    def __init__(self, cluster: SimulatedKafka, speed: float = 0.0) -> None:
        self.cluster = cluster
        self.requests: list[tuple[int, str, str]] = []
        self.cut_off: set[str] = set()
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
        if connection not in self._sockets.connections or client_of(frame) in self.cut_off:
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

"""Loopback sockets of simulated brokers: a listening one for each that runs, and what connects to them."""

import selectors
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from trimtab.simulate.kafka_state import SimulatedBroker


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

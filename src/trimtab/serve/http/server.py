"""The HTTP server of the service: uvicorn in a thread, or in the thread of the caller."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from trimtab_common.errors import NodeError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.applications import Starlette

    from trimtab.files.serve_settings import ServeSettings

BACKLOG = 128
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 5.0


class _Server(uvicorn.Server):
    """Uvicorn that leaves signals to its caller, and says when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals belong to the process, not to the server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then set `ready` for the thread that waits."""
        await super().startup(sockets)
        self.ready.set()


class HttpServer:
    """Serves an application at `serve.listen`.

    Parameters
    ----------
    app
        As `create_app` makes it.
    settings
        Address and TLS files. Port 0: a free port, see `address`.

    Raises
    ------
    SettingsError
        If the address is not one of this machine, or a TLS file cannot be read.
    NodeError
        If the port is in use.
    """

    def __init__(self, app: Starlette, settings: ServeSettings) -> None:
        host, _, port = settings.listen.rpartition(":")
        self._app = app
        self._is_secure = bool(settings.tls_certificate_file)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=int(STOP_SECONDS),
            ssl_certfile=settings.tls_certificate_file or None,
            ssl_keyfile=settings.tls_key_file or None,
        )
        try:
            config.load()
            if config.ssl is not None:
                config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"serve.tls_certificate_file {settings.tls_certificate_file} and serve.tls_key_file "
                f"{settings.tls_key_file} cannot be used: {error}; give a certificate and its key as PEM"
            ) from None
        self._config = config
        self._socket = _listening(host.strip("[]"), int(port), settings.listen)
        self._server = _Server(config)
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that the server listens on."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    @property
    def ready(self) -> threading.Event:
        """Set when connections are accepted."""
        return self._server.ready

    @property
    def is_running(self) -> bool:
        """Whether the thread of `start` still serves."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def url(self) -> str:
        """Address of the server for clients on this machine."""
        host, port = self.address
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http{'s' if self._is_secure else ''}://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self) -> None:
        """Serve in this thread, until `stop` is called in another."""
        try:
            self._server.run([self._socket])
        finally:
            self._socket.close()

    def start(self) -> None:
        """Serve in a thread; returns when connections are accepted.

        Raises
        ------
        NodeError
            If the server does not start.
        """
        self._thread = threading.Thread(target=self.run, name="http", daemon=True)
        self._thread.start()
        while not self._server.ready.wait(0.05):
            if not self._thread.is_alive():
                raise NodeError(f"the HTTP server at {self.url} does not start; its log has the reason")

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End streams, finish the requests that are in progress, and close; wait at most this time."""
        self._config.timeout_graceful_shutdown = max(1, int(seconds) - 1)
        self._app.state.streams.close()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(seconds)


def _listening(host: str, port: int, listen: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise SettingsError(
            f"serve.listen {listen} is no address of this machine: {error}; correct it"
        ) from None
    server = socket.socket(family, kind, protocol)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        raise NodeError(f"serve.listen {listen} cannot be used: {error}; choose another port") from None
    return server

"""The simulated admin API without sockets, in virtual time: a transport for an httpx client."""

from __future__ import annotations

from urllib.parse import unquote

import httpx

from simulate.pulsar_admin.answers import Asked
from simulate.pulsar_admin.server import AdminBrokers, BrokenError, RefusedError


class AdminTransport(httpx.BaseTransport):
    """Hands every request to the broker whose id is its host and port.

    Parameters
    ----------
    call_seconds
        Virtual time that each request takes before it arrives.
    """

    def __init__(self, brokers: AdminBrokers, call_seconds: float = 0.0) -> None:
        self._brokers = brokers
        self._call_seconds = call_seconds

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport.handle_request`."""
        if self._call_seconds:
            self._brokers.pass_time(self._call_seconds)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or None
        asked = Asked(
            request.url.netloc.decode(),
            request.method,
            unquote(request.url.path),
            dict(request.url.params),
            request.read(),
            token,
        )
        try:
            reply = self._brokers.ask(asked)
        except RefusedError as error:
            raise httpx.ConnectError("Connection refused", request=request) from error
        except BrokenError as error:
            raise httpx.ReadError("Connection reset by peer", request=request) from error
        headers = {"Content-Type": "application/json"}
        if reply.location is not None:
            headers["Location"] = reply.location
        return httpx.Response(reply.status, headers=headers, content=reply.body, request=request)

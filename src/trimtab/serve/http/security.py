"""Who sends a request, and what that user may do: tokens, sessions, proxies, hosts and origins."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import threading
import time
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from trimtab.serve.http.problems import AccessError
from trimtab_common.errors import InputError, SettingsError
from trimtab_common.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from trimtab.files.serve_settings import ServeSettings

LOG = logging.getLogger("trimtab.serve.http")
COOKIE = "trimtab_session"
SESSION_SECONDS = 12 * 3600.0
MAX_SESSIONS = 1000
MAX_BODY_BYTES = 1_000_000
READING = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
"""Headers of every answer."""


class Role(IntEnum):
    """What a user may do; each role may do what those below it may."""

    VIEWER = 1
    """Read everything."""
    OPERATOR = 2
    """Make plans, approve and reject them, pause, and control executions."""
    ADMIN = 3
    """All that an operator may; for later operations on the service itself."""


@dataclass(frozen=True)
class User:
    """The sender of a request."""

    name: str
    role: Role


LOCAL = User("local", Role.OPERATOR)
"""Every user, where no token file is set and the service listens on the loopback only."""


def require_role(request: Request, role: Role) -> User:
    """The user of a request.

    Raises
    ------
    AccessError
        If the request has no user (401), or one with a lower role (403).
    """
    user: User | None = getattr(request.state, "user", None)
    if user is None:
        raise AccessError(401, "unauthenticated", "the request has no valid token")
    if user.role < role:
        raise AccessError(
            403, "forbidden", f"{user.name} is {user.role.name.lower()}; this needs {role.name.lower()}"
        )
    return user


def require_safe_listen(settings: ServeSettings) -> None:
    """Refuse to serve other machines without tokens, and all addresses without the one that others use.

    Raises
    ------
    SettingsError
        If `serve.listen` is not on the loopback and `serve.token_file` is not set, or if it is a wildcard
        and `serve.public_url` is not set.
    """
    host = settings.listen.rpartition(":")[0].strip("[]")
    if not settings.token_file and not _is_loopback(host):
        raise SettingsError(
            f"serve.listen is {settings.listen}, which other machines reach, and serve.token_file is not "
            "set: set serve.token_file, or listen on 127.0.0.1"
        )
    if not settings.public_url and _is_wildcard(host):
        # Other instances redirect clients to this address: a wildcard would lead each to itself.
        raise SettingsError(
            f"serve.listen is {settings.listen}, all addresses of the machine, and serve.public_url is not "
            "set: set serve.public_url to the address of this instance, like http://trimtab-1.example:8230"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class Tokens:
    """The token file, lines of `name role sha256`; it is read again when it changes.

    Raises
    ------
    SettingsError
        If the file cannot be read, or has a wrong line, at the start. Later the service keeps the tokens
        that it has, and logs the fault.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._users = _read_tokens(self._path)

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _current(self) -> dict[str, User]:
        with self._lock:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._users = _read_tokens(self._path)
                except SettingsError as error:
                    LOG.error("%s; the tokens before stay in force", error)
            return self._users

    def user(self, digest: str) -> User | None:
        """The user whose token has this SHA-256; every line is compared, in constant time."""
        found = None
        for known, user in self._current().items():
            if hmac.compare_digest(known.encode(), digest.encode()):
                found = user
        return found


def _read_tokens(path: Path) -> dict[str, User]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"serve.token_file {path} cannot be read: {error}; correct it") from None
    users: dict[str, User] = {}
    wrong: list[str] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or line.lstrip().startswith("#"):
            continue
        role = Role.__members__.get(words[1].upper()) if len(words) == 3 else None
        if role is None or not re.fullmatch(r"[0-9a-f]{64}", words[2]) or words[2] in users:
            wrong.append(str(number))
        else:
            users[words[2]] = User(words[0], role)
    if wrong:
        # The line itself may hold a token in plain text.
        raise SettingsError(
            f"serve.token_file {path}, line {', '.join(wrong)}: write `name role sha256` with a role of "
            "viewer, operator, admin and a SHA-256 of 64 digits that no other line has"
        )
    return users


def token_digest(token: str) -> str:
    """SHA-256 of a token, as the token file has it."""
    return hashlib.sha256(token.encode()).hexdigest()


class Sessions:
    """Sessions of browsers, by the SHA-256 of their cookies: that of the token, and when they end.

    Parameters
    ----------
    path
        A file that keeps them over a restart; None: they end with the process.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, float]] = {}
        if path is not None and path.exists():
            try:
                self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[str, float]])
            except (OSError, msgspec.DecodeError) as error:
                LOG.warning("%s cannot be read, so users log in again: %s", path, error)

    def token_of(self, session: str) -> str:
        """SHA-256 of the token with which a session began; empty where there is no such session."""
        with self._lock:
            digest, end = self._known.get(token_digest(session), ("", 0.0))
        return digest if time.time() < end else ""

    def begin(self, token: str) -> str:
        """The cookie's value of a new session."""
        session, now = secrets.token_urlsafe(32), time.time()
        with self._lock:
            self._known = {key: one for key, one in self._known.items() if one[1] > now}
            while len(self._known) >= MAX_SESSIONS:
                del self._known[next(iter(self._known))]
            self._known[token_digest(session)] = (token_digest(token), now + SESSION_SECONDS)
            self._write()
        return session

    def end(self, session: str) -> None:
        """Forget a session, here and in the file."""
        with self._lock:
            if self._known.pop(token_digest(session), None) is not None:
                self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            write_atomically(self._path, msgspec.json.encode(self._known))
            self._path.chmod(0o600)
        except (OSError, InputError) as error:
            LOG.warning("sessions are not stored and end with this process: %s", error)


class Access:
    """Finds the user of a request."""

    def __init__(self, settings: ServeSettings, session_file: Path | None = None) -> None:
        self._proxies = frozenset(settings.trusted_proxies)
        self._tokens = Tokens(settings.token_file) if settings.token_file else None
        self._sessions = Sessions(session_file)
        public = urlsplit(settings.public_url)
        listened = settings.listen.rpartition(":")[0].strip("[]")
        self._hosts = {"localhost", listened, (public.hostname or "").lower()} - {""}
        self._public = public.netloc.lower()
        self.is_public_secure = public.scheme == "https"

    @property
    def needs_token(self) -> bool:
        """Whether a token file is set."""
        return self._tokens is not None

    def user(self, request: Request) -> User | None:
        """The user of a request, or None.

        Raises
        ------
        AccessError
            If it has a token or a role that is not known (401).
        """
        client = request.client.host if request.client else ""
        if client in self._proxies:
            name = request.headers.get("x-forwarded-user")
            if name:
                role = Role.__members__.get(request.headers.get("x-forwarded-role", "viewer").upper())
                if role is None:
                    raise AccessError(401, "unauthenticated", "the proxy sends an unknown role")
                return User(name, role)
        if self._tokens is None:
            # A proxy that forgets to name a user must not make everybody an operator.
            return None if client in self._proxies else LOCAL
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme:
            user = self._user_of_token(token.strip()) if scheme.lower() == "bearer" else None
            if user is None:
                raise AccessError(401, "unauthenticated", "the token is not known")
            return user
        return self._user_of_session(request.cookies.get(COOKIE, ""))

    def _user_of_token(self, token: str) -> User | None:
        return self._tokens.user(token_digest(token)) if self._tokens else None

    def _user_of_session(self, session: str) -> User | None:
        return self._tokens.user(self._sessions.token_of(session)) if self._tokens else None

    def begin_session(self, token: str) -> str | None:
        """The cookie's value for a valid token, else None."""
        return None if self._user_of_token(token) is None else self._sessions.begin(token)

    def end_session(self, request: Request) -> None:
        """Forget the session of a request."""
        self._sessions.end(request.cookies.get(COOKIE, ""))

    def check_source(self, request: Request) -> None:
        """Refuse requests that another site has made a browser send.

        Raises
        ------
        AccessError
            For an unknown name in `Host` (421): a foreign name that resolves to this address. An address is
            safe there. For a change with a foreign `Origin`, or with a cookie and without `Origin` (403).
        """
        host = request.headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if name not in self._hosts and not _is_address(name):
            raise AccessError(
                421, "unknown-host", "the service has another name", "Set serve.public_url to the URL in use."
            )
        if request.method in READING:
            return
        if "origin" not in request.headers and COOKIE in request.cookies:
            raise AccessError(403, "foreign-origin", "a change with a cookie needs the header Origin")
        self.require_own_site(request)

    def require_own_site(self, request: Request) -> None:
        """Refuse a request that a browser sends for another site.

        Raises
        ------
        AccessError
            For a foreign `Origin`, or for `Sec-Fetch-Site` with another site (403).
        """
        own = {request.headers.get("host", "").lower(), self._public} - {""}
        origin = request.headers.get("origin")
        is_own = origin is None or origin.partition("://")[2].lower() in own
        if not is_own or request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise AccessError(
                403,
                "foreign-origin",
                "another site sent this request",
                "Use the pages of the service itself.",
            )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class SecurityMiddleware:
    """Sets `request.state.user`, limits bodies, adds headers, and logs each request without its query."""

    def __init__(
        self, app: ASGIApp, access: Access, report: Callable[[Request, Exception], Response]
    ) -> None:
        self._app = app
        self._access = access
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a client."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, begin, status = Request(scope), time.monotonic(), 0
        is_private = request.url.path.startswith("/api/")
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise HTTPException(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
            return message

        async def send_safe(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message.get("headers", ())}
                added = {**HEADERS, "cache-control": "no-store"} if is_private else HEADERS
                message["headers"] = [
                    *message.get("headers", ()),
                    *((k.encode(), v.encode()) for k, v in added.items() if k.encode() not in present),
                ]
            await send(message)

        try:
            self._access.check_source(request)
            request.state.user = self._access.user(request)
            await self._app(scope, receive_limited, send_safe)
        except Exception as error:
            if status:  # half of an answer is sent: the server has to close the connection
                raise
            await self._report(request, error)(scope, receive, send_safe)
        finally:
            user = getattr(request.state, "user", None)
            name, path, seconds = user.name if user else "-", request.url.path, time.monotonic() - begin
            LOG.info("%s %s %s %d %.3f s", name, request.method, path, status, seconds)

"""A client of the API of a service, for the commands with `--via`."""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from trimtab_common.errors import ConnectError, InputError, SettingsError, TrimtabError

T = TypeVar("T")

TOKEN_VARIABLE = "TRIMTAB_TOKEN"
TIMEOUT_SECONDS = 30.0
PLAN_SECONDS = 900.0
MAX_ANSWER_BYTES = 1 << 30


class _Problem(msgspec.Struct):
    """A problem document, as far as messages need it."""

    detail: str = ""
    remedy: str = ""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: urllib would turn POST into GET, and take a secret to another host."""

    def redirect_request(self, *arguments: Any) -> None:
        """Follow none, so that the answer is an error."""


def read_token(token_file: Path | None) -> str:
    """The token of a file, else of the environment variable `TRIMTAB_TOKEN`; empty for none.

    Raises
    ------
    SettingsError
        If the file cannot be read or is empty.
    """
    if token_file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        token = token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--token-file {token_file} cannot be read: {error}; correct it") from None
    if not token:
        raise SettingsError(f"--token-file {token_file} is empty; write the token into it")
    return token


class ServiceClient:
    """Requests to one service. TLS certificates are verified (`SSL_CERT_FILE` names further authorities).

    Parameters
    ----------
    url
        Address of the service, like `https://trimtab.example:8230`.
    token
        Token, or empty.

    Raises
    ------
    InputError
        If the address is no `http://` or `https://` one.
    """

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise InputError(f"--via is {url}: give the address of a service, like http://127.0.0.1:8230")
        if parts.username or parts.password:
            raise InputError("--via has a user in its address: give a token by TRIMTAB_TOKEN or --token-file")
        if not token.isascii() or not token.isprintable():
            raise SettingsError("the token has characters that no header can have; copy it again")
        self._url = url.rstrip("/")
        self._token = token
        self._opener = urllib.request.build_opener(
            NoRedirects, urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )

    def get(self, path: str, kind: type[T], **query: object) -> T:
        """The document at a path below `/api/v1/`.

        Raises
        ------
        ConnectError
            If the service cannot be reached, or refuses the token.
        InputError
            If the service knows no such thing, or refuses a value.
        TrimtabError
            If the state does not allow the request, or the service fails.
        """
        return _decoded(self.read(path, **query), kind)

    def read(self, path: str, **query: object) -> bytes:
        """The content at a path below `/api/v1/`; raises as `get` does."""
        chosen = {name: value for name, value in query.items() if value is not None}
        target = f"{self._url}/api/v1/{path}"
        return self._send("GET", f"{target}?{urlencode(chosen)}" if chosen else target, None, TIMEOUT_SECONDS)

    def post(self, path: str, kind: type[T], body: object = None, seconds: float = TIMEOUT_SECONDS) -> T:
        """The answer to a change, within a time; raises as `get` does."""
        content = None if body is None else msgspec.json.encode(body)
        return _decoded(self._send("POST", f"{self._url}/api/v1/{path}", content, seconds), kind)

    def _send(
        self, method: str, url: str, content: bytes | None, seconds: float, follow: bool = True
    ) -> bytes:
        headers = {"Accept": "application/json", "User-Agent": "trimtab"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if content is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, content, headers, method=method)
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                found: bytes = answer.read(MAX_ANSWER_BYTES)
                return found
        except urllib.error.HTTPError as error:
            leader = error.headers.get("Location", "") if error.code == 307 and follow else ""
            if leader and self._may_follow(leader):
                return self._send(method, leader, content, seconds, follow=False)
            raise self._error(error) from None
        except TimeoutError:
            raise ConnectError(
                f"--via {self._url} gives no answer within {seconds:.0f} s; try again"
            ) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ConnectError(
                f"--via {self._url} cannot be reached: {reason}; start `trimtab serve`"
            ) from None

    def _may_follow(self, url: str) -> bool:
        """Whether a request may go to another address; a token stays with its host, and within TLS."""
        old, new = urlsplit(self._url), urlsplit(url)
        if new.scheme not in ("https", old.scheme):
            return False
        return not self._token or new.hostname == old.hostname

    def _error(self, error: urllib.error.HTTPError) -> TrimtabError:
        try:
            found = msgspec.json.decode(error.read(1 << 20), type=_Problem)
        except (msgspec.DecodeError, OSError, HTTPException):
            found = _Problem()
        text = f"{self._url}: {found.detail or f'HTTP status {error.code}'}. {found.remedy}".strip()
        if error.code in (401, 403):
            return ConnectError(text)
        return InputError(text) if error.code in (400, 404) else TrimtabError(text)


def _decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise ConnectError(
            f"the service sent another document than expected: {error}; is it as new?"
        ) from None


def path_of(*parts: Any) -> str:
    """Parts of a path below `/api/v1/`, escaped."""
    return "/".join(quote(str(part), safe="") for part in parts)

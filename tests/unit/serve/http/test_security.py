"""Users and their rights: tokens, sessions, proxies, hosts and origins."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.fake_service import FakeService
from support.http_calls import HttpCalls, write_tokens
from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.http.app import create_app
from trimtab.serve.http.operations import OPERATIONS
from trimtab.serve.http.security import (
    COOKIE,
    SESSION_SECONDS,
    Tokens,
    require_safe_listen,
    token_digest,
)
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.applications import Starlette

CLUSTERS = "/api/v1/clusters"
PAUSE = "/api/v1/clusters/payments/replicas/pause"
REASON = {"reason": "maintenance"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """Tokens of a viewer, an operator and an admin: the name of the role and `-token`."""
    return write_tokens(tmp_path / "tokens")


def _app(**settings: Any) -> Starlette:
    return create_app(FakeService(ServeSettings(clusters=("orders", "payments"), **settings)))


def _bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {role}-token"}


# ---------------------------------------------------------------- roles and tokens


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_each_operation_requires_its_role(operation: Any, token_file: Path) -> None:
    """Without a token 401, with a lower role 403; health needs none."""
    calls = HttpCalls(_app(token_file=str(token_file)))
    path = operation.path.format(cluster="none", balancer="none", digest="0" * 64, number=1)
    method = "HEAD" if operation.is_stream else operation.method
    if path in ("/livez", "/readyz"):
        assert calls(method, path).status_code == 200
        return
    assert calls(method, path).status_code == 401
    answer = calls(method, path, headers=_bearer("viewer"))
    assert (answer.status_code == 403) == (operation.method == "POST")
    for role in ("operator", "admin"):
        assert calls(method, path, headers=_bearer(role)).status_code not in (401, 403)


def test_a_wrong_token_is_refused_with_the_scheme(token_file: Path) -> None:
    """A digest is no token, nor is another scheme."""
    calls = HttpCalls(_app(token_file=str(token_file)))
    for value in ("Bearer wrong", f"Bearer {token_digest('admin-token')}", "Basic YWRtaW46eA==", "Bearer "):
        answer = calls.get(CLUSTERS, headers={"Authorization": value})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["remedy"]


def test_the_token_file_is_read_again_when_it_changes(token_file: Path) -> None:
    """A deleted line ends the access of its token, a new line begins it."""
    calls = HttpCalls(_app(token_file=str(token_file)))
    assert calls.get(CLUSTERS, headers=_bearer("viewer")).status_code == 200
    token_file.write_text(f"new viewer {token_digest('new-token')}\n")
    assert calls.get(CLUSTERS, headers=_bearer("viewer")).status_code == 401
    assert calls.get(CLUSTERS, headers=_bearer("new")).status_code == 200


def test_a_broken_token_file_keeps_the_tokens_before(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A half-written file must not lock everybody out; the log names the line and not its content."""
    calls = HttpCalls(_app(token_file=str(token_file)))
    token_file.write_text("alice operator plain-secret\n")
    with caplog.at_level(logging.ERROR, "trimtab.serve.http"):
        assert calls.get(CLUSTERS, headers=_bearer("viewer")).status_code == 200
    assert "line 1" in caplog.text
    assert "plain-secret" not in caplog.text


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("alice operator", 3),
        ("alice root " + "0" * 64, 3),
        ("alice viewer " + "0" * 63, 3),
        ("alice viewer " + "G" * 64, 3),
        ("again viewer " + token_digest("viewer-token"), 3),
    ],
)
def test_wrong_lines_of_the_token_file_are_named_at_the_start(line: str, number: int, tmp_path: Path) -> None:
    """The number of the line is named, its content is not: it may be a token in plain text."""
    path = tmp_path / "tokens"
    path.write_text(f"# people\nbob viewer {token_digest('viewer-token')}\n{line}\n")
    with pytest.raises(SettingsError, match=f"line {number}: write `name role sha256`") as caught:
        Tokens(str(path))
    assert line not in str(caught.value)


def test_an_unreadable_token_file_is_named_at_the_start(tmp_path: Path) -> None:
    """The service does not start without its tokens."""
    with pytest.raises(SettingsError, match="cannot be read"):
        _app(token_file=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("listen", "is_safe"),
    [
        ("127.0.0.1:8230", True),
        ("localhost:8230", True),
        ("[::1]:8230", True),
        ("0.0.0.0:8230", False),
        ("[::]:8230", False),
        ("10.0.0.7:8230", False),
        ("trimtab.example:8230", False),
    ],
)
def test_other_machines_are_served_with_tokens_only(listen: str, is_safe: bool, token_file: Path) -> None:
    """Without a token file only the loopback is permitted."""
    url = "https://trimtab.example"
    require_safe_listen(ServeSettings(listen=listen, token_file=str(token_file), public_url=url))
    if is_safe:
        require_safe_listen(ServeSettings(listen=listen))
    else:
        with pytest.raises(SettingsError, match=r"token_file"):
            require_safe_listen(ServeSettings(listen=listen, public_url=url))


@pytest.mark.parametrize("listen", ["0.0.0.0:8230", "[::]:8230"])
def test_all_addresses_need_the_one_that_others_use(listen: str, token_file: Path) -> None:
    """Another instance would redirect its clients to themselves."""
    with pytest.raises(SettingsError, match=r"set serve\.public_url"):
        require_safe_listen(ServeSettings(listen=listen, token_file=str(token_file)))
    require_safe_listen(ServeSettings(listen="10.0.0.7:8230", token_file=str(token_file)))


def test_without_tokens_each_user_is_a_local_operator() -> None:
    """The name `local` stands in the records."""
    calls = HttpCalls(_app())
    assert calls.post(PAUSE, json=REASON).json()["pause"]["by"] == "local"


# ---------------------------------------------------------------- proxies


def test_a_trusted_proxy_names_the_user(token_file: Path) -> None:
    """Name and role come from its headers; without a role the user is a viewer."""
    calls = HttpCalls(_app(token_file=str(token_file), trusted_proxies=("10.0.0.9",)), "10.0.0.9")
    named = {"X-Forwarded-User": "carol", "X-Forwarded-Role": "operator"}
    assert calls.post(PAUSE, json=REASON, headers=named).json()["pause"]["by"] == "carol"
    assert calls.get(CLUSTERS, headers={"X-Forwarded-User": "dan"}).status_code == 200
    assert calls.post(PAUSE, json=REASON, headers={"X-Forwarded-User": "dan"}).status_code == 403
    assert calls.get(CLUSTERS, headers={**named, "X-Forwarded-Role": "root"}).status_code == 401
    assert calls.get(CLUSTERS).status_code == 401


def test_headers_of_other_addresses_are_ignored(token_file: Path) -> None:
    """A client cannot give itself a name: the address of the socket counts, not `X-Forwarded-For`."""
    app = _app(token_file=str(token_file), trusted_proxies=("10.0.0.9",))
    named = {"X-Forwarded-User": "eve", "X-Forwarded-Role": "admin", "X-Forwarded-For": "10.0.0.9"}
    assert HttpCalls(app, "10.0.0.8").get(CLUSTERS, headers=named).status_code == 401


def test_a_proxy_on_the_loopback_is_not_a_local_user() -> None:
    """Without a token file, a request of the proxy that names no user has no user."""
    app = _app(trusted_proxies=("127.0.0.1",))
    assert HttpCalls(app).get(CLUSTERS).status_code == 401
    assert HttpCalls(app).get(CLUSTERS, headers=_bearer("operator")).status_code == 401
    assert "set-cookie" not in _login(app, "anything").headers
    assert HttpCalls(app, "::1").get(CLUSTERS).status_code == 200


# ---------------------------------------------------------------- sessions of browsers


def _login(app: Starlette, token: str, **more: Any) -> Any:
    return HttpCalls(app, **more).post("/login", data={"token": token})


def test_a_session_begins_with_a_token_and_ends_with_logout(token_file: Path) -> None:
    """The cookie is no token; scripts and other sites cannot use it."""
    app = _app(token_file=str(token_file))
    answer = _login(app, "operator-token")
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "secure" not in cookie.lower()
    assert "operator-token" not in cookie
    session = {"Cookie": cookie.partition(";")[0], "Origin": "http://localhost"}
    assert HttpCalls(app).get(CLUSTERS, headers=session).status_code == 200
    assert HttpCalls(app).post(PAUSE, json=REASON, headers=session).json()["pause"]["by"] == "operator"
    assert HttpCalls(app).post("/logout", headers=session).status_code == 303
    assert HttpCalls(app).get(CLUSTERS, headers=session).status_code == 401


def test_login_refuses_unknown_tokens(token_file: Path) -> None:
    """No cookie is set, also for the digest of a token and for none."""
    app = _app(token_file=str(token_file))
    for token in ("wrong", "", token_digest("admin-token")):
        answer = _login(app, token)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


def test_a_session_ends_with_its_token(token_file: Path) -> None:
    """A token that is deleted from the file ends the sessions that began with it."""
    app = _app(token_file=str(token_file))
    session = {"Cookie": _login(app, "operator-token").headers["set-cookie"].partition(";")[0]}
    assert HttpCalls(app).get(CLUSTERS, headers=session).status_code == 200
    token_file.write_text("# nobody\n")
    assert HttpCalls(app).get(CLUSTERS, headers=session).status_code == 401


def test_a_session_outlives_a_restart(token_file: Path, tmp_path: Path) -> None:
    """A file keeps sessions, but neither cookies nor tokens; after a logout it has no such session."""
    path, settings = tmp_path / "sessions.json", ServeSettings(token_file=str(token_file))

    def started() -> Starlette:
        return create_app(FakeService(settings), session_file=path)

    cookie = _login(started(), "operator-token").headers["set-cookie"].partition(";")[0]
    session = {"Cookie": cookie, "Origin": "http://localhost"}
    assert HttpCalls(started()).get(CLUSTERS, headers=session).status_code == 200
    assert path.stat().st_mode & 0o077 == 0
    for secret in ("operator-token", cookie.partition("=")[2]):
        assert secret not in path.read_text()
    assert HttpCalls(started()).post("/logout", headers=session).status_code == 303
    assert HttpCalls(started()).get(CLUSTERS, headers=session).status_code == 401


def test_a_damaged_file_of_sessions_asks_users_to_log_in_again(token_file: Path, tmp_path: Path) -> None:
    """The service starts; a new session replaces the file. One that cannot be written is no fault."""
    path = tmp_path / "sessions.json"
    path.write_text("{")
    settings = ServeSettings(token_file=str(token_file))
    for place in (path, tmp_path / "none" / "sessions.json"):
        app = create_app(FakeService(settings), session_file=place)
        cookie = _login(app, "viewer-token").headers["set-cookie"].partition(";")[0]
        assert HttpCalls(app).get(CLUSTERS, headers={"Cookie": cookie}).status_code == 200
    assert path.read_text() != "{"


def test_a_session_ends_after_its_time(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the clock moves on while no process runs."""
    app = _app(token_file=str(token_file))
    cookie = {"Cookie": _login(app, "viewer-token").headers["set-cookie"].partition(";")[0]}
    now = time.time()
    for seconds, status in ((SESSION_SECONDS - 60, 200), (SESSION_SECONDS + 60, 401)):
        monkeypatch.setattr("trimtab.serve.http.security.time.time", lambda: now + seconds)  # noqa: B023
        assert HttpCalls(app).get(CLUSTERS, headers=cookie).status_code == status


@pytest.mark.parametrize(
    ("base_url", "settings"),
    [("https://localhost", {}), ("http://localhost", {"public_url": "https://trimtab.example"})],
)
def test_cookies_are_secure_under_tls(base_url: str, settings: dict[str, str], token_file: Path) -> None:
    """Also where a proxy terminates TLS and `public_url` says so."""
    app = _app(token_file=str(token_file), **settings)
    assert "; Secure" in _login(app, "viewer-token", base_url=base_url).headers["set-cookie"]


# ---------------------------------------------------------------- hosts and origins


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost:8230", True),
        ("127.0.0.1:8230", True),
        ("[::1]:8230", True),
        ("trimtab.example", True),
        ("attacker.example", False),
        ("localhost.attacker.example", False),
        ("", False),
        ("[", False),
    ],
)
def test_unknown_names_of_the_service_are_refused(host: str, is_known: bool) -> None:
    """A foreign name that resolves to the loopback would make a browser send requests here."""
    calls = HttpCalls(_app(public_url="https://trimtab.example/"))
    assert calls.get(CLUSTERS, headers={"Host": host}).status_code == (200 if is_known else 421)


@pytest.mark.parametrize(
    ("headers", "is_permitted"),
    [
        ({}, True),
        ({"Origin": "http://localhost"}, True),
        ({"Origin": "https://trimtab.example"}, True),
        ({"Origin": "http://localhost:1234"}, False),
        ({"Origin": "http://attacker.example"}, False),
        ({"Origin": "null"}, False),
        ({"Cookie": f"{COOKIE}=x"}, False),
        ({"Cookie": f"{COOKIE}=x", "Origin": "http://localhost"}, True),
    ],
)
def test_changes_come_from_the_own_pages(headers: dict[str, str], is_permitted: bool) -> None:
    """A request of another site is refused before anything changes; reading is not affected."""
    calls = HttpCalls(_app(public_url="https://trimtab.example"))
    assert calls.post(PAUSE, json=REASON, headers=headers).status_code == (200 if is_permitted else 403)
    assert calls.get(CLUSTERS, headers=headers).status_code == 200


# ---------------------------------------------------------------- headers and log


def test_all_answers_have_security_headers() -> None:
    """Those of the API are not stored either; refused requests have the headers too."""
    calls = HttpCalls(_app())
    for path, more in ((CLUSTERS, {}), ("/none", {}), (CLUSTERS, {"headers": {"Host": "attacker.example"}})):
        headers = calls.get(path, **more).headers
        assert headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert (headers.get("cache-control") == "no-store") == path.startswith("/api/")


def test_no_secret_reaches_the_log(token_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The access log has user, method, path, status and duration; neither query nor headers nor bodies."""
    app = _app(token_file=str(token_file))
    with caplog.at_level(logging.DEBUG):
        HttpCalls(app).get(f"{CLUSTERS}?token=operator-token", headers=_bearer("operator"))
        HttpCalls(app).get(CLUSTERS, headers={"Authorization": "Bearer planted-token"})
        answer = _login(app, "operator-token")
        HttpCalls(app).get(CLUSTERS, headers={"Cookie": answer.headers["set-cookie"]})
    lines = [one.getMessage() for one in caplog.records if one.name == "trimtab.serve.http"]
    assert [line.split()[:4] for line in lines] == [
        ["operator", "GET", CLUSTERS, "400"],
        ["-", "GET", CLUSTERS, "401"],
        ["-", "POST", "/login", "303"],
        ["operator", "GET", CLUSTERS, "200"],
    ]
    session = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
    for secret in ("operator-token", "planted-token", session, token_digest("operator-token")):
        assert not any(secret in one.getMessage() for one in caplog.records if one.name != "httpx")


def test_a_file_of_the_same_size_is_read_again(token_file: Path) -> None:
    """The time of the change counts, not the size alone."""
    tokens = Tokens(str(token_file))
    content = token_file.read_text().replace(token_digest("viewer-token"), token_digest("other-token"))
    token_file.write_text(content)
    os.utime(token_file, (1, 1))
    assert tokens.user(token_digest("viewer-token")) is None
    assert tokens.user(token_digest("other-token")) is not None

"""`status`, `plan`, `apply` and `execution` with `--via`, against a real server of the API."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from support.authority import Authority
from support.fake_service import FakeService
from support.http_calls import served, write_tokens
from trimtab.cli import via
from trimtab.cli.app import _root
from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.client import ServiceClient
from trimtab.serve.documents import ExecutionDetail, ExecutionRecord, PlanRecord, TargetStatus
from trimtab.serve.http.app import create_app
from trimtab.serve.interface import UnknownError
from trimtab_common.errors import ConnectError, InputError, SettingsError, TrimtabError

Command = Callable[..., Result]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """The service behind the server; commands look at it often."""
    monkeypatch.setattr(via, "POLL_SECONDS", 0.01)
    return FakeService()


@pytest.fixture
def command(service: FakeService) -> Iterator[Command]:
    """Runs `trimtab` with `--via`."""
    with served(create_app(service)) as server:

        def run(*words: str) -> Result:
            return CliRunner().invoke(_root, [*words, "--via", server.url])

        yield run


@contextmanager
def _time_passes(service: FakeService) -> Iterator[None]:
    """The clock of the service runs, so that executions end."""
    end = threading.Event()

    def run() -> None:
        while not end.wait(0.01):
            service.advance(20)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_status_names_verdicts_and_reasons(command: Command, service: FakeService) -> None:
    """Each balancer has its verdict and what it waits for; JSON is the document of the API."""
    text = command("status").output
    assert "orders/replicas: balanced" in text
    assert "waits: A plan of 14 moves waits for an approval." in text
    found = msgspec.json.decode(command("status", "--json").stdout, type=list[TargetStatus])
    assert found == list(service.targets())
    assert "payments" not in command("status", "--cluster", "orders").output


def test_plan_is_made_by_the_service(command: Command, service: FakeService, tmp_path: Path) -> None:
    """Options become settings; the file is the plan byte for byte; the exit code is that of the verdict."""
    out = tmp_path / "plan.json"
    words = ["plan", "replicas", "--cluster", "payments", "--drain", "5", "--set", "replicas.epsilon=0.05"]
    done = command(*words, "--out", str(out))
    assert done.exit_code == 0, done.output
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    assert service.plan(digest).settings == {"drain": ["5"], "epsilon": 0.05}
    assert f"plan {digest[:12]} for payments/replicas" in done.output
    assert command(*words, "--detailed-exitcode").exit_code == 4
    assert msgspec.json.decode(command(*words, "--json").stdout, type=PlanRecord) == service.plan(digest)


def test_an_incomplete_plan_has_its_exit_code(command: Command, service: FakeService) -> None:
    """Exit code 3, as of a plan made here."""
    made = service.plans()[0]
    service._plans[made.digest] = msgspec.structs.replace(made, verdict="incomplete")
    service.make_plan = lambda *_: service.plan(made.digest)  # type: ignore[method-assign]
    assert command("plan", "replicas", "--cluster", "payments").exit_code == 3


def test_apply_follows_the_execution_to_its_end(
    command: Command, service: FakeService, tmp_path: Path
) -> None:
    """The plan is named by its file; exit code 0 once it has finished."""
    path = tmp_path / "plan.json"
    path.write_bytes(service.plan_bytes(service.plans()[0].digest))
    with _time_passes(service):
        done = command("apply", str(path), "--yes")
    assert done.exit_code == 0, done.output
    assert "execution 4 on payments: finished, 12 of 12 steps done" in done.output
    assert service.execution("payments", 4).execution.approved_by == "local"


def test_apply_takes_a_digest_and_a_dry_run_changes_nothing(command: Command, service: FakeService) -> None:
    """A dry run shows the plan; an unknown name is no plan."""
    digest = service.plans()[0].digest
    done = command("apply", digest[:12], "--dry-run")
    assert done.exit_code == 0
    assert service.plan(digest).state == "asking"
    assert command("apply", digest[:12]).exit_code != 0  # there is no person to confirm
    assert service.plan(digest).state == "asking"
    with pytest.raises(InputError, match="neither a plan file nor the digest"):
        raise command("apply", "plan.json", "--yes").exception or AssertionError


def test_an_execution_is_stopped_resumed_and_cancelled(command: Command, service: FakeService) -> None:
    """Each command follows the execution to the state that it asked for."""
    done = command("execution", "stop", "3")
    assert (done.exit_code, "execution 3 on payments: stopped" in done.output) == (0, True)
    with _time_passes(service):
        done = command("execution", "resume", "3", "--cluster", "payments")
    assert (done.exit_code, "finished" in done.output) == (0, True)
    refused = command("execution", "cancel", "3")
    assert isinstance(refused.exception, TrimtabError)
    assert "finished" in str(refused.exception)


@pytest.mark.parametrize(
    ("name", "statuses", "end"),
    [
        ("resume", ("stopped", "stopped", "interrupted", "running", "running", "finished"), "finished"),
        ("cancel", ("stopped", "stopped", "cancelled"), "cancelled"),
        ("cancel", ("running", "running", "cancelled"), "cancelled"),
    ],
)
def test_a_request_is_followed_from_its_begin(
    name: str, statuses: tuple[str, ...], end: str, command: Command, service: FakeService
) -> None:
    """A thread of the service carries it out: the status before the request is not its result."""
    _pass_through(service, *statuses)
    done = command("execution", name, "3", "--cluster", "payments")
    assert (done.exit_code, f"payments: {end}" in done.output) == (0, True)


def test_a_request_without_an_effect_has_an_end(
    command: Command, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status that does not change is the result after some time, with exit code 1."""
    monkeypatch.setattr(via, "CHANGE_SECONDS", 0.05)
    _pass_through(service, "stopped")
    done = command("execution", "resume", "3", "--cluster", "payments")
    assert (done.exit_code, "payments: stopped" in done.output) == (1, True)


def _pass_through(service: FakeService, *statuses: str) -> None:
    """Let execution 3 have these statuses, one at each reading; the last one stays."""
    left, execution = list(statuses), service._executions["payments", 3]

    def read(cluster: str, number: int) -> ExecutionDetail:
        if (cluster, number) != ("payments", 3):
            raise UnknownError("there is no such execution")
        status = left.pop(0) if len(left) > 1 else left[0]
        return ExecutionDetail(execution=msgspec.structs.replace(execution, status=status), steps=())

    service.execution = read  # type: ignore[method-assign]
    service.resume_execution = lambda *_: execution  # type: ignore[method-assign]
    service.end_execution = lambda *_: execution  # type: ignore[method-assign]


@pytest.mark.parametrize("state", ["approved", "executing", "executed"])
def test_an_applied_plan_is_followed_until_its_execution(
    state: str, command: Command, service: FakeService
) -> None:
    """The record names the execution a moment after the answer."""
    held = service.make_plan("payments", "replicas", {"drain": ["5"]}, "test")
    records = [msgspec.structs.replace(held, state=state, execution=one) for one in (None, None, 2)]
    service.apply_plan = lambda *_: records[0]  # type: ignore[method-assign]
    assert command("apply", held.digest, "--dry-run").exit_code == 0
    left = [held, held, *records]
    service.plan = lambda digest: left.pop(0) if len(left) > 1 else left[0]  # type: ignore[method-assign]
    done = command("apply", held.digest, "--yes")
    assert (done.exit_code, "execution 2 on payments: finished" in done.output) == (0, True)


def test_an_execution_with_a_number_is_read_directly(command: Command, service: FakeService) -> None:
    """The list of all executions would be slow; without a number the newest one is enough."""
    limits: list[int] = []
    executions = service.executions

    def listed(cluster: str | None = None, limit: int = 50) -> Sequence[ExecutionRecord]:
        limits.append(limit)
        return executions(cluster, limit)

    service.executions = listed  # type: ignore[method-assign]
    assert "execution 2 on payments: finished" in command("execution", "show", "2").output
    assert limits == []
    assert "execution 3 on payments: running" in command("execution", "show").output
    assert limits == [1]


def test_executions_are_listed_with_details(command: Command, service: FakeService) -> None:
    """The newest is the default; JSON is the document of the API."""
    text = command("execution", "list").stdout
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["3", "2", "1"]
    assert len(json.loads(command("execution", "list", "--json").stdout)) == 3
    assert "execution 3 on payments: running" in command("execution", "show").output
    found = msgspec.json.decode(command("execution", "show", "1", "--json").stdout, type=ExecutionDetail)
    assert found == service.execution("payments", 1)
    with pytest.raises(InputError, match="no such execution"):
        raise command("execution", "show", "9").exception or AssertionError


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--live"),
        ("status", "--lake", "x"),
        ("plan", "replicas", "--snapshot", "x"),
        ("apply", "x", "--skip-changed"),
        ("apply", "x", "--set", "a.b=1"),
        ("execution", "stop", "--lake", "x"),
        ("plan", "replicas", "--cluster", "payments", "--set", "bundles.epsilon=0.1"),
    ],
)
def test_options_of_this_machine_are_refused(words: tuple[str, ...], command: Command) -> None:
    """They would silently have no effect on the service."""
    found = command(*words).exception
    assert isinstance(found, InputError)
    assert "--via" in str(found)


# ---------------------------------------------------------------- the client


def test_tokens_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The role of the token counts; messages name neither the token nor its file's content."""
    settings = ServeSettings(listen="127.0.0.1:0", token_file=str(write_tokens(tmp_path / "tokens")))
    token = tmp_path / "token"
    token.write_text("viewer-token\n")
    with served(create_app(FakeService(settings)), settings) as server:

        def run(*words: str) -> Result:
            return CliRunner().invoke(_root, [*words, "--via", server.url])

        assert isinstance(run("status").exception, ConnectError)
        assert run("status", "--token-file", str(token)).exit_code == 0
        found = run("execution", "stop", "--token-file", str(token)).exception
        assert isinstance(found, ConnectError)
        assert "this needs operator" in str(found)
        monkeypatch.setenv("TRIMTAB_TOKEN", "operator-token")
        assert run("execution", "stop").exit_code == 0
        monkeypatch.setenv("TRIMTAB_TOKEN", "wrong-token")
        found = run("status").exception
        assert isinstance(found, ConnectError)
        assert "wrong-token" not in str(found)
    with pytest.raises(SettingsError, match="cannot be read"):
        via.client_of("http://localhost", tmp_path / "none")


def test_the_leader_receives_changes() -> None:
    """The client follows one redirect, with the method and the body."""
    leader, follower = FakeService(), FakeService(is_leader=False)
    with served(create_app(leader)) as first, served(create_app(follower)) as second:
        follower.leader_url = first.url
        body = {"reason": "audit"}
        ServiceClient(second.url).post("clusters/payments/replicas/pause", TargetStatus, body)
        assert [one.pause is not None for one in leader.targets()] == [True, True, False]
        follower.leader_url = ""
        with pytest.raises(TrimtabError, match="another instance decides"):
            ServiceClient(second.url).post("clusters/payments/replicas/pause", TargetStatus, body)


@pytest.mark.parametrize(
    ("host", "token", "is_followed"),
    [("127.0.0.1", "operator-token", True), ("localhost", "operator-token", False), ("localhost", "", True)],
)
def test_a_token_stays_with_its_host(host: str, token: str, is_followed: bool, tmp_path: Path) -> None:
    """A redirect to another host is followed without a token only; the error names the address to use."""
    settings = ServeSettings(token_file=str(write_tokens(tmp_path / "tokens")) if token else "")
    leader, follower = FakeService(settings), FakeService(settings, is_leader=False)
    with served(create_app(leader)) as first, served(create_app(follower)) as second:
        follower.leader_url = first.url.replace("127.0.0.1", host)
        client = ServiceClient(second.url, token)
        if is_followed:
            client.post("clusters/payments/replicas/pause", TargetStatus, {"reason": "night"})
        else:
            with pytest.raises(TrimtabError, match=f"Send the request to http://{host}"):
                client.post("clusters/payments/replicas/pause", TargetStatus, {"reason": "night"})
        assert (leader.target("payments", "replicas").status.pause is not None) == is_followed


def test_requests_stay_within_tls() -> None:
    """Also without a token: bodies and answers stay within TLS."""
    client = ServiceClient("https://trimtab.example")
    assert not client._may_follow("http://trimtab.example/api/v1/clusters")
    assert client._may_follow("https://other.example/api/v1/clusters")


def test_a_plan_that_does_not_begin_is_left_to_the_service(
    command: Command, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends with what the service waits for, and with exit code 1."""
    monkeypatch.setattr(via, "START_SECONDS", 0.05)
    plan = msgspec.structs.replace(service.plans()[0], state="approved", execution=None)
    service._plans[plan.digest] = plan
    service.apply_plan = lambda *_: plan  # type: ignore[method-assign]
    service._idle("payments", "replicas", "outside of the maintenance windows")
    done = command("apply", plan.digest, "--yes")
    assert done.exit_code == 1
    assert isinstance(done.exception, TrimtabError)
    assert "the service waits: outside of the maintenance windows, until 2026-" in str(done.exception)


def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown authority is refused; `SSL_CERT_FILE` names it."""
    authority = Authority(tmp_path)
    certificate, key = authority.signed("localhost", "127.0.0.1")
    settings = ServeSettings(
        listen="127.0.0.1:0", tls_certificate_file=str(certificate), tls_key_file=str(key)
    )
    with served(create_app(FakeService()), settings) as server:
        with pytest.raises(ConnectError, match="certificate verify failed"):
            ServiceClient(server.url).get("clusters", list[TargetStatus])
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
        assert len(ServiceClient(server.url).get("clusters", list[TargetStatus])) == 3


@pytest.mark.parametrize("url", ["localhost:8230", "ftp://x", "http://", "http://u:p@x", "http://x?y"])
def test_wrong_addresses_are_refused(url: str) -> None:
    """A secret in the address would be in logs."""
    with pytest.raises(InputError, match="--via"):
        ServiceClient(url)


def test_an_unreachable_service_is_named() -> None:
    """The remedy is to start it."""
    with served(create_app(FakeService())) as server:
        url = server.url
    with pytest.raises(ConnectError, match=rf"--via {url} cannot be reached"):
        ServiceClient(url).get("clusters", list[TargetStatus])

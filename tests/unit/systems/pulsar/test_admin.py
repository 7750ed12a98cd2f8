"""The admin client against brokers that answer as a test says: redirects, refusals, silence, strangers."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from trimtab.model.bundles.policies import BundlePolicies
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab.systems.pulsar.http import response_reason

BUNDLE = "t/n/0x00000000_0x40000000"
BROKERS = ["b1:8080", "b2:8080", "b3:8080"]
Handler = Callable[[httpx.Request], httpx.Response]


def admin(handler: Handler, *urls: str, **settings: Any) -> PulsarAdmin:
    """A client whose requests go to a function."""
    connection = PulsarConnection(urls or ("http://b1:8080",), cluster="c1", **settings)
    return PulsarAdmin(connection, httpx.MockTransport(handler))


def cluster(answers: dict[str, Any], seen: list[httpx.Request] | None = None) -> Handler:
    """Brokers that answer by host and path, or path alone; the list of brokers always."""

    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        path = request.url.raw_path.decode()
        if path == "/admin/v2/brokers":
            return httpx.Response(200, json=BROKERS)
        found = answers.get(f"{request.url.netloc.decode()}{path}", answers.get(path))
        assert found is not None, f"{request.method} {request.url}"
        return found(request) if callable(found) else found

    return handle


def redirect(url: str) -> httpx.Response:
    """307 as brokers give it."""
    return httpx.Response(307, headers={"Location": url})


def test_answers_become_values():
    """Each call returns plain values, whatever a newer Pulsar adds to its answers."""
    answers = {
        "/admin/v2/brokers/leaderBroker": {"serviceUrl": "http://b2:8080", "brokerId": "b2:8080", "new": 1},
        "/admin/v2/brokers/c1/b1:8080/ownedNamespaces": {
            BUNDLE: {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
        },
        "/admin/v2/namespaces/t/n/bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
        "/admin/v2/brokers/configuration/runtime": {"clusterName": "c1", "loadBalancerEnabled": "true"},
        "/lookup/v2/topic/persistent/t/n/a%2Fb": {
            "brokerUrl": "pulsar://b3:6650",
            "httpUrl": "http://b3:8080",
            "nativeUrl": "pulsar://b3:6650",
            "brokerUrlSsl": "",
        },
    }
    calls = admin(cluster({path: httpx.Response(200, json=told) for path, told in answers.items()}))
    assert calls.brokers() == tuple(BROKERS)
    assert calls.leader() == "b2:8080"
    assert calls.owned_bundles("b1:8080") == {BUNDLE: True}
    assert calls.boundaries("t/n") == (0, 0xFFFFFFFF)
    assert calls.runtime_configuration()["loadBalancerEnabled"] == "true"
    assert calls.topic_owner("persistent://t/n/a/b") == "b3:8080"


def test_policies_of_a_cluster_are_the_planners_own():
    """Isolation policies and failure domains come in the form that placement reads."""
    base = "/admin/v2/clusters/c1"
    calls = admin(
        cluster(
            {
                f"{base}/namespaceIsolationPolicies": httpx.Response(
                    200,
                    json={
                        "p": {
                            "namespaces": ["t/.*"],
                            "primary": ["b1"],
                            "secondary": ["b2"],
                            "auto_failover_policy": {
                                "policy_type": "min_available",
                                "parameters": {"min_limit": "2", "usage_threshold": "80"},
                            },
                        }
                    },
                ),
                f"{base}/failureDomains": httpx.Response(200, json={"d": {"brokers": ["b1:8080"]}}),
            }
        )
    )
    found = calls.cluster_policies()
    assert [(one.namespaces, one.primary, one.min_limit) for one in found.isolation] == [
        (("t/.*",), ("b1",), 2)
    ]
    assert found.failure_domains == {"b1:8080": "d"}


def test_a_cluster_without_policies_answers_404():
    """Until the first one is set; that is no fault."""
    base = "/admin/v2/clusters/c1"
    answers = {
        f"{base}/{what}": httpx.Response(404, json={"reason": "does not exist"})
        for what in ("namespaceIsolationPolicies", "failureDomains")
    }
    assert admin(cluster(answers)).cluster_policies() == BundlePolicies()


def test_load_report_may_contain_values_that_json_forbids():
    """A broker that writes NaN loses that value later, not its whole report now."""
    calls = admin(cluster({"/admin/v2/broker-stats/load-report": httpx.Response(200, content=b'{"a": NaN}')}))
    assert str(calls.load_report("b2:8080")["a"]) == "nan"


def test_token_is_sent_with_every_request_also_after_a_redirect():
    """To the leader, to the owner: a general client would drop it at the first change of port."""
    seen: list[httpx.Request] = []
    path = "/admin/v2/namespaces/t/n/0x00000000_0x40000000/unload"
    answers = {
        f"b1:8080{path}?destinationBroker=b3%3A8080": redirect(
            f"http://b2:8080{path}?authoritative=false&destinationBroker=b3:8080"
        ),
        f"b2:8080{path}?authoritative=false&destinationBroker=b3:8080": redirect(
            f"http://b3:8080{path}?authoritative=true"
        ),
        f"b3:8080{path}?authoritative=true": httpx.Response(204),
    }
    admin(cluster(answers, seen), token="secret").unload(BUNDLE, "b3:8080")
    puts = [request for request in seen if request.method == "PUT"]
    assert [request.url.host for request in puts] == ["b1", "b2", "b3"]
    assert {request.headers["Authorization"] for request in seen} == {"Bearer secret"}


def test_split_sends_positions_and_repeats_its_body_after_a_redirect():
    """Boundaries travel in the body, which the owner must get as the first broker did."""
    seen: list[httpx.Request] = []
    path = f"/admin/v2/namespaces/{BUNDLE}/split?unload=false&splitAlgorithmName=specified_positions_divide"
    answers = {
        f"b1:8080{path}": redirect(f"http://b2:8080{path}"),
        f"b2:8080{path}": httpx.Response(204),
    }
    admin(cluster(answers, seen)).split(BUNDLE, "specified_positions_divide", [16, 32])
    bodies = [json.loads(request.content) for request in seen if request.method == "PUT"]
    assert bodies == [[16, 32], [16, 32]]


def test_redirects_in_circles_end():
    """Two brokers that each name the other as leader: reported, and retried later."""
    path = "/admin/v2/brokers/leaderBroker"
    answers = {
        f"b1:8080{path}": redirect(f"http://b2:8080{path}"),
        f"b2:8080{path}": redirect(f"http://b1:8080{path}"),
    }
    with pytest.raises(PulsarAdminError, match=r"round in circles, 2 redirects") as caught:
        admin(cluster(answers)).leader()
    assert (caught.value.transient, caught.value.status) == (True, 307)


def test_redirects_without_end_end_too():
    """Each one to another place: bounded all the same."""
    seen: list[httpx.Request] = []

    def on(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.path == "/admin/v2/brokers":
            return httpx.Response(200, json=BROKERS)
        return redirect(f"http://b2:8080{request.url.path}?{len(seen)}")

    with pytest.raises(PulsarAdminError, match=r"round in circles"):
        admin(on).leader()
    assert len(seen) < 10


@pytest.mark.parametrize(
    "target", ["http://stranger:8080/x", "http://b2:9999/x", "https://b2:8080/x", "x:/y"]
)
def test_the_token_does_not_go_to_strangers(target: str):
    """A redirect out of the cluster is named and not followed."""
    seen: list[httpx.Request] = []
    answers = {"/admin/v2/brokers/leaderBroker": redirect(target)}
    with pytest.raises(PulsarAdminError, match=r"no broker of this cluster: not followed") as caught:
        admin(cluster(answers, seen), token="secret").leader()
    assert not caught.value.transient
    assert {request.url.netloc for request in seen} == {b"b1:8080"}


def test_tls_is_never_left():
    """A redirect from https to http would reveal the token."""
    answers = {"/admin/v2/brokers/leaderBroker": redirect("http://b2:8080/admin/v2/brokers/leaderBroker")}
    with pytest.raises(PulsarAdminError, match=r"not followed"):
        admin(cluster(answers), "https://b1:8443", token="secret").leader()


def test_a_brokers_address_with_tls_is_learned_from_its_redirect():
    """Its id names the plain port; requests for it are sent on to the other one, on the same host."""
    owned = "/admin/v2/brokers/c1/b2:8080/ownedNamespaces"
    seen: list[httpx.Request] = []
    answers = {
        f"b1:8443{owned}": redirect(f"https://b2:8443{owned}"),
        f"b2:8443{owned}": httpx.Response(200, json={}),
        "b2:8443/admin/v2/broker-stats/topics": httpx.Response(200, json={}),
    }
    calls = admin(cluster(answers, seen), "https://b1:8443")
    assert calls.web_url("b2:8080") == "https://b2:8443"
    assert calls.topic_stats("b2:8080") == {}
    assert calls.topic_stats("b2:8080") == {}
    assert [request.url.path for request in seen].count(owned) == 2  # asked and redirected, once


def test_a_redirect_to_a_dead_owner_is_worth_another_try():
    """Until its session expires it counts as alive."""

    def on(request: httpx.Request) -> httpx.Response:
        if request.url.host == "b2":
            raise httpx.ConnectError("refused") from ConnectionRefusedError(111, "Connection refused")
        if request.url.path == "/admin/v2/brokers":
            return httpx.Response(200, json=BROKERS)
        return redirect(f"http://b2:8080{request.url.path}")

    with pytest.raises(PulsarAdminError) as caught:
        admin(on, "http://b1:8080", "http://b3:8080").unload(BUNDLE)
    said = str(caught.value)
    assert "sends PUT namespaces/t/n/0x00000000_0x40000000/unload on to http://b2:8080" in said
    assert "which does not answer (Connection refused): the owner or the leader seems to be down" in said
    assert caught.value.transient


def test_after_a_dead_broker_the_next_one_is_used_from_then_on():
    """One dead address of several costs one attempt."""
    seen: list[str] = []

    def on(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        if request.url.host == "b1":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=BROKERS)

    calls = admin(on, "http://b1:8080", "http://b2:8080")
    assert calls.brokers() == calls.brokers() == tuple(BROKERS)
    assert seen == ["b1", "b2", "b2"]


def test_a_change_is_not_sent_twice_when_the_first_broker_may_have_got_it():
    """Silence after the request went out: the bundle may be moving already."""
    seen: list[str] = []

    def on(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        raise httpx.ReadTimeout("slow")

    with pytest.raises(PulsarAdminError, match=r"no answer in 60 s\): whether it was carried out") as caught:
        admin(on, "http://b1:8080", "http://b2:8080").unload(BUNDLE)
    assert seen == ["b1"]
    assert caught.value.transient


def test_a_change_is_sent_to_the_next_broker_if_the_first_was_never_reached():
    """Nothing was sent, so nothing can happen twice."""

    def on(request: httpx.Request) -> httpx.Response:
        if request.url.host == "b1":
            raise httpx.ConnectTimeout("")
        return httpx.Response(204)

    admin(on, "http://b1:8080", "http://b2:8080").unload(BUNDLE)


def test_a_read_is_repeated_if_a_persistent_connection_was_closed():
    """Brokers close idle connections; that is no outage."""
    seen: list[str] = []

    def on(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        if len(seen) == 1:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return httpx.Response(200, json=BROKERS)

    assert admin(on).brokers() == tuple(BROKERS)


@pytest.mark.parametrize(
    ("status", "said", "transient"),
    [
        (401, "set the cluster's token_file", False),
        (403, "rights of a superuser", False),
        (404, "check that it exists", False),
        (409, "look at the cluster as it is now", False),
        (412, "look at the cluster as it is now", False),
        (500, "the broker's log tells more", False),
        (503, "try again in a moment", True),
        (504, "try again in a moment", True),
        (599, "the broker's log tells more", False),
    ],
)
def test_each_error_status_has_its_remedy(status: int, said: str, transient: bool):
    """Request, address, the broker's own reason, and the remedy; no token."""
    answers = {f"/admin/v2/namespaces/{BUNDLE}/unload": httpx.Response(status, json={"reason": "because"})}
    with pytest.raises(PulsarAdminError) as caught:
        admin(cluster(answers), token="hush").unload(BUNDLE)
    told = str(caught.value)
    assert told.startswith(
        f"Pulsar at http://b1:8080 answers PUT namespaces/{BUNDLE}/unload with {status} (because)"
    )
    assert said in told
    assert "hush" not in told
    assert (caught.value.status, caught.value.reason, caught.value.transient) == (
        status,
        "because",
        transient,
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"reason": "Bundle not found"}', "Bundle not found"),
        (
            b"<html><style>p {}</style><body><h2>HTTP ERROR 401</h2> Unauthorized</body></html>",
            "HTTP ERROR 401 Unauthorized",
        ),
        (
            b"\n --- An unexpected error ---\n\njava.lang.ClassCastException: x\n\nStacktrace:\n"
            b"\tat a.b(C.java:1)\n",
            "java.lang.ClassCastException: x",
        ),
        (b"", ""),
        (b"\xff", "\ufffd"),
        (b"[]", "[]"),
    ],
)
def test_a_reason_is_extracted_from_any_response(body: bytes, reason: str):
    """JSON, a page of the web server, a stack trace: what happened is left of it."""
    assert response_reason(body) == reason


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"<html>", "malformed"), (b'{"a": 1}', "array"), (b"[1]", "str"), (b"\xff", "malformed")],
)
def test_a_server_other_than_pulsar_is_reported(content: bytes, why: str):
    """A wrong port may well answer 200."""
    with pytest.raises(PulsarAdminError, match=r"answers GET tenants with something else") as caught:
        admin(cluster({"/admin/v2/tenants": httpx.Response(200, content=content)})).tenants()
    assert why in str(caught.value)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A web server on a free port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_slow_response_times_out():
    """The time-out is for the whole answer; a byte now and then does not extend it."""

    class Dribble(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    threading.Event().wait(0.02)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with (
        serving(Dribble) as url,
        PulsarAdmin(PulsarConnection((url,), timeout_seconds=0.3)) as calls,
        pytest.raises(PulsarAdminError, match=r"bytes in 0\.3 s and not done") as caught,
    ):
        calls.brokers()
    assert caught.value.transient


def test_errors_of_the_operating_system_are_quoted():
    """Nothing listens, no such host, TLS on a plain port: each with the system's message."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with (
        PulsarAdmin(PulsarConnection((f"http://127.0.0.1:{port}", "http://absent.invalid:1"))) as calls,
        pytest.raises(
            PulsarAdminError, match=rf"127.0.0.1:{port}: Connection refused; http://absent"
        ) as caught,
    ):
        calls.brokers()
    assert caught.value.transient
    with (
        serving(BaseHTTPRequestHandler) as url,
        PulsarAdmin(PulsarConnection((url.replace("http:", "https:"),))) as calls,
        pytest.raises(PulsarAdminError, match=r"does not speak TLS as we do") as caught,
    ):
        calls.brokers()
    assert not caught.value.transient

"""Scraping endpoints that work, and endpoints that do not."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from trimtab.observe.collect.sampler import RequestError
from trimtab.systems.kafka.metrics import endpoints, full_url, scrape, topic_batch
from trimtab.systems.kafka.samples import KafkaBroker
from trimtab_common.errors import SettingsError

Serve = Callable[[Callable[[BaseHTTPRequestHandler], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts an endpoint that answers as told; gives its address."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[BaseHTTPRequestHandler], None]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, *_: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def body(text: str, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer with a body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(text.encode())

    return answer


def test_an_endpoint_is_scraped(serve: Serve) -> None:
    """host:port is enough: the path is /metrics."""
    seen: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.path)
        body('kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 1.6\nprocess_cpu_seconds_total 2\n')(
            handler
        )

    found = scrape(full_url(serve(answer)), 5.0)
    assert seen == ["/metrics"]
    assert found.counters.broker == {"cpu_time_ns": 2e9}
    assert [row["bytes_in_total"] for row in topic_batch(3, found).rows()] == [2]


def test_a_failing_endpoint_is_one_reason(serve: Serve) -> None:
    """A rejection, a dead port, a server without HTTP: each with its own message."""
    with pytest.raises(RequestError, match="answers 503"):
        scrape(full_url(serve(body("no", 503))), 5.0)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(RequestError, match="Connection refused"):
        scrape(full_url(f"127.0.0.1:{port}"), 5.0)

    def garbage(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\x00\x01 no http at all\r\n\r\n")

    with pytest.raises(RequestError, match="does not speak HTTP"):
        scrape(full_url(serve(garbage)), 5.0)


def test_an_unresponsive_endpoint_costs_only_its_time_out(serve: Serve) -> None:
    """An exporter that hangs does not hold up the tick."""
    released = threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        released.wait(10)

    with pytest.raises(RequestError, match="timed out"):
        scrape(full_url(serve(silent)), 0.2)
    released.set()


def test_an_endless_endpoint_is_cut_off(serve: Serve) -> None:
    """An endpoint that dribbles on and on ends at the time-out too."""

    def dribble(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x 1\n")
                time.sleep(0.01)
        except OSError:
            return

    with pytest.raises(RequestError, match="was not done"):
        scrape(full_url(serve(dribble)), 0.3)


def test_endpoints_come_from_a_table_or_a_pattern() -> None:
    """A sandbox has a port per broker; a production cluster a port per host."""
    broker = KafkaBroker(4, "kafka4.example", "r1", fenced=False)
    assert endpoints(None).url(broker) is None
    assert endpoints({"4": "127.0.0.1:7074"}).url(broker) == "http://127.0.0.1:7074/metrics"
    assert endpoints({"5": "127.0.0.1:7075"}).url(broker) is None
    assert endpoints("{host}:7071").url(broker) == "http://kafka4.example:7071/metrics"
    assert endpoints("https://metrics/{id}/jmx").url(broker) == "https://metrics/4/jmx"
    assert endpoints("{host}:1").url(KafkaBroker(1, "::1", None, fenced=False)) == "http://[::1]:1/metrics"


@pytest.mark.parametrize("setting", ["http://{name}:7071", "{host:7071", {"one": "127.0.0.1:7071"}])
def test_endpoints_that_name_no_broker_are_refused(setting: str | dict[str, str]) -> None:
    """A typing error shows before the first tick, with what to write instead."""
    with pytest.raises(SettingsError, match=r"collect\.prometheus"):
        endpoints(setting)

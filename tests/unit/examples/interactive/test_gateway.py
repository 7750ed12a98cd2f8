"""The gateway as voters and the studio meet it, with queues inside the process and results on a server."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from interactive import processing
from interactive.gateway import BATCH_MAX, BYTES_MAX, Gateway, make_app
from interactive.messages import STRANDS, Message, Refused
from interactive.processing import make_broker
from interactive.rules import Business, Effect
from interactive.store import Store
from support.redis_server import Server
from trimtab_queues import BalancedBroker

FILE = Path(__file__).parents[4] / "examples" / "interactive" / "rules.toml"
Client = TestClient[Any, Any]
Story = Callable[[Client, Gateway], Awaitable[None]]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A rule file of one's own."""
    path = tmp_path / "rules.toml"
    path.write_text(FILE.read_text())
    return path


def _tell(
    server: Server, rules: Path, story: Story, broker: BalancedBroker | None = None, **how: Any
) -> None:
    """Run a story with a gateway whose workers are inside the process, unless it has a broker of its own."""

    async def run() -> None:
        gateway = Gateway(
            broker or BalancedBroker(**how.pop("queues", {"queues": 2})), Store(server.url), rules, **how
        )
        await gateway.read_rules()
        async with TestClient(TestServer(make_app(gateway))) as client:
            await story(client, gateway)

    asyncio.run(run())


def _web(answer: str = "1", number: int | str = 1, user: str = "ann", business: str = "song-night") -> Any:
    return {"user": user, "id": number, "business": business, "answer": answer}


async def _post(client: Client, path: str, body: Any) -> tuple[int, Any, dict[str, str]]:
    data = body if isinstance(body, str | bytes) else json.dumps(body)
    async with client.post(path, data=data, headers={"Content-Type": "application/json"}) as answer:
        return answer.status, await answer.json(), dict(answer.headers)


async def _results(gateway: Gateway) -> Any:
    await gateway.broker.drained()
    return await gateway.store.results(list(gateway.rules.businesses))


def test_votes_of_four_channels_count_and_are_displayed(server: Server, rules: Path) -> None:
    """Also the SMS centre's form, a quiz with its points, and a question with the studio's answer."""

    async def story(client: Client, gateway: Gateway) -> None:
        remote = {"box": "stb-9", "press": 7, "programme": "song-night", "key": "2"}
        assert (await _post(client, "/messages/remote", remote))[0] == 202
        sms = {"from": "+4930123", "id": "7", "text": "SONG b"}
        async with client.post("/messages/sms", data=sms) as answer:
            assert (answer.status, (await answer.json())["accepted"]) == (
                202,
                "sms/song-night/tel:+4930123/7",
            )
        call = {"caller": "+4930123", "call": 7, "called": "7002", "digits": "3#"}
        assert (await _post(client, "/messages/telephone", call))[0] == 202
        _, told, _ = await _post(client, "/messages/web", _web("Why?", business="ask-the-guest"))
        await gateway.broker.drained()
        answered = {"question": told["accepted"], "text": "Because."}
        assert (await _post(client, "/studio/ask-the-guest/answers", answered))[0] == 200
        found = await _results(gateway)
        assert found["song-night"]["answers"] == {"Blue Hour": 2}
        assert found["capital-quiz"]["board"] == [["…123", 10]]
        assert found["ask-the-guest"]["texts"] == [
            {"id": told["accepted"], "text": "Why?", "reply": "Because."}
        ]
        async with client.get("/events") as events:
            line = (await events.content.readline()).decode()
            shown = json.loads(line.removeprefix("data: "))
            assert shown["businesses"]["song-night"]["totals"] == {"counted": 2}
            assert len(shown["queues"]) == 2
        async with client.get("/") as page:
            assert "Interactive messages" in await page.text()
        async with client.get("/metrics") as metrics:
            assert "trimtab_queue_messages" in await metrics.text()

    _tell(server, rules, story)


STUDIO = "/studio/ask-the-guest/answers"
BAD = {
    "no JSON": ("/messages/web", "{", 400, "the body is no JSON"),
    "deep JSON": ("/messages/web", "[" * 100_000, 400, "the body is no JSON"),
    "no UTF-8": ("/messages/web", b'"\xff"', 400, "the body is no JSON"),
    "no object": ("/messages/web", [1], 400, "a message is list"),
    "no id": ("/messages/web", {**_web(), "id": None}, 400, "field id is NoneType"),
    "a list as id": ("/messages/web", {**_web(), "id": [1]}, 400, "field id is list"),
    "half a pair": ("/messages/web", _web(user="\ud800"), 400, "printable"),
    "a long id": ("/messages/web", _web(number="9" * 65), 400, "field id is"),
    "control characters": ("/messages/web", _web(user="a\nb"), 400, "printable"),
    "an unknown channel": ("/messages/fax", _web(), 404, "channel 'fax' is unknown; there are remote, sms"),
    "an unknown rule": ("/messages/web", _web(business="poll"), 404, "business 'poll' is unknown; there are"),
    "an unknown keyword": ("/messages/sms", {"from": "123", "id": 1, "text": "X"}, 404, "keyword 'X' is"),
    "no telephone": ("/messages/sms", {"from": "ann", "id": 1, "text": "SONG 1"}, 400, "telephone number"),
    "an unknown number": (
        "/messages/telephone", {"caller": "123", "call": 1, "called": "9", "digits": "1"}, 404, "no business"
    ),
    "no choice": ("/messages/web", _web("7"), 422, "'7' is none of the choices: Aurora"),
    "a long question": ("/messages/web", _web("x" * 300, business="ask-the-guest"), 422, "300 characters"),
    "too much": ("/messages/web", _web("x" * BYTES_MAX), 413, "larger than"),
    "no batch": ("/messages/web/batch", _web(), 400, "a batch is dict, expected a list of 1 to 1000"),
    "an empty batch": ("/messages/web/batch", [], 400, "a batch is an empty list"),
    "a large batch": ("/messages/web/batch", [_web()] * (BATCH_MAX + 1), 413, "expected at most 1000"),
    "no such page": ("/nowhere", {}, 404, "POST /nowhere: Not Found"),
    "no such state": ("/control/song-night", {"state": "drained"}, 400, "expected one of open, paused"),
    "no such business": ("/control/poll", {"state": "open"}, 404, "unknown"),
    "no answer": ("/studio/ask-the-guest/answers", {"text": 1}, 400, "question (its id) and text"),
    "half an answer": (
        STUDIO, {"question": "1", "text": "\ud800"}, 400, "characters of Unicode"
    ),
    "a long answer": (STUDIO, {"question": "1", "text": "x" * 1001}, 400, "1 to 1000"),
    "half a question": (STUDIO, {"question": "\udfff", "text": "1"}, 404, "not asked"),
    "no question": (STUDIO, {"question": "1", "text": "1"}, 404, "'1' was not asked"),
}  # fmt: skip
FORM = "application/x-www-form-urlencoded"
BAD_BYTES = {
    "an unknown charset": ("application/json; charset=nonsense", b"{}", "the body is no JSON"),
    "a form of an unknown charset": (f"{FORM}; charset=nonsense", b"id=1", "the body is no form"),
    "a charset that is no text": (f"{FORM}; charset=hex", b"id=1", "the body is no form"),
    "a form that is no UTF-8": (FORM, b"id=\xff", "the body is no form"),
    "a charset of another width": ("application/json; charset=utf-16", b"{", "the body is no JSON"),
    "no multipart": ("multipart/form-data", b"--x", "the body is no JSON"),
}
BAD_ENCODINGS = {"gzip": b"{}", "deflate": b"\xff\xfe{}"}


def test_errors_have_a_status_and_a_sentence(server: Server, rules: Path) -> None:
    """And nothing of it is counted."""

    async def story(client: Client, gateway: Gateway) -> None:
        for name, (path, body, status, sentence) in BAD.items():
            found, told, _ = await _post(client, path, body)
            assert (name, found) == (name, status)
            assert sentence in told["error"], name
        for name, (kind, data, sentence) in BAD_BYTES.items():
            async with client.post("/messages/web", data=data, headers={"Content-Type": kind}) as answer:
                assert (name, answer.status) == (name, 400)
                assert sentence in (await answer.json())["error"], name
        for encoding, data in BAD_ENCODINGS.items():
            for kind in ("application/json", FORM):
                headers = {"Content-Type": kind, "Content-Encoding": encoding}
                async with client.post("/messages/web", data=data, headers=headers) as answer:
                    assert (encoding, kind, answer.status) == (encoding, kind, 400)
                    assert "the body cannot be read" in (await answer.json())["error"]
        assert all(one["totals"] == {} for one in (await _results(gateway)).values())

    _tell(server, rules, story)


def test_a_message_that_is_sent_again_counts_once(server: Server, rules: Path) -> None:
    """By itself, in a batch, and twice in one batch; the sixth vote of a user is beyond what counts."""

    async def story(client: Client, gateway: Gateway) -> None:
        for _ in range(3):
            assert (await _post(client, "/messages/web", _web()))[0] == 202
        batch = [_web(), _web("2", 2), _web("2", 2), *(_web("3", one) for one in range(3, 7))]
        status, told, _ = await _post(client, "/messages/web/batch", batch)
        assert (status, told) == (202, {"accepted": 7, "refused": []})
        found = (await _results(gateway))["song-night"]
        assert found["totals"] == {"counted": 5, "beyond": 1}
        assert found["answers"] == {"Aurora": 1, "Blue Hour": 1, "Cinder": 3}

    _tell(server, rules, story)


def test_a_batch_reports_the_result_of_each_message(server: Server, rules: Path) -> None:
    """After one that has to come again nothing newer of the same user is taken, or it would overtake."""

    async def story(client: Client, gateway: Gateway) -> None:
        questions = [_web("Why?", one, business="ask-the-guest") for one in (1, 2, 3)]
        mixed = [*questions, _web(number=4), _web("9", 5, user="bob"), _web(number=6, user="cid")]
        status, told, _ = await _post(client, "/messages/web/batch", mixed)
        assert (status, told["accepted"]) == (207, 2)
        assert [(one["at"], one["status"]) for one in told["refused"]] == [
            (1, 429), (2, 429), (3, 429), (4, 422),
        ]  # fmt: skip
        assert "1 messages a second from one user" in told["refused"][0]["error"]
        assert "an earlier message of the same user" in told["refused"][1]["error"]
        status, told, headers = await _post(client, "/messages/web/batch", questions[1:])
        assert (status, told["accepted"], headers["Retry-After"]) == (429, 0, "1")
        found = await _results(gateway)
        assert found["ask-the-guest"]["totals"] == found["song-night"]["totals"] == {"counted": 1}

    _tell(server, rules, story, clock=lambda: 0.0)


def test_a_business_is_paused_started_and_drained(
    server: Server, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is drained when everything that was accepted is processed, not before."""
    let_go = asyncio.Event()
    apply = Store.apply

    async def slow(*arguments: Any) -> int:
        await let_go.wait()
        return await apply(*arguments)

    monkeypatch.setattr(Store, "apply", slow)

    async def story(client: Client, gateway: Gateway) -> None:
        assert (await _post(client, "/control/song-night", {"state": "paused"}))[0] == 200
        status, told, headers = await _post(client, "/messages/web", _web())
        assert (status, headers["Retry-After"]) == (429, "5")
        assert "song-night is paused" in told["error"]
        assert (await _post(client, "/messages/web", _web("3", business="capital-quiz")))[0] == 202
        assert (await _post(client, "/control/song-night", {"state": "open"}))[0] == 200
        assert (await _post(client, "/messages/web", _web()))[0] == 202
        assert (await _post(client, "/control/song-night", {"state": "draining"}))[0] == 200
        status, told, headers = await _post(client, "/messages/web", _web(number=2))
        assert (status, "takes no more" in told["error"], "Retry-After" in headers) == (409, True, False)
        assert (await gateway.store.states())["song-night"] == "draining"
        let_go.set()
        await gateway.broker.drained()
        assert (await gateway.store.states())["song-night"] == "drained"
        assert (await _results(gateway))["song-night"]["totals"] == {"counted": 1}

    _tell(server, rules, story)


def test_rules_change_while_it_runs_and_a_broken_file_changes_nothing(server: Server, rules: Path) -> None:
    """What was accepted under old rules is processed by them, after the new ones are published too."""

    async def story(client: Client, gateway: Gateway) -> None:
        old = gateway.rules
        rules.write_text("[song-night\n")
        await gateway.turn()
        assert gateway.rules is old
        assert "is no TOML" in json.loads(await gateway.shown())["rules_error"]
        rules.unlink()
        await gateway.turn()
        assert "cannot be read" in gateway.rules_error
        assert (await _post(client, "/messages/web", _web("4")))[0] == 202
        rules.write_text(
            old.text.replace('"Driftwood"', '"Ember"').replace('right = "Canberra"', 'right = "Perth"')
        )
        await gateway.turn()
        assert gateway.rules.version != old.version
        assert gateway.rules_error == ""
        assert (await _post(client, "/messages/web", _web("4", 2)))[0] == 202
        late = gateway.dispatcher.send([Message("late", "bob", "capital-quiz", "Canberra")], old)
        assert await late == {}
        found = await _results(gateway)
        assert found["song-night"]["answers"] == {"Driftwood": 1, "Ember": 1}
        assert found["capital-quiz"]["board"] == [["…bob", 10]]
        # A gateway that starts while the file is broken goes on with the last rules that were good.
        rules.write_text("broken")
        other = Gateway(BalancedBroker(), gateway.store, rules)
        await other.read_rules()
        assert other.rules.version == gateway.rules.version

    _tell(server, rules, story)


def test_an_internal_error_of_the_gateway_is_reported_as_such(
    server: Server, rules: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender has a sentence, the log has the trace."""

    async def story(client: Client, gateway: Gateway) -> None:
        monkeypatch.setattr(gateway, "accept", None)
        status, told, _ = await _post(client, "/messages/web", _web())
        assert (status, "which its log tells" in told["error"]) == (500, True)
        assert "POST /messages/web failed" in caplog.text

    _tell(server, rules, story)


def test_full_queues_are_reported_with_a_retry_time(
    server: Server, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One place, and the message in it is in work."""
    let_go = asyncio.Event()

    async def never(*arguments: Any) -> int:
        await let_go.wait()
        return 0

    monkeypatch.setattr(Store, "apply", never)

    async def story(client: Client, gateway: Gateway) -> None:
        assert (await _post(client, "/messages/web", _web()))[0] == 202
        status, told, headers = await _post(client, "/messages/web", _web(number=2, user="bob"))
        assert (status, headers["Retry-After"]) == (429, "1")
        assert "all queues are full" in told["error"]
        let_go.set()

    _tell(server, rules, story, queues={"queues": 1, "capacity": 1})


def test_a_message_whose_processing_fails_is_isolated(
    server: Server, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of its task count; the message and the reason are on the server."""
    outcome = processing.outcome

    def failing(message: Message, rule: Business | None) -> tuple[Effect | None, str]:
        if message.answer == "Cinder":
            rule = object()  # type: ignore[assignment]  # as a mistake in a rule's code would
        return outcome(message, rule)

    monkeypatch.setattr(processing, "outcome", failing)

    async def story(client: Client, gateway: Gateway) -> None:
        batch = [_web(str(one), one) for one in (1, 2, 3, 4)]
        assert (await _post(client, "/messages/web/batch", batch))[0] == 202
        found = (await _results(gateway))["song-night"]
        assert found["totals"] == {"counted": 3, "failed": 1}
        (letter,) = await gateway.store.client.lrange("{interactive}:song-night:failed", 0, -1)
        assert json.loads(letter)["id"] == "web/song-night/web:ann/3"
        assert "AttributeError" in json.loads(letter)["error"]

    _tell(server, rules, story)


def test_without_the_server_nothing_is_accepted_and_nothing_lost(server: Server, rules: Path) -> None:
    """The sentence asks to send again under the same id, and messages accepted before are
    there afterwards.
    """
    broker = make_broker(server.url, 2, enqueue_timeout_seconds=0.2)

    async def story(client: Client, gateway: Gateway) -> None:
        assert (await _post(client, "/messages/web", _web()))[0] == 202
        await asyncio.to_thread(server.stop, signal.SIGKILL)
        status, told, headers = await _post(client, "/messages/web", _web(number=2))
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "send it again under the same id" in told["error"]
        async with client.get("/state") as answer:
            assert "is away" in (await answer.json())["away"]
        status, told, _ = await _post(client, "/control/song-night", {"state": "paused"})
        assert (status, "does not answer" in told["error"]) == (503, True)
        with pytest.raises(Refused, match="takes no more, but its end cannot be marked"):
            await gateway.dispatcher.drain("song-night", "one")
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(60):
            while (await _post(client, "/messages/web", _web(number=2)))[0] == 503:
                await asyncio.sleep(0.1)
        assert (await _post(client, "/messages/web", _web(number=2)))[0] == 202
        assert sum(one.length for one in (await broker.backend.counts()).queues) == 2

    _tell(server, rules, story, broker)


def test_a_message_that_kills_its_worker_is_retried_alone(server: Server, rules: Path) -> None:
    """Its whole task becomes a dead letter; then each of its messages has a task, and one is dead again."""
    broker = make_broker(server.url, 1, enqueue_timeout_seconds=0.2, max_worker_crashes=1)
    broker.backend.heartbeat_timeout_seconds = 0.1  # type: ignore[attr-defined]
    broker.backend._hand_microseconds = 0  # type: ignore[attr-defined]  # a task at a time

    async def claim(worker: str) -> None:
        async with asyncio.timeout(60):
            while await broker.backend.claim(worker) is None:
                await asyncio.sleep(0.05)

    async def die_with(worker: str) -> list[list[str]]:
        """Take the next task, and be gone without a word."""
        await claim(worker)
        taken = await broker.backend.take(worker, 0, 5.0)
        assert taken is not None
        broker.backend._hearts.pop(worker).stop()  # type: ignore[attr-defined]
        found: list[list[str]] = broker.formatter.loads(taken.envelope.body).args[2]
        return found

    async def story(client: Client, gateway: Gateway) -> None:
        batch = [_web(str(one), one) for one in (1, 2, 3)]
        assert (await _post(client, "/messages/web/batch", batch))[0] == 202
        assert len(await die_with("a")) == 3
        await claim("b")
        await gateway.turn()
        await gateway.turn()  # once only
        assert sum(one.length for one in (await broker.backend.counts()).queues) == 3
        await broker.backend.release("b", 0)
        assert (await die_with("c"))[0][2] == "Aurora"
        await claim("d")
        for _ in range(2):
            taken = await broker.backend.take("d", 0, 5.0)
            assert taken is not None
            await gateway.dispatcher._tasks.process.original_func(
                *broker.formatter.loads(taken.envelope.body).args
            )
            await broker.backend.finish(taken)
        await gateway.turn()
        shown = json.loads(await gateway.shown())
        assert [one.partition(": ")[0] for one in shown["dead"]] == ["3 messages", "web/song-night/web:ann/1"]
        assert shown["businesses"]["song-night"]["answers"] == {"Blue Hour": 1, "Cinder": 1}
        await broker.backend.release("d", 0)

    _tell(server, rules, story, broker)


@hypothesis_settings(max_examples=30)
@given(
    tasks=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(0, 9), min_size=1, max_size=6)), max_size=12
    )
)
def test_effects_count_once_however_tasks_are_repeated(
    queue_server: Server, tasks: list[tuple[int, list[int]]]
) -> None:
    """Tasks may come again, in part or together with others: each id has its first effect and no other."""
    queue_server.empty()

    async def story() -> tuple[Any, list[str]]:
        store = Store(queue_server.url)
        for user, numbers in tasks:
            messages = [Message(f"{user}/{one}", f"u{user}", "song", str(one)) for one in numbers]
            await store.apply("song", [(one, Effect(one.answer, points=2), "") for one in messages], 100)
        found = await store.results(["song"])
        journal: Any = await store.client.lrange("{interactive}:song:journal", 0, -1)
        await store.close()
        return found["song"], journal

    found, journal = asyncio.run(story())
    first = list(dict.fromkeys(f"{user}/{one}" for user, numbers in tasks for one in numbers))
    assert journal == first
    assert sum(found["answers"].values()) == found["totals"].get("counted", 0) == len(first)
    assert sum(points for _, points in found["board"]) == 2 * len(first)


def test_a_drain_is_over_with_its_last_strand(server: Server) -> None:
    """Strands may pass in any order and twice; a business that was opened again stays open."""

    async def story() -> None:
        store = Store(server.url)
        await store.set_state("one", "draining")
        for strand in (*range(STRANDS - 1), 0, 1):
            await store.passed("one", "first", strand)
        assert (await store.states())["one"] == "draining"
        await store.set_state("one", "open")
        await store.passed("one", "first", STRANDS - 1)
        assert (await store.states())["one"] == "open"
        await store.set_state("one", "draining")
        await store.passed("one", "first", 0)
        assert (await store.states())["one"] == "drained"
        await store.close()

    asyncio.run(story())

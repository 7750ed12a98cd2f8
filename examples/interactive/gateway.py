"""The gateway: messages of all channels in over HTTP, results out on a page, controls of the studio."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiohttp import web

from interactive.adapters import adapted
from interactive.dispatch import Dispatcher
from interactive.flow import STATES, Flow
from interactive.messages import Message, Refused
from interactive.processing import Tasks, make_broker
from interactive.rules import Rules, read_rules
from interactive.store import AWAY, Store
from trimtab_common.errors import ConnectError, InputError
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.backend import end_task

BATCH_MAX = 1000
BYTES_MAX = 512 * 1024
ANSWER_MAX = 1000
TURN_SECONDS = 0.25
PAGE = Path(__file__).with_name("page.html")
_log = logging.getLogger(__name__)


class Gateway:
    """One gateway: adaptation, flow control and dispatch of what comes in, and what the page shows.

    Parameters
    ----------
    file
        The rule file, looked at again every turn.
    clock
        Seconds, never going back.
    """

    def __init__(
        self, broker: BalancedBroker, store: Store, file: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.broker, self.store, self.file, self._clock = broker, store, file, clock
        self.dispatcher = Dispatcher(broker, Tasks(broker, store))
        self.flow, self.rules_error, self.away = Flow(), "", ""
        self._rules: Rules | None = None
        self._read = ""
        self._under_way: Counter[str] = Counter()
        self._dead: list[str] = []
        self._shown: tuple[float, str] = (float("-inf"), "")
        self._poll_task = asyncio.Lock()

    @property
    def rules(self) -> Rules:
        """Those of now."""
        if self._rules is None:
            raise Refused(503, self.rules_error or "the gateway has no rules yet: try again", 1.0)
        return self._rules

    # ---- what comes in

    async def accept(self, channel: str, forms: Sequence[Any]) -> list[Refused | Message]:
        """Adapt, admit and dispatch; for each form the message that was accepted, or why it was not."""
        rules, now = self.rules, self._clock()
        found: list[Refused | Message] = []
        put_back: set[str] = set()
        for form in forms:
            try:
                message = adapted(channel, form, rules)
                if message.user in put_back:
                    raise Refused(429, "an earlier message of the same user has to be sent again first", 1.0)
                try:
                    self.flow.admit(message, rules.businesses[message.business], now)
                except Refused as refusal:
                    if refusal.retry_after_seconds is not None:
                        put_back.add(message.user)
                    raise
                found.append(message)
            except Refused as refusal:
                found.append(refusal)
        admitted = [one for one in found if isinstance(one, Message)]
        counted = Counter(one.business for one in admitted)
        self._under_way.update(counted)
        try:
            refusals = await self.dispatcher.send(admitted, rules)
        finally:
            self._under_way.subtract(counted)
        return [refusals.get(one.id, one) if isinstance(one, Message) else one for one in found]

    async def set_state(self, business: str, state: str) -> None:
        """Open, pause or drain a business; drained it is when all that was accepted is processed."""
        if business not in self.rules.businesses:
            raise Refused(404, f"business {business[:40]!r} is unknown")
        if state not in STATES[:3]:
            raise Refused(400, f"state is {state!r}, expected one of {', '.join(STATES[:3])}")
        await self.store.set_state(business, state)
        self.flow.states = await self.store.states()
        if state == "draining":
            while self._under_way[business] > 0:
                await asyncio.sleep(0.01)
            await self.dispatcher.drain(business, uuid4().hex)

    # ---- what goes on beside

    async def turns(self) -> None:
        """Look at rules, flow states and dead letters again and again; a server away is waited for."""
        while True:
            try:
                await self.turn()
                self.away = ""
            except (*AWAY, ConnectError) as error:
                self.away = str(error)
            except Exception:
                _log.exception("a turn of the gateway failed; it goes on")
            await asyncio.sleep(TURN_SECONDS)

    async def turn(self) -> None:
        """Look once."""
        await self.read_rules()
        self.flow.states = await self.store.states()
        if self._rules is not None and hasattr(self.broker.backend, "dead_letters"):
            self._dead = await self.dispatcher.split_dead_letters(self._rules)

    async def read_rules(self) -> None:
        """Take up the rule file if it has changed; one with a mistake leaves rules as they are."""
        try:
            text = self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            text, self.rules_error = "", f"the rule file cannot be read: {error}; the rules stay as they are"
        if text and text != self._read:
            try:
                rules = read_rules(text)
            except InputError as error:
                self.rules_error = str(error)
                _log.warning("%s", error)
            else:
                await self.store.publish(rules)
                self._rules, self.rules_error = rules, ""
            self._read = text
        if self._rules is None:
            self._rules = await self.store.rules()

    # ---- what is shown

    async def shown(self) -> str:
        """The state of everything as JSON; at most a quarter of a second old."""
        async with self._poll_task:
            if self._clock() - self._shown[0] >= TURN_SECONDS:
                self._shown = (self._clock(), json.dumps(await self._look()))
            return self._shown[1]

    async def _look(self) -> dict[str, Any]:
        rules = self.rules
        found: dict[str, Any] = {"rules": rules.version, "rules_error": self.rules_error, "dead": self._dead}
        try:
            results = await self.store.results(list(rules.businesses))
            counts = await self.broker.backend.counts()
        except (*AWAY, ConnectError) as error:
            return {**found, "away": f"the server of the queues is away, and waited for: {error}"}
        found["queues"] = [
            {
                "length": one.length,
                "work": one.work_microseconds / 1e6,
                "paused": one.paused,
                "alive": one.alive,
            }
            for one in counts.queues
        ]
        found["businesses"] = {
            name: {
                "kind": type(rule).__name__.lower(), "title": rule.title, "keyword": rule.keyword,
                "phone": rule.phone, "choices": getattr(rule, "choices", ()),
                "state": self.flow.states.get(name, "open"), **results[name],
            }
            for name, rule in rules.businesses.items()
        }  # fmt: skip
        return found


GATEWAY = web.AppKey("gateway", Gateway)
ENDED = web.AppKey("ended", asyncio.Event)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _refusal(refusal: Refused) -> web.Response:
    after = refusal.retry_after_seconds
    headers = {} if after is None else {"Retry-After": str(ceil(after))}
    return web.json_response({"error": refusal.sentence}, status=refusal.status, headers=headers)


@web.middleware
async def _sentences(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error is a status and a sentence."""
    try:
        return await handler(request)
    except Refused as refusal:
        return _refusal(refusal)
    except web.HTTPRequestEntityTooLarge:
        return _refusal(Refused(413, f"the request is larger than {BYTES_MAX} bytes: send less at once"))
    except web.RequestPayloadError:
        answer = _refusal(Refused(400, "the body cannot be read: it is not encoded as its headers say"))
        answer.force_close()  # where the next request begins is not known
        return answer
    except web.HTTPException as error:
        return _refusal(Refused(error.status, f"{request.method} {request.path}: {error.reason}"))
    except (*AWAY, ConnectError) as error:
        return _refusal(Refused(503, f"the server does not answer: {error}; try again", 1.0))
    except Exception:
        _log.exception("%s %s failed", request.method, request.path)
        return _refusal(Refused(500, "the gateway made a mistake, which its log tells: send it again later"))


async def _json(request: web.Request) -> Any:
    try:
        return json.loads(await request.text())
    except (ValueError, LookupError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {error}") from error


async def _form(request: web.Request) -> Any:
    if request.content_type != "application/x-www-form-urlencoded":
        return await _json(request)
    try:
        return dict(await request.post())
    except (ValueError, LookupError) as error:
        raise Refused(400, f"the body is no form: {error}") from error


async def _message(request: web.Request) -> web.Response:
    form = await _form(request)
    (found,) = await request.app[GATEWAY].accept(request.match_info["channel"], [form])
    if isinstance(found, Refused):
        raise found
    return web.json_response({"accepted": found.id}, status=202)


async def _batch(request: web.Request) -> web.Response:
    forms = await _json(request)
    if not isinstance(forms, list) or not forms:
        what = "an empty list" if forms == [] else type(forms).__name__
        raise Refused(400, f"a batch is {what}, expected a list of 1 to {BATCH_MAX} messages")
    if len(forms) > BATCH_MAX:
        raise Refused(
            413, f"a batch has {len(forms)} messages, expected at most {BATCH_MAX}: send less at once"
        )
    found = await request.app[GATEWAY].accept(request.match_info["channel"], forms)
    refused = [
        {
            "at": at,
            "status": one.status,
            "error": one.sentence,
            "retry_after_seconds": one.retry_after_seconds,
        }
        for at, one in enumerate(found)
        if isinstance(one, Refused)
    ]
    told = {"accepted": len(found) - len(refused), "refused": refused}
    if len(refused) < len(found):
        return web.json_response(told, status=207 if refused else 202)
    after = max((one["retry_after_seconds"] or 0 for one in refused), default=0)
    headers = {"Retry-After": str(ceil(after))} if after else {}
    return web.json_response(told, status=max(one["status"] for one in refused), headers=headers)


async def _control(request: web.Request) -> web.Response:
    asked = await _json(request)
    state = asked.get("state") if isinstance(asked, dict) else None
    await request.app[GATEWAY].set_state(request.match_info["business"], str(state))
    return web.json_response({"state": state})


async def _answer(request: web.Request) -> web.Response:
    asked, business = await _json(request), request.match_info["business"]
    gateway = request.app[GATEWAY]
    if business not in gateway.rules.businesses:
        raise Refused(404, f"business {business[:40]!r} is unknown")
    if not isinstance(asked, dict) or not all(
        isinstance(asked.get(one), str) for one in ("question", "text")
    ):
        raise Refused(400, "an answer has the fields question (its id) and text")
    question, text = asked["question"], asked["text"]
    if not 1 <= len(text) <= ANSWER_MAX or not _is_unicode(text):
        raise Refused(400, f"the text of an answer has 1 to {ANSWER_MAX} characters of Unicode")
    if not _is_unicode(question) or not await gateway.store.answer(business, question, text):
        raise Refused(404, f"question {question[:40]!r} was not asked, or is not processed yet")
    return web.json_response({"answered": question})


def _is_unicode(text: str) -> bool:
    """Whether it has no halves of surrogate pairs, which JSON can hold and no server stores."""
    return not any("\ud800" <= one <= "\udfff" for one in text)


async def _state(request: web.Request) -> web.Response:
    return web.json_response(text=await request.app[GATEWAY].shown())


async def _events(request: web.Request) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await stream.prepare(request)
    ended = request.app[ENDED]
    while not ended.is_set():
        now = await request.app[GATEWAY].shown()
        # A state again tells the page that nothing was counted; a gateway that is gone tells by silence.
        await stream.write(f"data: {now}\n\n".encode())
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), 2 * TURN_SECONDS)
    return stream


async def _metrics(request: web.Request) -> web.Response:
    return web.Response(text=await request.app[GATEWAY].broker.metrics())


async def _page(request: web.Request) -> web.FileResponse:
    return web.FileResponse(PAGE)


def make_app(gateway: Gateway) -> web.Application:
    """The HTTP application of a gateway, which begins and ends with it."""
    app = web.Application(middlewares=[_sentences], client_max_size=BYTES_MAX)
    app[GATEWAY], app[ENDED] = gateway, asyncio.Event()
    app.add_routes(
        [
            web.get("/", _page),
            web.get("/state", _state),
            web.get("/events", _events),
            web.get("/metrics", _metrics),
            web.post("/messages/{channel}", _message),
            web.post("/messages/{channel}/batch", _batch),
            web.post("/control/{business}", _control),
            web.post("/studio/{business}/answers", _answer),
        ]
    )

    async def beside(app: web.Application) -> AsyncIterator[None]:
        await gateway.broker.startup()
        turns = asyncio.create_task(gateway.turns())
        yield
        await end_task(turns)
        await gateway.broker.shutdown()
        await gateway.store.close()

    async def end_streams(app: web.Application) -> None:
        app[ENDED].set()  # or a page that is open would keep the gateway from ending

    app.on_shutdown.append(end_streams)
    app.cleanup_ctx.append(beside)
    return app


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the server of the queues")
    parser.add_argument("--queues", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rules", type=Path, required=True, help="the rule file")
    arguments = parser.parse_args()
    broker = make_broker(arguments.url, arguments.queues, enqueue_timeout_seconds=2.0)
    gateway = Gateway(broker, Store(arguments.url), arguments.rules)
    web.run_app(
        make_app(gateway),
        host="127.0.0.1",
        port=arguments.port,
        print=None,
        access_log=None,
        shutdown_timeout=2,
    )


if __name__ == "__main__":
    main()

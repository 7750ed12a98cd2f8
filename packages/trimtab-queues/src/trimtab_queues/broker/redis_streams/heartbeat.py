"""Signs of life of one worker, from a thread: a task that keeps the event loop busy is no death."""

from __future__ import annotations

from threading import Event, Thread

from redis.exceptions import RedisError

from trimtab_queues.broker.redis_streams.connecting import client_of
from trimtab_queues.format.scripts import source


class WorkerHeartbeat:
    """Says every so often that a worker lives, until it is stopped or the queue is another's.

    Parameters
    ----------
    heartbeat_timeout_seconds
        How long one sign counts; there are four in that time, and more while the server does not answer.
    on_a_full_server
        Whether the server knows scripts that it carries out without room.
    """

    def __init__(
        self,
        url: str,
        base: str,
        worker: str,
        queue: int,
        heartbeat_timeout_seconds: float,
        on_a_full_server: bool,
    ) -> None:
        self._client = client_of(url, base, heartbeat_timeout_seconds)
        self._arguments = (str(queue), worker, str(round(heartbeat_timeout_seconds * 1000)))
        self._source = source("beat", on_a_full_server)
        self._base, self._pause, self._stop = base, heartbeat_timeout_seconds / 4, Event()
        self._thread = Thread(target=self._send_heartbeat, name=f"heartbeat of {worker}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No further sign; returns at once."""
        self._stop.set()

    def _send_heartbeat(self) -> None:
        beat, pause = self._client.register_script(self._source), self._pause
        while not self._stop.wait(pause):
            try:
                if not beat(keys=[self._base], args=self._arguments):
                    break
                pause = self._pause
            except RedisError:
                # The server is away: when it is back, this sign must come before it is taken for missing.
                pause = self._pause / 5
        self._client.close()

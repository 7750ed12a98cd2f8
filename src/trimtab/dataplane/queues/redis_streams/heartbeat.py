"""Signs of life of one worker, from a thread: a task that keeps the event loop busy is no death."""

from __future__ import annotations

from threading import Event, Thread

from redis.exceptions import RedisError

from trimtab.dataplane.queues.redis_streams.connecting import client_of
from trimtab.dataplane.queues.redis_streams.scripts import source


class Heartbeat:
    """Says every so often that a worker lives, until it is stopped or the queue is another's.

    Parameters
    ----------
    life_seconds
        How long one sign counts; there are four in that time.
    """

    def __init__(self, url: str, base: str, worker: str, queue: int, life_seconds: float) -> None:
        self._client = client_of(url, base, life_seconds)
        self._arguments = (str(queue), worker, str(round(life_seconds * 1000)))
        self._base, self._pause, self._stop = base, life_seconds / 4, Event()
        self._thread = Thread(target=self._beat, name=f"heartbeat of {worker}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No further sign; returns at once."""
        self._stop.set()

    def _beat(self) -> None:
        beat = self._client.register_script(source("beat"))
        while not self._stop.wait(self._pause):
            try:
                if not beat(keys=[self._base], args=self._arguments):
                    break
            except RedisError:
                continue  # the server is away: so is everybody's life, and it may come back in time
        self._client.close()

"""The same work on other task queues and on ours, over one server, with real worker processes.

Four workers, each a process that does one message at a time: what a container with one core is. Every
program is run as it comes and tuned. Three questions: empty tasks a second; how long messages of each class
wait when bursts come of which 80 % take a fiftieth of the rest; and what becomes of messages when a worker
is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE))

from redis import Redis  # noqa: E402
from results import read_result, write_result  # noqa: E402 - beside this file
from rivals.workload import RECORD, RECOVERY_SECONDS  # noqa: E402

from trimtab.lab.sandbox.queues.sandbox import RedisServerProcess  # noqa: E402
from trimtab_queues.format.documents import RedisKeys  # noqa: E402

WORKERS = 4
SHORT_SECONDS, LONG_SECONDS, SHORT_SHARE = 0.005, 0.25, 0.8
USE = 0.7
"""Of what the workers can do, by the mean of the classes."""
SEED = 20261123
GIVEN_UP_SECONDS = 3 * RECOVERY_SECONDS


@dataclass(frozen=True)
class Program:
    """A task queue with its settings.

    Attributes
    ----------
    module
        In `rivals/`.
    settings
        In words.
    environment
        That makes those settings.
    """

    module: str
    settings: str
    environment: dict[str, str]


def _tuned(**more: str) -> dict[str, str]:
    return {"RIVAL_TUNED": "1", **more}


PROGRAMS = {
    "Celery": Program("on_celery", "prefetch of 4", {}),
    "Celery, tuned": Program("on_celery", "prefetch_multiplier=1, acks_late, -O fair", _tuned()),
    "Dramatiq": Program("on_dramatiq", "8 threads, prefetch of 16", {}),
    "Dramatiq, tuned": Program("on_dramatiq", "1 thread, prefetch of 1", _tuned(dramatiq_queue_prefetch="1")),
    "taskiq-redis, list": Program("on_taskiq", "100 tasks at once", {"RIVAL_BROKER": "list"}),
    "taskiq-redis, list, tuned": Program("on_taskiq", "1 task at once", _tuned(RIVAL_BROKER="list")),
    "taskiq-redis, stream": Program("on_taskiq", "100 tasks at once, reads 100", {"RIVAL_BROKER": "stream"}),
    "taskiq-redis, stream, tuned": Program(
        "on_taskiq", "1 task at once, reads 1", _tuned(RIVAL_BROKER="stream")
    ),
    "trimtab": Program("on_taskiq", "100 tasks at once", {"RIVAL_BROKER": "balanced"}),
    "trimtab, as its page says": Program("on_taskiq", "1 task at once", _tuned(RIVAL_BROKER="balanced")),
    "trimtab, limits within reach": Program(
        "on_taskiq", "1 task at once, light 0.25 s, overload 5 s, T 2 s", _tuned(RIVAL_BROKER="forecast")
    ),
}


class Run:
    """One program on an empty server: its workers, a sender, and what the workers wrote down."""

    def __init__(self, program: Program, server: RedisServerProcess, folder: Path) -> None:
        self.program, self.folder = program, folder
        self._records = folder / "records"
        self._records.mkdir(parents=True)
        self.environment = {
            **os.environ, **program.environment, "RIVAL_URL": server.url, "RIVAL_WORKERS": str(WORKERS),
            "RIVAL_RECORDS": str(self._records), "PYTHONPATH": os.pathsep.join((str(HERE), *sys.path)),
        }  # fmt: skip
        self.workers: list[subprocess.Popen[bytes]] = []
        self._names = count(1)

    def start(self, workers: int = WORKERS) -> None:
        """Start worker processes, each with its children in a group of its own."""
        for _ in range(workers):
            name = f"w{next(self._names)}"
            told = "from importlib import import_module as m; import json; print(json.dumps(m('rivals."
            told += f"{self.program.module}').arguments()))"
            found = subprocess.run(
                [sys.executable, "-c", told], env=self.environment, capture_output=True, check=True, text=True
            )
            arguments = [one.replace("%%p", name).replace("%%h", "here") for one in json.loads(found.stdout)]
            with (self.folder / f"{name}.log").open("wb") as log:
                self.workers.append(
                    subprocess.Popen(
                        [sys.executable, *arguments], env=self.environment, stdout=log, stderr=log,
                        cwd=self.folder, start_new_session=True,
                    )
                )  # fmt: skip

    def kill(self, worker: int = 0) -> None:
        """Kill a worker and its children without warning."""
        one = self.workers.pop(worker)
        os.killpg(one.pid, signal.SIGKILL)
        one.wait(60)

    def send(
        self, bursts: Sequence[tuple[float, list[tuple[int, float]]]]
    ) -> list[tuple[float, list[float]]]:
        """Send bursts at their times; when each was due, and when its messages were accepted."""
        plan, told = self.folder / "bursts.json", self.folder / "sent.json"
        plan.write_text(json.dumps(bursts))
        command = [sys.executable, "-m", "rivals.sender", self.program.module, str(plan), str(told)]
        with (self.folder / "sender.log").open("wb") as log:
            done = subprocess.run(
                command, env=self.environment, cwd=self.folder, stdout=log, stderr=log, check=False
            )
        if done.returncode:
            raise RuntimeError(f"sender: {(self.folder / 'sender.log').read_text()[-3000:]}")
        return [(due, accepted) for due, accepted in json.loads(told.read_text())]

    def done(self) -> int:
        """Messages that were worked on so far."""
        return sum(one.stat().st_size for one in self._records.iterdir()) // RECORD.size

    def cpu_seconds(self) -> float:
        """Of the workers and their children, and of senders so far."""
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        groups = {one.pid for one in self.workers}
        of_workers = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                of_workers += sum(map(int, fields[11:13])) if int(fields[2]) in groups else 0
        return spent.ru_utime + spent.ru_stime + of_workers / os.sysconf("SC_CLK_TCK")

    def records(self) -> list[tuple[int, float, float]]:
        """Number, beginning and end of each."""
        texts = [one.read_bytes() for one in self._records.iterdir()]
        found = [(int(n), float(b), float(e)) for text in texts for n, b, e in RECORD.iter_unpack(text)]
        return sorted(found, key=lambda one: one[2])

    def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait; False where it did not come true in time."""
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def warm(self) -> None:
        """Wait until every worker has worked on something: numbers below 0 count nowhere."""
        self.start()

        def all_there() -> bool:
            return len({one.name for one in self._records.iterdir()}) >= WORKERS

        number = -1
        for _ in range(100):
            self.send([(0.0, [(number - one, SHORT_SECONDS) for one in range(4 * WORKERS)])])
            number -= 4 * WORKERS
            if self.until(all_there, 1.0) and self.until(lambda: self.done() == -number - 1, 60.0):  # noqa: B023
                return
        raise RuntimeError(f"not all workers began to work: {self.logs()}")

    def logs(self) -> str:
        """The ends of the workers' logs."""
        return "\n".join(one.read_text()[-800:] for one in sorted(self.folder.glob("w*.log")))


@contextmanager
def running(name: str, server: RedisServerProcess) -> Iterator[Run]:
    """A run of a program; its processes are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        server.empty()
        run = Run(PROGRAMS[name], server, Path(folder))
        try:
            yield run
        finally:
            while run.workers:
                run.kill()


def _cpu_seconds(server: RedisServerProcess) -> float:
    return (server.process.cpu_seconds() if server.process else None) or 0.0


def _orders(server: RedisServerProcess) -> dict[str, int]:
    """Messages that balance scheduling has moved, and pauses, since the server was emptied."""
    with Redis.from_url(server.url) as client:
        found = client.hmget(f"{RedisKeys('queues').counts}", ["moved", "pauses"])
    return dict(zip(("moved", "pauses"), (int(one or 0) for one in found), strict=True))


def throughput(name: str, server: RedisServerProcess, messages: int) -> dict[str, Any]:
    """Empty tasks from one sender to workers that wait: how many are sent in a second, and how many done.

    Sender, server and workers share this machine, so that the figure is what a message costs all of them.
    """
    with running(name, server) as run:
        run.warm()
        before, used = run.done(), run.cpu_seconds() + _cpu_seconds(server)
        ((due, accepted),) = run.send([(0.0, [(number, 0.0) for number in range(messages)])])
        if not run.until(lambda: run.done() - before >= messages, 300.0):
            raise RuntimeError(f"{name}: {run.done() - before} of {messages} done\n{run.logs()}")
        last = run.records()[-1][2]
        return {
            "sent_per_second": round(messages / (accepted[-1] - due)),
            "done_per_second": round(messages / (last - due)),
            "cpu_microseconds": round((run.cpu_seconds() + _cpu_seconds(server) - used) / messages * 1e6),
        }


def bursts(size: int, seconds: float) -> list[tuple[float, list[tuple[int, float]]]]:
    """Bursts of mixed classes for so long, as far apart as the use of the workers allows."""
    chance = random.Random(SEED)
    mean = SHORT_SHARE * SHORT_SECONDS + (1 - SHORT_SHARE) * LONG_SECONDS
    apart = size * mean / WORKERS / USE
    numbers = count()
    return [
        (
            burst * apart,
            [
                (next(numbers), SHORT_SECONDS if chance.random() < SHORT_SHARE else LONG_SECONDS)
                for _ in range(size)
            ],
        )
        for burst in range(max(2, int(seconds / apart)))
    ]


def waits(name: str, server: RedisServerProcess, size: int, seconds: float) -> dict[str, Any]:
    """Mean and p99 seconds from when a message was accepted until it was begun, by class."""
    plan = bursts(size, seconds)
    with running(name, server) as run:
        run.warm()
        sent = run.send(plan)
        most = sum(len(messages) for _, messages in plan)

        def all_done() -> bool:
            return sum(number >= 0 for number, _, _ in run.records()) >= most

        if not run.until(all_done, 120.0):
            raise RuntimeError(f"{name}: bursts are not done\n{run.logs()}")
        began = {number: begun for number, begun, _ in run.records()}
        found: dict[str, Any] = {"messages": most, "orders": _orders(server)}
        for what, cost in (("short", SHORT_SECONDS), ("long", LONG_SECONDS)):
            waited = sorted(
                max(0.0, began[number] - at)
                for (_, accepted), (_, messages) in zip(sent, plan, strict=True)
                for at, (number, its) in zip(accepted, messages, strict=True)
                if its == cost
            )
            found[what] = {
                "mean_seconds": round(sum(waited) / len(waited), 4),
                "p99_seconds": round(waited[int(0.99 * (len(waited) - 1))], 4),
            }
        return found


def killed(name: str, server: RedisServerProcess, messages: int = 200) -> dict[str, Any]:
    """Kill a worker in a backlog and start another; what never came back, and what was done twice.

    What is not there three times the recovery time after the rest counts as lost; a program that would bring
    it back an hour later says so in its own settings. Messages take five times as long as in the bursts, so
    that every worker has some in hand whenever it is killed.
    """
    plan = [(number, 5 * seconds) for number, seconds in bursts(messages, 0.0)[0][1]]
    with running(name, server) as run:
        run.warm()
        before = run.done()
        run.send([(0.0, plan)])
        run.until(lambda: run.done() - before >= messages // 3, 120.0)
        run.kill()
        run.start(1)
        at, last = run.done(), time.monotonic()
        while True:
            time.sleep(0.1)
            there = Counter(number for number, _, _ in run.records() if number >= 0)
            if run.done() != at:
                at, last = run.done(), time.monotonic()
            quiet = time.monotonic() - last
            # Once all is there a while longer: what comes twice comes late.
            if quiet > (RECOVERY_SECONDS * 1.5 if len(there) == messages else GIVEN_UP_SECONDS):
                break
        return {
            "lost": messages - len(there),
            "doubled": sum(times - 1 for times in there.values()),
            "messages": messages,
            "orders": _orders(server),
        }


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="short runs, each once")
    options.add_argument("--runs", type=int, default=2, help="runs of throughput, in turn")
    options.add_argument("--seconds", type=float, default=15.0, help="bursts of each size")
    options.add_argument(
        "--only", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS),
        help="programs; the rows of others stay as they are",
    )  # fmt: skip
    options.add_argument("--what", nargs="*", choices=("throughput", "waits", "killed"),
                         default=("throughput", "waits", "killed"))  # fmt: skip
    options.add_argument("--messages", type=int, default=2000, help="empty tasks of a run")
    given = options.parse_args()
    # Whoever is told to end ends its workers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    runs, seconds = (1, 8.0) if given.quick else (given.runs, given.seconds)
    rows: dict[str, dict[str, Any]] = {name: {"settings": PROGRAMS[name].settings} for name in given.only}
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServerProcess(
            Path(folder), options=("--appendonly", "yes", "--appendfsync", "everysec")
        )
        try:
            if "throughput" in given.what:
                found: dict[str, list[dict[str, Any]]] = {name: [] for name in given.only}
                for _ in range(runs):
                    for name in given.only:
                        found[name].append(throughput(name, server, given.messages))
                        print(f"{name:30} {found[name][-1]}", flush=True)
                for name, each in found.items():
                    for what in each[0]:
                        rows[name][what] = sorted(one[what] for one in each)[len(each) // 2]
            for name in given.only:
                if "waits" in given.what:
                    rows[name]["waits"] = {str(size): waits(name, server, size, seconds) for size in SIZES}
                    print(f"{name:30} {rows[name]['waits']}", flush=True)
                if "killed" in given.what:
                    rows[name]["killed"] = killed(name, server)
                    print(f"{name:30} {rows[name]['killed']}", flush=True)
        finally:
            server.stop()
    if len(given.what) == 3 and (not given.quick or set(given.only) == set(PROGRAMS)):
        before = read_result("queues_rivals")
        found_before = before["rows"]["programs"] if before else {}
        load = round(os.getloadavg()[0], 2)
        told = {**found_before, **{name: {**row, "load_average": load} for name, row in rows.items()}}
        programs = {name: told[name] for name in PROGRAMS if name in told}
        method = {
            "workers": WORKERS, "use": USE, "short_share": SHORT_SHARE, "short_seconds": SHORT_SECONDS,
            "long_seconds": LONG_SECONDS, "given_up_seconds": GIVEN_UP_SECONDS,
        }  # fmt: skip
        write_result("queues_rivals", {"programs": programs, **method})


SIZES = (20, 200)
"""Messages of a burst."""

if __name__ == "__main__":
    main()

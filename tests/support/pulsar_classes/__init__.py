"""What Pulsar's own classes answer, asked through small programs that are compiled against their jars.

The compiler is a jar too (`compiler.txt`), so that any Java will do that runs Pulsar itself.
"""

import json
import random
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.jars import fetch, find_java, read_lock
from trimtab.lab.sandbox.pulsar.runtime import lock_of

HERE = Path(__file__).parent
MARK = "decision "
SEEDS = (20261121, 7, 1915)
QUESTIONS = 200
"""To each rule for each seed."""
THROWN = "thrown"
"""The answer where Pulsar's class throws an error."""
Asked = dict[str, Any]
Rules = Mapping[str, tuple[Callable[[random.Random], Asked], Callable[[Asked], Any]]]
"""How a question to each rule is drawn, and our answer to it."""
FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Run:
    """Ticks that one strategy goes through, from the first on.

    Attributes
    ----------
    strategy
        The shedder.
    placements
        Asked for an unknown bundle at every tick.
    options
        Of `broker.conf`.
    ticks
        `{"ms": milliseconds since 1970, "brokers": load reports}`.
    """

    strategy: str
    placements: tuple[str, ...]
    options: dict[str, str]
    ticks: list[dict[str, Any]]


def decisions_of(version: str, runs: Sequence[Run], scratch: Path) -> list[list[dict[str, Any]]]:
    """What the classes of a version of Pulsar decide at every tick of every run."""
    lines: list[dict[str, Any]] = []
    for run in runs:
        lines.append({"strategy": run.strategy, "placements": run.placements, "options": run.options})
        lines += run.ticks
    told = iter(answers_of(version, "DecisionRecorder", lines, scratch))
    found = [[next(told) for _ in run.ticks] for run in runs]
    assert next(told, None) is None
    return found


def require_same(version: str, program: str, rules: Rules, scratch: Path) -> list[tuple[Asked, Any]]:
    """Put drawn questions to our rules and to Pulsar's classes; each question and the answer of both."""
    asked = [
        {"rule": rule, **ask(chance)}
        for chance in map(random.Random, SEEDS)
        for rule, (ask, _) in rules.items()
        for _ in range(QUESTIONS)
    ]
    found = []
    for one, answer in zip(asked, answers_of(version, program, asked, scratch), strict=True):
        ours = rules[one["rule"]][1](one)
        assert ours == (THROWN if THROWN in answer else answer["found"]), one
        found.append((one, ours))
    return found


def answers_of(
    version: str, program: str, lines: Iterable[dict[str, Any]], scratch: Path
) -> list[dict[str, Any]]:
    """The answers of one of the programs here, run with the classes of a version of Pulsar, to some lines."""
    java = find_java("Pulsar's classes")
    class_path = ":".join(map(str, fetch(f"pulsar-{version}", lock_of(version))))
    lock = (HERE / "compiler.txt").read_text(encoding="utf-8")
    (compiler,) = fetch("java-compiler", read_lock(lock))
    compiled = scratch / f"{program}-{version}"
    source = HERE / f"{program}.java"
    command: list[str | Path] = [java.program, *FLAGS, "-jar", compiler, "-17", "-proc:none", "-nowarn"]
    _run([*command, "-cp", class_path, "-sourcepath", HERE, "-d", compiled, source], "")
    answered = _run(
        [java.program, *FLAGS, "-cp", f"{compiled}:{class_path}", program],
        "".join(json.dumps(line) + "\n" for line in lines),
    )
    told = (line for line in answered.splitlines() if line.startswith(MARK))
    return [json.loads(line.removeprefix(MARK)) for line in told]


def _run(command: Sequence[str | Path], given: str) -> str:
    done = subprocess.run(command, input=given, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command[0]} failed: {done.stderr[-4000:]}"
    return done.stdout

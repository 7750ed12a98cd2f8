"""A reader who types the blocks of a page one after another, and what the last step says beside the truth."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from support.pages import Block
from support.terminal import Terminal

MEASURED_TWICE = 0.15
"""Two measurements of a broker's deviation, over about the same seconds, may be so far apart."""
THETA, EPSILON, IDLE = 0.80, 0.10, 0.01
QUICK = {
    "TRIMTAB_COLLECT_INTERVAL_SECONDS": "2",
    "TRIMTAB_COLLECT_TIMEOUT_SECONDS": "2",
    "TRIMTAB_PIPELINE_WINDOW_SECONDS": "10",
    "TRIMTAB_PIPELINE_SLIDE_SECONDS": "10",
    "TRIMTAB_PIPELINE_BUNDLES_HORIZON_SECONDS": "20",
}
"""What a reader in a hurry may set; a file's interval gives way to the environment's.

Half a minute of samples is no ground for a forecast of ten minutes: a load that sets in would be drawn on to
many times what it is.
"""
_RESOURCE = r"(CPU|disk|(?:network|bandwidth) (?:in|out)|message rate)"
_MEASURE = re.compile(
    rf"^{_RESOURCE} .*? (not balanced|balanced|idle, not judged|not measured|no capacity, not balanced) *$",
    re.M,
)
_CELL = re.compile(r"(?:(?:\d+%|–)\s+)?[▲▼]?([+-]\d+)%|–")


@dataclass
class Reader:
    """Somebody with a checkout of the repository, and lake and state in a folder of their own."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    filled_in: Mapping[str, str] = field(default_factory=dict)
    """What stands on the page in place of something of the reader's own, and theirs."""
    looks: tuple[Any, Any] = (None, None)

    def __enter__(self) -> Self:
        # The page's own line puts the environment of the repository on PATH.
        (self.folder / ".venv").symlink_to(sys.prefix)
        self.terminal = self.another()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminal.__exit__()

    def note(self, text: str) -> None:
        """Keep what was on the screen, to be read after a failure."""
        with (self.folder / "transcript.txt").open("a", encoding="utf-8") as kept:
            kept.write(text)

    def another(self) -> Terminal:
        """One more terminal."""
        mine = {"TRIMTAB_LAKE": str(self.folder / "lake"), "TRIMTAB_STATE": str(self.folder / "state")}
        given = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB_LAKE")}
        return Terminal(self.folder, {**given, **mine, **self.environment})

    def as_typed(self, command: str) -> str:
        """A command of the page with what the reader fills in."""
        for there, mine in self.filled_in.items():
            command = command.replace(there, mine)
        return command

    def type(self, block: Block, look: Callable[[], Any] = time.time) -> list[str]:
        """Type all commands of a block, and expect success; what each printed.

        Parameters
        ----------
        look
            Called before and after samples are collected; the two answers are `looks` then.
        """
        printed = []
        for command in block.commands:
            if "trimtab collect" not in command:
                printed.append(self.run(command))
                continue
            before = look()
            printed.append(self.run(command))
            self.looks = before, look()
        return printed

    def run(self, command: str) -> str:
        """Type one command, answer the question of `apply`, and expect success; what it printed."""
        mine = self.as_typed(command)
        asks = " apply " in mine and "--dry-run" not in mine
        code, printed = self.terminal.run(mine, yes=asks)
        self.note(f"$ {mine}\n{printed}")
        # What is missing on a reader's machine, and a goal that is missed, are told by exit code 1.
        judges = mine.startswith(("trimtab check", "trimtab measure"))
        assert code in ((0, 1) if judges else (0,)), f"{block_text(mine)} ended with {code}:\n{printed}"
        return printed

    def require_true_status(self, printed: str, resources: Mapping[str, str]) -> dict[str, Any]:
        """Hold what `status` said last against the newest snapshot, which is returned."""
        self.run("trimtab snapshot export --out newest.json")
        where = Path(self.terminal.run("pwd")[1].strip()) / "newest.json"
        snapshot: dict[str, Any] = json.loads(where.read_text())
        require_true_status(printed, snapshot, resources)
        return snapshot


def block_text(command: str) -> str:
    """A command's first line, for messages."""
    return command.partition("\n")[0]


class Judged(NamedTuple):
    """A resource of a snapshot: the worst deviation from the mean, the fullest broker, and its word."""

    worst_deviation: float
    peak: float
    word: str


def balancer_of(snapshot: Mapping[str, Any]) -> str:
    """The balancer of a snapshot."""
    return "replicas" if "partitions" in snapshot else "bundles"


def judge(snapshot: Mapping[str, Any], resources: Mapping[str, str]) -> dict[str, Judged]:
    """Whether a snapshot is balanced, from its file alone; by the words that `status` has for resources.

    Parameters
    ----------
    snapshot
        A document of either balancer.
    resources
        Name in the file by name on the screen; those without capacity are left out of the answer.
    """
    loads = _replica_loads(snapshot) if balancer_of(snapshot) == "replicas" else _bundle_loads(snapshot)
    nominal = snapshot["quality"].get("x_nominal_capacity", [])
    found = {}
    for word, name in resources.items():
        usage = [
            [view[broker].get(name, 0.0) / room[name] for broker, room in loads.capacity.items()]
            for view in loads.views
            if all(name in room for room in loads.capacity.values())
        ]
        if not usage:
            continue
        means = [sum(one) / len(one) for one in usage]
        off = [
            max(abs(value - mean) / mean if mean else 0.0 for value in one)
            for one, mean in zip(usage, means, strict=True)
        ]
        asked = [name in nominal or mean >= IDLE for mean in means]
        peak = max(max(one) for one in usage)
        uneven = any(far > EPSILON for far, counts in zip(off, asked, strict=True) if counts)
        verdict = "balanced" if any(asked) else "idle, not judged"
        found[word] = Judged(max(off), peak, "not balanced" if uneven or peak > THETA else verdict)
    return found


class _Loads(NamedTuple):
    capacity: dict[Any, dict[str, float]]
    views: list[dict[Any, dict[str, float]]]


def _replica_loads(snapshot: Mapping[str, Any]) -> _Loads:
    held: dict[Any, dict[str, float]] = {broker["id"]: {} for broker in snapshot["brokers"]}
    for partition in snapshot["partitions"]:
        for broker in partition["replicas"]:
            role = "leader_load" if broker == partition["leader"] else "follower_load"
            _add(held[broker], partition[role])
    return _Loads({broker["id"]: broker["capacity"] for broker in snapshot["brokers"]}, [held])


def _bundle_loads(snapshot: Mapping[str, Any]) -> _Loads:
    brokers = [broker for broker in snapshot["brokers"] if broker["in_service"]]
    views = []
    for place in range(len(snapshot["views"])):
        held: dict[Any, dict[str, float]] = {one["name"]: dict(one.get("base", {})) for one in brokers}
        for bundle in snapshot["bundles"]:
            if bundle["owner"] in held:
                _add(held[bundle["owner"]], bundle["load"][place])
        views.append(held)
    return _Loads({broker["name"]: broker.get("capacity", {}) for broker in brokers}, views)


def _add(held: dict[str, float], load: Mapping[str, float]) -> None:
    for name, value in load.items():
        held[name] = held.get(name, 0.0) + value


def told_words(printed: str) -> dict[str, str]:
    """What `status` calls each resource: balanced, not balanced, idle and so on."""
    return {found[1]: found[2] for found in _MEASURE.finditer(printed)}


def told_map(printed: str) -> dict[str, dict[str, float | None]]:
    """The deviation of each broker from the mean by resource, as the map of `status` shows it."""
    lines = printed.splitlines()
    head = next(at for at, line in enumerate(lines) if len(re.findall(_RESOURCE, line)) > 2)
    columns = re.findall(_RESOURCE, lines[head])
    found = {}
    for line in lines[head + 1 : lines.index("", head)]:
        cells = [int(cell[1]) / 100 if cell[1] else None for cell in _CELL.finditer(line)]
        found[line.removeprefix("broker ").split()[0]] = dict(zip(columns, cells, strict=True))
    return found


def require_deviations(printed: str, true: Mapping[str, Mapping[Any, float]]) -> None:
    """The map of `status` shows, for each resource and broker, what was found by another way."""
    shown = told_map(printed)
    for resource, by_broker in true.items():
        for broker, value in by_broker.items():
            told = shown[str(broker)][resource]
            assert told is not None and abs(told - value) <= MEASURED_TWICE, (
                resource,
                broker,
                value,
                printed,
            )


def deviation(values: Mapping[Any, float]) -> dict[Any, float]:
    """Signed, in parts of the mean; 0 for all where there is nothing."""
    mean = sum(values.values()) / len(values)
    return {key: (value - mean) / mean if mean else 0.0 for key, value in values.items()}


def told_sigma(printed: str) -> dict[str, float]:
    """σ of each resource as `status` prints it, the first figure of four decimals in its row."""
    rows = (re.match(rf"^{_RESOURCE} .*?(\d\.\d{{4}}) ", line) for line in printed.splitlines())
    return {row[1]: float(row[2]) for row in rows if row}


def require_true_status(
    printed: str, snapshot: Mapping[str, Any], resources: Mapping[str, str]
) -> dict[str, Judged]:
    """`status` calls balanced what is balanced by a snapshot, names the rest, and says which snapshot that
    was.
    """
    truth = judge(snapshot, resources)
    told = told_words(printed)
    assert {word: told[word] for word in truth} == {word: one.word for word, one in truth.items()}, printed
    uneven = [word for word, one in truth.items() if one.word == "not balanced"]
    left = [word for word, said in told.items() if said not in ("balanced", "not balanced")]
    expected = "Every measured resource is balanced."
    if uneven:
        expected = (
            f"{', '.join(uneven)}: not balanced. "
            f"`trimtab plan {balancer_of(snapshot)}` finds the fewest moves"
        )
    elif left:
        expected = f"No goal is missed; not balanced: {', '.join(left)}."
    assert any(line.startswith(expected) for line in printed.splitlines()), (expected, printed)
    for word, one in truth.items():
        row = next(line for line in printed.splitlines() if re.match(rf"{word} .*balanced", line))
        told_worst = float(re.findall(r"(\d+\.\d)%", row)[0]) / 100
        # A file's figures have fewer digits than those that it was written from.
        assert abs(told_worst - one.worst_deviation) <= 0.001 + 0.01 * one.worst_deviation, (
            word,
            one,
            printed,
        )
    last = printed.rstrip().splitlines()[-1]
    assert f"judged by the snapshot of {snapshot['taken_at']}, as in a plan" in last, printed
    return truth


def require_improved(before: str, after: str, resources: Sequence[str], load: str) -> None:
    """σ of all resources together fell, and that of none that was and is not balanced rose.

    Parameters
    ----------
    before, after
        What `status` printed.
    resources
        Those that no other program's load changes.
    load
        What the load said of itself at its end: where records came late, the machine was too busy to judge,
        and the test is skipped with that reason.
    """
    was, now = told_sigma(before), told_sigma(after)
    words = told_words(before)
    assert "not balanced" in {words[name] for name in resources}, before
    then = told_words(after)
    uneven = [name for name in resources if words[name] == then[name] == "not balanced"]
    lacking = [name for name in uneven if now[name] >= was[name]]
    if lacking or sum(now[name] for name in resources) >= sum(was[name] for name in resources):
        assert " late by " in load or not re.search(r"; 0 errors", load), (lacking, before, after, load)
        pytest.skip(f"this machine was too busy to keep the load even: {load}; {lacking}")

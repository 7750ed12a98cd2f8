"""docs/tutorial.md from its first line to its last, typed as printed, on the cluster that it starts."""

import re
import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.chains import QUICK, Reader, require_improved
from support.kafka_truth import counters, endpoints_of, require_what_brokers_say
from support.pages import Block, missing_lines, typed
from support.terminal import Terminal
from trimtab.lab.sandbox.processes import free_ports
from trimtab.systems.kafka.settings import KafkaConnection

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(3600)]

PAGE = "docs/tutorial.md"
NOT_TYPED = {
    f"{PAGE}: From nothing to a balanced cluster, step by step: 1": "fetches the packages that run this test",
}
LOAD = "trimtab sandbox kafka load"
PORT = 19092
BROKERS = 6
RESOURCES = {"CPU": "cpu", "disk": "disk", "network in": "network_in", "network out": "network_out"}
# What depends on where Kafka puts the replicas, and on how much time the machine has: moves, goals that are
# missed, batches, how samples are flagged, which table is written first. A question's line is overwritten.
VARIES = re.compile(
    r"^\s*(!|\d+ {2}|epsilon|theta|unmet|batch|Plan by|cost|bound|Problems|cop(y|ies|ied)|lead|about|step)|"
    r"carry it out|wrote cleaned|level *$|not balanced|Everything|No goal|flagged|ticks up to"
)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Somebody in a checkout; where a port is taken, they take others, as the page says."""
    first = PORT if _are_free(PORT) else next(filter(_are_free, free_ports(100)))
    with Reader(tmp_path, QUICK, {str(PORT): str(first)}) as someone:
        yield someone
        someone.terminal.run("trimtab sandbox kafka down")


def _are_free(first: int) -> bool:
    for port in range(first, first + BROKERS):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True


def test_the_tutorial_works_as_written(reader: Reader) -> None:
    """Every block in order, with the load in a second terminal; the output has the documented form, and is
    correct.
    """
    told: dict[str, list[str]] = defaultdict(list)
    missing: list[str] = []
    assert {block.name for block in typed(PAGE)} >= set(NOT_TYPED)
    with ExitStack() as ending:
        for block in typed(PAGE):
            step = block.heading.partition(".")[0]
            if block.name in NOT_TYPED:
                continue
            if block.commands == [LOAD]:
                second = ending.enter_context(reader.another())
                _begin_load(reader, second, block)
                continue
            if step == "11":
                snapshot = reader.require_true_status(told["10"][-1], RESOURCES)
                connection = KafkaConnection((f"127.0.0.1:{reader.as_typed(str(PORT))}",))
                require_what_brokers_say(
                    connection,
                    told["10"][-1],
                    snapshot,
                    reader.looks,
                    reader.folder / "tutorial" / "plan.json",
                )
                load = second.interrupt(LOAD)
                reader.note(f"[second terminal] {load[1]}")
            told[step] += reader.type(block, lambda: counters(endpoints_of(told["1"][0])))
            missing += missing_lines(block.output, "\n".join(told[step]), VARIES)
    assert missing == []
    assert any("execution 1 on" in printed and ": finished" in printed for printed in told["9"])
    assert not (reader.folder / "tutorial").exists()
    assert "no sandbox kafka is running" in reader.terminal.run("trimtab sandbox kafka status")[1]
    require_improved(told["7"][-1], told["10"][-1], ["disk", "network in", "network out"], load[1])


def _begin_load(reader: Reader, second: Terminal, block: Block) -> None:
    """Set the second terminal up as the page asks of every terminal, and begin the load in it."""
    here = f"cd {reader.folder}; export PATH=$PWD/.venv/bin:$PATH; cd tutorial"
    assert second.run(f'{here}; export TRIMTAB_LAKE="$PWD/lake" TRIMTAB_STATE="$PWD/state"')[0] == 0
    second.begin(LOAD)
    said = second.wait_for("Ctrl-C stops", LOAD)
    assert not missing_lines(block.output, said, VARIES), said

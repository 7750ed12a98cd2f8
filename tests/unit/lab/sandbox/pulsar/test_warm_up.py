"""Archives of classes: made once, by a cluster of one broker, and used by all later ones."""

from pathlib import Path

import pytest

from trimtab.jars import Java
from trimtab.lab.sandbox.processes import this_process
from trimtab.lab.sandbox.pulsar.cluster import record_archives
from trimtab.lab.sandbox.pulsar.runtime import PulsarRuntime


@pytest.fixture
def runtime(tmp_path) -> PulsarRuntime:
    """A runtime whose folder in the cache holds no archive yet."""
    (tmp_path / "pulsar").mkdir()
    return PulsarRuntime(Java(Path("/java"), "17"), "4.2.4", tmp_path / "pulsar/java.arguments", True)


class _Cluster:
    """A cluster whose processes have left archives and ended."""

    def __init__(self, state, runtime) -> None:
        self.state = state
        ended = type(this_process())(2**22 + 1, "never")
        for node in state.nodes:
            self.state = self.state.with_process(node.id, ended)
            flag = runtime.command(node.role, Path("/home"), [])[5]
            Path(flag.removeprefix("-XX:ArchiveClassesAtExit=")).write_text(node.role)
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_archives_are_made_once_and_used_ever_after(runtime):
    """The first start makes them; commands name them from then on."""
    made: list[_Cluster] = []

    def bring_up(state, recording):
        made.append(_Cluster(state, recording))
        return made[-1]

    assert not any("jsa" in part for part in runtime.command("broker", Path("/home"), []))
    record_archives(runtime, bring_up, lambda line: None)
    record_archives(runtime, bring_up, lambda line: None)
    assert [cluster.stopped for cluster in made] == [True]
    assert f"-XX:SharedArchiveFile={runtime.folder / 'broker.jsa'}" in runtime.command(
        "broker", Path("/home"), []
    )
    assert (runtime.folder / "bed.jsa").read_text() == "bed"
    assert not list(runtime.folder.parent.glob(".making-*"))


def test_a_start_that_fails_leaves_no_half_made_archives(runtime):
    """The next start tries again."""

    def bring_up(state, recording):
        raise RuntimeError("the machine is full")

    with pytest.raises(RuntimeError):
        record_archives(runtime, bring_up, lambda line: None)
    assert [path.name for path in runtime.folder.iterdir()] == []

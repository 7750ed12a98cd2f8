"""Control groups: which form a system has, where ours go, and what is said where none may be made."""

import subprocess

import pytest

from trimtab.lab.sandbox.cgroups import NodeCgroup, cpu_trees, make_control_group, own_places, remove
from trimtab.model.errors import SandboxError

HYBRID = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


def _system(folder, mounts, membership):
    (folder / "mounts").write_text(mounts)
    (folder / "cgroup").write_text(membership)
    return folder / "mounts", folder / "cgroup"


def test_version_1_has_a_tree_for_each_controller():
    """CPU time and its limit may lie in one tree or in two; other controllers do not matter here."""
    trees = {name: str(path) for name, path in cpu_trees(HYBRID).items()}
    assert trees == {
        "cpu": "/sys/fs/cgroup/cpu,cpuacct",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
        "": "/sys/fs/cgroup/unified",
    }


def test_the_own_group_is_found_for_each_controller():
    """Own groups are created below the current group."""
    places = own_places("4:cpu,cpuacct:/user\n3:name=systemd:/a:b\n0::/system\n")
    assert places == {"cpu": "/user", "cpuacct": "/user", "name=systemd": "/a:b", "": "/system"}


def test_a_group_of_version_1_limits_in_one_tree_and_counts_in_the_other(tmp_path):
    """A broker is put into both; half a processor is 50 ms of every 100."""
    for name in ("cpu", "cpuacct"):
        (tmp_path / name / "user").mkdir(parents=True)
    mounts = "".join(f"cgroup {tmp_path / name} cgroup rw,{name} 0 0\n" for name in ("cpu", "cpuacct"))
    group = make_control_group("b1", 0.5, *_system(tmp_path, mounts, "2:cpuacct:/user\n1:cpu:/user\n"))
    assert group.folders == (tmp_path / "cpu/user/b1", tmp_path / "cpuacct/user/b1")
    assert (tmp_path / "cpu/user/b1/cpu.cfs_quota_us").read_text() == "50000\n"
    assert not (tmp_path / "cpuacct/user/b1/cpu.cfs_quota_us").exists()


def test_a_group_of_version_2_is_one_folder(tmp_path):
    """The controller is switched on above it first."""
    (tmp_path / "tree/scope").mkdir(parents=True)
    control = tmp_path / "tree/scope/cgroup.subtree_control"
    control.write_text("memory\n")
    mounts = f"cgroup2 {tmp_path / 'tree'} cgroup2 rw 0 0\n"
    group = make_control_group("b1", 1.5, *_system(tmp_path, mounts, "0::/scope\n"))
    assert group.folders == (tmp_path / "tree/scope/b1",)
    assert control.read_text() == "+cpu\n"
    assert (group.folders[0] / "cpu.max").read_text() == "150000 100000\n"


def test_a_container_that_sees_the_tree_from_its_own_group_down_uses_the_top(tmp_path):
    """The group named by the kernel does not exist there."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/cgroup.subtree_control").write_text("cpu\n")
    mounts = f"cgroup2 {tmp_path / 'tree'} cgroup2 rw 0 0\n"
    group = make_control_group("b1", 1.0, *_system(tmp_path, mounts, "0::/outside/this/container\n"))
    assert group.folders == (tmp_path / "tree/b1",)


@pytest.mark.parametrize(
    ("mounts", "said"),
    [
        ("", "there are no control groups for CPU on this system"),
        ("cgroup2 {folder}/absent cgroup2 rw 0 0\n", "does not let us make a control group"),
    ],
)
def test_if_no_group_can_be_made_reason_and_remedy_are_reported(tmp_path, mounts, said):
    """The sandbox goes on without; its user learns why every broker reports the same CPU."""
    with pytest.raises(SandboxError, match=said):
        make_control_group("b1", 1.0, *_system(tmp_path, mounts.format(folder=tmp_path), "0::/\n"))


def test_a_group_that_may_not_be_entered_is_not_used(tmp_path, monkeypatch):
    """Some systems let us make what we may not use: a process is put into it before a broker is."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/cgroup.subtree_control").write_text("cpu\n")
    monkeypatch.setattr(NodeCgroup, "entering", lambda group, command: ["/bin/false"])
    mounts = f"cgroup2 {tmp_path / 'tree'} cgroup2 rw 0 0\n"
    with pytest.raises(SandboxError, match="does not let us put a process into a control group"):
        make_control_group("b1", 1.0, *_system(tmp_path, mounts, "0::/\n"))


def test_a_process_enters_its_group_and_then_becomes_the_program(tmp_path):
    """The number that is written into the group is that of the program itself, and arguments stay whole."""
    group = NodeCgroup((tmp_path / "a b", tmp_path / "c"))
    for folder in group.folders:
        folder.mkdir()
    answer = subprocess.run(
        group.entering(["/bin/sh", "-c", 'echo "$$ $1"', "sh", "two words"]),
        capture_output=True,
        text=True,
        check=True,
    )
    pid, argument = answer.stdout.split(" ", 1)
    assert argument == "two words\n"
    assert {(folder / "cgroup.procs").read_text() for folder in group.folders} == {f"{pid}\n"}


def test_removal_ignores_missing_groups(tmp_path):
    """A sandbox that was stopped halfway can be stopped again."""
    (tmp_path / "here").mkdir()
    remove([tmp_path / "here", tmp_path / "gone"])
    assert not (tmp_path / "here").exists()

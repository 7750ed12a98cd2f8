"""The first thing `make` runs: what a machine lacks, in one sentence with its remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "scripts" / "check-machine"


@pytest.fixture
def machine(tmp_path):
    """A machine with a good Python and Java and nothing else but the system's own tools."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname", "sed", "head", "df", "awk", "pwd"):
        found = next(Path(folder, tool) for folder in os.defpath.split(":") if Path(folder, tool).exists())
        (tools / tool).symlink_to(found)
    (tools / "python3").symlink_to(sys.executable)
    _program(tools / "java", "echo 'openjdk version \"17.0.1\" 2021' >&2")
    return tools


def _program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _check(tools, **variables):
    answer = subprocess.run(
        [CHECK], env={"PATH": str(tools)} | variables, capture_output=True, text=True, check=False
    )
    return answer.returncode, answer.stdout, answer.stderr


def test_a_good_machine_names_its_python(machine):
    """Where nothing is missing, the Python to build with is printed, and nothing else."""
    code, said, complained = _check(machine)
    assert (code, complained) == (0, "")
    assert said == f"{machine}/python3\n"


def test_no_java_is_one_sentence(machine):
    """Without Java the message names the package to install."""
    (machine / "java").unlink()
    code, _, complained = _check(machine)
    assert code == 1
    assert complained.startswith("trimtab: Java 17 or newer is needed, and there is no 'java': install it")
    assert complained.count("\n") == 1


@pytest.mark.parametrize(("version", "number"), [("1.8.0_392", "8"), ("11.0.2", "11")])
def test_an_old_java_is_named_by_version(machine, version, number):
    """Java 8 reports 1.8, and is recognised as old."""
    _program(machine / "java", f"echo 'openjdk version \"{version}\" 2021' >&2")
    code, _, complained = _check(machine)
    assert code == 1
    assert f"'java' is Java {number}: install a newer one" in complained


def test_java_home_is_checked_first(machine, tmp_path):
    """A JAVA_HOME that leads nowhere is named, although there is a java on the path."""
    code, _, complained = _check(machine, JAVA_HOME=str(tmp_path / "gone"))
    assert code == 1
    assert f"there is no '{tmp_path}/gone/bin/java'" in complained


def test_an_old_python_is_named(machine):
    """A Python that is too old is reported with its version, and how to name another."""
    (machine / "python3").unlink()
    _program(machine / "python3", '[ "$1" = --version ] && echo Python 3.9.2 && exit 0; exit 1')
    code, _, complained = _check(machine)
    assert code == 1
    assert "Python 3.11 or newer is needed, and this machine offers Python 3.9.2" in complained


def test_a_newer_python_next_to_an_old_one_is_found(machine):
    """Where python3 is old and python3.12 is installed too, that one is taken."""
    (machine / "python3").unlink()
    _program(machine / "python3", "exit 1")
    (machine / "python3.12").symlink_to(sys.executable)
    assert _check(machine)[:2] == (0, f"{machine}/python3.12\n")


def test_a_python_without_venv_is_reported_with_the_package_to_install(machine):
    """Debian's python3 lacks the module that creates environments."""
    (machine / "python3").unlink()
    _program(machine / "python3", 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
    code, _, complained = _check(machine)
    assert code == 1
    assert "cannot make virtual environments" in complained
    assert "apt install python3-venv" in complained


def test_too_little_disk_is_reported_in_megabytes(machine):
    """The packages alone take gigabytes, so a full disk is reported before the download."""
    (machine / "df").unlink()
    _program(machine / "df", "echo head; echo disk 9 8 1234 9% /")
    checkout = machine.parent / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    (checkout / "scripts" / "check-machine").write_text(CHECK.read_text())
    (checkout / "scripts" / "check-machine").chmod(0o755)
    answer = subprocess.run(
        [checkout / "scripts" / "check-machine"],
        env={"PATH": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "6 GB of free disk are needed" in answer.stderr
    assert "has 1234 MB" in answer.stderr

"""Kernels: compiled once whatever integers they are called with, and kept under the name of their sources."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.search import compiled, machine_code
from trimtab.plan.search.compiled import digest, entry, inner, leaf
from trimtab.plan.search.compiler import dispatcher_of

FACTOR = 3


@leaf
def scaled(values, i, by):
    """A leaf, called with whatever comes."""
    return values[i] * by * FACTOR


@inner
def total(values, by):
    """Calls it with integers of three kinds."""
    found = 0.0
    for i in range(len(values)):
        found += scaled(values, i, by)
    return found + scaled(values, 0, 1) + scaled(values, np.int32(0), np.int8(2))


@entry
def summed(values):
    """Hands on a variable that starts as a constant."""
    h = -1
    found = 0.0
    for i in range(len(values)):
        if h < i:
            h = i
            found = total(values, h)
    return found


def test_a_kernel_is_compiled_once_for_constants_and_integers_of_every_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that starts as a constant makes no second version of all that it is handed to."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert entry(summed.py_func)(np.array([1.0, 2.0])) == (1 + 2) * 3 + 3 + 6
    assert [len(dispatcher_of(kernel).overloads) for kernel in (total, scaled)] == [1, 1]


def test_a_kernel_without_a_python_wrapper_raises_an_error() -> None:
    """Numba itself would end the process."""
    with pytest.raises(TypeError, match=r"scaled is called by kernels only; call its py_func instead"):
        scaled(np.ones(2), 0, 1)
    assert scaled.py_func(np.ones(2), 0, 1) == 3


def test_the_digest_changes_with_the_callees_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own code, that of kernels that it reaches, and their constants; nothing else."""
    before = digest(summed.py_func)
    assert digest(summed.py_func) == before
    monkeypatch.setitem(globals(), "FACTOR", 4)
    assert digest(summed.py_func) != before
    monkeypatch.setitem(globals(), "FACTOR", 3)
    monkeypatch.setitem(globals(), "scaled", total)
    assert digest(summed.py_func) != before


@entry
def told(numbers, count, share, is_large):
    """Returns numbers of three kinds, and makes an array."""
    ones = np.ones(count)
    numbers.first[0] = share
    return ones.sum() + numbers.second[0, 1], count + 1, is_large


class Numbers(NamedTuple):
    """Arrays that a kernel takes together."""

    first: FloatArray
    second: IntArray
    none: tuple[()] = ()


@entry
def fails(count):
    """Raises an error."""
    if count > 1:
        raise ValueError("too many")


def test_kernels_take_and_return_numbers_of_all_kinds() -> None:
    """Also arrays with gaps between their items, arrays in named tuples, and numbers of numpy."""
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    numbers = Numbers(np.zeros(2), table[:, ::2])
    assert told(numbers, np.int32(3), np.float32(0.5), True) == (5.0, 4, True)
    assert numbers.first[0] == 0.5
    assert told(numbers._replace(second=table), 0, 2.0, np.False_) == (1.0, 1, False)
    assert fails(1) is None
    with pytest.raises(ValueError, match="too many"):
        fails(2)
    with pytest.raises(TypeError, match="takes arrays, numbers and tuples of these, not str"):
        fails("2")


def test_a_kernel_that_returns_an_array_is_refused() -> None:
    """Its memory would belong to nobody."""
    with pytest.raises(TypeError, match="copied returns array.*Python gets numbers only"):
        entry(copied)(np.zeros(2))


def copied(values):
    """Returns an array."""
    return values.copy()


PROGRAM = """
import sys
import numpy as np
from trimtab.plan.search.compiled import entry

@entry
def summed(values):
    found = 0.0
    for one in values:
        found += one
    return found

print(summed(np.array([6.0, 12.0])), *sorted({"numba", "llvmlite"} & set(sys.modules)))
"""


def test_stored_machine_code_needs_no_compiler(tmp_path: Path) -> None:
    """Machine code that is cut short, or was compiled for other kernels, is compiled again."""
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    said = []
    for turn in range(4):
        if turn == 2:
            (kept,) = (tmp_path / "kernels").iterdir()
            kept.write_bytes(kept.read_bytes()[:100])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    compiled, loaded = ["18.0", "llvmlite", "numba"], ["18.0"]
    assert said == [compiled, loaded, compiled, loaded]


def test_llvm_loads_objects_of_other_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processors than x86-64 have other relocations."""
    monkeypatch.setattr(machine_code, "X86_64", 0)
    assert entry(summed.py_func)(np.array([1.0, 2.0])) == 18


def test_the_oldest_processors_get_code_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the instructions of the last ten years."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiled, "variant", lambda: "x86-64")
    assert entry(summed.py_func)(np.array([1.0, 2.0])) == 18
    assert [path.suffix for path in (tmp_path / "kernels").iterdir()] == [".x86-64"]


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or compiled.variant() != "x86-64-v3",
    reason="its machine code is compiled",
)
def test_the_shipped_machine_code_fits_the_kernels(tmp_path: Path) -> None:
    """First plans load no compiler; after a change of a kernel run `scripts/machine-code`."""
    program = (
        "import sys; from trimtab.balancers import BALANCERS, warm_up_planner; "
        "[warm_up_planner(one) for one in BALANCERS]; print('numba' in sys.modules)"
    )
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=own, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]
    assert not (tmp_path / "kernels").exists()

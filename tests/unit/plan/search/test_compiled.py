"""Kernels: compiled once whatever integers they are called with, and kept under the name of their sources."""

from pickle import loads

import numpy as np
import pytest

from trimtab.plan.search.compiled import digest, entry, inner, leaf

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


def test_a_kernel_is_compiled_once_for_constants_and_integers_of_every_width() -> None:
    """A variable that starts as a constant makes no second version of all that it is handed to."""
    assert summed(np.array([1.0, 2.0])) == (1 + 2) * 3 + 3 + 6
    # None of a kernel that nothing called for: `summed` may have come from disk, whole.
    versions = [len(kernel.signatures) for kernel in (summed, total, scaled)]
    assert versions in ([1, 1, 1], [1, 0, 0])


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


def doubled(values):
    """A kernel that this test alone compiles."""
    return values.sum() * 2


def test_machine_code_for_a_renamed_class_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The index on disk names the classes of arguments: after an upgrade one may be missing."""
    values = np.array([1.0, 2.0])
    assert entry(doubled)(values) == 6
    read = []

    def renamed(data: bytes) -> object:
        read.append(data)
        if len(read) == 1:
            raise AttributeError("Can't get attribute 'Arrays'")
        return loads(data)

    with monkeypatch.context() as patch:
        patch.setattr("numba.core.caching.pickle.loads", renamed)
        assert entry(doubled)(values) == 6
    assert read, "nothing was kept"
    assert entry(doubled)(values) == 6

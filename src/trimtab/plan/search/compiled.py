"""Kernels: functions that run as machine code, which is compiled once and kept.

A kernel that Python calls (`entry`) looks for its machine code under a digest of its own code, of all kernels
that it reaches, and of their constants: first among the code that comes with trimtab, then in the cache of
this machine. Only where both lack it, numba is imported and compiles (`trimtab.plan.search.compiler`). So a
plan needs neither numba nor LLVM in memory. With NUMBA_DISABLE_JIT kernels are plain Python.

Machine code takes every integer as 64 bits wide. Kernels that only kernels call have no code of their own.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import struct
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import numpy as np

from trimtab.plan.search.machine_code import load_code

CONSTANTS: Final = (int, float, tuple)
SHIPPED: Final = Path(__file__).parent / "kernels"
"""Machine code that comes with trimtab, for the processors of `VARIANTS`."""
VARIANTS: Final = {"x86-64-v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}, "x86-64": set[str]()}
"""Processors by name, and the flags that the first needs: one code for all machines of a kind."""
FORMAT: Final = 1
"""Version of kept machine code; raise it where calls change."""
_LOCK: Final = threading.RLock()


def leaf(function: Callable[..., Any]) -> Any:
    """A kernel that kernels call and that makes no arrays.

    It counts no references, which for a tuple of arrays costs more than the arithmetic (0.8 of 1.0
    microseconds a call, measured).
    """
    return _kernel(function, is_entry=False, makes_arrays=False)


def inner(function: Callable[..., Any]) -> Any:
    """A kernel that kernels call and that makes arrays."""
    return _kernel(function, is_entry=False)


def entry(function: Callable[..., Any]) -> Any:
    """A kernel that Python calls; it returns numbers or nothing. Fewer such kernels load faster."""
    return _kernel(function)


def _kernel(function: Callable[..., Any], *, is_entry: bool = True, makes_arrays: bool = True) -> Any:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return function
    return Kernel(function, is_entry=is_entry, makes_arrays=makes_arrays)


class Kernel:
    """A function that runs as machine code: division as in numpy, the interpreter's lock released.

    Attributes
    ----------
    py_func
        The function in Python.
    is_entry
        Whether Python may call it.
    makes_arrays
        Whether it counts references of arrays.
    announce
        Called before a kernel is compiled, which takes long.
    """

    announce: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, py_func: Any, *, is_entry: bool, makes_arrays: bool) -> None:
        self.py_func, self.is_entry, self.makes_arrays = py_func, is_entry, makes_arrays
        self.__name__, self.__doc__ = py_func.__name__, py_func.__doc__
        self._loaded: dict[str, Callable[..., Any]] = {}

    @property
    def _numba_type_(self) -> Any:
        """The type by which numba, while it compiles, knows a kernel that others call."""
        from trimtab.plan.search.compiler import type_of

        return type_of(self)

    def __call__(self, *values: Any) -> Any:
        """Run the machine code.

        Raises
        ------
        TypeError
            If only kernels may call it.
        """
        if not self.is_entry:
            raise TypeError(
                f"{self.py_func.__qualname__} is called by kernels only; call its py_func instead"
            )
        arguments: list[Any] = []
        types = ",".join([_flatten(value, arguments) for value in values])
        code = self._loaded.get(types)
        if code is None:
            with _LOCK:
                code = self._loaded[types] = self._load(types, values)
        return code(arguments)

    def _load(self, types: str, values: tuple[Any, ...]) -> Callable[..., Any]:
        signature = sha256(f"{FORMAT}{types}".encode()).hexdigest()[:8]
        name = f"{self.__name__}-{digest(self.py_func)}-{signature}.{variant()}"
        for folder in (SHIPPED, cache_folder()):
            with suppress(OSError, ValueError, zlib.error, struct.error):
                return _callable(self.__name__, (folder / name).read_bytes())
        from trimtab.plan.search.compiler import compile_kernel

        Kernel.announce()
        result, code = compile_kernel(self, values, variant())
        content = result.encode() + b"\n" + zlib.compress(code, 1)
        with suppress(OSError):  # No folder is writable: every process compiles again.
            _write(cache_folder() / name, content)
        return _callable(self.__name__, content)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)


def cache_folder() -> Path:
    """Where this machine keeps what it compiled; NUMBA_CACHE_DIR or TRIMTAB_CACHE moves it."""
    own = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("TRIMTAB_CACHE")
    shared = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab"
    return (Path(own) if own else shared) / "kernels"


@cache
def variant() -> str:
    """The processors for which machine code is used here: a name of `VARIANTS`, or the machine's."""
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return machine
    flags = set[str]()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        flags.update(next((line for line in lines if line.startswith("flags")), "").split())
    return next(name for name, needed in VARIANTS.items() if needed <= flags)


# ------------------------------------------------------------ calls


def _flatten(value: Any, arguments: list[Any]) -> str:
    """Add a value to the arguments of a call as numba's calling convention has it; returns its type."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        # First two owners of the memory, which Python keeps alive.
        arguments += (None, None, value.size, value.itemsize, ctypes.c_void_p(value.ctypes.data))
        arguments += value.shape
        arguments += value.strides
        return f"{value.dtype.str}{value.ndim}{layout}{'' if flags.writeable else 'r'}"
    if isinstance(value, tuple):
        return f"{type(value).__name__}({','.join([_flatten(one, arguments) for one in value])})"
    if isinstance(value, bool | np.bool_):
        arguments.append(ctypes.c_uint8(bool(value)))
        return "b"
    if isinstance(value, Integral):
        arguments.append(int(value))
        return "i"
    if isinstance(value, Real):
        arguments.append(ctypes.c_double(float(value)))
        return "d"
    raise TypeError(f"a kernel takes arrays, numbers and tuples of these, not {type(value).__name__}")


NUMBERS: Final = {"i": ctypes.c_int64, "d": ctypes.c_double, "b": ctypes.c_bool}
"""Numbers that kernels return, by the letter that stands for their type."""


class _Failure(ctypes.Structure):
    _fields_ = (("pickled", ctypes.c_void_p), ("size", ctypes.c_int32))


def _callable(name: str, content: bytes) -> Callable[[list[Any]], Any]:
    """The function of some machine code: from arguments in order to the returned number, tuple or None."""
    result, _, packed = content.partition(b"\n")
    fields = [(f"f{at}", NUMBERS[letter]) for at, letter in enumerate(result.decode().strip("()"))]
    returned = type("Returned", (ctypes.Structure,), {"_fields_": fields})
    address = load_code(zlib.decompress(packed))
    function = ctypes.CFUNCTYPE(ctypes.c_int32)(address)

    def call(arguments: list[Any]) -> Any:
        place, failure = returned(), ctypes.POINTER(_Failure)()
        numbers = [ctypes.c_int64(one) if type(one) is int else one for one in arguments]
        status = function(ctypes.byref(place), ctypes.byref(failure), *numbers)
        if status not in (0, -2):  # what numba calls OK and NONE
            raise _raised(name, failure)
        values = tuple(getattr(place, one) for one, _ in fields)
        return values if result.startswith(b"(") else values[0] if values else None

    return call


def _raised(name: str, failure: Any) -> Exception:
    with suppress(Exception):
        found = failure.contents
        kind, values, *_ = pickle.loads(ctypes.string_at(found.pickled, found.size))
        error: Exception = kind(*(values or ()))
        return error
    return RuntimeError(f"kernel {name} failed")


def digest(function: FunctionType) -> str:
    """16 hexadecimal digits of a kernel's code, of all kernels that it can reach, and of their constants."""
    found: dict[str, str] = {}
    todo: list[Any] = [function]
    while todo:
        one = todo.pop()
        code, name = one.__code__, f"{one.__module__}.{one.__qualname__}"
        if name in found:
            continue
        named = {used: one.__globals__.get(used) for used in code.co_names}
        todo += [value.py_func for value in named.values() if isinstance(value, Kernel)]
        constants = {used: value for used, value in named.items() if isinstance(value, CONSTANTS)}
        inline = [value for value in code.co_consts if isinstance(value, CONSTANTS)]
        found[name] = repr((code.co_code, code.co_varnames, inline, constants))
    return sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]

"""Kernels: functions compiled by numba, once for each set of array types, and cached on disk.

Numba compiles a function again for every width of integer and for every constant that it is called with, and
all that it calls: 21 times for a broker's value, twice for the whole descent. A kernel takes every integer as
64 bits wide, so that it is compiled once. Kernels that only kernels call get no wrapper for Python.
With NUMBA_DISABLE_JIT they are plain Python.

Numba caches machine code until the file of the function changes, and ignores changes of the functions that it
calls. So the name of a cache entry ends in a digest of all reachable kernels.
"""

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from types import FunctionType
from typing import Any

from numba.core import config, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.registry import CPUDispatcher

CONSTANTS = (int, float, tuple)


def leaf(function: Callable[..., Any]) -> Any:
    """A kernel that kernels call and that makes no arrays.

    It counts no references, which for a tuple of arrays costs more than the arithmetic (0.8 of 1.0
    microseconds a call, measured).
    """
    return _kernel(InlineKernel, function, no_cpython_wrapper=True, _nrt=False)


def inner(function: Callable[..., Any]) -> Any:
    """A kernel that kernels call and that makes arrays."""
    return _kernel(InlineKernel, function, no_cpython_wrapper=True)


def entry(function: Callable[..., Any]) -> Any:
    """A kernel that Python calls and that is cached. Fewer such kernels load faster."""
    kernel = _kernel(Kernel, function)
    if isinstance(kernel, Kernel):
        kernel.cached = True
    return kernel


def _kernel(kind: "type[Kernel]", function: Callable[..., Any], **options: bool) -> Any:
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    common = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    return kind(function, {}, {**common, **options})


class Kernel(CPUDispatcher):
    """A compiled function: division as in numpy, the interpreter's lock released, integers of 64 bits.

    Attributes
    ----------
    cached
        Whether its machine code is to be read from disk, or written there.
    """

    cached = False

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Declare the types with which another kernel calls this one; numba converts the arguments."""
        return super().get_call_template(tuple(_widest(one) for one in args), kws)

    def compile(self, sig: Any) -> Any:
        """Compile for the types of some arguments, or load the machine code from disk."""
        if self.cached:
            # At the first call, because only then all functions in the digest are imported.
            self.cached = False
            with suppress(RuntimeError):  # No folder is writable: every process compiles again.
                self._cache = _DigestCache(self.py_func)
        return super().compile(sig)


class InlineKernel(Kernel):
    """A kernel without a wrapper for Python: for other kernels alone."""

    def __call__(self, *args: Any, **kws: Any) -> Any:
        """Raise an error; numba itself would jump to address 0."""
        raise TypeError(f"{self.py_func.__qualname__} is called by kernels only; call its py_func instead")


def _widest(one: Any) -> Any:
    one = types.unliteral(one)
    return types.int64 if isinstance(one, types.Integer) else one


class _DigestCacheImpl(CompileResultCacheImpl):
    def __init__(self, function: FunctionType) -> None:
        self.digest = digest(function)
        super().__init__(function)

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}-{self.digest}"


class _DigestCache(FunctionCache):
    _impl_class = _DigestCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load machine code. An index with renamed argument classes counts as missing."""
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError):
            self.flush()
            return None


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

"""Machine code of kernels, by numba; imported only where a kernel must be compiled.

Numba compiles a function again for every width of integer and for every constant that it is called with, and
all that it calls: 21 times for a broker's value, twice for the whole descent. Here a kernel takes every
integer as 64 bits wide, so that it is compiled once, and gets no wrapper for Python. The code of an entry
and of all that it calls becomes one object, which needs the C library alone.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import llvmlite.binding as llvm
from numba import typeof
from numba.core import types
from numba.core.registry import CPUDispatcher

from trimtab.plan.search.machine_code import FUNCTION


class Kernel(Protocol):
    """A kernel as the compiler needs it: see `trimtab.plan.search.compiled.Kernel`."""

    py_func: Any
    makes_arrays: bool


_DISPATCHERS: Final[dict[int, Dispatcher]] = {}
_OPTIONS: Final = {
    "nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
}  # fmt: skip
_LETTERS: Final = {types.int64: "i", types.float64: "d", types.boolean: "b"}
ARRAYS: Final = """
declare ptr @malloc(i64)
declare void @free(ptr)

define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %step = zext i32 %align to i64
  %extra = add i64 %step, 64
  %all = add i64 %size, %extra
  %found = call ptr @malloc(i64 %all)
  %fails = icmp eq ptr %found, null
  br i1 %fails, label %end, label %fill
fill:
  store i64 1, ptr %found
  %number = ptrtoint ptr %found to i64
  %least = add i64 %number, %extra
  %over = urem i64 %least, %step
  %begin = sub i64 %least, %over
  %data = inttoptr i64 %begin to ptr
  %datafield = getelementptr i8, ptr %found, i64 24
  store ptr %data, ptr %datafield
  %sizefield = getelementptr i8, ptr %found, i64 32
  store i64 %size, ptr %sizefield
  br label %end
end:
  ret ptr %found
}

define void @NRT_MemInfo_call_dtor(ptr %found) {
  call void @free(ptr %found)
  ret void
}
"""
"""Memory of the arrays that kernels make: the head of numba's runtime, then the data."""


class Dispatcher(CPUDispatcher):
    """Numba's view of a kernel: integers of 64 bits, no constants."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Declare the types with which another kernel calls this one; numba converts the arguments."""
        return super().get_call_template(tuple(map(_widest, args)), kws)


def _widest(one: Any) -> Any:
    one = types.unliteral(one)
    return types.int64 if isinstance(one, types.Integer) else one


def dispatcher_of(kernel: Kernel) -> Dispatcher:
    """The dispatcher of a kernel."""
    found = _DISPATCHERS.get(id(kernel))
    if found is None or found.py_func is not kernel.py_func:
        options = _OPTIONS if kernel.makes_arrays else {**_OPTIONS, "_nrt": False}
        found = _DISPATCHERS[id(kernel)] = Dispatcher(kernel.py_func, {}, options)
    return found


def type_of(kernel: Kernel) -> Any:
    """The type of a kernel in code that calls it."""
    return types.Dispatcher(dispatcher_of(kernel))


def compile_kernel(kernel: Kernel, values: tuple[Any, ...], variant: str) -> tuple[str, bytes]:
    """Compile a kernel for the types of some arguments.

    Returns
    -------
    tuple
        Letters of the returned numbers, in parentheses for a tuple; the object, for a variant of processors.

    Raises
    ------
    TypeError
        If it returns something else.
    """
    dispatcher = dispatcher_of(kernel)
    given = (_widest(typeof(value)) for value in values)
    signature = tuple(types.float64 if isinstance(one, types.Float) else one for one in given)
    dispatcher.compile(signature)
    compiled: Any = dispatcher.overloads[signature]
    module = llvm.parse_bitcode(compiled.library._final_module.as_bitcode())
    module.get_function(compiled.fndesc.llvm_func_name).name = FUNCTION
    if any(one.name == "NRT_MemInfo_call_dtor" for one in module.functions):
        module.link_in(llvm.parse_assembly(ARRAYS))
    is_x86 = variant.startswith("x86-64")
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=variant if is_x86 else llvm.get_host_cpu_name(),
        features="" if is_x86 else llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if is_x86 else "default",
        codemodel="large" if is_x86 else "jitdefault",
    )
    return _letters(kernel, compiled.signature.return_type), machine.emit_object(module)


def _letters(kernel: Kernel, returned: Any) -> str:
    if returned == types.none:
        return ""
    if hasattr(returned, "types"):  # a tuple
        return f"({''.join(_letters(kernel, one) for one in returned.types)})"
    letter = _LETTERS.get(types.unliteral(returned))
    if letter is None:
        raise TypeError(f"{kernel.py_func.__qualname__} returns {returned}: Python gets numbers only")
    return letter

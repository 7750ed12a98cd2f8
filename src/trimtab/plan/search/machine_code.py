"""Machine code in memory: relocatable objects of LLVM, without LLVM.

Objects for x86-64 are compiled with the large code model, so that every reference is an absolute address of
64 bits: the only relocation that needs to be known here. Objects for other processors are loaded by LLVM
itself (llvmlite).
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from typing import Any, Final, NamedTuple

X86_64: Final = 62
"""Number of the processor in the head of an object."""
FUNCTION: Final = "kernel"
"""Name of the function that Python calls."""
_ALLOC, _WRITE = 2, 1
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_ABSOLUTE_64 = 1
_UNDEFINED, _COMMON = 0, 0xFFF2
_PROT_READ, _PROT_EXEC = 1, 4
_ALIGNMENT: Final = 64

_LOADED: Final[list[Any]] = []
"""What must live as long as the process."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    about: int
    align: int
    entry_size: int


def load_code(code: bytes) -> int:
    """Load an object; returns the address of its function `FUNCTION`.

    Raises
    ------
    ValueError
        If it is no such object.
    OSError
        If the system allows no new machine code in memory.
    """
    if code[:6] == b"\x7fELF\x02\x01" and struct.unpack_from("<H", code, 18)[0] == X86_64:
        return _load_elf(code)
    return _load_by_llvm(code)


def _load_elf(code: bytes) -> int:
    (table,) = struct.unpack_from("<Q", code, 40)
    count, _ = struct.unpack_from("<HH", code, 60)
    sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * at)) for at in range(count)]
    symbols = next(one for one in sections if one.kind == _SYMBOLS)
    # Each section on pages of its own, so that it can be executed or written, not both.
    places: dict[int, int] = {}
    size = 0
    for at, one in enumerate(sections):
        if one.flags & _ALLOC:
            places[at] = size
            size += -(-max(one.size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    places[_COMMON] = size  # pointers of numba that nothing here uses
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for at, one in enumerate(sections):
        if at in places and one.kind != _NO_BITS:
            memory[places[at] : places[at] + one.size] = code[one.offset : one.offset + one.size]
    strings = sections[symbols.link]

    def symbol(number: int) -> tuple[str, int]:
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", code, symbols.offset + 24 * number)
        begin = strings.offset + name
        text = code[begin : code.index(b"\0", begin)].decode()
        if section == _UNDEFINED:
            return text, _address_of(text) if text else 0
        if section not in places:  # the name of a file
            return text, value
        return text, base + places[section] + (0 if section == _COMMON else value)

    for one in sections:
        if one.kind != _RELOCATIONS or one.about not in places:
            continue
        for at in range(one.offset, one.offset + one.size, 24):
            offset, kind, number, addend = struct.unpack_from("<QIIq", code, at)
            if kind == _ABSOLUTE_64:
                where = places[one.about] + offset
                struct.pack_into("<Q", memory, where, (symbol(number)[1] + addend) & (1 << 64) - 1)
            elif not _is_unwinding(code, sections, one.about):
                raise ValueError(f"relocation {kind} is not known")
    for at, one in enumerate(sections):
        if at in places and not one.flags & _WRITE:
            _protect(base + places[at], one.size)
    _LOADED.append(memory)
    found = (symbol(number) for number in range(symbols.size // 24))
    return next(address for text, address in found if text == FUNCTION)


def _is_unwinding(code: bytes, sections: list[_Section], at: int) -> bool:
    """Whether a section only serves exceptions of C++, which kernels do not raise."""
    names = sections[struct.unpack_from("<H", code, 62)[0]]
    return code.startswith(b".eh_frame", names.offset + sections[at].name)


def _address_of(name: str) -> int:
    """The address of a function of the C library."""
    for library in (None, "libm.so.6"):
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (AttributeError, OSError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise ValueError(f"{name} is not known")


def _protect(address: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(max(size, 1)), _PROT_READ | _PROT_EXEC):
        raise OSError(ctypes.get_errno(), "the system allows no machine code in memory (mprotect)")


def _load_by_llvm(code: bytes) -> int:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _LOADED.append(engine)
    return int(engine.get_function_address(FUNCTION))

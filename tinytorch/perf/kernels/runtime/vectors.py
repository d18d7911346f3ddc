"""Vector instructions of a chosen width, written in LLVM's language: what Numba's intrinsics are made of.

Numba turns a plain loop into vector instructions of the width that LLVM prefers for the CPU, which is 256 bits on
several that have 512. A probe of the ceiling must not depend on that preference, so its vectors have a stated width.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from llvmlite import binding, ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, models, register_model

from tinytorch.perf.kernels.runtime.compiling import kernel

FLOAT = ir.FloatType()
INT32 = ir.IntType(32)


class Lanes(types.Type):  # type: ignore[misc]
    """Numba's type of a vector of ``count`` floats: what `emitted` functions of a kernel in Python hand each other."""

    def __init__(self, count: int) -> None:
        super().__init__(f"Lanes({count})")
        self.kind = ir.VectorType(FLOAT, count)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, lanes.kind)


#: A sum of 16 products of bytes, of which LLVM makes the best instruction that its target has.
_SUM_OF_PRODUCTS = """
target triple = "{triple}"
define i32 @sum(<16 x i8> %a, <16 x i8> %b) {{
  %left = {extended} <16 x i8> %a to <16 x i32>
  %right = sext <16 x i8> %b to <16 x i32>
  %products = mul <16 x i32> %left, %right
  %total = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %products)
  ret i32 %total
}}
declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
"""


def cpu_features() -> frozenset[str]:
    """Return what the CPU has that Numba may use, as LLVM names it.

    Numba's own list decides, which `NUMBA_CPU_FEATURES` overrides: LLVM ends the process if it is asked for an
    instruction that its target does not have. On 64-bit Arm more follows from the CPU's name; see `arm_features`.
    """
    listed = get_host_cpu_features() if config.CPU_FEATURES is None else str(config.CPU_FEATURES)
    named = frozenset(name[1:] for name in listed.split(",") if name.startswith("+"))
    triple = binding.get_process_triple()
    if not triple.startswith(("aarch64", "arm64")):
        return named
    return named | arm_features(triple, str(config.CPU_NAME or binding.get_host_cpu_name()), listed)


@cache
def arm_features(triple: str, cpu: str, listed: str) -> frozenset[str]:
    """Return which of neon, dotprod and i8mm LLVM's target for a 64-bit Arm CPU has.

    LLVM knows them by the name of the ``cpu``, and leaves them out of its list of a host's features: under Linux the
    list has no dot products, under macOS it is empty. So its compiler is asked: what it makes of a sum of products of
    bytes shows what it may use, and a target without an instruction gets others in its place.

    Args:
        triple: the system, as LLVM names it.
        cpu: the CPU, as LLVM names it.
        listed: features that are there (+) or not (-) whatever the name says, separated by commas.
    """
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, features=listed, opt=2)
    signed, mixed = (
        machine.emit_assembly(binding.parse_assembly(_SUM_OF_PRODUCTS.format(triple=triple, extended=extended)))
        for extended in ("sext", "zext")
    )
    shown = {"neon": (r"\bv\d", signed), "dotprod": (r"\tsdot\b", signed), "i8mm": (r"\tusdot\b", mixed)}
    return frozenset(name for name, (pattern, assembly) in shown.items() if re.search(pattern, assembly))


def compiled(function: Callable[..., Any], signature: Any) -> Any:
    """Return ``function`` compiled now, for ``signature`` alone, without the interpreter's lock.

    It is not cached on disk: Numba does not show the assembly of what it read back, and the assembly is evidence.
    """
    return njit([signature], nogil=True, error_model="numpy")(function)


def emitted(
    result: Any = types.void, takes: Sequence[Any] | None = None, constants: Sequence[Sequence[int]] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes of ``emit(builder, *arguments)`` a function whose code stands where it is called.

    Of arrays ``emit`` gets the pointer to their data, of tuples a list of their parts, and all else as LLVM's values.

    Args:
        result: Numba's type of what ``emit`` returns.
        takes: the types that arguments after the constants are converted to; as they are if there are none.
        constants: for each of the first arguments that ``emit`` gets as an int, the values that it may have. If a call
            does not know one of them before it runs, it has the code for all, and jumps to that of its value.
    """

    def made(emit: Callable[..., Any]) -> Any:
        def typed(_typing: Any, *given: Any) -> Any:
            def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                pairs = [*zip(signature.args, arguments, strict=True)]
                chosen = [(*pair, numbers) for pair, numbers in zip(pairs, constants, strict=False)]
                values = [_given(context, builder, kind, value) for kind, value in pairs[len(constants) :]]
                value = _emit_chosen(context, builder, chosen, result, lambda *known: emit(builder, *known, *values))
                return context.get_dummy_value() if value is None else value

            return result(*given[: len(constants)], *(takes or given[len(constants) :])), lower

        # By which Numba counts arguments.
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]
        return intrinsic(prefer_literal=bool(constants))(typed)

    return made


def _emit_chosen(
    context: Any, builder: Any, chosen: Sequence[tuple[Any, Any, Sequence[int]]], result: Any, emit: Callable[..., Any]
) -> Any:
    """Emit code for each value that the ``chosen`` (type, LLVM's value, its numbers) may have; return its result."""
    if not chosen:
        return emit()
    (kind, value, numbers), *others = chosen
    if isinstance(kind, types.IntegerLiteral):
        return _emit_chosen(context, builder, others, result, partial(emit, kind.literal_value))
    slot = None if result == types.void else cgutils.alloca_once(builder, context.get_value_type(result))
    blocks, end = [builder.append_basic_block() for _ in numbers], builder.append_basic_block()
    switch = builder.switch(value, blocks[-1])
    for number, block in zip(numbers, blocks, strict=True):
        if block is not blocks[-1]:
            switch.add_case(value.type(number), block)
        builder.position_at_end(block)
        made = _emit_chosen(context, builder, others, result, partial(emit, number))
        if slot is not None:
            builder.store(made, slot)
        builder.branch(end)
    builder.position_at_end(end)
    return None if slot is None else builder.load(slot)


def _given(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return an argument as `emitted` gives it."""
    if isinstance(kind, types.Array):
        return data_pointer(context, builder, kind, value)
    if isinstance(kind, types.BaseTuple):
        parts = cgutils.unpack_tuple(builder, value)
        return [_given(context, builder, one, part) for one, part in zip(kind.types, parts, strict=True)]
    return value


def data_pointer(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Return the pointer to the first element of a NumPy array that a kernel was given."""
    return context.make_array(array_type)(context, builder, array).data


def float_pointers(builder: Any, *addresses: Any) -> list[Any]:
    """Return pointers to float32 at some addresses."""
    return [builder.inttoptr(address, FLOAT.as_pointer()) for address in addresses]


def from_on(builder: Any, *places: Any) -> list[Any]:
    """Return pointers to elements: of each pointer and index that follow one another."""
    return [builder.gep(pointer, [index]) for pointer, index in zip(places[::2], places[1::2], strict=True)]


def vector_pointer(builder: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """Return the pointer to a ``vector`` that begins at element ``index``."""
    return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())


def load(builder: Any, pointer: Any, index: Any, vector: Any, align: int = 4) -> Any:
    """Return the ``vector`` (or number) that begins at element ``index``, at a multiple of ``align`` bytes."""
    return builder.load(vector_pointer(builder, pointer, index, vector), align=align)


def store(builder: Any, value: Any, pointer: Any, index: Any) -> None:
    """Write the vector ``value`` from element ``index`` on, at a multiple of 4 bytes."""
    builder.store(value, vector_pointer(builder, pointer, index, value.type), align=4)


def filled(builder: Any, scalar: Any, vector: Any) -> Any:
    """Return a ``vector`` whose elements are all ``scalar``."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(INT32, vector.count), [0] * vector.count))


def offsets(builder: Any, start: Any, lanes: int, count: int) -> list[Any]:
    """Return the indices of ``count`` vectors of ``lanes`` elements, one after another from ``start``."""
    return [builder.add(start, start.type(number * lanes)) for number in range(count)]


def fused_multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Return ``x * y + z``: one instruction where the CPU has it, else two."""
    width = f"v{x.type.count}f32"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(x.type, [x.type] * 3), f"llvm.fmuladd.{width}"
    )
    return builder.call(function, [x, y, z])


def total(builder: Any, vector: Any) -> Any:
    """Return the sum of the elements of a vector of floats, by halves."""
    name = f"llvm.vector.reduce.fadd.v{vector.type.count}f32"
    reduce = cgutils.get_or_insert_function(builder.module, ir.FunctionType(FLOAT, [FLOAT, vector.type]), name)
    return builder.call(reduce, [FLOAT(-0.0), vector], fastmath=("reassoc",))


def variables(builder: Any, vector: Any, count: int) -> list[Any]:
    """Return ``count`` variables of type ``vector`` that hold zero; LLVM keeps them in registers."""
    made = []
    for _ in range(count):
        slot = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, None), slot)
        made.append(slot)
    return made


def in_turns(builder: Any, count: Any, ways: int, take: Callable[[Any, int], None]) -> None:
    """Emit ``take(index, way)`` for indices below ``count``, ``ways`` (a power of 2) in a turn, the rest by way 0."""
    index = count.type
    whole = builder.and_(count, index(-ways))
    with cgutils.for_range_slice(builder, index(0), whole, index(ways), index) as (start, _):
        for way in range(ways):
            take(builder.add(start, index(way)), way)
    if ways > 1:
        with cgutils.for_range_slice(builder, whole, count, index(1), index) as (number, _):
            take(number, 0)


def add_product(builder: Any, total: Any, x: Any, y: Any) -> None:
    """Add ``x * y`` to a variable."""
    builder.store(fused_multiply_add(builder, x, y, builder.load(total)), total)


def add_outer_product(
    builder: Any,
    sums: Sequence[Any],
    column: Sequence[Any],
    row: Sequence[Any],
) -> None:
    """Add each number of ``column`` times each vector of ``row`` to a sum.

    The numbers are pointers, the sums variables, those of the first number first.
    """
    for i, place in enumerate(column):
        # One load, into all lanes of a vector.
        number = filled(builder, builder.load(place), row[0].type)
        for j, vector in enumerate(row):
            # One instruction, whose operands and sum are in registers.
            add_product(builder, sums[i * len(row) + j], number, vector)


def prefetch(builder: Any, pointer: Any, floats: int = 1, locality: int = 3) -> None:
    """Ask for the cache lines of ``floats`` floats from ``pointer`` on; an address that is not ours does nothing.

    ``locality`` is LLVM's: 3 for the first cache, 2 for the second.
    """
    byte = ir.IntType(8).as_pointer()
    shape = ir.FunctionType(ir.VoidType(), [byte, INT32, INT32, INT32])
    function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
    first = builder.bitcast(pointer, byte)
    for line in range(max(1, floats // _LINE)):
        place = builder.gep(first, [INT32(4 * _LINE * line)])
        builder.call(function, [place, INT32(0), INT32(locality), INT32(1)])


def sum_of_lanes(builder: Any, vectors: Sequence[Any]) -> Any:
    """Return the sum of all elements of all float ``vectors``, the vectors first."""
    whole = vectors[0]
    for other in vectors[1:]:
        whole = builder.fadd(whole, other)
    total = builder.extract_element(whole, INT32(0))
    for lane in range(1, whole.type.count):
        total = builder.fadd(total, builder.extract_element(whole, INT32(lane)))
    return total


#: Floats of a cache line, how many are asked for ahead, and rows so short that hardware sees the next ones by itself.
_LINE, _AHEAD, _SHORT = 16, 2048, 256
#: Floats up to which a matrix is likely to be in a second cache, where nothing needs to be asked for.
_NEAR = 1 << 18


@emitted()
def ask_for(builder: Any, address: Any) -> None:
    """Have the cache line at an address fetched; one that is not ours does nothing."""
    prefetch(builder, builder.inttoptr(address, ir.IntType(8).as_pointer()))


@kernel
def ask_ahead(x: Any, number: Any, stop: Any) -> None:
    """While row ``number`` of the contiguous float32 matrix ``x`` is worked on, ask for one before row ``stop``."""
    width = x.shape[1]
    if width < _SHORT or x.size <= _NEAR:
        return
    later = number + max(1, _AHEAD // width)
    if later < stop:
        for line in range(0, width, _LINE):
            ask_for(x.ctypes.data + 4 * (later * width + line))

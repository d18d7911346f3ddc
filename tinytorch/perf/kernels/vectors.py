"""Loops of vector instructions of a chosen width, written in LLVM's language for Numba's intrinsics.

Numba turns a plain loop into vector instructions of the width that LLVM prefers for the CPU, which is 256 bits on
several that have 512. A probe of the ceiling must not depend on that preference, so its vectors have a stated width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils

FLOAT = ir.FloatType()
INT32 = ir.IntType(32)


def compiled(function: Callable[..., Any], signature: Any) -> Any:
    """Return ``function`` compiled now, for ``signature`` alone, without the interpreter's lock.

    It is not cached on disk: Numba does not show the assembly of what it read back, and the assembly is evidence.
    """
    return njit([signature], nogil=True, error_model="numpy")(function)


def data_pointer(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Return the pointer to the first element of a NumPy array that a kernel was given."""
    return context.make_array(array_type)(context, builder, array).data


def length(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Return the number of elements of a one-dimensional array that a kernel was given."""
    return cgutils.unpack_tuple(builder, context.make_array(array_type)(context, builder, array).shape, 1)[0]


def vector_pointer(builder: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """Return the pointer to a ``vector`` that begins at element ``index``."""
    return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())


def load(builder: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """Return the ``vector`` that begins at element ``index``, at any address."""
    return builder.load(vector_pointer(builder, pointer, index, vector), align=4)


def store(builder: Any, value: Any, pointer: Any, index: Any) -> None:
    """Write the vector ``value`` from element ``index`` on, at any address."""
    builder.store(value, vector_pointer(builder, pointer, index, value.type), align=4)


def filled(builder: Any, scalar: Any, vector: Any) -> Any:
    """Return a ``vector`` whose elements are all ``scalar``."""
    value = ir.Constant(vector, ir.Undefined)
    for lane in range(vector.count):
        value = builder.insert_element(value, scalar, INT32(lane))
    return value


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


def variables(builder: Any, vector: Any, count: int) -> list[Any]:
    """Return ``count`` variables of type ``vector`` that hold zero; LLVM keeps them in registers."""
    made = []
    for _ in range(count):
        slot = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, None), slot)
        made.append(slot)
    return made


def sum_of_lanes(builder: Any, vectors: Sequence[Any]) -> Any:
    """Return the sum of all elements of all float ``vectors``, the vectors first."""
    whole = vectors[0]
    for other in vectors[1:]:
        whole = builder.fadd(whole, other)
    total = builder.extract_element(whole, INT32(0))
    for lane in range(1, whole.type.count):
        total = builder.fadd(total, builder.extract_element(whole, INT32(lane)))
    return total

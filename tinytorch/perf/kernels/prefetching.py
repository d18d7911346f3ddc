"""Asks for the next rows of a matrix while one is worked on: hardware looks ahead only within a page of memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tinytorch.perf.kernels import vectors
from tinytorch.perf.kernels.compiling import kernel

#: Floats of a cache line, how many are asked for ahead, and rows so short that hardware sees the next ones by itself.
_LINE, _AHEAD, _SHORT = 16, 2048, 256


def _ask_for(_typing: Any, address: Any) -> Any:
    """Type and emit `ask_for`."""

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vectors.prefetch(builder, builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(address), emit


#: ``ask_for(address)``: have the cache line at an address fetched; one that is not ours does nothing.
ask_for = intrinsic(_ask_for)


@kernel
def ask_ahead(x: Any, number: Any, stop: Any) -> None:
    """While row ``number`` of the contiguous float32 matrix ``x`` is worked on, ask for one before row ``stop``."""
    width = x.shape[1]
    if width < _SHORT:
        return
    later = number + max(1, _AHEAD // width)
    if later < stop:
        for line in range(0, width, _LINE):
            ask_for(x.ctypes.data + 4 * (later * width + line))

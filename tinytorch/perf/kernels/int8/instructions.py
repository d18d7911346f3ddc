"""Instructions that multiply bytes on this CPU: 8-bit dot product, 16-bit multiply-add, or plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime.vectors import INT32, cpu_features

INT16 = ir.IntType(16)


@dataclass(frozen=True)
class Dot:
    """A way to add, in each 32-bit lane, products of unsigned bytes with signed ones.

    Lane i gets the four products of both vectors' bytes 4 i to 4 i + 3. Of a ``square`` it gets eight: the vectors are
    two rows and two columns of eight bytes each, and the lanes their four products, first row first.

    Attributes:
        name: of the instruction, as in a disassembly.
        lanes: 32-bit lanes of a vector.
        features: what the CPU must have, as LLVM names it.
        rows: rows of a register tile whose accumulators and operands fit the registers.
        panels: 16 columns each, of the same tile.
        number: tells the kernels which it is; see `marker`.
        less: what it takes from each unsigned byte first, to have a signed one: sums lack it times the signed bytes.
        indexed: whether it takes one of a vector's lanes in place of all, so that a load serves four of them.
        square: whether it multiplies two rows by two columns.
    """

    name: str
    lanes: int
    features: frozenset[str]
    rows: int
    panels: int
    number: int
    less: int = 0
    indexed: bool = False
    square: bool = False

    @property
    def products(self) -> int:
        """How many products each lane adds."""
        return 8 if self.square else 4

    @property
    def is_dot_product(self) -> bool:
        """Whether one instruction multiplies the bytes and adds their products; others take several."""
        return not self.name.startswith(("vpmaddwd", "multiply"))

    @cached_property
    def marker(self) -> Array:
        """An argument whose type alone, by its axes, says which instruction a kernel is compiled for."""
        return np.zeros((0,) * (self.number + 1), np.uint8)


#: Fastest first. Sources: Intel 64 manual, volume 2, VPDPBUSD and PMADDWD; Arm A64 instructions, USMMLA, USDOT, SDOT.
#: USMMLA takes a unit of a Neoverse V2 no longer than USDOT does (LLVM, AArch64SchedNeoverseV2.td), for twice as many
#: products; a tile takes a fifth fewer vector instructions with it, those included that arrange its operands.
DOTS = (
    Dot("vpdpbusd zmm", 16, frozenset({"avx512f", "avx512vnni"}), 12, 2, 0),
    Dot("vpdpbusd ymm", 8, frozenset({"avx2", "avxvnni"}), 6, 1, 1),
    Dot("vpmaddwd zmm", 16, frozenset({"avx512f", "avx512bw"}), 6, 2, 2),
    Dot("vpmaddwd ymm", 8, frozenset({"avx2"}), 4, 1, 3),
    Dot("usmmla", 4, frozenset({"neon", "i8mm"}), 4, 1, 4, square=True),
    Dot("usdot", 4, frozenset({"neon", "i8mm"}), 4, 1, 5, indexed=True),
    Dot("sdot", 4, frozenset({"neon", "dotprod"}), 4, 1, 6, less=128, indexed=True),
    Dot("multiply", 4, frozenset(), 2, 1, 7),
)


def available_dots() -> list[Dot]:
    """Return the instructions that run on this CPU, the fastest first; the last one runs on every CPU."""
    features = cpu_features()
    return [dot for dot in DOTS if dot.features <= features]


Prepared = tuple[Any, ...]
#: ``add(sums, left, right)`` of prepared vectors.
Add = Callable[[Any, Prepared, Prepared], Any]


def emitters(builder: Any, dot: Dot) -> tuple[Callable[[Any], Prepared], Callable[[Any], Prepared], Add]:
    """Return what emits a dot product: preparing a vector of unsigned bytes, one of signed bytes, and adding.

    Vectors come as 32-bit lanes. Every way is exact: the products and their sums are those of 32-bit integers, of
    unsigned bytes from which ``dot.less`` was taken.
    """
    vector = ir.VectorType(INT32, dot.lanes)
    if dot.name.startswith("vpdpbusd"):
        name = f"llvm.x86.avx512.vpdpbusd.{32 * dot.lanes}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
        return (
            lambda left: (left,),
            lambda right: (right,),
            lambda sums, left, right: builder.call(function, [sums, *left, *right]),
        )
    if dot.name.startswith("vpmaddwd"):
        return _multiply_adds(builder, dot, vector)
    if dot.name in ("usmmla", "usdot", "sdot"):
        return _arm_dots(builder, dot, vector)
    return _multiplications(builder, vector)


def _multiply_adds(builder: Any, dot: Dot, vector: Any) -> tuple[Any, Any, Add]:
    """Split bytes at even and odd places into 16-bit lanes, whose products vpmaddwd adds in pairs."""
    halves = ir.VectorType(INT16, 2 * dot.lanes)
    name = "llvm.x86.avx512.pmaddw.d.512" if dot.lanes == 16 else "llvm.x86.avx2.pmadd.wd"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [halves] * 2), name)
    eight, mask = (ir.Constant(halves, [value] * halves.count) for value in (8, 255))

    def unsigned(left: Any) -> Prepared:
        words = builder.bitcast(left, halves)
        return builder.and_(words, mask), builder.lshr(words, eight)

    def signed(right: Any) -> Prepared:
        words = builder.bitcast(right, halves)
        return builder.ashr(builder.shl(words, eight), eight), builder.ashr(words, eight)

    def add(sums: Any, left: Prepared, right: Prepared) -> Any:
        for one, other in zip(left, right, strict=True):
            sums = builder.add(sums, builder.call(function, [one, other]))
        return sums

    return unsigned, signed, add


def _arm_dots(builder: Any, dot: Dot, vector: Any) -> tuple[Any, Any, Add]:
    """Multiply unsigned bytes by signed ones; or, where both must be signed, bytes less 128: their top bit turned."""
    octets = ir.VectorType(ir.IntType(8), 4 * dot.lanes)
    name = f"llvm.aarch64.neon.{dot.name}.v4i32.v16i8"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector, octets, octets]), name)
    top_bits = ir.Constant(vector, [0x80808080] * dot.lanes)

    def add(sums: Any, left: Prepared, right: Prepared) -> Any:
        # A lane of the left one is part of the instruction only if LLVM finds it on the right of SDOT.
        pair = (*right, *left) if dot.name == "sdot" else (*left, *right)
        return builder.call(function, [sums, *(builder.bitcast(each, octets) for each in pair)])

    return lambda left: (builder.xor(left, top_bits) if dot.less else left,), lambda right: (right,), add


def _multiplications(builder: Any, vector: Any) -> tuple[Any, Any, Add]:
    """Take the four bytes of each lane apart and multiply them as 32-bit integers."""

    def constant(value: int) -> Any:
        return ir.Constant(vector, [value] * vector.count)

    def unsigned(left: Any) -> Prepared:
        return tuple(builder.and_(builder.lshr(left, constant(8 * i)), constant(255)) for i in range(4))

    def signed(right: Any) -> Prepared:
        return tuple(builder.ashr(builder.shl(right, constant(24 - 8 * i)), constant(24)) for i in range(4))

    def add(sums: Any, left: Prepared, right: Prepared) -> Any:
        for one, other in zip(left, right, strict=True):
            sums = builder.add(sums, builder.mul(one, other))
        return sums

    return unsigned, signed, add

"""Entry points: kernels of one signature, so that a compiled loop can call any of them by its address.

An entry takes the address of its row in a table of int64: the entry's own address, then addresses of operands, sizes
and flags. `replay` walks such a table, so that any number of kernels is one call from Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at, words_at
from tinytorch.perf.kernels.runtime.threads import give_way

#: Numbers of a row of a table. The last two say which share of how many an entry is to do, if it can be divided.
WORDS = 32
SHARE, SHARES = WORDS - 2, WORDS - 1
#: Axes of a copy, once neighbours that lie in a row are joined.
AXES = 5
#: Places in a frame, which tells `replay` what it runs: addresses of table and patches, how many rows there are and how
#: many patches, and bytes from one block of samples to the next in the input and in the output.
TABLE, PATCHES, ROW_COUNT, PATCH_COUNT, INPUT_STEP, OUTPUT_STEP, FRAME = range(7)
#: Places in a patch: the row and the word that an address goes to, whether it is the output's, and its offset in bytes.
PATCH = 4
#: Whether this system has the clock that `timed_replay` reads.
HAS_CLOCK = hasattr(time, "CLOCK_MONOTONIC")
#: How often a thread looks whether the others have come before it gives its core to others between two looks.
_LOOKS = 2000
_CLOCK = np.int32(getattr(time, "CLOCK_MONOTONIC", 0))
_read_clock = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@vectors.emitted()
def _call(builder: Any, address: Any, row: Any) -> None:
    """Call the entry at an address with the address of its row."""
    # How Numba compiles a function of one int64: places for the result and the error, then the argument.
    place = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.IntType(32), [place.as_pointer(), place.as_pointer(), ir.IntType(64)])
    result, error = cgutils.alloca_once(builder, place), cgutils.alloca_once(builder, place)
    builder.call(builder.inttoptr(address, kind.as_pointer()), [result, error, row])


@vectors.emitted(types.int64, [types.int64, types.int64])
def _add_atomic(builder: Any, address: Any, number: Any) -> Any:
    """Add a number to the int64 at an address that other threads read and write; return what was there."""
    return builder.atomic_rmw("add", builder.inttoptr(address, ir.IntType(64).as_pointer()), number, "seq_cst")


class Entry:
    """A kernel that a table calls: ``function(row)`` is compiled when its address is asked for.

    ``variant`` tells it from others that the same lines make; see `compiling.kernel`.
    """

    def __init__(self, function: Callable[[int], None], variant: str = "") -> None:
        self._compiled = kernel(function, variant)

    @cached_property
    def address(self) -> int:
        """Address of the compiled code, which stays as long as this object does."""
        signature = (types.int64,)
        self._compiled.compile(signature)
        made = self._compiled.overloads[signature]
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def entry_of(share: Any, items: int, arrays: Any, name: str) -> Entry:
    """Return the entry that runs a kernel ``share(start, stop, *operands)`` on the operands of its row.

    Args:
        share: the kernel that the op's implementation runs too.
        items: the word of a row that says how many items there are.
        arrays: the kernel ``f(row)`` that returns all operands, views of the memory that the row's words tell.
        name: what tells this entry from others.
    """

    def run(row: int) -> None:
        w = words_at(row, WORDS)
        first, last = part(w, w[items])
        share(first, last, *arrays(row))

    return Entry(run, name)


def _copy_strided(row: int) -> None:
    """Copy elements; words: source, target, lengths of `AXES` axes, strides of source, strides of target."""
    w = words_at(row, WORDS)
    n0, n1, n2, n3, n4 = w[3], w[4], w[5], w[6], w[7]
    for i in range(n0):
        for j in range(n1):
            for k in range(n2):
                for m in range(n3):
                    source = w[1] + 4 * (i * w[8] + j * w[9] + k * w[10] + m * w[11])
                    target = w[2] + 4 * (i * w[13] + j * w[14] + k * w[15] + m * w[16])
                    if w[12] == 1 and w[17] == 1:
                        given, made = floats_at(source, n4), floats_at(target, n4)
                        for n in range(n4):
                            made[n] = given[n]
                    else:
                        for n in range(n4):
                            floats_at(target + 4 * n * w[17], 1)[0] = floats_at(source + 4 * n * w[12], 1)[0]


copy_strided = Entry(_copy_strided)


@kernel
def _patch(frame: Any, x: Any, out: Any, block: Any) -> None:
    """Write where a block's input and output lie into the rows that read and write them."""
    table, patches = frame[TABLE], words_at(frame[PATCHES], PATCH * frame[PATCH_COUNT])
    for number in range(0, PATCH * frame[PATCH_COUNT], PATCH):
        word = words_at(table + 8 * (patches[number] * WORDS + patches[number + 1]), 1)
        if patches[number + 2]:
            word[0] = out + block * frame[OUTPUT_STEP] + patches[number + 3]
        else:
            word[0] = x + block * frame[INPUT_STEP] + patches[number + 3]


@kernel
def replay(first: Any, stop: Any, frames: Any, x: Any, out: Any, blocks: Any) -> None:
    """Run the tables of shares ``first`` to ``stop``, each on its part of ``blocks`` blocks of samples.

    Args:
        first, stop: shares; there are as many as ``frames``.
        frames: (shares, `FRAME`): one for each share, as each has intermediate results of its own.
        x, out: contiguous input and output of all blocks.
        blocks: how many there are.
    """
    for share in range(first, stop):
        frame = frames[share]
        for block in range(share * blocks // len(frames), (share + 1) * blocks // len(frames)):
            _patch(frame, x.ctypes.data, out.ctypes.data, block)
            row = frame[TABLE]
            for _ in range(frame[ROW_COUNT]):
                _call(words_at(row, 1)[0], row)
                row += 8 * WORDS


@kernel
def part(w: Any, items: Any) -> Any:
    """Return the first item of a row's share of ``items``, and the one after its last."""
    return w[SHARE] * items // w[SHARES], (w[SHARE] + 1) * items // w[SHARES]


@kernel
def replay_together(first: Any, stop: Any, frames: Any, x: Any, out: Any, meeting: Any) -> None:
    """Run one block on several threads: each does its share of every step, and waits until all have done theirs.

    Args:
        first, stop: the shares of this thread, of as many as there are ``frames``.
        frames: (shares, `FRAME`): tables of the same arena, each with its share in its rows. A step that cannot be
            divided is done by the first.
        x, out: contiguous input and output.
        meeting: one int64, 0 at the start: how many shares of steps are done.
    """
    shares, counter = len(frames), meeting.ctypes.data
    for share in range(first, stop):
        _patch(frames[share], x.ctypes.data, out.ctypes.data, 0)
    for number in range(frames[0, ROW_COUNT]):
        for share in range(first, stop):
            row = frames[share, TABLE] + 8 * WORDS * number
            w = words_at(row, WORDS)
            if share == 0 or w[SHARES] > 1:
                _call(w[0], row)
        done, turns = _add_atomic(counter, stop - first) + stop - first, 0
        while done < shares * (number + 1):
            turns += 1
            if turns > _LOOKS:
                give_way()
            done = _add_atomic(counter, 0)


@kernel
def replay_row(frame: Any, x: Any, out: Any, block: Any, number: Any) -> None:
    """Run one row of a frame's table on one block."""
    _patch(frame, x.ctypes.data, out.ctypes.data, block)
    row = frame[TABLE] + 8 * WORDS * number
    _call(words_at(row, 1)[0], row)


@kernel
def timed_replay(frame: Any, x: Any, out: Any, block: Any, times: Any) -> None:
    """Run a frame's table on one block, and write the clock in nanoseconds before the first row and after each."""
    clock = np.empty(2, np.int64)
    _patch(frame, x.ctypes.data, out.ctypes.data, block)
    row = frame[TABLE]
    _read_clock(_CLOCK, clock.ctypes.data)
    times[0] = clock[0] * 1_000_000_000 + clock[1]
    for number in range(frame[ROW_COUNT]):
        _call(words_at(row, 1)[0], row)
        _read_clock(_CLOCK, clock.ctypes.data)
        times[number + 1] = clock[0] * 1_000_000_000 + clock[1]
        row += 8 * WORDS


def bits_of_float(value: float) -> int:
    """Return the word whose low half is ``value`` as a float32: how a row holds a number that is not whole."""
    return int(np.float32(value).view(np.int32)) & 0xFFFFFFFF


def address_of(array: Array) -> int:
    """Return where an array begins."""
    return int(array.ctypes.data)

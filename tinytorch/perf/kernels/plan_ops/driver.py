"""Entry points: kernels of one signature, so that a compiled loop can call any of them by its address.

An entry takes the address of its row in a table: the entry's own address, then addresses of operands, sizes, flags and
numbers. `replay` walks such a table, so that any number of kernels is one call from Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, from_dtype, types
from numba.core import cgutils

from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at, pointer_to, records_of, words_at
from tinytorch.perf.kernels.runtime.threads import give_way

#: Numbers of a row of a table. The last two say which share of how many an entry is to do, if it can be divided.
WORDS = 32
SHARE, SHARES = WORDS - 2, WORDS - 1
#: Axes of a copy, once neighbours that lie in a row are joined.
AXES = 5
#: What `replay` runs: addresses of table and patches, how many rows there are and how many patches, and bytes from one
#: block of samples to the next in the input and in the output.
_FRAME_NAMES = ("table", "patches", "row_count", "patch_count", "input_step", "output_step")
FRAME = np.dtype([(name, np.int64) for name in _FRAME_NAMES])
#: Where the address of a block's input or output goes, a row and a word of it, with an offset in bytes.
PATCH = np.dtype([(name, np.int64) for name in ("row", "word", "is_output", "offset")])
frames_of, _patches_at = records_of(FRAME, "of_frames"), pointer_to(from_dtype(PATCH))
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

    Args:
        function: takes its row as a record with the fields ``words``, ``numbers``, "share" and "shares": which share of
            how many it is to do, if it can be divided.
        words: names of addresses and whole numbers, one after another as for a named tuple.
        numbers: names of floats, likewise.
        variant: tells it from others that the same lines make; see `compiling.kernel`.
    """

    def __init__(self, function: Callable[[Any], None], words: str, numbers: str = "", variant: str = "") -> None:
        integers, floats = words.split(), numbers.split()
        self.names = (*integers, *floats)
        record = np.dtype(
            {
                "names": [*self.names, "share", "shares"],
                "formats": [np.int64] * len(integers) + [np.float64] * len(floats) + [np.int64] * 2,
                "offsets": [*range(8, 8 + 8 * len(self.names), 8), 8 * SHARE, 8 * SHARES],
                "itemsize": 8 * WORDS,
            }
        )
        record_at, run = pointer_to(from_dtype(record)), kernel(function, variant)

        def entry(row: int) -> None:
            run(carray(record_at(row), (1,))[0])

        module = function.__module__.rpartition(".")[2]
        self.compiled = kernel(entry, f"{module}_{variant or function.__name__}")

    @cached_property
    def address(self) -> int:
        """Address of the compiled code, which stays as long as this object does."""
        signature = (types.int64,)
        self.compiled.compile(signature)
        made = self.compiled.overloads[signature]
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def entry_of(share: Any, operands: Any, name: str, words: str, numbers: str = "") -> Entry:
    """Return the entry that runs a kernel ``share(start, stop, *operands)`` on the operands of its row.

    Args:
        share: the kernel that the op's implementation runs too.
        operands: the kernel ``f(row)`` that returns how many items there are, and a tuple of all operands.
        name: what tells this entry from others.
        words, numbers: of the row; see `Entry`.
    """

    def run(row: Any) -> None:
        items, given = operands(row)
        first, last = part(row, items)
        share(first, last, *given)

    return Entry(run, words, numbers, name)


def _copy_strided(w: Any) -> None:
    for i in range(w.n0):
        for j in range(w.n1):
            for k in range(w.n2):
                for m in range(w.n3):
                    source = w.source + 4 * (i * w.a0 + j * w.a1 + k * w.a2 + m * w.a3)
                    target = w.target + 4 * (i * w.b0 + j * w.b1 + k * w.b2 + m * w.b3)
                    if w.a4 == 1 and w.b4 == 1:
                        given, made = floats_at(source, w.n4), floats_at(target, w.n4)
                        for n in range(w.n4):
                            made[n] = given[n]
                    else:
                        for n in range(w.n4):
                            floats_at(target + 4 * n * w.b4, 1)[0] = floats_at(source + 4 * n * w.a4, 1)[0]


_NAMES = " ".join(f"{kind}{axis}" for kind in "nab" for axis in range(AXES))
#: Copies elements along `AXES` axes of lengths n, strides of the source a and of the target b.
copy_strided = Entry(_copy_strided, f"source target {_NAMES}")


@kernel
def _patch(frame: Any, x: Any, out: Any, block: Any) -> None:
    """Write where a block's input and output lie into the rows that read and write them."""
    patches = carray(_patches_at(frame.patches), (frame.patch_count,))
    for number in range(frame.patch_count):
        patch = patches[number]
        word = words_at(frame.table + 8 * (patch.row * WORDS + patch.word), 1)
        if patch.is_output:
            word[0] = out + block * frame.output_step + patch.offset
        else:
            word[0] = x + block * frame.input_step + patch.offset


@kernel
def replay(first: Any, stop: Any, frames: Any, x: Any, out: Any, blocks: Any) -> None:
    """Run the tables of shares ``first`` to ``stop``, each on its part of ``blocks`` blocks of samples.

    Args:
        first, stop: shares; there are as many as ``frames``.
        frames: a `FRAME` for each share, as each has intermediate results of its own.
        x, out: contiguous input and output of all blocks.
        blocks: how many there are.
    """
    records = frames_of(frames)
    for share in range(first, stop):
        frame = records[share]
        for block in range(share * blocks // len(records), (share + 1) * blocks // len(records)):
            _patch(frame, x.ctypes.data, out.ctypes.data, block)
            row = frame.table
            for _ in range(frame.row_count):
                _call(words_at(row, 1)[0], row)
                row += 8 * WORDS


@kernel
def part(w: Any, items: Any) -> Any:
    """Return the first item of a row's share of ``items``, and the one after its last."""
    return w.share * items // w.shares, (w.share + 1) * items // w.shares


@kernel
def replay_together(first: Any, stop: Any, frames: Any, x: Any, out: Any, meeting: Any) -> None:
    """Run one block on several threads: each does its share of every step, and waits until all have done theirs.

    Args:
        first, stop: the shares of this thread, of as many as there are ``frames``.
        frames: a `FRAME` for each share: tables of the same arena, each with its share in its rows. A step that cannot
            be divided is done by the first.
        x, out: contiguous input and output.
        meeting: one int64, 0 at the start: how many shares of steps are done.
    """
    records, counter = frames_of(frames), meeting.ctypes.data
    shares = len(records)
    for share in range(first, stop):
        _patch(records[share], x.ctypes.data, out.ctypes.data, 0)
    for number in range(records[0].row_count):
        for share in range(first, stop):
            row = records[share].table + 8 * WORDS * number
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
def replay_row(frames: Any, x: Any, out: Any, block: Any, number: Any) -> None:
    """Run one row of the first frame's table on one block."""
    frame = frames_of(frames)[0]
    _patch(frame, x.ctypes.data, out.ctypes.data, block)
    row = frame.table + 8 * WORDS * number
    _call(words_at(row, 1)[0], row)


@kernel
def timed_replay(frames: Any, x: Any, out: Any, block: Any, times: Any) -> None:
    """Run the first frame's table on one block; write the clock in nanoseconds before the first row and after each."""
    clock, frame = np.empty(2, np.int64), frames_of(frames)[0]
    _patch(frame, x.ctypes.data, out.ctypes.data, block)
    row = frame.table
    _read_clock(_CLOCK, clock.ctypes.data)
    times[0] = clock[0] * 1_000_000_000 + clock[1]
    for number in range(frame.row_count):
        _call(words_at(row, 1)[0], row)
        _read_clock(_CLOCK, clock.ctypes.data)
        times[number + 1] = clock[0] * 1_000_000_000 + clock[1]
        row += 8 * WORDS


def address_of(array: Array) -> int:
    """Return where an array begins."""
    return int(array.ctypes.data)

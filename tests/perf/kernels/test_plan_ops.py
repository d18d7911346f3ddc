"""Entry points: the loop that calls them, and what their innermost loops are made of."""

import re
from typing import Any

import numpy as np
import pytest
from numba import njit, types

from tinytorch.core import ops
from tinytorch.core.op import Array, Work
from tinytorch.perf.kernels.gemm.register_tiles import LANES
from tinytorch.perf.kernels.gemm.row_products import row_product
from tinytorch.perf.kernels.plan_ops import conv_pool
from tinytorch.perf.kernels.plan_ops.binding import (
    Binder,
    Buffer,
    Constants,
    RecordedOp,
    Value,
    View,
    joined_axes,
    lay_out,
)
from tinytorch.perf.kernels.plan_ops.driver import FRAME, PATCH, WORDS, Entry, address_of, replay
from tinytorch.perf.kernels.runtime.evidence import packed_instructions
from tinytorch.perf.kernels.runtime.flat import floats_at


def _add_number(w: Any) -> None:
    floats_at(w.place, 1)[0] += w.whole + w.part


def test_the_loop_calls_each_row_with_its_own_words() -> None:
    entry = [Entry(_add_number, "place whole", "part") for _ in range(2)][1]  # the second is read from disk
    numbers = np.zeros(3, np.float32)
    rows = np.zeros((3, WORDS), np.int64)
    for index in range(3):
        rows[index, :3] = entry.address, address_of(numbers) + 4 * index, 10**index
        rows[index, 3:4].view(np.float64)[:] = 0.5
    patches = np.zeros(0, PATCH)
    frames = np.array([(address_of(rows), address_of(patches), 3, 0, 0, 0)], FRAME).view(np.int64)
    replay(0, 1, frames, numbers, numbers, 4)
    assert numbers.tolist() == [6, 42, 402]


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (row_product.py_func, (types.float32[::1],) * 4 + (types.int64,)),
        (conv_pool.convolve_windows.compiled.py_func, (types.int64,)),
    ],
)
def test_the_innermost_loops_are_of_packed_multiply_adds(function: Any, takes: tuple[Any, ...]) -> None:
    version = njit(nogil=True, error_model="numpy")(function)
    version.compile(takes)
    # What it calls is inlined, or beside it in its library.
    (made,) = version.overloads.values()
    found = packed_instructions(made.library.get_asm_str())
    register = "zmm" if LANES == 16 else r"\w+"
    kinds = [name for name in found if re.fullmatch(rf"(vfmadd\w+|fmla|mulps) {register}", name)]
    assert sum(found[name] for name in kinds) >= 12, found


def array(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def test_neighbours_that_lie_in_a_row_are_one_axis() -> None:
    maps = array(2, 8, 4, 3)[:, :, 1:3]
    strides = tuple(stride // 4 for stride in maps.strides)
    assert joined_axes(maps.shape, [strides], 4) == ([1, 1, 16, 6], [[0, 0, 12, 1]])
    assert joined_axes((1, 5, 1), [(99, 1, 7)], 2) == ([1, 5], [[0, 1]])


def test_buffers_overlap_only_if_their_lives_do_not() -> None:
    draw = np.random.default_rng(0)
    buffers = []
    for _ in range(200):
        first = int(draw.integers(0, 50))
        buffers.append(Buffer("arena", int(draw.integers(1, 5000)), first=first, last=first + int(draw.integers(0, 9))))
    end = lay_out(buffers)
    assert end < sum(buffer.floats for buffer in buffers)
    for one in buffers:
        assert one.start + one.floats <= end
        for other in buffers:
            if one is other or one.last < other.first or other.last < one.first:
                continue
            assert one.start + one.floats <= other.start or other.start + other.floats <= one.start


def test_views_see_the_same_memory_and_the_first_step_of_an_op_carries_its_work() -> None:
    binder = Binder(Constants(), np.zeros(1, np.int64))
    made = Value((6, 4), np.dtype(np.float32))
    node = RecordedOp(ops.relu, (made,), {}, made, Work(elementwise=24), "relu", "")
    binder.begin(node)
    whole = binder.new((4, 6))
    turned = whole.moved(lambda each: each.T)
    assert (turned.buffer, turned.shape, turned.strides) == (whole.buffer, (6, 4), (1, 6))
    copied = binder.contiguous(turned)
    assert isinstance(copied, View)
    assert copied.buffer is not whole.buffer
    assert [getattr(step, "work", None) for step in binder.steps] == [Work()]
    assert binder.contiguous(whole).buffer is whole.buffer

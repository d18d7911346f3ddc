"""Several codes to a byte, and back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.perf.ops.packed_codes import PanelLayout, packed_length
from tinytorch.perf.quantization import pack, unpack


@given(data=st.data(), bits=st.sampled_from([8, 4, 2]), axis=st.sampled_from([0, 1, -1]))
@settings(max_examples=100, deadline=None)
def test_a_round_trip_is_exact(data: st.DataObject, bits: int, axis: int) -> None:
    half = 2 ** (bits - 1)
    shape = hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=9)
    codes = data.draw(hnp.arrays(np.int8, shape, elements=st.integers(-half, half - 1)))
    packed = pack(codes, bits, axis)
    length = codes.shape[axis]
    assert packed.shape[axis] == -(-length * bits // 8) == packed_length(length, bits)
    assert packed.nbytes * (8 // bits) >= codes.nbytes
    np.testing.assert_array_equal(unpack(packed, bits, length, axis), codes)


def test_the_first_code_is_in_the_lowest_bits_without_a_sign() -> None:
    assert pack(np.array([-8, 7, 0], np.int8), 4).tolist() == [0xF0, 0x88]
    assert pack(np.array([-2, -1, 0, 1, 1], np.int8), 2).tolist() == [0b11_10_01_00, 0b10_10_10_11]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: pack(np.zeros(2, np.int8), 3), "bits"),
        (lambda: pack(np.zeros(2, np.int16), 4), "int8"),
        (lambda: pack(np.array([8], np.int8), 4), r"-8\.\.7"),
        (lambda: unpack(np.zeros(3, np.uint8), 4, 4), "2 bytes"),
    ],
)
def test_bad_input_is_named(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()


@given(
    st.sampled_from([8, 4, 2]),
    st.integers(1, 40),
    st.integers(1, 40),
    st.none() | st.integers(1, 45),
    st.integers(0, 9),
)
def test_panels_hold_each_code_where_the_product_looks_for_it(
    bits: int, length: int, columns: int, group: int | None, seed: int
) -> None:
    half = 2 ** (bits - 1)
    codes = np.random.default_rng(seed).integers(-half, half, (length, columns)).astype(np.int8)
    layout = PanelLayout(bits, length, columns, group)
    panels = layout.arranged(pack(codes, bits))
    assert panels.flags.c_contiguous
    np.testing.assert_array_equal(layout.restored(panels), pack(codes, bits))
    alone = unpack(panels, bits, 4, axis=-1)
    segment = min(group or length, length)
    for row, column in ((0, 0), (length - 1, columns - 1), (length // 2, columns // 2)):
        part, inner = divmod(row, segment)
        assert alone[column // 16, part, inner // 4, column % 16, inner % 4] == codes[row, column]
    assert np.count_nonzero(alone) == np.count_nonzero(codes), "what fills up panels is code 0"

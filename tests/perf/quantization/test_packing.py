"""Several codes to a byte, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.perf.quantization import pack, unpack
from tinytorch.perf.quantization.packing import packed_length


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


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="bits"):
        pack(np.zeros(2, np.int8), 3)
    with pytest.raises(ValueError, match="int8"):
        pack(np.zeros(2, np.int16), 4)
    with pytest.raises(ValueError, match=r"-8\.\.7"):
        pack(np.array([8], np.int8), 4)
    with pytest.raises(ValueError, match="2 bytes"):
        unpack(np.zeros(3, np.uint8), 4, 4)

"""Q8_0 and Q4_0: bytes by hand, and the error that the formats allow. Against the gguf package: peers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.core.op import Array
from tinytorch.perf.quantization import dequantize_blocks, quantize_blocks

blocks = hnp.arrays(np.float32, st.tuples(st.integers(1, 3), st.just(64)), elements=st.floats(-1000, 1000, width=32))


@pytest.mark.parametrize(("name", "width", "half_steps"), [("Q8_0", 34, 1), ("Q4_0", 18, 2)])
@given(x=blocks)
@settings(max_examples=40, deadline=None)
def test_sizes_and_errors(name: str, width: int, half_steps: int, x: Array) -> None:
    packed = quantize_blocks(x, name)  # type: ignore[arg-type]
    assert packed.dtype == np.uint8
    assert packed.shape == (len(x), 2 * width)
    numbers = dequantize_blocks(packed, name)  # type: ignore[arg-type]
    largest = np.abs(x.reshape(-1, 32)).max(axis=1, keepdims=True)
    step = largest / (127 if name == "Q8_0" else 8)
    # Half a step, a whole one for Q4_0's missing code 16; and float16's rounding of the scale, 2^-11 of each number
    # (an absolute 2^-25 for scales that float16 holds as subnormals).
    error = np.abs(numbers.reshape(-1, 32).astype(np.float64) - x.reshape(-1, 32))
    assert (error <= step * half_steps / 2 + largest * 2.0**-10 + 128 * 2.0**-24).all()


def test_bytes_of_one_block_by_hand() -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, :4] = [127, 0.5, -0.5, -3]
    expected = np.frombuffer(np.float16(1).tobytes(), np.uint8).tolist() + [127, 1, 255, 253] + [0] * 28
    assert quantize_blocks(x, "Q8_0")[0].tolist() == expected, "halves go away from zero"
    x[0, :4] = [-8, 7, 0.5, -0.5]
    x[0, 16:20] = [8, 1, 2, 3]
    low, high = [0, 15, 9, 8] + [8] * 12, [15, 9, 10, 11] + [8] * 12
    nibbles = [a | b << 4 for a, b in zip(low, high, strict=True)]
    assert quantize_blocks(x, "Q4_0")[0].tolist() == np.frombuffer(np.float16(1).tobytes(), np.uint8).tolist() + nibbles
    assert dequantize_blocks(quantize_blocks(x, "Q4_0"), "Q4_0")[0, :2].tolist() == [-8, 7]


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0"])
def test_zeros_and_the_tiniest_numbers_become_zeros(name: str) -> None:
    for value in (0.0, 2.0**-149, 1e-38):
        packed = quantize_blocks(np.full((2, 32), value, np.float32), name)  # type: ignore[arg-type]
        assert not dequantize_blocks(packed, name).any()  # type: ignore[arg-type]


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="format_name"):
        quantize_blocks(np.zeros(32, np.float32), "Q5_0")  # type: ignore[arg-type]
    for x, says in [
        (np.zeros(31, np.float32), "multiple of 32"),
        (np.zeros(32, np.int8), "floating"),
        (np.full(32, np.nan, np.float32), "finite"),
        (np.full(32, 1e38, np.float32), "65504"),
    ]:
        with pytest.raises(ValueError, match=f"x must.*{says}"):
            quantize_blocks(x, "Q8_0")
    for packed in (np.zeros(33, np.uint8), np.zeros(34, np.int8), np.zeros((2, 0), np.uint8)):
        with pytest.raises(ValueError, match="packed"):
            dequantize_blocks(packed, "Q8_0")

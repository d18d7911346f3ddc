"""Block formats of 8 and 4 bits as GGUF files store them: Q8_0 and Q4_0, 32 numbers to a block."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.ops.affine import check_finite, floats

BlockFormat = Literal["Q8_0", "Q4_0"]

#: Numbers in a block.
BLOCK = 32
#: Bytes of a block: a float16 scale, then 32 codes of 8 or of 4 bits.
BLOCK_BYTES: dict[str, int] = {"Q8_0": 2 + BLOCK, "Q4_0": 2 + BLOCK // 2}


def _format_bytes(format_name: str) -> int:
    if format_name not in BLOCK_BYTES:
        raise ValueError(f"format_name must be one of {', '.join(BLOCK_BYTES)}, not {format_name!r}")
    return BLOCK_BYTES[format_name]


def quantize_blocks(x: Any, format_name: BlockFormat) -> Array:
    """Return the bytes of ``x``, uint8 (..., columns / 32 * bytes of a block), as reference code of ggml makes them.

    Q8_0: scale = max|x| / 127 as float16, then code = round(x / scale), halves away from zero, int8. The codes come
    of the scale in float32, before it is rounded to float16.

    Q4_0: scale = m / -8 with m the number of largest magnitude, its sign kept, so that it has code 0 and is exact;
    code = floor(x / scale + 8.5), at most 15. Byte i holds the code of number i below that of number i + 16.

    These conventions are the format's: everything else here rounds halves to even, and keeps scales in float32.
    Source: ggml, src/ggml-quants.c, quantize_row_q8_0_ref and quantize_row_q4_0_ref.

    Raises:
        ValueError: if ``x`` is empty, not floating or not finite, its last axis is no multiple of 32, or a scale is too
            large for float16.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import quantize_blocks
        >>> quantize_blocks(np.ones((2, 64), np.float32), "Q8_0").shape  # of each row two scales and 64 codes
        (2, 68)
    """
    width = _format_bytes(format_name)
    array = floats(x).astype(np.float32, copy=False)
    if array.ndim == 0 or array.shape[-1] % BLOCK:
        raise ValueError(f"x must have a last axis that is a multiple of {BLOCK}, but its shape is {array.shape}")
    check_finite(array.min(), array.max(), "x")
    rows = array.reshape(-1, BLOCK)
    magnitudes = np.abs(rows)
    if format_name == "Q8_0":
        scale = magnitudes.max(axis=1, keepdims=True) / np.float32(127)
    else:
        scale = np.take_along_axis(rows, magnitudes.argmax(axis=1, keepdims=True), 1) / np.float32(-8)
    if np.abs(scale).max() > np.finfo(np.float16).max:
        raise ValueError(f"x must be below 65504 times {127 if width > BLOCK else 8}, or the float16 scale overflows")
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
        # A scale whose inverse overflows is 0 in float16, so its codes stand for 0 whatever they are.
        levels = np.where(np.isfinite(inverse), rows * inverse, np.float32(0))
    codes = _rounded_away(levels).astype(np.int8).view(np.uint8) if format_name == "Q8_0" else _nibbles(levels)
    stored = scale.astype(np.float16).view(np.uint8)
    packed = np.concatenate([stored, codes], axis=1)
    return packed.reshape(*array.shape[:-1], array.shape[-1] // BLOCK * width)


def _rounded_away(levels: Array) -> Array:
    """Round halves away from zero, as C's roundf does."""
    magnitudes = np.abs(levels)
    whole = np.floor(magnitudes)
    return np.asarray(np.sign(levels) * (whole + np.floor(2 * (magnitudes - whole))))


def _nibbles(levels: Array) -> Array:
    """Return codes floor(level + 8.5) of 0 to 15, those of the first half of a block in the low nibbles."""
    codes = np.minimum((levels + np.float32(8.5)).astype(np.uint8), np.uint8(15))
    return np.asarray(codes[:, : BLOCK // 2] | codes[:, BLOCK // 2 :] << np.uint8(4))


def dequantize_blocks(packed: Array, format_name: BlockFormat) -> Array:
    """Return the float32 numbers of bytes that `quantize_blocks` or a GGUF file holds.

    Raises:
        ValueError: if ``packed`` is not uint8 or its last axis holds no whole number of blocks.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import dequantize_blocks, quantize_blocks
        >>> x = np.linspace(-1, 1, 32, dtype=np.float32)
        >>> float(np.abs(dequantize_blocks(quantize_blocks(x, "Q8_0"), "Q8_0") - x).max()) < 1 / 127
        True
    """
    width = _format_bytes(format_name)
    if packed.dtype != np.uint8 or packed.ndim == 0 or not packed.size or packed.shape[-1] % width:
        raise ValueError(
            f"packed must be uint8 with a last axis of whole blocks of {width} bytes, not {packed.dtype} of shape "
            f"{packed.shape}"
        )
    blocks = np.ascontiguousarray(packed).reshape(-1, width)
    scale = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    stored = blocks[:, 2:]
    if format_name == "Q8_0":
        codes = stored.view(np.int8)
    else:
        codes = np.concatenate([stored & np.uint8(15), stored >> np.uint8(4)], axis=1).view(np.int8) - np.int8(8)
    numbers = codes.astype(np.float32) * scale
    return numbers.reshape(*packed.shape[:-1], packed.shape[-1] // width * BLOCK)

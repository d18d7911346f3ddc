"""Number formats of few bits: floating point, and blocks that share a scale."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinytorch.chapters.quantization.codes import normals_with_outlier
from tinytorch.core.op import Array
from tinytorch.perf.measuring import Counted, Modelled
from tinytorch.perf.quantization.convert import decibels

#: Consecutive values that share a scale in each format of blocks.
_MX_BLOCK, _NV_BLOCK, _INT_BLOCK = 32, 16, 32
#: The largest value of E4M3.
LARGEST = 448.0
Row = dict[str, Any]
#: Mean square of a value over that of the power of two below it, if the logarithms of values are spread evenly.
_EVEN_LOGARITHMS = 1.5 / np.log(2)


def in_floating_point(values: Array, exponent_bits: int, mantissa_bits: int, largest: float) -> Array:
    """Return the values after rounding to a floating format; what is beyond the largest becomes it.

    Source: P. Micikevicius et al., FP8 Formats for Deep Learning, 2022.
    """
    least = 2 - 2 ** (exponent_bits - 1)
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(values), 2.0**-120))), least)
    step = 2.0 ** (exponent - mantissa_bits)
    return np.clip(np.round(values / step) * step, -largest, largest)


def e4m3(values: Array) -> Array:
    """Return the values in FP8 with 4 bits of exponent, E4M3."""
    return in_floating_point(values, 4, 3, LARGEST)


def e2m1(values: Array) -> Array:
    """Return the values in FP4, E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign."""
    return in_floating_point(values, 2, 1, 6.0)


def int8(values: Array, largest: float) -> Array:
    """Return the values in 8-bit symmetric integers whose grid ends at ``largest``."""
    step = largest / 127
    return np.asarray(np.clip(np.round(values / step), -127, 127) * step)


def int8_one_scale(values: Array) -> Array:
    """Return the values in 8-bit symmetric integers with one scale for all."""
    return int8(values, float(np.abs(values).max()))


def mxfp4(values: Array) -> Array:
    """Return the values in blocks of 32 FP4 with a power of two for each (OCP Microscaling)."""
    blocks = values.reshape(-1, _MX_BLOCK)
    scale = 2.0 ** (np.floor(np.log2(np.abs(blocks).max(axis=1, keepdims=True))) - 2)
    return (e2m1(blocks / scale) * scale).reshape(values.shape)


def nvfp4(values: Array) -> Array:
    """Return the values in blocks of 16 FP4 with an E4M3 scale for each, and one for all of them."""
    blocks = values.reshape(-1, _NV_BLOCK)
    whole = np.abs(values).max() / (6.0 * LARGEST)
    scale = np.maximum(e4m3(np.abs(blocks).max(axis=1, keepdims=True) / 6.0 / whole) * whole, 1e-30)
    return (e2m1(blocks / scale) * scale).reshape(values.shape)


def int4(values: Array) -> Array:
    """Return the values in blocks of 32 four-bit integers with a float16 scale for each."""
    blocks = values.reshape(-1, _INT_BLOCK)
    step = (np.abs(blocks).max(axis=1, keepdims=True) / 7).astype(np.float16).astype(np.float64)
    return (np.clip(np.round(blocks / step), -7, 7) * step).reshape(values.shape)


#: Each format: how it rounds, and its bits per value.
_FORMATS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "INT8, one scale": (int8_one_scale, 8.0),
    "FP8, E4M3": (e4m3, 8.0),
    "INT4, blocks of 32": (int4, 4 + 16 / _INT_BLOCK),
    "MXFP4, blocks of 32": (mxfp4, 4 + 8 / _MX_BLOCK),
    "NVFP4, blocks of 16": (nvfp4, 4 + 8 / _NV_BLOCK),
}


def by_size(sizes: Sequence[float], count: int = 50_000) -> list[Row]:
    """Return the signal to noise of values of such sizes in 8-bit integers and in FP8, ``predicted`` and ``found``.

    The logarithms of the values are spread evenly between half the size, a power of two, and the size. Both grids end
    at 448.
    """
    draw = np.random.default_rng(0)
    spread = 2.0 ** draw.uniform(-1, 0, count) * draw.choice([-1, 1], count)

    def row(size: float, name: str, found: Array, step: float) -> Row:
        what = f"signal to noise, {name}, values up to {size:g}"
        predicted = 10 * float(np.log10(12 * _EVEN_LOGARITHMS * (size / 2) ** 2 / step**2))
        return {
            "size": size,
            "format": name,
            "predicted": Modelled(predicted, "dB", what, "squared step over 12"),
            "found": Counted(decibels(size * spread, found), "dB", what),
        }

    return [
        each
        for size in sizes
        for each in (
            row(size, "INT8", int8(size * spread, LARGEST), LARGEST / 127),
            row(size, "FP8", e4m3(size * spread), max(size / 2, 2.0**-6) / 8),
        )
    ]


def floating_signal(mantissa_bits: int) -> Modelled:
    """Return the signal to noise of a floating format, for values whose logarithms are spread evenly."""
    value = 10 * float(np.log10(12 * 4**mantissa_bits * _EVEN_LOGARITHMS))
    return Modelled(value, "dB", f"signal to noise with {mantissa_bits} bits of mantissa", "squared step over 12")


def crossing() -> Modelled:
    """Return the size of values at which 8-bit integers and E4M3 have one signal to noise, if both end at 448."""
    size = LARGEST / 127 * 2 * float(np.sqrt(10 ** (floating_signal(3).value / 10) / (12 * _EVEN_LOGARITHMS)))
    return Modelled(size, "1", "size of values with one signal to noise in INT8 and E4M3", "squared step over 12")


def bits_of(bits: int, scale_bits: int, block: int) -> Modelled:
    """Return the bits per value of a format whose blocks have a scale of so many bits."""
    return Modelled(bits + scale_bits / block, "bit", "bits per value, scales included", "arithmetic")


def formats(count: int, outlier: float) -> dict[str, Row]:
    """Return the bits per value of each format and two signals to noise: of normal values, and with an outlier.

    ``normal`` is that of so many values, ``rest`` that of all others when one of them is the outlier.
    """
    normal, stretched = (normals_with_outlier(count, large) for large in (0.0, outlier))
    others = stretched != outlier

    def signal(form: Callable[[Array], Array], values: Array, what: str) -> Counted:
        return Counted(decibels(values[others], form(values)[others]), "dB", f"signal to noise, {what}")

    return {
        name: {
            "bits": Counted(bits, "bit", f"bits per value, {name}"),
            "normal": signal(form, normal, f"normal values in {name}"),
            "rest": signal(form, stretched, f"all but the outlier in {name}"),
        }
        for name, (form, bits) in _FORMATS.items()
    }

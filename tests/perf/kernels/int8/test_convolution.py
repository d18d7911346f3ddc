"""Compiled quantized convolution against the reference, bit for bit, over geometries, scales and part images."""

from typing import Any

import numpy as np
import pytest

from tinytorch.core.dispatch import implementations
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.int8 import convolution
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.ops.quantized import quantized_conv2d
from tinytorch.perf.quantization import Plan, QuantizedConv2d, Scheme

GEOMETRIES: list[dict[str, Any]] = [
    {"kernel_size": 1},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (0, 2)},
    {"kernel_size": (2, 3), "dilation": (2, 3), "padding": 3},
    {"kernel_size": 3, "dilation": (2, 1), "stride": 3},
    {"kernel_size": 3, "groups": 2},
]
PLANS = [
    Plan("dynamic"),
    Plan("dynamic", Scheme(symmetric=False, per="channel"), symmetric=False),
    Plan("dynamic", Scheme(4, per="group", group=10), "tensor", False),
    Plan("static", Scheme(per="tensor"), symmetric=False),
]


def drawn(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape, np.float32) + np.float32(0.3)


def both(layer: QuantizedConv2d, x: Array) -> tuple[Array, Array]:
    with implementations({quantized_conv2d: quantized_conv2d.reference}):
        expected = layer(Tensor(x)).data
    return layer(Tensor(x)).data, expected


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_a_convolution_is_the_reference_s_bit_for_bit(geometry: dict[str, Any], plan: Plan) -> None:
    for channels, out in ((4, 18), (2, 40)):
        layer = QuantizedConv2d(Conv2d(channels, out, seed=0, bias=out == 18, **geometry), plan)
        if plan.mode == "static":
            layer.calibrate([drawn(2, channels, 9, 8)])
        for count in (1, 5):
            x = drawn(count, channels, 9, 8) * np.geomspace(0.1, 10, count, dtype=np.float32)[:, None, None, None]
            np.testing.assert_array_equal(*both(layer, x))


def test_images_of_many_blocks_and_blocks_of_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = QuantizedConv2d(Conv2d(3, 17, 3, padding=1, seed=0))
    x = drawn(7, 3, 11, 10)
    for block_bytes in (1, 27 * 12 * 3, 27 * 1000):
        monkeypatch.setattr(convolution, "BLOCK_BYTES", block_bytes)
        for count in (1, 3):
            monkeypatch.setattr(threads, "limit", lambda count=count: count)
            np.testing.assert_array_equal(*both(layer, x))
            np.testing.assert_array_equal(*both(layer, np.tile(x, (30, 1, 1, 1))))


def test_layouts_of_images_and_what_has_no_code() -> None:
    layer = QuantizedConv2d(Conv2d(3, 4, 3, seed=0))
    x = drawn(2, 3, 6, 7)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    last.flags.writeable = False
    np.testing.assert_array_equal(layer(Tensor(last)).data, layer(Tensor(x)).data)
    np.testing.assert_array_equal(layer(Tensor(x[:0])).data.shape, (0, 4, 4, 5))
    x[1, 2, 5, 6] = np.nan
    with pytest.raises(ValueError, match="x must be finite"):
        layer(Tensor(x))
    with pytest.raises(ValueError, match=r"\(N, 3, H, W\)"):
        layer(Tensor(drawn(2, 4, 6, 7)))
    with pytest.raises(ValueError, match="does"):
        layer(Tensor(drawn(2, 3, 2, 7)))

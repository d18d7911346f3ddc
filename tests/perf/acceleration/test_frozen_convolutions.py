"""Frozen convolutions against the layers that they are made of, run in float64 on NumPy's ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from tinytorch.core.activations import ReLU
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.frozen_convolutions import FrozenConvolutions
from tinytorch.perf.acceleration.fused_convolution import packed_convolutions
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels import window_convolution
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.kernels.runtime import threads, vectors
from tinytorch.perf.kernels.runtime.evidence import evidence


def images(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def exact(model: Module, x: Array) -> Array:
    """Run a model in float64."""
    values = {name: tensor.data.astype(np.float64) for name, tensor in [*model.named_parameters()]}
    values |= {name: tensor.data.astype(np.float64) for name, tensor in model.named_buffers()}
    kept = {name: tensor.data for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    for name, tensor in tensors.items():
        tensor.data = values[name]
    with no_grad():
        output: Array = model(Tensor(x.astype(np.float64))).data
    for name, tensor in tensors.items():
        tensor.data = kept[name]
    return output


def assert_same(model: Module, x: Array) -> Module:
    """Freeze ``model``, hold its output against float64, and return it."""
    before = x.copy()
    frozen = fuse(model.eval(), frozen=True)
    with no_grad():
        found, wanted = frozen(Tensor(x)).data, exact(model, x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-6 * max(1, float(np.abs(wanted).max(initial=0))))
    assert np.array_equal(x, before)
    return frozen


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_window_is_that_of_float64(data: Any) -> None:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel, stride, dilation = (data.draw(pair) for _ in range(3))
    padding = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    reach = [(kernel[i] - 1) * dilation[i] + 1 for i in range(2)]
    size = [max(1, reach[i] - 2 * padding[i]) + data.draw(st.integers(0, 6)) for i in range(2)]
    channels, out, count = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 70)), data.draw(st.integers(1, 11))
    layers: list[Module] = [Conv2d(channels, out, kernel, stride, padding, dilation, seed=1)]
    layers += [BatchNorm2d(out)] if data.draw(st.booleans()) else []
    layers += [ReLU()] if data.draw(st.booleans()) else []
    layers += [MaxPool2d(1, data.draw(pair))] if data.draw(st.booleans()) else []
    frozen = assert_same(Sequential(*layers), images(count, channels, *size))
    assert [type(layer) for _, layer in frozen.named_children()] == [FrozenConvolutions]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 20])
def test_layers_in_a_row_with_a_linear_one_behind_are_one_op(count: int) -> None:
    model = Sequential(
        Conv2d(3, 40, 3, padding=1, bias=False, seed=0),
        BatchNorm2d(40),
        ReLU(),
        MaxPool2d(3, 2, padding=1),
        Conv2d(40, 24, (2, 3), stride=(1, 2), seed=1),
        Flatten(),
        Linear(24 * 3 * 2, 10, seed=2),
        ReLU(),
    )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if name.startswith("1."):
            tensor.data[...] = np.random.default_rng(len(name)).uniform(0.5, 2, tensor.shape)
    x = images(count, 3, 8, 9)
    frozen = assert_same(model, x)
    with no_grad(), recording() as recorded:
        frozen(Tensor(x))
    assert [event.op for event in recorded.profile.events] == ["packed_convolutions"]


def test_what_is_no_plain_convolution_stays_what_it_is() -> None:
    model = Sequential(Conv2d(4, 4, 3, groups=2, seed=0), BatchNorm2d(4), Conv2d(4, 4, 1, seed=1), Flatten())
    frozen = assert_same(model, images(2, 4, 5, 5))
    assert [type(layer) for _, layer in frozen.named_children()] == [Conv2d, FrozenConvolutions, Flatten]
    infinite = Conv2d(1, 2, 3, padding=1, seed=0)
    infinite.weight.data[0, 0, 0, 0] = np.inf
    assert [type(layer) for _, layer in fuse(Sequential(infinite), frozen=True).named_children()] == [Conv2d]


def test_results_do_not_depend_on_threads_and_large_maps_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [Conv2d(2, 40, 3, padding=1, seed=0), ReLU(), MaxPool2d(2), Conv2d(40, 8, 3, seed=1)]
    frozen = fuse(Sequential(*layers), frozen=True)
    monkeypatch.setattr(threads, "WORTH_A_THREAD_NS", 1)
    for x in (images(21, 2, 6, 6), images(2, 2, 70, 70)):
        results = []
        for count in (1, 2, 3):
            monkeypatch.setattr(threads, "limit", lambda count=count: count)
            with no_grad():
                results.append(frozen(Tensor(x)).data)
        assert all(np.array_equal(results[0], other) for other in results[1:])
        np.testing.assert_allclose(results[0], exact(Sequential(*layers), x), atol=1e-5)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spreads_as_in_numpy(odd: float) -> None:
    model = Sequential(Conv2d(1, 3, 3, padding=1, seed=0), ReLU(), MaxPool2d(2)).eval()
    x = images(9, 1, 6, 6)
    x[3, 0, 2, 4] = odd
    with no_grad(), np.errstate(all="ignore"):
        np.testing.assert_allclose(fuse(model, frozen=True)(Tensor(x)).data, model(Tensor(x)).data, atol=1e-5)


def test_other_layouts_dtypes_and_no_images_are_taken() -> None:
    model = Sequential(Conv2d(3, 20, 3, seed=0), ReLU(), MaxPool2d(2), Flatten(), Linear(80, 5, seed=1)).eval()
    frozen = fuse(model, frozen=True)
    x = images(4, 3, 6, 12)[:, :, :, ::2]
    with no_grad():
        wanted = model(Tensor(x)).data
        np.testing.assert_allclose(frozen(Tensor(x)).data, wanted, atol=1e-5)
        found = frozen(Tensor(x.astype(np.float64))).data
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert found.dtype == np.float64
        assert frozen(Tensor(x[:0])).shape == (0, 5)
        with pytest.raises(RuntimeError, match="for inference"):
            kernel_implementations()[packed_convolutions].backward(wanted, (), (True, False), False)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((2, 4, 6, 6), r"shape \(N, 3, H, W\)"),
        ((3, 6, 6), "shape"),
        ((2, 3, 2, 2), "does not fit"),
        ((2, 3, 9, 9), "80"),
    ],
)
def test_images_that_do_not_fit_are_refused(shape: tuple[int, ...], said: str) -> None:
    frozen = fuse(Sequential(Conv2d(3, 20, 3), MaxPool2d(2), Flatten(), Linear(80, 5)), frozen=True)
    with no_grad(), pytest.raises(ValueError, match=said):
        frozen(Tensor(np.zeros(shape, np.float32)))
    with no_grad(), pytest.raises(ValueError, match=said):
        frozen(Tensor(np.zeros(shape)))


def test_the_kernel_is_made_of_packed_multiply_adds() -> None:
    flat, numbers = types.float32[::1], types.int64[::1]
    signature = types.void(flat, numbers, numbers, types.int64, flat, flat, types.int64)
    found = evidence(vectors.compiled(window_convolution.run_stage.py_func, signature))
    assert sum(count for name, count in found.items() if name.startswith(("vfmadd", "fmla", "mulps"))) >= 24, found

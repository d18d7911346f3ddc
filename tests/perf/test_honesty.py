"""Mistakes that earlier versions of the course made, each made impossible for the instruments."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tests.perf.small_models import INPUTS, OUTPUTS, ROWS, rows, two_layers
from tinytorch.chapters.quantization.exercises import naive_quantize
from tinytorch.core.activations import ReLU
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression import (
    compress_model,
    layer_sparsity,
    magnitude_prune,
    measure_sparsity,
    sparse_model,
    structured_prune,
)
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import dequantize_int8, quantize_int8

pytestmark = pytest.mark.usefixtures("made_machine")


def test_backward_measured_as_twice_the_forward() -> None:
    """Each backward op of the model really runs, once a step, and its FLOPs are its own."""
    ran = {"forward": 0, "backward": 0}

    def forward(keep: bool, x: Array) -> tuple[Array, Saved]:
        ran["forward"] += 1
        return x * 2, ()

    def backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        ran["backward"] += 1
        return (gradient * 2,)

    def work(call: Call) -> Work:
        return Work(macs=1 if call.phase == "forward" else 7)

    counted = Op("counted", forward, backward, work)

    class Model(Module):
        def forward(self, x: Any) -> Any:
            return apply(counted, x)

    found = Profiler().profile_backward_pass(Model(), Tensor(np.ones(3, np.float32), requires_grad=True))
    assert (found["forward_flops"], found["backward_flops"]) == (2, 14)
    assert ran["backward"] == ran["forward"] > found["latency"].backward.n
    one_layer = Profiler().profile_backward_pass(Linear(INPUTS, OUTPUTS, seed=0), rows())
    assert one_layer["backward_flops"] == one_layer["forward_flops"], "the input needs no gradient"


def test_activation_memory_as_twice_the_input() -> None:
    def activations(model: Module) -> float:
        return Profiler().measure_memory(model, (ROWS, INPUTS))["activation_memory_mb"] * MIB

    assert activations(Flatten()) == 0
    assert activations(Linear(INPUTS, OUTPUTS, seed=0)) == 0, "its input is the caller's"
    deep = Sequential(*(layer for k in range(6) for layer in (Linear(INPUTS, INPUTS, seed=k), ReLU())))
    assert activations(deep) == 6 * ROWS * INPUTS * 4


@pytest.mark.parametrize("peak", [1e3, 4e12])
def test_the_peak_rate_as_a_constant(peak: float) -> None:
    """The peak that was measured decides, not one that the code knows."""
    found = Profiler(ceilings=made_ceilings(peak=peak)).profile_forward_pass(two_layers(), rows())
    assert found["computational_efficiency"] == pytest.approx(found["gflops_per_second"] * 1e9 / peak)
    assert found["is_compute_bound"] == (peak == 1e3)


def test_bandwidth_as_peak_memory_over_latency() -> None:
    model = Linear(INPUTS, OUTPUTS, seed=0)
    found = Profiler().profile_forward_pass(model, rows())
    moved = found["memory_bandwidth_mbs"] * 1e6 * found["latency_ms"] * 1e-3
    # Input, weight and bias are read, the output is written: each once.
    assert moved == pytest.approx(4 * (ROWS * INPUTS + INPUTS * OUTPUTS + OUTPUTS + ROWS * OUTPUTS))


def test_pruning_that_writes_zeros_and_reports_a_smaller_model(tmp_path: Path) -> None:
    """Zeros change neither bytes, on disk or reported, nor FLOPs; what is said to be smaller is, on disk, too."""
    model = Sequential(Linear(256, 256, seed=0), ReLU(), Linear(256, 256, seed=1))
    zeros = magnitude_prune(model, 0.9)
    assert measure_sparsity(zeros) == pytest.approx(90, abs=1e-3)
    found = compress_model(model, {"magnitude_prune": 0.9})
    assert (found.compression_ratio, found.steps[1].parameters) == (1, found.steps[0].parameters)
    assert sum(row.stored_bytes for row in layer_sparsity(zeros)) == 2 * 256 * 256 * 4
    counted = Profiler().count_flops
    assert counted(zeros, (1, 256)) == counted(model, (1, 256))
    sizes = []
    for each in (model, zeros, sparse_model(zeros), structured_prune(model)):
        each.save(tmp_path / "model.npz")
        sizes.append((tmp_path / "model.npz").stat().st_size)
        beside = sizes[-1] - sum(row.stored_bytes for row in layer_sparsity(each))
        assert 0 <= beside < 5_000, "what is reported is what a file takes, but for biases and names"
    whole, zeroed, csr, small = sizes
    assert zeroed == pytest.approx(whole, abs=100)
    assert csr < 0.2 * whole
    assert small < 0.51 * whole
    assert counted(sparse_model(zeros), (1, 256)) == pytest.approx(0.1 * counted(model, (1, 256)), rel=1e-3)


@pytest.mark.parametrize(
    "values",
    [[100.0, 100.5, 101.0], [-7.25, -7.0, -6.5], [3.7, 3.7, 3.7], [0.0, 2e-10, 1e-9], [1e-42, -3e-42, 2e-42]],
    ids=["all-positive", "all-negative", "constant", "tiny-range", "subnormal"],
)
def test_quantization_to_garbage(values: list[float]) -> None:
    """Each number comes back within half a step of a range that holds 0, and a constant comes back as it is."""
    x = np.array(values, np.float32)
    back = dequantize_int8(*quantize_int8(x)).data.astype(np.float64)
    span = max(float(x.max()), 0.0) - min(float(x.min()), 0.0)
    at_most = 0.0 if np.ptp(x) == 0 else 0.51 * span / 255 + 2e-45
    assert np.abs(back - x).max() <= at_most
    assert np.abs(naive_quantize(x) - x).max() > at_most, "the naive quantizer of the exercise must fail here"

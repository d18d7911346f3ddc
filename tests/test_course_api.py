"""What students of the course type: names, import paths, arguments and keys, each as the course's texts write it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinytorch
from tests.perf.made_ceilings import made_ceilings
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import tiled_matmul
from tinytorch.perf.benchmarking import benchmark_suite, measure_performance, plot_performance_comparison
from tinytorch.perf.compression import KnowledgeDistillation
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.memoization import enable_kv_cache
from tinytorch.perf.profiling import (
    FLOPCounter,
    MemoryProfiler,
    MemoryTracker,
    Profiler,
    ProfilerContext,
    Timer,
    count_flops,
)

pytestmark = pytest.mark.usefixtures("made_machine")


class SlowLinear:
    """A layer of loops, as the course writes it: no Module, no parameters(), no op."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight = np.ones((inputs, outputs), np.float32)

    def __call__(self, x: Tensor) -> Tensor:
        return Tensor(np.array([[row @ column for column in self.weight.T] for row in x.data], np.float32))


def test_short_imports() -> None:
    from tinytorch import Linear as ShortLinear
    from tinytorch import Profiler as ShortProfiler
    from tinytorch import Tensor as ShortTensor

    assert (ShortTensor, ShortLinear, ShortProfiler) == (Tensor, Linear, Profiler)
    assert {name: getattr(tinytorch, name) for name in tinytorch.__all__}.keys() == set(tinytorch.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tinytorch.Nothing


def test_sequential_is_a_layer_and_no_grad_belongs_to_autograd() -> None:
    model = Sequential(Linear(4, 3, seed=0), Linear(3, 2, seed=0))
    with no_grad():
        assert not model(Tensor([[1, 2, 3, 4]])).requires_grad
    assert model(Tensor([[1, 2, 3, 4]])).requires_grad


def test_flops_of_a_linear_layer_are_two_per_multiply_accumulate() -> None:
    assert Profiler().count_flops(Linear(512, 512), (1, 512)) == count_flops(Linear(512, 512), (32, 512)) == 524_288


def test_attention_is_counted_by_the_course_s_argument() -> None:
    counter = FLOPCounter()
    assert counter.count_attention(sequence_length=8, d_model=16, projections=False) == 2 * 2 * 8 * 8 * 16
    counter.count_linear(4, 3, batch_size=2)
    assert counter.operation_counts == {
        "multiply": 2 * 8 * 8 * 16 + 24,
        "add": 2 * 8 * 8 * 16 + 24,
        "total_flops": 4144,
    }
    assert counter.layer_breakdown == {"self_attention": 4096, "linear": 48}
    assert sum(counter.layer_breakdown.values()) == counter.total_flops


def test_tokens_may_be_a_tensor_of_a_list() -> None:
    model = GPT(11, 16, 1, 2, 8, seed=0).eval()
    np.testing.assert_array_equal(model(Tensor([[0, 1]])).data, model(np.array([[0, 1]])).data)
    with pytest.raises(TypeError, match="tokens must be whole numbers"):
        model(Tensor([[0.5, 1]]))


def test_the_memory_that_a_tracker_prints_as_mb_is_mib() -> None:
    with MemoryTracker() as m:
        held = np.zeros(2 * MIB, np.uint8)
    assert m.peak_usage == pytest.approx(2, abs=0.01)
    assert m.peak_bytes == m.peak_usage * MIB
    del held


def test_allocated_is_what_is_left_and_not_what_was_needed() -> None:
    def function() -> Any:
        np.ones(16 * MIB, np.uint8)
        return np.ones(MIB, np.uint8)

    found = MemoryProfiler().profile(function)
    assert found["allocated_mb"] == found["final_mb"] - found["baseline_mb"] == pytest.approx(1, abs=0.01)
    assert found["needed_mb"] == found["peak_mb"] - found["baseline_mb"] == pytest.approx(16, abs=0.01)


def test_a_timer_keeps_its_measurements() -> None:
    timer = Timer()
    assert timer.measurements == []
    found = timer.measure(lambda: sum(range(100)), warmup=1, runs=7)
    assert len(timer.measurements) == found["runs"] == 7
    assert np.median(timer.measurements) * 1e3 == pytest.approx(found["p50_ms"])


def test_a_context_reports_its_body(capsys: pytest.CaptureFixture[str]) -> None:
    model = Linear(8, 4, seed=0)
    with ProfilerContext("MyModel"):
        model.forward(Tensor(np.ones((2, 8), np.float32)))
    assert capsys.readouterr().out.startswith("MyModel: ")


def test_what_only_can_be_called_is_timed_and_its_flops_are_not_counted() -> None:
    slow, x = SlowLinear(8, 4), Tensor(np.ones((2, 8), np.float32))
    assert f"{Profiler().count_flops(slow, (2, 8)):,}" == "nan"
    assert Profiler().count_parameters(slow) == 0
    found = Profiler(ceilings=made_ceilings()).profile_forward_pass(slow, x)
    assert found["bottleneck"] == "not counted"
    assert found["latency_ms"] > 0
    assert found["peak_memory_mb"] > 0
    assert found["flops"] is found["gflops_per_second"] is None


def test_frozen_parameters_are_none_that_training_can_change() -> None:
    layer = Linear(2, 2, seed=0)
    assert Profiler().count_parameters(layer) == 6
    layer.weight.requires_grad = False
    assert Profiler().count_parameters(layer) == 2


def test_an_argument_that_is_wrong_is_named_as_it_was_given() -> None:
    with pytest.raises(ValueError, match="iterations must be at least 1, not 0"):
        Profiler().measure_latency(Linear(2, 2), np.ones((1, 2), np.float32), iterations=0)
    with pytest.raises(ValueError, match="tile_size must be at least 1"):
        tiled_matmul(np.ones((2, 2)), np.ones((2, 2)), tile_size=0)


def test_train_takes_no_loader() -> None:
    model = Linear(2, 2)
    with pytest.raises(TypeError, match=r"mode must be True or False, not a list: .*fit"):
        model.train([np.ones(2)])  # type: ignore[arg-type]
    assert model.training is True


def test_labels_may_be_one_hot() -> None:
    draw = np.random.default_rng(0)
    teacher, student = Linear(3, 4, seed=0), Linear(3, 4, seed=1)
    course = KnowledgeDistillation(teacher, student)
    logits, taught = Tensor(draw.normal(size=(5, 4)).astype(np.float32)), draw.normal(size=(5, 4)).astype(np.float32)
    labels = draw.integers(0, 4, 5)
    whole = course.distillation_loss(logits, taught, labels).data
    assert course.distillation_loss(logits, taught, np.eye(4)[labels]).data == whole
    with pytest.raises(ValueError, match="must be one-hot"):
        course.distillation_loss(logits, taught, np.full((5, 4), 0.25))


@pytest.mark.parametrize("labels", [np.array([10, 0]), np.array([-1, 0]), np.array([0.5, 0]), np.array([True, False])])
def test_what_is_no_class_is_not_scored(labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="targets must"):
        measure_performance(Linear(3, 10, seed=0), (np.ones((2, 3), np.float32), labels))


def test_a_model_that_answers_nan_has_no_accuracy() -> None:
    class Broken(Module):
        def forward(self, x: Tensor) -> Tensor:
            return Tensor(np.full((len(x.data), 10), np.nan, np.float32))

    data = (np.ones((2, 3), np.float32), np.array([0, 0]))
    with pytest.raises(ValueError, match=r"outputs must be finite .*, but 2 of 2"):
        measure_performance(Broken(), data)
    model = Linear(3, 10, seed=0)
    model.weight.data[...] = np.nan
    with pytest.raises(ValueError, match=r"weights of .* must be finite"):
        measure_performance(model, data)


def test_two_measured_performances_divide_and_subtract() -> None:
    data = (np.random.default_rng(0).random((64, 256), dtype=np.float32), np.zeros(64, int))
    original_model = Sequential(*(Linear(256, 256, seed=0) for _ in range(20)))
    quantized_model = Linear(256, 256, seed=0)
    baseline = measure_performance(original_model, data, repeats=6)
    optimized = measure_performance(quantized_model, data, repeats=6)
    improvement: dict[str, Any] = {
        "speedup": baseline.time / optimized.time,
        "memory_reduction": baseline.memory / optimized.memory,
        "accuracy_delta": optimized.accuracy - baseline.accuracy,
    }
    assert float(baseline.time) == baseline.time.median
    assert float(improvement["speedup"]) == pytest.approx(float(baseline.time) / float(optimized.time), rel=0.2)
    assert float(improvement["memory_reduction"]) == pytest.approx(float(baseline.memory) / float(optimized.memory))
    assert improvement["memory_reduction"].verdict == Verdict.SMALLER
    assert abs(float(improvement["accuracy_delta"])) <= 1
    assert f"{improvement['speedup']:.2f}" == f"{float(improvement['speedup']):.2f}"
    assert "the first takes" in repr(improvement["speedup"])


def test_a_suite_takes_a_transformer_with_its_cache(capsys: pytest.CaptureFixture[str]) -> None:
    original_model = GPT(11, 16, 1, 2, 20, seed=0)
    cached_transformer = GPT(11, 16, 1, 2, 20, seed=0)
    enable_kv_cache(cached_transformer)
    models = {"baseline": original_model, "cached": cached_transformer}
    test_data = (np.array([[1, 2, 3], [4, 5, 6]]), np.array([[1, 2, 3], [4, 5, 6]]))
    results = benchmark_suite(models, test_data, batches=(1, 2), repeats=6)
    print(results)
    plot_performance_comparison(results)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in (lines[0], *lines[2:4])] == ["Model", "baseline", "cached"]

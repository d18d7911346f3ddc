"""What students of the course type: names, import paths, arguments, keys and calls, each as its texts write it."""

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import tinytorch
from tests.chapters.made_turns import made
from tests.perf.made_ceilings import made_ceilings
from tinytorch import course
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.module import Module, Parameter
from tinytorch.core.optimizers import SGD
from tinytorch.core.spatial import AvgPool2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, Transformer
from tinytorch.models import entry
from tinytorch.perf.acceleration import arithmetic_intensity, col2im, im2col, tiled_matmul, vectorized_matmul
from tinytorch.perf.benchmarking import (
    Performance,
    benchmark_suite,
    measure_performance,
    pareto_frontier,
    plot_performance_comparison,
)
from tinytorch.perf.compression import KnowledgeDistillation, magnitude_prune
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.memoization import KVCache, enable_kv_cache
from tinytorch.perf.profiling import (
    FLOPCounter,
    MemoryProfiler,
    Profiler,
    ProfilerContext,
    Timer,
    count_flops,
)
from tinytorch.perf.quantization import quantize_model

pytestmark = pytest.mark.usefixtures("made_machine")


class ArrayLinear:
    """A layer of loops, as the course writes it: no Module, no parameters(), no op."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight = np.ones((inputs, outputs), np.float32)

    def __call__(self, x: Tensor) -> Tensor:
        return Tensor(np.array([[row @ column for column in self.weight.T] for row in x.data], np.float32))


class Held:
    """Something with parameters() alone, as the course's blocks have it."""

    def __init__(self, parameters: list[Any]) -> None:
        self.held = parameters

    def parameters(self) -> list[Any]:
        return self.held


def weights(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


class WeightLinear:
    """A layer of the course's: a weight, a forward, and neither Module nor parameters()."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight = weights(inputs, outputs)
        self.name, self.lengths = "fast", Tensor(np.array([inputs, outputs]))

    def forward(self, x: Tensor) -> Tensor:
        return vectorized_matmul(x, self.weight)


class HeldBlock:
    """A block of the course's, whose parameters() gives Tensors or arrays."""

    def __init__(self, *held: Any) -> None:
        self.held = list(held)

    def __call__(self, x: Tensor) -> Tensor:
        return vectorized_matmul(x, self.held[0])

    def parameters(self) -> list[Any]:
        return self.held


class Network:
    """Holds layers of all kinds, some of them twice."""

    def __init__(self) -> None:
        shared = WeightLinear(8, 8)
        self.layers: list[Any] = [shared, Linear(8, 8, seed=0), {"again": shared, "block": HeldBlock(weights(8, 8))}]
        self.layers.append(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.layers[0].forward, self.layers[1], self.layers[2]["block"]):
            x = layer(x)
        return x


#: Models that are no Modules, and how many numbers their parameters are.
PLAIN: dict[str, tuple[Callable[[], Any], int]] = {
    "a weight": (lambda: WeightLinear(8, 4), 32),
    "parameters() of Tensors": (lambda: HeldBlock(weights(8, 4), weights(4)), 36),
    "parameters() of one Tensor twice": (lambda: HeldBlock(*[weights(8, 4)] * 2), 32),
    "parameters() of arrays": (lambda: HeldBlock(np.ones((8, 4), np.float32)), 32),
    "parameters() of Parameters": (lambda: HeldBlock(Parameter(weights(8, 4)), Parameter(weights(4))), 36),
    "models in a model": (Network, 64 + 72 + 64),
    "a weight, and no op": (lambda: SlowLinear(8, 4), 32),
}


class Broken(Module):
    """Answers that nothing is a number."""

    def forward(self, x: Tensor) -> Tensor:
        return Tensor(np.full((len(x.data), 10), np.nan, np.float32))


def frozen(layer: Linear) -> Linear:
    layer.weight.requires_grad = False
    return layer


def of_nan(layer: Linear) -> Linear:
    layer.weight.data[...] = np.nan
    return layer


def distilled(labels: np.ndarray) -> float:
    """Return the loss of a student that learns from a teacher and from these labels."""
    draw = np.random.default_rng(0)
    logits, taught = (draw.normal(size=(5, 4)).astype(np.float32) for _ in range(2))
    return KnowledgeDistillation(Linear(3, 4), Linear(3, 4)).distillation_loss(Tensor(logits), taught, labels).item()


def fit_by_distillation(labels: np.ndarray) -> object:
    student = Linear(3, 4)
    inputs = np.ones((len(labels), 3), np.float32)
    return KnowledgeDistillation(Linear(3, 4), student).fit(inputs, labels, SGD(student.parameters()), epochs=1)


def restrided(pool: MaxPool2d, stride: int) -> MaxPool2d:
    pool.stride = stride
    return pool


def performance(labels: np.ndarray, model: Module | None = None) -> object:
    return measure_performance(model or Linear(3, 10, seed=0), (np.ones((2, 3), np.float32), labels))


#: What the course's students import, and from where.
COURSE = {
    "tinytorch": "Linear Module Profiler Sequential Tensor",
    "tinytorch.core.tensor": "Tensor",
    "tinytorch.core.activations": "GELU ReLU Sigmoid Softmax Tanh",
    "tinytorch.core.layers": "Dropout Embedding Flatten LayerNorm Linear ReLU Sequential Softmax",
    "tinytorch.core.losses": "CrossEntropyLoss MSELoss",
    "tinytorch.core.autograd": "no_grad",
    "tinytorch.core.optimizers": "SGD Adam AdamW",
    "tinytorch.core.dataloader": "DataLoader",
    "tinytorch.core.spatial": "AvgPool2d BatchNorm2d Conv2d MaxPool2d",
    "tinytorch.core.attention": "MultiHeadAttention",
    "tinytorch.core.transformers": "GPT LayerNorm Transformer TransformerBlock",
    "tinytorch.models.transformer": "GPT MLP Embedding LayerNorm MultiHeadAttention TinyGPT Transformer "
    "TransformerBlock",
    "tinytorch.perf.profiling": "FLOPCounter MemoryProfiler MemoryTracker Profiler ProfilerContext "
    "SimpleProfiler Timer count_flops profile profile_function quick_profile",
    "tinytorch.perf.quantization": "QuantizedLinear analyze_model_sizes dequantize_int8 quantize_int8 quantize_model",
    "tinytorch.perf.compression": "KnowledgeDistillation compress_model low_rank_approximate magnitude_prune "
    "measure_sparsity structured_prune",
    "tinytorch.perf.acceleration": "accelerated arithmetic_intensity col2im fused_gelu im2col im2col_conv2d "
    "tiled_matmul unfused_gelu vectorized_matmul",
    "tinytorch.perf.memoization": "KVCache disable_kv_cache enable_kv_cache",
    "tinytorch.perf.benchmarking": "benchmark_suite compare measure_performance pareto_frontier "
    "plot_performance_comparison",
}


@pytest.mark.parametrize("place", COURSE)
def test_each_name_is_imported_from_where_students_do_and_from_the_one_place(place: str) -> None:
    module = importlib.import_module(place)
    for name in COURSE[place].split():
        assert getattr(module, name) is getattr(course, name)


def test_the_one_place_has_these_names_and_no_other() -> None:
    assert sorted(course.__all__) == sorted({name for names in COURSE.values() for name in names.split()})


def test_names_of_the_root_are_loaded_when_asked_for() -> None:
    assert {name: getattr(tinytorch, name) for name in tinytorch.__all__}.keys() == set(tinytorch.__all__)
    assert tinytorch.__version__ == metadata.version("tinytorch")
    with pytest.raises(AttributeError, match="attribute"):
        _ = tinytorch.Nothing


def test_attention_is_counted_by_the_course_s_argument() -> None:
    counter = FLOPCounter()
    assert counter.count_attention(sequence_length=8, d_model=16, projections=False) == 2 * 2 * 8 * 8 * 16
    counter.count_linear(4, 3, batch_size=2)
    assert counter.operation_counts == {"multiply": 2048 + 24, "add": 2048 + 24, "total_flops": 4144}
    assert counter.layer_breakdown == {"attention": 4096, "linear": 48}
    counter.reset()
    assert counter.layer_breakdown == {}
    assert {"attention": counter.count_attention(8, 16, 2)} == counter.layer_breakdown, "with its projections"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: FLOPCounter().count_attention(seq_len=128, d_model=512), 8 * 128 * 512**2 + 4 * 128**2 * 512),
        (lambda: FLOPCounter().count_attention(128, 512), 8 * 128 * 512**2 + 4 * 128**2 * 512),
        (lambda: Profiler().count_flops(Linear(512, 512), (1, 512)), 524_288),
        (lambda: count_flops(Linear(512, 512), (32, 512)), 524_288),
        (lambda: count_flops(Linear(8, 4), Tensor(np.ones((32, 8), np.float32))), 64),
        (lambda: count_flops(Linear(8, 4), np.ones((32, 8), np.float32)), 64),
        (lambda: count_flops(Linear(8, 4), Tensor(range(8))), 64),
        (lambda: count_flops(Linear(8, 4), np.array([32, 8])), 64),
        (lambda: count_flops(GPT(11, 16, 1, 2, 8), Tensor([[0, 1, 2]])), count_flops(GPT(11, 16, 1, 2, 8), (1, 3))),
        (lambda: FLOPCounter().count_model_forward(Linear(8, 4), Tensor(np.ones((32, 8), np.float32))), 32 * 64),
        (lambda: Profiler().measure_memory(Linear(8, 4), np.ones((32, 8)))["input_memory_mb"] * MIB, 32 * 8 * 8),
        (lambda: Transformer(vocab_size=50, d_model=16, n_heads=2, n_layers=3)(Tensor([[1], [2]])).shape, (2, 1, 50)),
        (lambda: Conv2d(3, 16, 3)(Tensor(np.ones((3, 32, 32)))).shape, (16, 30, 30)),
        (lambda: MaxPool2d(2)(Tensor(np.ones((3, 32, 32)))).shape, (3, 16, 16)),
        (lambda: (MaxPool2d(2).stride, MaxPool2d(3, stride=1).stride, AvgPool2d(2).stride), (2, 1, 2)),
        (lambda: (MaxPool2d((2, 3)).stride, MaxPool2d(2, (1, 2)).stride), ((2, 3), (1, 2))),
        (lambda: restrided(MaxPool2d(2), 1)(Tensor(np.ones((1, 4, 4)))).shape, (1, 3, 3)),
        (lambda: distilled(np.array([0.0, 1, 2, 3, 0])), distilled(np.array([0, 1, 2, 3, 0]))),
        (lambda: pareto_frontier({"a": (5, 0.8), "b": (40, 0.94), "c": (40, 0.7)}, (True, False)), ["a", "b"]),
        (lambda: pareto_frontier({"x": (1, 1), "y": (1, 1), "z": (2, 2)}, (True, True)), ["x", "y"]),
        (lambda: pareto_frontier({"p": (1, 3, 2), "q": (2, 1, 3), "s": (1, 3, 1)}, (True, True, True)), ["q", "s"]),
        (lambda: pareto_frontier({}, (True,)), []),
        (lambda: arithmetic_intensity(100, 50, 10), (2.0, "memory")),
        (lambda: arithmetic_intensity(2 * 1024**3, 3 * 1024**2 * 4, ridge_point=10), (1024 / 6, "compute")),
        (lambda: Timer().timer_func is time.perf_counter, True),
        (lambda: (MemoryProfiler().baseline_memory, ProfilerContext("x").memory_stats), (0, {})),
        (lambda: (MemoryProfiler().allocations, ProfilerContext("x").results), ([], {})),
        (lambda: type(ProfilerContext("x").timer), Timer),
        (lambda: type(ProfilerContext("x").memory_profiler), MemoryProfiler),
        (lambda: type(ProfilerContext("x").flop_counter), FLOPCounter),
        (lambda: str(FLOPCounter().count_model_forward(ArrayLinear(8, 4), (2, 8))), "not counted"),
        (lambda: Profiler().count_parameters(ArrayLinear(8, 4)), 0),
        (lambda: Profiler().count_parameters(Linear(2, 2)), 6),
        (lambda: Profiler().count_parameters(frozen(Linear(2, 2))), 2),
        (lambda: Profiler().count_parameters(Held([Tensor(np.ones((3, 4))), Tensor(np.ones(4))])), 16),
        (lambda: Profiler().count_parameters(Held([np.ones((3, 4)), np.ones(4)])), 16),
        (lambda: Profiler().count_parameters(Held([Parameter(np.ones((3, 4), np.float32))] * 2)), 12),
        (lambda: Profiler().count_parameters(Held([])), 0),
        (lambda: GPT(11, 16, 1, 2, 8)(Tensor([[0, 1]])).shape, (1, 2, 11)),
    ],
)
def test_calls_of_the_course_give_what_they_should(call: Callable[[], Any], expected: Any) -> None:
    assert call() == expected


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: FLOPCounter().count_attention(8, seq_len=8, d_model=4), TypeError, "seq_len"),
        (lambda: FLOPCounter().count_attention(8), TypeError, "d_model"),
        (lambda: FLOPCounter().count_attention(seq_len=0, d_model=4), ValueError, "sequence_length"),
        (lambda: Transformer(10, 16, 2, 0), ValueError, "n_layers"),
        (lambda: pareto_frontier({"a": (1, 2)}, (True,)), ValueError, "coordinates"),
        (lambda: pareto_frontier({"a": (math.nan,)}, (True,)), ValueError, "nan"),
        (lambda: arithmetic_intensity(1, 0, 1), ValueError, "bytes_moved"),
        (lambda: arithmetic_intensity(-1, 1, 1), ValueError, "flops"),
        (lambda: arithmetic_intensity(1, 1, math.inf), ValueError, "ridge_point"),
        (lambda: enable_kv_cache(GPT(11, 16, 1, 2, 8)).advance(), ValueError, "count"),
        (lambda: KVCache(1, 4, 1, 2, 4).generation().__enter__(), RuntimeError, "enable_kv_cache"),
        (lambda: Profiler().count_parameters(object()), TypeError, "callable"),
        (lambda: Profiler().count_parameters(Held(["a"])), TypeError, "parameters"),
        (lambda: GPT(11, 16, 1, 2, 8)(Tensor([[0.5, 1]])), TypeError, "numbers"),
        (lambda: Profiler().measure_latency(Linear(2, 2), np.ones((1, 2)), iterations=0), ValueError, "iterations"),
        (lambda: tiled_matmul(np.ones((2, 2)), np.ones((2, 2)), tile_size=0), ValueError, "tile"),
        (lambda: Linear(2, 2).train([np.ones(2)]), TypeError, "mode"),  # type: ignore[arg-type]
        (lambda: distilled(np.full((5, 4), 0.25)), ValueError, "one-hot"),
        (lambda: distilled(np.full((5, 4), math.nan)), ValueError, "one-hot"),
        (lambda: distilled(np.full(5, 0.5)), ValueError, "labels"),
        (lambda: distilled(np.full(5, math.nan)), ValueError, "labels"),
        (lambda: distilled(np.full(5, math.inf)), ValueError, "labels"),
        (lambda: distilled(np.ones(5, bool)), ValueError, "labels"),
        (lambda: distilled(np.full(5, 4)), ValueError, "classes"),
        (lambda: distilled(np.full(5, -1)), ValueError, "classes"),
        (lambda: distilled(np.zeros(4, int)), ValueError, "shape"),
        (lambda: fit_by_distillation(np.full(3, 0.5)), ValueError, "labels"),
        (lambda: performance(np.array([10, 0])), ValueError, "targets"),
        (lambda: performance(np.array([-1, 0])), ValueError, "targets"),
        (lambda: performance(np.array([0.5, 0])), ValueError, "targets"),
        (lambda: performance(np.array([True, False])), ValueError, "targets"),
        (lambda: performance(np.array([0, 0]), Broken()), ValueError, "outputs"),
        (lambda: performance(np.array([0, 0]), of_nan(Linear(3, 10))), ValueError, "weights"),
    ],
)
def test_what_a_call_of_the_course_cannot_take_is_named(
    call: Callable[[], Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        call()


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt"])
@pytest.mark.parametrize("training", [False, True])
def test_the_parts_of_memory_add_up_to_its_peak(name: str, training: bool) -> None:
    model, inputs = entry(name).make(0).train(training), Tensor(entry(name).example_input(4))
    found = Profiler().measure_memory(model, inputs)
    parts = [value for key, value in found.items() if key.endswith("_memory_mb") and key != "peak_memory_mb"]
    assert sum(parts) == pytest.approx(found["peak_memory_mb"])
    assert min(parts) >= 0
    with no_grad():
        output = model(inputs if name != "gpt" else inputs.data)
    assert found["output_memory_mb"] * MIB >= output.nbytes
    assert found["parameter_memory_mb"] * MIB == sum(one.nbytes for one in model.parameters())


@pytest.mark.parametrize("kind", PLAIN)
def test_weights_of_what_is_no_module_are_its_parameters(kind: str) -> None:
    make, count = PLAIN[kind]
    model, x = make(), Tensor(np.ones((3, 8), np.float32))
    assert Profiler().count_parameters(model) == count
    found = Profiler(ceilings=made_ceilings()).profile_forward_pass(model, x)
    for keys in (found, Profiler().measure_memory(model, (3, 8))):
        assert keys["parameter_memory_mb"] * MIB == 4 * count
        assert keys["input_memory_mb"] * MIB == x.nbytes
        assert keys["peak_memory_mb"] * MIB >= 4 * count + x.nbytes


@pytest.mark.parametrize("kind", ["parameters() of Parameters", "parameters() of arrays", "models in a model"])
def test_a_step_of_what_is_no_module_can_be_profiled(kind: str) -> None:
    make, count = PLAIN[kind]
    x = Tensor(np.ones((3, 8), np.float32), requires_grad=True)
    found = Profiler().profile_backward_pass(make(), x)
    assert found["parameter_memory_mb"] * MIB == 4 * count
    assert found["backward_flops"] > 0


def test_what_a_product_in_tiles_is_given_it_returns() -> None:
    draw = np.random.default_rng(0)
    arrays = draw.normal(size=(10, 7)), draw.normal(size=(7, 5))
    assert tiled_matmul(*arrays, tile_size=3).dtype == np.float64
    np.testing.assert_allclose(tiled_matmul(*arrays, tile_size=3), arrays[0] @ arrays[1])
    a, b = (Tensor(array, requires_grad=True) for array in arrays)
    weights = draw.normal(size=(10, 5))
    for product in (tiled_matmul(a, b, 3), vectorized_matmul(a, b)):
        a.grad = b.grad = None
        (product * Tensor(weights)).sum().backward()
        np.testing.assert_allclose(product.data, arrays[0] @ arrays[1])
        np.testing.assert_allclose(np.asarray(a.grad), weights @ arrays[1].T)
        np.testing.assert_allclose(np.asarray(b.grad), arrays[0].T @ weights)
    assert type(tiled_matmul(arrays[0], b, 4)) is Tensor


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 1, 0), (3, 2, 1), ((3, 2), (1, 2), (2, 0))])
def test_windows_as_rows_give_the_convolution_and_adding_them_up_is_the_transpose(
    kernel: Any, stride: Any, padding: Any
) -> None:
    draw = np.random.default_rng(0)
    layer = Conv2d(3, 4, kernel, stride=stride, padding=padding, bias=False, seed=0)
    x = Tensor(draw.normal(size=(2, 3, 7, 8)).astype(np.float32), requires_grad=True)
    expected, rows = layer(x).data, im2col(x, kernel, stride, padding)
    made = (rows.data @ layer.weight.data.reshape(4, -1).T).reshape(2, *expected.shape[2:], 4).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-5)
    cotangent = draw.normal(size=rows.shape).astype(np.float32)
    back = col2im(cotangent, x.shape, kernel, stride, padding)
    assert float((rows.data * cotangent).sum()) == pytest.approx(float((x.data * back).sum()), rel=1e-4)
    (rows * Tensor(cotangent)).sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), back, rtol=0, atol=1e-5)
    assert type(back) is np.ndarray


def test_the_report_of_a_context_has_the_share_of_attention(capsys: pytest.CaptureFixture[str]) -> None:
    model, tokens = GPT(11, 16, 2, 2, 16, seed=0), np.ones((2, 16), int)
    with ProfilerContext("model", timing_runs=6) as context:
        context.profile_function(model, (tokens,))
    assert context.attention is not None
    assert 0 < context.attention.median < 1
    assert context.memory_stats["peak_mb"] > 0
    assert "attention" in capsys.readouterr().out
    with ProfilerContext("layer", timing_runs=6) as context:
        context.profile_function(Linear(4, 4), (Tensor(np.ones((1, 4))),))
    assert context.attention is None


def test_a_generation_begins_and_ends_with_an_empty_cache() -> None:
    model = GPT(11, 16, 2, 2, 16, seed=0).eval()
    tokens = np.array([[1, 2, 3, 4]])
    whole = model(tokens).data
    cache = enable_kv_cache(model)
    for _ in range(2):
        with cache.generation() as same:
            steps = [model(tokens[:, [at]]).data for at in range(4)]
        assert same is cache
        assert cache.seq_pos == 0
        np.testing.assert_allclose(np.concatenate(steps, axis=1), whole, rtol=0, atol=1e-5)
    with pytest.raises(RuntimeError, match="another generation"), cache.generation(), cache.generation():
        pass
    with cache.generation():
        assert cache.seq_pos == 0


def test_a_timer_keeps_its_measurements_and_a_context_reports_its_body(capsys: pytest.CaptureFixture[str]) -> None:
    timer = Timer()
    assert timer.measurements == []
    found = timer.measure(lambda: sum(range(100)), warmup=1, runs=7)
    assert len(timer.measurements) == found["runs"] == 7
    assert np.median(timer.measurements) * 1e3 == pytest.approx(found["p50_ms"])
    with ProfilerContext("MyModel"):
        Linear(8, 4)(Tensor(np.ones((2, 8), np.float32)))
    assert capsys.readouterr().out.startswith("MyModel: ")


def test_what_only_can_be_called_is_timed_and_its_flops_are_not_counted() -> None:
    slow, x = ArrayLinear(8, 4), Tensor(np.ones((2, 8), np.float32))
    found = Profiler(ceilings=made_ceilings()).profile_forward_pass(slow, x)
    assert found["bottleneck"] == "not counted"
    assert found["latency_ms"] > 0
    assert found["peak_memory_mb"] > 0
    unknown = ("flops", "batch_flops", "gflops_per_second", "computational_efficiency", "share_of_roof")
    for count in (Profiler().count_flops(slow, (2, 8)), count_flops(slow, x), *(found[key] for key in unknown)):
        assert {str(count), repr(count), *(format(count, spec) for spec in ("", ",", ",d", ".2f", ">12,.1%"))} == {
            "not counted"
        }
        assert math.isnan(count / 2)


def test_labels_may_be_one_hot() -> None:
    labels = np.array([0, 3, 1, 1, 2])
    assert distilled(np.eye(4)[labels]) == distilled(labels)


def test_two_measured_performances_divide_and_subtract() -> None:
    data = (np.random.default_rng(0).random((64, 256), dtype=np.float32), np.zeros(64, int))
    original_model = Sequential(*(Linear(256, 256, seed=0) for _ in range(20)))
    quantized_model = Linear(256, 256, seed=0)

    def timed(model: Module, seconds: float) -> Performance:
        found = measure_performance(model, data, repeats=6)
        return replace(found, times={batch: (made(seconds, "s"),) for batch in found.batches}, reference={})

    baseline, optimized = timed(original_model, 20e-3), timed(quantized_model, 1e-3)
    improvement: dict[str, Any] = {
        "speedup": baseline.time / optimized.time,
        "memory_reduction": baseline.memory / optimized.memory,
        "accuracy_delta": optimized.accuracy - baseline.accuracy,
    }
    assert float(baseline.time) == baseline.time.median
    assert float(improvement["speedup"]) == pytest.approx(20)
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


#: "Profiling", its text: the `Profiler`.
PROFILER = """
Profiler().count_parameters(model)
Profiler().count_flops(model, input_shape)
Profiler().measure_memory(model, input_shape)['parameter_memory_mb']
Profiler().measure_memory(model, input_shape)['activation_memory_mb']
Profiler().measure_memory(model, input_shape)['peak_memory_mb']
Profiler().measure_memory(model, input_shape)['memory_efficiency']
Profiler().measure_latency(model, input_tensor)
Profiler().measure_latency(model, input_tensor, warmup=10, iterations=100)
Profiler().measure_latency(model, input_tensor, 2, 10)
Profiler().profile_layer(model, input_shape)
Profiler().profile_layer(model, input_shape)['layer_name']
Profiler().profile_forward_pass(model, input_tensor)
f"Bottleneck: {Profiler().profile_forward_pass(model, input_tensor)['bottleneck']}"
f"GFLOP/s: {Profiler().profile_forward_pass(model, input_tensor)['gflops_per_second']:.2f}"
Profiler().profile_backward_pass(model, input_tensor)
sum(p.data.size for p in model.parameters())
"""
#: "Profiling", its code: `Timer`.
TIMER = """
Timer().measure(lambda: sum(range(1000)), warmup=5, runs=200)
Timer().measure(lambda: [i * 2 for i in range(10000)], warmup=3, runs=100)
Timer().measure(model.forward, warmup=3, runs=100, args=(input_tensor,))
Timer().measure(lambda: linear.forward(Tensor([[0.1] * 64])), warmup=2, runs=50)
Timer().measure(time.sleep, warmup=1, runs=10, args=(0.001,))['mean_ms']
Timer().measure(sorted, runs=7, args=([3, 1],), kwargs={'reverse': True})['runs'] == 7
[Timer().measure(model.forward, args=(input_tensor,), runs=20)[k] for k in ('std_ms', 'p50_ms', 'p95_ms', 'p99_ms')]
(timed := Timer().measure(int, runs=10))['min_ms'] <= timed['max_ms']
Timer().print_report("Fast CPU Sum")
timer.measure(int, runs=10) and timer.print_report("Linear Layer Forward")
timer.measure(int, runs=10) and [t * 1000 for t in timer.measurements]
"""
#: "Profiling", its code: `MemoryProfiler`.
MEMORY = """
MemoryProfiler().peak_memory
MemoryProfiler().profile(lambda: [i for i in range(1000)])
MemoryProfiler().profile(lambda: [[float(i * j) for j in range(100)] for i in range(100)])
MemoryProfiler().profile(sorted, ([3, 1],), {'reverse': True})['result'] == [3, 1]
MemoryProfiler().profile(model.forward, args=(input_tensor,))['peak_mb'] > 0
MemoryProfiler().profile(lambda: [i for i in range(100000)])['peak_mb'] > 0
0.5 < MemoryProfiler().profile(lambda: [i for i in range(125000)]).get('allocated_mb', 0) < 10
[MemoryProfiler().profile(int)[k] for k in ('baseline_mb', 'final_mb', 'peak_mb', 'allocated_mb')]
MemoryProfiler().print_report(MemoryProfiler().profile(int), "Small Allocation")
"""
#: "Profiling", its code: `FLOPCounter`.
FLOPS = """
FLOPCounter().operation_counts == {'multiply': 0, 'add': 0, 'total_flops': 0}
counter.count_linear(input_features=64, output_features=32, batch_size=10)
counter.count_linear(128, 64, 32)
counter.count_conv2d(input_height=32, input_width=32, input_channels=3, output_channels=16, kernel_size=3, batch_size=1)
counter.count_conv2d(32, 32, 3, 16, 3)
counter.count_attention(sequence_length=50, d_model=128, batch_size=1)
[counter.count_attention(seq_len, 128) / 1e6 for seq_len in (10, 50, 100, 200)]
counter.count_attention(50, 128) == counter.layer_breakdown['attention']
counter.count_model_forward(Linear(64, 32), (10, 64))
counter.count_model_forward(Conv2d(3, 16, 3), (1, 3, 32, 32))
counter.count_model_forward(Transformer(100, 16, 2, 1), (1, 50))
counter.count_model_forward(SlowLinear(128, 64), (32, 128))
counter.count_model_forward(lambda x: x, (32, 128))
counter.count_linear(4, 3) and counter.operation_counts['total_flops'] > 0
counter.count_linear(4, 3) and counter.print_report("Linear Layer")
counter.reset()
"""
#: "Profiling", its code: `ProfilerContext`. ``context`` has run.
CONTEXT = """
ProfilerContext("MyModel")
ProfilerContext("Complete ML Model", timing_runs=20, enable_memory=True)
ProfilerContext("it", 10, 2, True, False)
context.profile_function(model.forward, args=(input_tensor,))
context.profile_function(sorted, args=([3, 1],), kwargs={'reverse': True}) == [3, 1]
context.add_flop_count(32 * 128 * 64, {'linear': 32 * 128 * 64})
context.add_flop_count(100 * 100 + 50 * 50 * 10 + 20 * 20 * 20 * 5)
context.add_flop_count(61_000_000, {'embedding': 1_000_000, 'attention': 50_000_000, 'mlp': 10_000_000})
context.generate_report()
context.name, context.timing_runs, context.timing_warmup
context.enable_memory and context.enable_flops
context.timer.measurements
context.memory_profiler.peak_memory
context.flop_counter.operation_counts['total_flops']
context.flop_counter.layer_breakdown
context.timing_stats['mean_ms'] / 1000
context.timing_stats.get('p95_ms', 0)
context.memory_stats['peak_mb']
context.memory_stats.get('allocated_mb', 0)
context.results
SimpleProfiler().profile(lambda: np.ones((100, 100)) @ np.ones((100, 100)), name="Matrix Multiply")['wall_time']
SimpleProfiler(track_memory=True, track_cpu=True).profile(sorted, [3, 1])['cpu_efficiency']
[profile_function(sorted, [3, 1])[k] for k in ('memory_delta_mb', 'peak_memory_mb', 'result_size_mb', 'cpu_time')]
profile_function(lambda: sum(i * i for i in range(1000)))['name']
Transformer(vocab_size=1000, d_model=128, n_heads=8, n_layers=1).forward(Tensor([[i] for i in range(32)]))
Conv2d(3, 16, 3).forward(Tensor([[[0.1] * 32 for _ in range(32)] for _ in range(3)]))
[Linear(784, 256), Conv2d(1, 32, 3), Conv2d(32, 64, 3), Transformer(1000, 128, 8, 2), Linear(128, 10)]
"""
#: "Acceleration", its code.
ACCELERATION = """
vectorized_matmul(Tensor([[1, 2], [3, 4]]), Tensor([[5, 6], [7, 8]])).data.tolist() == [[19, 22], [43, 50]]
vectorized_matmul(Tensor(np.ones((2, 3, 4))), Tensor(np.ones((2, 4, 5)))).shape == (2, 3, 5)
vectorized_matmul(Tensor(np.ones((3, 4))), Tensor(np.ones((2, 4, 5)))).shape == (2, 3, 5)
fused_gelu(Tensor([-2, -1, 0, 1, 2])).data
abs(fused_gelu(Tensor([-3, -1, 0, 1, 3])).data[2]) < 1e-6
not np.any(np.isnan(fused_gelu(Tensor([-10, -5, 0, 5, 10])).data))
fused_gelu(Tensor(np.ones((100, 100), np.float32))).data.dtype == np.float32
fused_gelu(Tensor([5.0])).data[0] > 4.9
np.allclose(unfused_gelu(input_tensor).data, fused_gelu(input_tensor).data, atol=1e-6)
Tensor(input_tensor.data + input_tensor.data)
Profiler().measure_latency(SlowLinear(16, 8), Tensor(np.ones((4, 16), np.float32)), warmup=3, iterations=10)
Profiler().measure_latency(FastLinear(16, 8), Tensor(np.ones((4, 16), np.float32)), warmup=3, iterations=10)
f"  FLOPs: {Profiler().count_flops(SlowLinear(16, 8), (4, 16)):,}"
f"  FLOPs: {Profiler().count_flops(FastLinear(16, 8), (4, 16)):,}"
f"{Profiler().count_flops(SlowLinear(16, 8), (4, 16)) / (1.5 / 1000) / 1e9:.2f} GFLOP/s"
Block(16)(Tensor(np.ones((2, 3, 16), np.float32))).shape == (2, 3, 16)
len(Block(16).parameters())
Profiler().count_parameters(Block(16)) == 2 * 16 * 16
Profiler().measure_memory(Block(16), (2, 3, 16))['parameter_memory_mb'] == 2 * 16 * 16 * 4 / 2**20
"""
#: "Benchmarking", its text.
BENCHMARKING = """
measured_forward(model, input_tensor)
printed(model, input_tensor)
profiler.print_top_operations(n=10)
count_flops(model, input_tensor)
measure_performance(gpt, test_data, batches=(1,), repeats=6).time
measure_performance(gpt, test_data, batches=(1,), repeats=6).memory
measure_performance(gpt, test_data, batches=(1,), repeats=6).accuracy
benchmark_suite(models, test_data, batches=(1,), repeats=6)
plot_performance_comparison(benchmark_suite(models, test_data, batches=(1,), repeats=6))
improvement(*(measure_performance(models[k], test_data, batches=(1,), repeats=6) for k in ('baseline', 'quantized')))
"""

#: What is refused, by which error, and the decision behind it.
REFUSED = [
    ("from tinytorch.profiling.profiler import Profiler", ModuleNotFoundError, "a path of an earlier generation"),
    ("from tinytorch.optimization.acceleration import fused_gelu", ModuleNotFoundError, "a path of another generation"),
    ("model.train([input_tensor])", TypeError, "train() sets the mode; fit(...) trains"),
    ("measure_performance(model)", TypeError, "what to run it on is given, or is the model's example_input"),
    ("vectorized_matmul(Tensor([1, 2, 3]), Tensor([4, 5]))", ValueError, "2D+, as the course refuses it"),
    ("vectorized_matmul(Tensor([[1, 2]]), Tensor([[1], [2], [3]]))", ValueError, "shape mismatch, likewise"),
    ("context.add_flop_count(5, {'linear': 4})", ValueError, "a breakdown sums to what it breaks down"),
]

#: What gives another number than in the course, what it asserts, and the decision behind it.
OTHER_NUMBERS = [
    ("counter.count_linear(100, 50, batch_size=32)", 2 * 32 * 100 * 50, "2 for each multiply-accumulate, no bias"),
    ("counter.count_model_forward(Linear(64, 32), (10, 64))", 2 * 10 * 64 * 32, "of what ran, not of 32 outputs"),
    ("str(counter.count_model_forward(abs_of, (1,)))", "not counted", "no placeholder of a million"),
    ("MemoryProfiler().profile(int)['baseline_mb']", 0, "bytes traced before, and nobody traced"),
    ("SimpleProfiler().profile(sorted, [3, 1])['name']", "sorted", "named after the function"),
]


class SlowLinear:
    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight = Tensor(np.ones((inputs, outputs), np.float32))
        self.name = "slow_linear"

    def forward(self, x: Tensor) -> Tensor:
        result = np.zeros((x.shape[0], self.weight.shape[1]), np.float32)
        for i, j, k in np.ndindex(*result.shape, x.shape[1]):
            result[i, j] += x.data[i, k] * self.weight.data[k, j]
        return Tensor(result)


class FastLinear(SlowLinear):
    def forward(self, x: Tensor) -> Tensor:
        return course.vectorized_matmul(x, self.weight)


class Block:
    def __init__(self, hidden_dim: int) -> None:
        self.weight1 = Tensor(np.ones((hidden_dim, hidden_dim), np.float32))
        self.weight2 = Tensor(np.ones((hidden_dim, hidden_dim), np.float32))
        self.weight1.grad = None

    def __call__(self, x: Tensor) -> Tensor:
        flat = Tensor(x.data.reshape(-1, x.shape[2]))
        hidden = course.fused_gelu(course.vectorized_matmul(flat, self.weight1))
        return Tensor(course.vectorized_matmul(hidden, self.weight2).data.reshape(x.shape))

    def parameters(self) -> list[Tensor]:
        return [self.weight1, self.weight2]


@course.profile
def measured_forward(model: Any, given: Tensor) -> None:
    printed(model, given)


def printed(model: Any, given: Tensor) -> None:
    with course.Timer() as t, course.MemoryTracker() as m:
        model(given)
    print(f"Time: {t.elapsed}ms")
    print(f"Memory: {m.peak_usage}MB")
    print(f"FLOPs: {course.count_flops(model, given)}")


def improvement(baseline: Any, optimized: Any) -> dict[str, Any]:
    return {
        "speedup": optimized.time / baseline.time,
        "memory_reduction": baseline.memory / optimized.memory,
        "accuracy_delta": optimized.accuracy - baseline.accuracy,
    }


def small_gpt(cached: bool = False) -> GPT:
    model = GPT(11, 16, 1, 2, 8, seed=0)
    if cached:
        enable_kv_cache(model)
    return model


@pytest.fixture
def namespace() -> dict[str, Any]:
    """Return what the course's code finds where it stands."""
    model, given = Linear(4, 3, seed=0), Tensor(np.ones((2, 4), np.float32))
    with course.Profiler() as profiler:
        model(given)
    context = course.ProfilerContext("it", timing_runs=6)
    context.profile_function(model, (given,))
    tokens = np.array([[1, 2, 3], [4, 5, 6]])
    gpt = small_gpt()
    own = {
        "model": model,
        "input_tensor": given,
        "input_shape": (2, 4),
        "linear": Linear(64, 32, seed=0),
        "timer": course.Timer(),
        "counter": course.FLOPCounter(),
        "context": context,
        "profiler": profiler,
        "gpt": gpt,
        "test_data": (tokens, tokens),
        "models": {
            "baseline": gpt,
            "quantized": quantize_model(gpt),
            "pruned": magnitude_prune(gpt, 0.5),
            "cached": small_gpt(cached=True),
        },
        "abs_of": lambda x: Tensor(np.abs(x.data)),
    }
    here = (SlowLinear, FastLinear, Block, measured_forward, printed, improvement)
    named = {getattr(each, "__name__", ""): each for each in here}
    return {**{name: getattr(course, name) for name in course.__all__}, "np": np, "time": time, **named, **own}


def lines_of(*texts: str) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


CALLS = lines_of(PROFILER, TIMER, MEMORY, FLOPS, CONTEXT, ACCELERATION, BENCHMARKING)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_the_course_runs_and_what_it_compares_is_so(call: str, namespace: dict[str, Any]) -> None:
    found = eval(call, namespace)
    assert found is not False


@pytest.mark.parametrize(("call", "error", "decision"), REFUSED)
def test_a_call_of_the_course_is_refused_by_decision(
    call: str, error: type[Exception], decision: str, namespace: dict[str, Any]
) -> None:
    assert decision
    with pytest.raises(error):
        exec(call, namespace)


@pytest.mark.parametrize(("call", "number", "decision"), OTHER_NUMBERS)
def test_a_number_is_another_by_decision(call: str, number: Any, decision: str, namespace: dict[str, Any]) -> None:
    assert decision
    assert eval(call, namespace) == number

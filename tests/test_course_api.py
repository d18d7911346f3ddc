"""What students of the course type: names, import paths, arguments and keys, each as the course's texts write it."""

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
from tinytorch.perf.compression import KnowledgeDistillation
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.memoization import KVCache, enable_kv_cache
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


class Held:
    """Something with parameters() alone, as the course's blocks have it."""

    def __init__(self, parameters: list[Any]) -> None:
        self.held = parameters

    def parameters(self) -> list[Any]:
        return self.held


def weights(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


class FastLinear:
    """A layer of the course's: a weight, a forward, and neither Module nor parameters()."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight = weights(inputs, outputs)
        self.name, self.lengths = "fast", Tensor(np.array([inputs, outputs]))

    def forward(self, x: Tensor) -> Tensor:
        return vectorized_matmul(x, self.weight)


class Block:
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
        shared = FastLinear(8, 8)
        self.layers: list[Any] = [shared, Linear(8, 8, seed=0), {"again": shared, "block": Block(weights(8, 8))}]
        self.layers.append(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.layers[0].forward, self.layers[1], self.layers[2]["block"]):
            x = layer(x)
        return x


#: Models that are no Modules, and how many numbers their parameters are.
PLAIN: dict[str, tuple[Callable[[], Any], int]] = {
    "a weight": (lambda: FastLinear(8, 4), 32),
    "parameters() of Tensors": (lambda: Block(weights(8, 4), weights(4)), 36),
    "parameters() of one Tensor twice": (lambda: Block(*[weights(8, 4)] * 2), 32),
    "parameters() of arrays": (lambda: Block(np.ones((8, 4), np.float32)), 32),
    "parameters() of Parameters": (lambda: Block(Parameter(weights(8, 4)), Parameter(weights(4))), 36),
    "models in a model": (Network, 64 + 72 + 64),
    "a weight, and no op": (lambda: SlowTensorLinear(8, 4), 32),
}


class SlowTensorLinear(SlowLinear):
    """Loops over a weight that is a Tensor."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.tensor = weights(inputs, outputs)
        self.weight = self.tensor.data


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
    """Train a student by a teacher on these labels."""
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
        (lambda: str(FLOPCounter().count_model_forward(SlowLinear(8, 4), (2, 8))), "not counted"),
        (lambda: Profiler().count_parameters(SlowLinear(8, 4)), 0),
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
    with pytest.raises(RuntimeError, match="within another"), cache.generation(), cache.generation():
        pass
    with cache.generation():
        assert cache.seq_pos == 0


def test_memory_in_mb_is_mib_and_allocated_is_what_is_left_and_not_what_was_needed() -> None:
    def function() -> Any:
        np.ones(16 * MIB, np.uint8)
        return np.ones(MIB, np.uint8)

    with MemoryTracker() as m:
        function()
    assert m.peak_usage == m.peak_bytes / MIB == pytest.approx(16, abs=0.01)
    found = MemoryProfiler().profile(function)
    assert found["allocated_mb"] == found["final_mb"] - found["baseline_mb"] == pytest.approx(1, abs=0.01)
    assert found["needed_mb"] == found["peak_mb"] - found["baseline_mb"] == pytest.approx(16, abs=0.01)


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
    slow, x = SlowLinear(8, 4), Tensor(np.ones((2, 8), np.float32))
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

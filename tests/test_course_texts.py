"""Calls as the course's texts and code write them: each runs, or is refused, or gives another number, by a decision.

Each text is a chapter of the course. Names that its code takes from elsewhere (a model, an input) stand in `namespace`.
"""

import time
from typing import Any

import numpy as np
import pytest

from tinytorch import course
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.compression import magnitude_prune
from tinytorch.perf.memoization import enable_kv_cache
from tinytorch.perf.quantization import quantize_model

pytestmark = pytest.mark.usefixtures("made_machine")

#: "Profiling", its text: the `Profiler`.
PROFILER = """
Profiler().count_parameters(model)
Profiler().count_flops(model, input_shape)
Profiler().measure_memory(model, input_shape)
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
Timer().timer_func
Timer().measurements
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
MemoryProfiler().baseline_memory
MemoryProfiler().peak_memory
MemoryProfiler().allocations
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
FLOPCounter().layer_breakdown == {}
counter.count_linear(input_features=64, output_features=32, batch_size=10)
counter.count_linear(128, 64, 32)
counter.count_conv2d(input_height=32, input_width=32, input_channels=3, output_channels=16, kernel_size=3, batch_size=1)
counter.count_conv2d(32, 32, 3, 16, 3)
counter.count_attention(sequence_length=50, d_model=128, batch_size=1)
counter.count_attention(seq_len=128, d_model=512)
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
ProfilerContext()
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

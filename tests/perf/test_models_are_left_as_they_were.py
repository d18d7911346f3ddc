"""Every public analysis of every model of the zoo, and of one with each kind of state, leaves all of it as it was."""

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tests.perf.quantization import small_zoo
from tinytorch import models
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.module import Module
from tinytorch.core.random import generator_from
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import fuse
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.acceleration.techniques import try_techniques
from tinytorch.perf.benchmarking import measure_performance, single_stream
from tinytorch.perf.compression import (
    compress_model,
    layer_sparsity,
    low_rank_model,
    measure_sparsity,
    sparse_model,
    unit_groups,
)
from tinytorch.perf.memoization import cache_of, enable_kv_cache
from tinytorch.perf.profiling import FLOPCounter, Profiler, count_flops
from tinytorch.perf.profiling.model_profile import profile_model
from tinytorch.perf.quantization import (
    Plan,
    analyze_model_sizes,
    quantize_model,
    sensitivity_scan,
    stored_bytes,
    tradeoffs,
)


class Stateful(Module):
    """Changes something of every kind when it runs."""

    def __init__(self) -> None:
        self.norm, self.product = BatchNorm2d(3), Conv2d(3, 4, 3, seed=0)
        self.drop, self.own = Dropout(0.5, seed=0), random.Random(0)
        self.frozen, self.last = BatchNorm2d(4).eval(), Linear(4, 2, seed=0)
        self.frozen.weight.requires_grad = False
        self.calls, self.seen, self.by_shape = 0, [0], {"none": [np.zeros(1)]}
        self.scale, self.told = Tensor(np.ones(1, np.float32)), np.zeros(3)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.seen.append(self.calls)
        self.by_shape[str(x.shape)] = [np.zeros(1)]
        self.by_shape["none"][0] += 1
        self.told += self.own.random() + random.random() + np.random.rand() + generator_from(None).random()
        self.scale.data += 1
        self.after = self.calls
        y = self.frozen(self.drop(self.product(self.norm(x))))
        return self.last(y.mean(axis=(2, 3)))


def stateful() -> tuple[Module, Any]:
    return Stateful(), Tensor(np.random.default_rng(0).normal(1, 1, (4, 3, 6, 6)).astype(np.float32))


def zoo(name: str, training: bool = True) -> tuple[Module, Any]:
    return small_zoo.make(name).train(training), small_zoo.batch(name)


def with_cache() -> tuple[Module, Any]:
    model = GPT(11, 16, 1, 2, 12, seed=0)
    enable_kv_cache(model, batch_size=5)
    model(np.ones((5, 3), np.int64))
    return model, small_zoo.batch("gpt")


MODELS: dict[str, Callable[[], tuple[Module, Any]]] = {
    "one with state": stateful,
    "a GPT with a cache": with_cache,
    **{name: functools.partial(zoo, name) for name in small_zoo.NAMES},
}


def state_of(value: Any, seen: set[int] | None = None) -> Any:
    """Return all that a value holds as nested tuples, each object once; caches as they are seen from outside."""
    seen = set() if seen is None else seen
    if isinstance(value, (int, float, str)):
        return value
    if value is None or id(value) in seen:
        return id(value)
    seen.add(id(value))
    inner = functools.partial(state_of, seen=seen)
    if isinstance(value, np.ndarray):
        return id(value), value.tobytes()
    if isinstance(value, Tensor):
        return id(value), inner(value.data), inner(value.grad), value.requires_grad
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if isinstance(value, random.Random):
        return value.getstate()
    held = {"training": value.training, **vars(value)} if isinstance(value, Module) else value
    if isinstance(held, dict):
        return id(value), [(key, inner(each)) for key, each in held.items()]
    return id(value), [inner(each) for each in value] if isinstance(value, (list, tuple)) else None


def everything(model: Module) -> Any:
    held: Any = None
    if isinstance(model, GPT) and (cache := cache_of(model)) is not None:
        held = cache.seq_pos, cache.user is model, *(each.data.tobytes() for each in cache.get(0))
    process = random.getstate(), str(np.random.get_state()), state_of(generator_from(None))
    return state_of(model), held, process


def profiler() -> Profiler:
    return Profiler(ceilings=made_ceilings())


def array(x: Any) -> np.ndarray:
    return x.data if isinstance(x, Tensor) else x


ANALYSES: dict[str, Callable[[Module, Any], Any]] = {
    "count_parameters": lambda m, x: profiler().count_parameters(m),
    "count_flops": lambda m, x: count_flops(m, x.shape),
    "count_flops of a method": lambda m, x: count_flops(m.forward, x.shape),
    "count_flops of a function": lambda m, x: count_flops(lambda _: m(x), x.shape),
    "count_model_forward": lambda m, x: FLOPCounter().count_model_forward(m, x.shape),
    "count_model_backward": lambda m, x: FLOPCounter().count_model_backward(m, x.shape),
    "measure_memory": lambda m, x: profiler().measure_memory(m, x.shape),
    "latency": lambda m, x: profiler().measure_latency(m, array(x), 1, 3),
    "profile_layer": lambda m, x: profiler().profile_layer(m, x.shape),
    "profile_forward_pass": lambda m, x: profiler().profile_forward_pass(m, array(x)),
    "profile_backward_pass": lambda m, x: profiler().profile_backward_pass(m, array(x)),
    "profile_model": lambda m, x: profile_model(m, Tensor(array(x)), "it", backward=True, loss_fn=lambda y: y.sum()),
    "quantize_model": lambda m, x: quantize_model(m, x),
    "sensitivity_scan": lambda m, x: sensitivity_scan(m, x, Plan("static")),
    "stored_bytes": lambda m, x: analyze_model_sizes(m, quantize_model(m)) and stored_bytes(m),
    "sparsity": lambda m, x: (measure_sparsity(m), layer_sparsity(m), unit_groups(m), sparse_model(m, 0.0)),
    "low_rank_model": lambda m, x: low_rank_model(m, 0.25),
    "compress_model": lambda m, x: compress_model(m, {"magnitude_prune": 0.5}, inputs=x, repeats=6),
    "measure_performance": lambda m, x: measure_performance(m, array(x), batches=(5,), repeats=6, at_most_seconds=0.1),
    "single_stream": lambda m, x: single_stream(m, array(x), queries=6),
    "fuse": lambda m, x: fuse(m),
}
ANALYSES_OF_INFERENCE: dict[str, Callable[[str, Module, Any], Any]] = {
    "accuracy": lambda name, m, x: models.accuracy(m, name),
    "tradeoffs": lambda name, m, x: tradeoffs(name, m, {"8 bits": quantize_model(m)}, batch=4, repeats=6),
    "plan": lambda name, m, x: plan(m, x),
    "try_techniques": lambda name, m, x: try_techniques(name, m, x, at_most_seconds=0.1),
}


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("name", MODELS)
def test_analysis_leaves_a_model_as_it_was(name: str, analysis: str) -> None:
    model, x = MODELS[name]()
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = np.full(parameter.shape, number, np.float32)
    before = everything(model)
    ANALYSES[analysis](model, x)
    assert everything(model) == before


@pytest.mark.parametrize("analysis", ANALYSES_OF_INFERENCE)
@pytest.mark.parametrize("name", small_zoo.NAMES)
def test_analysis_of_inference_leaves_a_model_in_train_mode(name: str, analysis: str) -> None:
    model, x = models.entry(name).make(0), models.example(name, 4)
    before = everything(model)
    ANALYSES_OF_INFERENCE[analysis](name, model, x)
    assert everything(model) == before


def test_analysis_by_an_error_leaves_a_model_as_it_was_too() -> None:
    model, x = stateful()
    before = everything(model)
    with pytest.raises(ZeroDivisionError):
        Profiler().profile_backward_pass(model, array(x), lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    assert everything(model) == before


def test_a_model_with_a_cache_is_counted_as_one_that_reads_whole_sequences() -> None:
    model, _ = with_cache()
    assert count_flops(model, (1, 4)) == count_flops(GPT(11, 16, 1, 2, 12, seed=0), (1, 4))

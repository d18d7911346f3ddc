"""Integers of NumPy as sizes are counted as others, and what is no module is refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Embedding, LayerNorm, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import SGD
from tinytorch.core.spatial import AvgPool2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf import acceleration, compression, memoization, quantization
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.compression import break_even_rank, csr_nbytes, low_rank_model
from tinytorch.perf.compression.pruning import compact_n_m
from tinytorch.perf.distributed.cluster_model.collective_costs import GivenLink, ring_all_reduce
from tinytorch.perf.distributed.cluster_model.workload import transformer_workload
from tinytorch.perf.memoization import KVCache
from tinytorch.perf.profiling import FLOPCounter, Profiler
from tinytorch.perf.quantization import Scheme, pack, quantize, quantize_model

X = np.ones((2, 4), np.float32)
MODEL = Sequential(Linear(4, 4, seed=0))


class Foreign:
    """A model of another framework, or of the course's first chapters."""

    def __init__(self) -> None:
        self.weight = np.ones((4, 4), np.float32)

    def __call__(self, x: Any) -> Any:
        return x @ self.weight


def distilled(teacher: Any, student: Any) -> Any:
    course = compression.KnowledgeDistillation(teacher, student)
    return course.fit(X, np.zeros(2, int), SGD(MODEL.parameters()), epochs=1)


CALLS: dict[str, Callable[[Any], Any]] = {
    "magnitude_prune": compression.magnitude_prune,
    "n_m_prune": compression.n_m_prune,
    "hold_zeros": compression.hold_zeros,
    "structured_prune": compression.structured_prune,
    "unit_groups": compression.unit_groups,
    "units_to_remove": compression.units_to_remove,
    "remove_units": lambda model: compression.remove_units(model, {"0": [0]}),
    "mask_units": lambda model: compression.mask_units(model, {"0": [0]}),
    "low_rank_model": compression.low_rank_model,
    "sparse_model": compression.sparse_model,
    "layer_sparsity": compression.layer_sparsity,
    "measure_sparsity": compression.measure_sparsity,
    "compress_model": lambda model: compression.compress_model(model, {"magnitude_prune": 0.5}),
    "KnowledgeDistillation, teacher": lambda model: distilled(model, MODEL),
    "KnowledgeDistillation, student": lambda model: distilled(MODEL, model),
    "quantize_model": quantization.quantize_model,
    "sensitivity_scan": lambda model: quantization.sensitivity_scan(model, X),
    "analyze_model_sizes": lambda model: quantization.analyze_model_sizes(MODEL, model),
    "stored_bytes": quantization.stored_bytes,
    "prepare_training": quantization.prepare_training,
    "finish_training": quantization.finish_training,
    "save_quantized": lambda model: quantization.save_quantized(model, Path("never written")),
    "fuse": acceleration.fuse,
    "plan": lambda model: plan(model, X),
    "enable_kv_cache": memoization.enable_kv_cache,
    "disable_kv_cache": memoization.disable_kv_cache,
    "fuse_decoding": memoization.fuse_decoding,
}


@pytest.mark.parametrize("name", CALLS)
def test_an_object_that_is_no_module_is_refused_by_its_class(name: str) -> None:
    with pytest.raises(TypeError, match=r"must be a (Module|GPT).*Foreign"):
        CALLS[name](Foreign())


@pytest.mark.parametrize("weight", [Foreign(), None, "text", np.ones(4), np.ones((4, 4), int), [[[1.0]]]])
def test_a_weight_that_is_none_is_refused_in_words(weight: Any) -> None:
    with pytest.raises(ValueError, match="weight must be that of a linear or convolution layer"):
        compact_n_m(weight)


Integer = Callable[[int], Any]


def counted(*layers: Module, shape: tuple[Any, ...]) -> tuple[int, int, Any]:
    """Return what is counted of a forward and a step, and the parameters that its ops were recorded with."""
    model = Sequential(*layers)
    counter = FLOPCounter()
    counter.count_model_forward(model, shape)
    counter.count_model_backward(model, shape)
    return Profiler().count_flops(model, shape), counter.total_flops, counter.total_elementwise


GPT_3 = {"layers": 96, "width": 12_288, "heads": 96, "positions": 2048, "vocabulary": 50_257, "examples": 1000}
#: What is asked, with the way in which its integers are given.
DOORS: dict[str, Callable[[Integer], Any]] = {
    "count_linear": lambda n: FLOPCounter().count_linear(n(100_000), n(100_000), n(100)),
    "count_conv2d": lambda n: FLOPCounter().count_conv2d(n(2000), n(2000), n(512), n(512), (n(3), n(3)), n(4)),
    "count_attention": lambda n: FLOPCounter().count_attention(n(100_000), n(4096), batch_size=n(8)),
    "count_transformer": lambda n: FLOPCounter().count_transformer(n(50_000), n(12_288), n(1), n(100_000)),
    "break_even_rank": lambda n: break_even_rank(n(100_000), n(100_000)),
    "csr_nbytes": lambda n: csr_nbytes(n(100_000), n(100_000), n(2_000_000_000)),
    "low_rank_model": lambda n: counted(low_rank_model(Sequential(Linear(8, 8)), {"0": n(2)}), shape=(n(2), n(8))),
    "ring_all_reduce": lambda n: ring_all_reduce(n(2_000_000_000), n(8), GivenLink(1e-6, 1e-9)),
    "transformer_workload": lambda n: transformer_workload(
        **{name: n(value) for name, value in GPT_3.items()}, flops_per_second=1e12
    ),
    "KVCache": lambda n: KVCache(n(1), n(8), n(2), n(2), n(4)).get_memory_usage(),
    "Linear": lambda n: counted(Linear(n(8), n(4)), shape=(n(2), n(8))),
    "Embedding": lambda n: counted(Embedding(n(9), n(4)), shape=(n(2), n(3))),
    "LayerNorm": lambda n: counted(Linear(8, 4), LayerNorm(n(4)), shape=(2, 8)),
    "Conv2d": lambda n: counted(Conv2d(n(2), n(4), n(3), n(2), n(1), groups=n(2)), shape=(1, 2, 9, 9)),
    "pools": lambda n: counted(Conv2d(2, 2, 1), MaxPool2d(n(2)), AvgPool2d((n(2), n(2))), shape=(1, 2, 8, 8)),
    "MultiHeadAttention": lambda n: counted(MultiHeadAttention(n(8), n(2)), shape=(2, 3, 8)),
    "GPT": lambda n: counted(GPT(n(11), n(16), n(1), n(2), n(8)), shape=(1, 4)),
    "indices and axes": lambda n: counted(Slices(n), shape=(4, 8)),
    "Scheme": lambda n: (
        quantize(np.arange(64, dtype=np.float32).reshape(8, 8), Scheme(n(4), per="group", group=n(4))).nbytes
    ),
    "pack": lambda n: pack(np.arange(16, dtype=np.int8) % 4 - 2, n(2), n(0)).tolist(),
    "quantize_model": lambda n: len(quantize_model(Sequential(Linear(n(8), n(4)))).state_dict()),
}


class Slices(Module):
    """Ops whose parameters are integers."""

    def __init__(self, n: Integer) -> None:
        self.n, self.layer = n, Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        n = self.n
        y = self.layer(x).reshape(n(2), n(2), n(4)).transpose(n(0), n(2), n(1))
        return y[n(0) : n(2), n(1)].sum(axis=n(0)) + y[n(0), n(1)]


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("door", DOORS)
def test_numpy_integers_are_the_integers_that_they_are(door: str, kind: type[np.integer[Any]]) -> None:
    given = DOORS[door](lambda value: kind(value) if value <= np.iinfo(kind).max else value)
    assert given == DOORS[door](int)

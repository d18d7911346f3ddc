"""Functions that change, count or store a model say so by name where they are given something else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.optimizers import SGD
from tinytorch.perf import acceleration, compression, memoization, quantization
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.compression.pruning import compact_n_m

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
    "layer_report": lambda model: quantization.layer_report(model, quantization.quantize_model(MODEL), X),
    "layer_report, quantized": lambda model: quantization.layer_report(MODEL, model, X),
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

"""Magnitude pruning: exact counts, ties, the ends of the range, and zeros that stay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.quantization.small_zoo import NAMES, batch, make
from tinytorch import models
from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.optimizers import SGD, Adam, AdamW, Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.compression import hold_zeros, layer_sparsity, magnitude_prune, measure_sparsity
from tinytorch.perf.compression.pruning import MaskedParameter, prunable
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import Plan, quantize_model, stored_bytes


def weights(model: Module) -> dict[str, Array]:
    return {name: layer.weight.data for name, layer in prunable(model).items()}


def zeros(model: Module) -> int:
    return sum(int((weight == 0).sum()) for weight in weights(model).values())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0, 0.1, 1 / 3, 0.9, 1])
def test_the_count_is_exact_and_the_smallest_go(name: str, share: float) -> None:
    model = make(name)
    before = weights(model)
    total = sum(weight.size for weight in before.values())
    pruned = magnitude_prune(model, share)
    assert zeros(pruned) == round(share * total)
    assert zeros(model) == 0, "the model given stays as it was"
    kept = np.concatenate([np.abs(w[w != 0]) for w in weights(pruned).values()])
    gone = np.concatenate([np.abs(before[key][w == 0]) for key, w in weights(pruned).items()])
    if kept.size and gone.size:
        assert gone.max() <= kept.min()
    for key, weight in weights(pruned).items():
        np.testing.assert_array_equal(weight[weight != 0], before[key][weight != 0])


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_each_layer_loses_its_share(fortieths: int, width: int, depth: int) -> None:
    model = Sequential(Linear(width, depth, seed=0), Linear(depth, 5, seed=1))
    pruned = magnitude_prune(model, fortieths / 40, scope="layer")
    for weight in weights(pruned).values():
        assert int((weight == 0).sum()) == round(fortieths / 40 * weight.size)


def test_of_equal_weights_the_earlier_go_first() -> None:
    model = Sequential(Linear(2, 3, seed=0), Linear(3, 2, seed=0))
    for layer in prunable(model).values():
        layer.weight.data[...] = [[1, -1, 1], [-1, 1, -1]] if layer.weight.shape == (2, 3) else 1
    pruned = weights(magnitude_prune(model, 8 / 12))
    np.testing.assert_array_equal(pruned["0"], 0)
    np.testing.assert_array_equal(pruned["1"], [[0, 0], [1, 1], [1, 1]])


def optimizers(parameters: Any) -> list[Optimizer]:
    return [
        SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
        Adam(parameters, lr=0.01, weight_decay=0.1),
        AdamW(parameters, lr=0.01, weight_decay=0.1),
    ]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_masks_survive_training_of_any_kind(name: str, which: int) -> None:
    pruned = magnitude_prune(make(name), 0.7)
    held = {key: weight == 0 for key, weight in weights(pruned).items()}
    x = batch(name)
    targets = np.sort(x, axis=1) if name == "gpt" else models.entry(name).example_target(5)
    before = {key: weight.copy() for key, weight in weights(pruned).items()}
    optimizer = optimizers(pruned.parameters())[which]
    for _ in range(3):
        train_step(pruned.train(), x, targets, models.loss_function(), optimizer)
    for key, weight in weights(pruned).items():
        assert (weight[held[key]] == 0).all()
        assert (weight[~held[key]] != before[key][~held[key]]).any()


def test_gradients_that_are_added_up_stay_masked() -> None:
    parameter = MaskedParameter(np.ones((2, 2), np.float32), np.array([[True, False], [False, True]]))
    for _ in range(2):
        (parameter * Tensor(np.full((2, 2), 3, np.float32))).sum().backward()
    np.testing.assert_array_equal(parameter.data, [[0, 1], [1, 0]])
    np.testing.assert_array_equal(parameter.grad, [[0, 6], [6, 0]])
    parameter.grad = np.full((2, 2), np.nan, np.float32)
    np.testing.assert_array_equal(np.isnan(parameter.grad), [[False, True], [True, False]])
    with pytest.raises(ValueError, match="pruned"):
        MaskedParameter([1.0, 2.0], np.array([True]))


def test_pruning_again_keeps_what_is_gone() -> None:
    model = make("mlp")
    once = magnitude_prune(model, 0.6, scope="layer")
    again = magnitude_prune(once, 0.5)
    for key, weight in weights(again).items():
        assert (weight[weights(once)[key] == 0] == 0).all()
    assert zeros(magnitude_prune(once, 0.8)) == round(0.8 * sum(weight.size for weight in weights(once).values()))
    less = magnitude_prune(once, 0.1)
    held = [layer.weight for layer in prunable(less).values()]
    assert all(isinstance(each, MaskedParameter) and each.pruned.sum() == (each.data == 0).sum() for each in held)


def test_kept_layers_stay_whole() -> None:
    pruned = magnitude_prune(make("mlp"), 0.9, scope="layer", keep=["5"])
    rows = {name: float((weight == 0).mean()) for name, weight in weights(pruned).items()}
    assert rows["5"] == 0
    assert min(rows["1"], rows["3"]) > 0.8


def test_a_pruned_model_saves_loads_profiles_and_quantizes(tmp_path: Path) -> None:
    pruned = magnitude_prune(make("mlp"), 0.9)
    pruned.save(tmp_path / "pruned.npz")
    read = make("mlp", seed=3).load(tmp_path / "pruned.npz")
    assert measure_sparsity(read) == measure_sparsity(pruned) == pytest.approx(90, abs=1e-3)
    held = hold_zeros(read)
    for _ in range(2):
        optimizer = SGD(held.parameters(), lr=0.1, weight_decay=0.1)
        train_step(held, batch("mlp"), models.entry("mlp").example_target(5), models.loss_function(), optimizer)
    assert measure_sparsity(held) == measure_sparsity(pruned)
    assert Profiler().count_flops(pruned, (1, 1, 8, 8)) == Profiler().count_flops(make("mlp"), (1, 1, 8, 8))
    small = quantize_model(pruned, plan=Plan("weight-only"))
    assert measure_sparsity(small) >= measure_sparsity(pruned), "zero has a code, and stays zero"
    assert sum(row.stored_bytes for row in layer_sparsity(small)) < stored_bytes(small) < 0.3 * stored_bytes(pruned)


def test_bad_arguments_are_named() -> None:
    model: Any = make("mlp")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"sparsity": -0.1}, "sparsity must be"),
        ({"sparsity": 1.01}, "sparsity must be"),
        ({"sparsity": True}, "sparsity must be"),
        ({"sparsity": float("nan")}, "sparsity must be"),
        ({"scope": "row"}, "scope must be"),
        ({"keep": ["nope"]}, "keep must name"),
        ({"keep": ["1", "3", "5"]}, "keep must leave"),
    ]
    for arguments, says in cases:
        with pytest.raises(ValueError, match=says):
            magnitude_prune(model, **arguments)
    with pytest.raises(ValueError, match="model"):
        magnitude_prune(Sequential(ReLU()))
    with pytest.raises(ValueError, match="weights"):
        measure_sparsity(ReLU())
    model[1].weight.data[0, 0] = np.nan
    with pytest.raises(ValueError, match="finite weights"):
        magnitude_prune(model)

"""Pruning by magnitude and N of each M: exact counts, ties, and zeros that stay."""

from collections.abc import Callable
from functools import partial
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
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.compression import (
    compact_n_m,
    hold_zeros,
    layer_sparsity,
    magnitude_prune,
    measure_sparsity,
    n_m_prune,
)
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
    pruned = magnitude_prune(model, share)
    assert zeros(model) == 0, "the model given stays as it was"
    before, after = (np.concatenate([w.ravel() for w in weights(each).values()]) for each in (model, pruned))
    assert zeros(pruned) == round(share * before.size)
    np.testing.assert_array_equal(after[after != 0], before[after != 0])
    assert np.abs(before[after == 0]).max(initial=0) <= np.abs(after[after != 0]).min(initial=np.inf)


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_each_layer_loses_its_share_but_those_that_are_kept(fortieths: int, width: int, depth: int) -> None:
    model = Sequential(Linear(width, depth, seed=0), Linear(depth, 5, seed=1), Linear(5, 2, seed=2))
    pruned = weights(magnitude_prune(model, fortieths / 40, scope="layer", keep=["2"]))
    for name, weight in pruned.items():
        assert int((weight == 0).sum()) == (0 if name == "2" else round(fortieths / 40 * weight.size))


def test_of_equal_weights_the_earlier_go_first() -> None:
    model = Sequential(Linear(2, 3, seed=0), Linear(3, 2, seed=0))
    for layer in prunable(model).values():
        layer.weight.data[...] = [[1, -1, 1], [-1, 1, -1]] if layer.weight.shape == (2, 3) else 1
    pruned = weights(magnitude_prune(model, 8 / 12))
    np.testing.assert_array_equal(pruned["0"], 0)
    np.testing.assert_array_equal(pruned["1"], [[0, 0], [1, 1], [1, 1]])


@pytest.mark.parametrize("optimizer", [partial(SGD, momentum=0.9), Adam, AdamW])
@pytest.mark.parametrize("name", NAMES)
def test_masks_survive_training_of_any_kind(name: str, optimizer: Callable[..., Optimizer]) -> None:
    pruned, x = magnitude_prune(make(name), 0.7), batch(name)
    targets = np.sort(x, axis=1) if name == "gpt" else models.entry(name).example_target(5)
    before = {key: weight.copy() for key, weight in weights(pruned).items()}
    chosen = optimizer(pruned.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(3):
        train_step(pruned.train(), x, targets, models.loss_function(), chosen)
    for key, weight in weights(pruned).items():
        assert not weight[before[key] == 0].any()
        assert (weight != before[key]).any()


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
    once = magnitude_prune(make("mlp"), 0.6, scope="layer")
    total = sum(weight.size for weight in weights(once).values())
    assert zeros(magnitude_prune(once, 0.8)) == round(0.8 * total)
    for share in (0.5, 0.1):
        again = magnitude_prune(once, share)
        for key, layer in prunable(again).items():
            assert not layer.weight.data[weights(once)[key] == 0].any()
            assert isinstance(layer.weight, MaskedParameter)
            assert layer.weight.pruned.sum() == (layer.weight.data == 0).sum()


def test_a_pruned_model_saves_loads_profiles_and_quantizes(tmp_path: Path) -> None:
    pruned = magnitude_prune(make("mlp"), 0.9)
    pruned.save(tmp_path / "pruned.npz")
    held = hold_zeros(make("mlp", seed=3).load(tmp_path / "pruned.npz"))
    optimizer = SGD(held.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(2):
        train_step(held, batch("mlp"), models.entry("mlp").example_target(5), models.loss_function(), optimizer)
    assert measure_sparsity(held) == measure_sparsity(pruned) == pytest.approx(90, abs=1e-3)
    assert Profiler().count_flops(pruned, (1, 1, 8, 8)) == Profiler().count_flops(make("mlp"), (1, 1, 8, 8))
    small = quantize_model(pruned, plan=Plan("weight-only"))
    assert measure_sparsity(small) >= measure_sparsity(pruned), "zero has a code, and stays zero"
    assert sum(row.stored_bytes for row in layer_sparsity(small)) < stored_bytes(small) < 0.3 * stored_bytes(pruned)


def test_bad_arguments_are_named() -> None:
    model: Any = make("mlp")
    cases: list[tuple[dict[str, Any], str]] = [
        *(({"sparsity": share}, "sparsity must be") for share in (-0.1, 1.01, True, float("nan"))),
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


@given(
    st.integers(1, 9).flatmap(lambda m: st.tuples(st.integers(1, m), st.just(m))), st.integers(1, 5), st.integers(0, 5)
)
@settings(max_examples=40, deadline=None)
def test_each_group_keeps_its_largest_and_comes_back(n_m: tuple[int, int], groups: int, seed: int) -> None:
    n, m = n_m
    layer = Linear(groups * m, 3, seed=seed)
    pruned: Any = n_m_prune(layer, n, m)
    before, after = (each.weight.data.T.reshape(-1, m) for each in (layer, pruned))
    for full, left in zip(before, after, strict=True):
        np.testing.assert_array_equal(np.sort(np.abs(left))[m - n :], np.sort(np.abs(full))[m - n :])
        assert np.count_nonzero(left) == n
    stored = compact_n_m(pruned.weight.data, n, m)
    np.testing.assert_array_equal(stored.dense(), pruned.weight.data)


def test_channels_of_convolutions_ties_and_bytes() -> None:
    """Two of four take half the numbers, and two bits for the place of each."""
    convolution: Any = n_m_prune(Conv2d(8, 3, 3, seed=0), 1, 4)
    by_input = convolution.weight.data.transpose(0, 2, 3, 1).reshape(-1, 4)
    assert (np.count_nonzero(by_input, axis=1) == 1).all()
    np.testing.assert_array_equal(compact_n_m(convolution.weight.data, 1, 4).dense(), convolution.weight.data)
    layer = Linear(64, 32, seed=0)
    layer.weight.data[...] = 1
    tied: Any = n_m_prune(layer)
    assert isinstance(tied.weight, MaskedParameter)
    np.testing.assert_array_equal(tied.weight.data[:4, 0], [0, 0, 1, 1])
    assert compact_n_m(tied.weight.data).nbytes == 64 * 32 // 2 * 4 + 64 * 32 // 2 * 2 // 8
    assert measure_sparsity(tied) == 50


def test_bad_groups_are_named() -> None:
    with pytest.raises(ValueError, match="divide"):
        n_m_prune(make("cnn"))
    assert measure_sparsity(n_m_prune(make("cnn"), keep=["0"])) > 49
    for n, m in ((0, 4), (5, 4), (1, 300), (True, 4), (2.0, 4)):
        with pytest.raises(ValueError, match="must"):
            n_m_prune(make("mlp"), n, m)  # type: ignore[arg-type]
    for weight, named in ((np.ones((8, 2)), "numbers"), (np.zeros((6, 2)), "divide"), (np.zeros(4), "convolution")):
        with pytest.raises(ValueError, match=named):
            compact_n_m(weight.astype(np.float32))

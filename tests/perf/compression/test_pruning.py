"""Pruning by magnitude and N of each M: exact counts, ties, zeros that stay, and what is frozen or shared."""

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
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.compression import (
    LowRankLinear,
    compact_n_m,
    compress_model,
    hold_zeros,
    layer_sparsity,
    low_rank_model,
    magnitude_prune,
    mask_units,
    measure_sparsity,
    n_m_prune,
    remove_units,
    sparse_model,
    structured_prune,
)
from tinytorch.perf.compression.pruning import MaskedParameter, prunable
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import Plan, prepare_training, quantize_model, stored_bytes


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
    for weight, named in ((np.ones((8, 2)), "nonzero"), (np.zeros((6, 2)), "divide"), (np.zeros(4), "convolution")):
        with pytest.raises(ValueError, match=named):
            compact_n_m(weight.astype(np.float32))


MADE: dict[str, Callable[[Any], Module]] = {
    "magnitude": lambda model: magnitude_prune(model, 0.5),
    "n of m": n_m_prune,
    "held zeros": hold_zeros,
    "structured": lambda model: structured_prune(model, 0.5),
    "structured after magnitude": lambda model: structured_prune(magnitude_prune(model, 0.5), 0.5),
    "low rank": lambda model: low_rank_model(model, 0.25),
    "low rank, cut": lambda model: Sequential(LowRankLinear(model[0], 4).cut(2), *model.layers[1:]),
    "sparse": lambda model: sparse_model(magnitude_prune(model, 0.95)),
    "quantized": quantize_model,
}


@pytest.mark.parametrize("make", MADE.values(), ids=[*MADE])
def test_what_is_frozen_stays_frozen(make: Callable[[Any], Module]) -> None:
    model = Sequential(Linear(16, 32, seed=0), ReLU(), Linear(32, 16, seed=1), ReLU(), Linear(16, 4, seed=2))
    for parameter in (*model[0].parameters(), *model[2].parameters()):
        parameter.requires_grad = False
    names = {name.split(".")[0]: parameter.requires_grad for name, parameter in make(model).named_parameters()}
    assert names == {"0": False, "2": False, "4": True}


def test_frozen_convolutions_and_norms_stay_frozen_and_do_not_count() -> None:
    model = Sequential(Conv2d(3, 8, 3, seed=0), BatchNorm2d(8), ReLU(), Conv2d(8, 4, 3, seed=1))
    for parameter in (*model[0].parameters(), *model[1].parameters()):
        parameter.requires_grad = False
    made = compress_model(model, {"structured_prune": 0.5, "magnitude_prune": 0.5})
    counts = [row.parameters for row in made.steps]
    assert counts == [8 * 4 * 9 + 4, 4 * 4 * 9 + 4, 4 * 4 * 9 + 4]
    assert Profiler().count_parameters(made.model) == counts[-1]


def tied() -> Sequential:
    model = Sequential(Linear(8, 8, seed=0), ReLU(), Linear(8, 8, seed=1), ReLU(), Linear(8, 4, seed=2))
    model[2].weight = model[0].weight
    return model


@pytest.mark.parametrize(
    ("make", "zeros"),
    [(lambda m: magnitude_prune(m, 0.5), 48), (n_m_prune, 48), (lambda m: low_rank_model(m, 0.25), 0)],
    ids=["size", "2:4", "rank"],
)
def test_layers_that_share_a_weight_share_what_it_becomes_and_count_it_once(
    make: Callable[[Any], Any], zeros: int
) -> None:
    made = make(tied())
    for name in ("weight", "left", "right"):
        assert getattr(made[0], name, None) is getattr(made[2], name, None)
    made(Tensor(np.ones((2, 8), np.float32))).sum().backward()
    SGD(made.parameters(), lr=0.1).step()
    assert sum(int((each.data == 0).sum()) for each in made.parameters() if each.ndim == 2) == zeros


def test_layers_to_keep_must_be_all_that_share_a_weight() -> None:
    with pytest.raises(ValueError, match="share"):
        magnitude_prune(tied(), 0.5, keep=["2"])


def tied_biases() -> Sequential:
    model = Sequential(Linear(8, 8, seed=0), ReLU(), Linear(8, 8, seed=1), ReLU(), Linear(8, 4, seed=2))
    model[2].bias = model[0].bias
    return model


def tied_norms() -> Sequential:
    def block(seed: int) -> list[Module]:
        return [Conv2d(3, 3, 3, padding=1, seed=seed), BatchNorm2d(3), ReLU()]

    model = Sequential(*block(0), *block(1), Conv2d(3, 2, 3, seed=2))
    for name in ("weight", "running_mean"):
        setattr(model[4], name, getattr(model[1], name))
    return model


@pytest.mark.parametrize("change", [remove_units, mask_units])
@pytest.mark.parametrize("make", [tied, tied_biases, tied_norms])
def test_units_of_layers_that_share_a_tensor_are_neither_removed_nor_masked(
    make: Callable[[], Sequential], change: Callable[..., Any]
) -> None:
    """What is shared would lose rows in the other layer, too, or hold two different things."""
    with pytest.raises(ValueError, match="share"):
        change(make(), {"0": [1]})
    change(make(), {"0": []})


@pytest.mark.parametrize(
    "make",
    [
        lambda m: low_rank_model(m, 0.25),
        lambda m: sparse_model(m, 0.0),
        quantize_model,
        lambda m: quantize_model(m, keep=["2"]),
        lambda m: Sequential(*[getattr(each, "layer", each) for _, each in prepare_training(m).named_children()]),
    ],
    ids=["rank", "sparse", "codes", "codes and floats", "rounding"],
)
def test_layers_that_share_a_bias_share_it_afterwards(make: Callable[[Any], Any]) -> None:
    model = tied_biases()
    made = make(model)
    assert made[0].bias is made[2].bias
    assert made[0].bias is not model[0].bias
    np.testing.assert_array_equal(made[0].bias.data, model[0].bias.data)


def test_training_with_rounding_keeps_shared_weights_one() -> None:
    made: Any = prepare_training(tied())
    assert made[0].layer.weight is made[2].layer.weight


@pytest.mark.parametrize(
    "prune", [lambda m: magnitude_prune(m, 0.5), n_m_prune, hold_zeros], ids=["size", "2:4", "held"]
)
def test_dense_weights_are_not_loaded_into_pruned_ones(prune: Callable[[Any], Any]) -> None:
    dense = Sequential(Linear(8, 8, seed=0))
    zeroed = Sequential(Linear(8, 8, seed=0))
    zeroed[0].weight.data[:4] = 0
    pruned = prune(zeroed)
    before = pruned.state_dict()
    with pytest.raises(ValueError, match=r"state\['0.weight'\] must be 0 where .* pruned"):
        pruned.load_state_dict(dense.state_dict())
    np.testing.assert_array_equal(pruned[0].weight.data, before["0.weight"])
    pruned.load_state_dict(before)

"""Models made of others keep what is frozen in them, and what their layers share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinytorch import Linear, Profiler, Sequential
from tinytorch.core.activations import ReLU
from tinytorch.core.module import Module
from tinytorch.core.optimizers import SGD
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression import (
    LowRankLinear,
    compress_model,
    hold_zeros,
    low_rank_model,
    magnitude_prune,
    mask_units,
    n_m_prune,
    remove_units,
    sparse_model,
    structured_prune,
)
from tinytorch.perf.quantization import prepare_training, quantize_model

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

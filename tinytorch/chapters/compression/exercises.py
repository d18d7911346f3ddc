"""Checks for the exercises on compression: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.chapters.checking import exercise_check, returned_number
from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression.pruning import smallest, with_masks
from tinytorch.perf.compression.sparsity import SparseLinear
from tinytorch.perf.compression.structured import mask_units


@exercise_check
def check_prune(function: Callable[[Array, float], Any]) -> None:
    """Return "... passed" if ``function(weight, sparsity)`` returns a copy whose smallest weights are zero.

    They are ``round(sparsity * size)``, the earlier of equal ones first.
    """
    draw = np.random.default_rng(0)
    drawn = [draw.normal(size=(int(rows), 7)).astype(np.float32) for rows in draw.integers(1, 9, 8)]
    for weight in [*drawn, np.ones((3, 4), np.float32)]:
        for sparsity in (0.0, 0.3, 0.5, 0.9, 1.0):
            before = weight.copy()
            got = np.asarray(function(weight, sparsity))
            assert (weight == before).all(), "it must not change the weights it was given"
            count, wanted = int((got == 0).sum()), round(sparsity * weight.size)
            assert count == wanted, f"{sparsity:.0%} of {weight.size} weights are {wanted}, not {count}"
            expected = np.where(smallest([weight], sparsity)[0], 0, weight)
            assert (got == expected).all(), f"of {weight.size} weights, some are zero that are not among the smallest"


@exercise_check
def check_csr_bytes(function: Callable[[int, int, float], float]) -> None:
    """Return "... passed" if ``function(inputs, outputs, sparsity)`` is what a `SparseLinear` stores, without bias.

    Up to 65,536 inputs an index takes two bytes.
    """
    draw = np.random.default_rng(0)
    for _ in range(12):
        inputs, outputs = (int(size) for size in draw.integers(2, 60, 2))
        zeros = int(draw.integers(0, inputs * outputs + 1))
        layer = Linear(inputs, outputs, seed=0)
        mask = smallest([layer.weight.data], zeros / layer.weight.size)[0]
        truth = SparseLinear(with_masks(layer, {"": mask})).weight_nbytes
        shown = f"{inputs} inputs, {outputs} outputs and {zeros} zeros"
        answer = returned_number(function(inputs, outputs, zeros / (inputs * outputs)), shown)
        assert abs(answer - truth) < 1e-6 * truth, f"{shown} take {truth} bytes, not {answer}"


@exercise_check
def check_remove_neurons(function: Callable[..., Any]) -> None:
    """Return "... passed" if ``function(first, bias, second, gone)`` removes neurons between two weight matrices.

    ``first`` is (inputs, neurons), ``bias`` (neurons,), ``second`` (neurons, outputs), ``gone`` a list of neurons. It
    returns the three smaller arrays, which compute what the large ones do with zeros for the neurons.
    """
    draw = np.random.default_rng(0)
    for gone in ([0], [1, 4], [2, 3, 5]):
        model: Any = Sequential(Linear(5, 6, seed=0), ReLU(), Linear(6, 3, bias=False, seed=1))
        arrays = [model[0].weight.data, model[0].bias.data, model[2].weight.data]
        answer = function(*(each.copy() for each in arrays), gone)
        assert isinstance(answer, tuple | list), f"it must return three arrays, not {answer!r}"
        first, bias, second = (np.asarray(each) for each in answer)
        shapes = [first.shape, bias.shape, second.shape]
        left = 6 - len(gone)
        assert shapes == [(5, left), (left,), (left, 3)], f"without {gone} the shapes must have {left}, not {shapes}"
        x = draw.normal(size=(4, 5)).astype(np.float32)
        expected = mask_units(model, {"0": gone})(Tensor(x)).data
        got = np.maximum(x @ first + bias, 0) @ second
        assert np.allclose(got, expected, atol=1e-5), f"without {gone} the outputs are not those of the masked model"

"""Compression against PyTorch: which weights and units go, sparse products, low rank, and the distillation loss."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils import prune

from peers.agreement import compare
from tests.perf.small_models import drawn
from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression import (
    KnowledgeDistillation,
    SparseLinear,
    low_rank_approximate,
    magnitude_prune,
    remove_units,
    units_to_remove,
)


def twins() -> tuple[Any, Any]:
    """Return the same two layers here and there; PyTorch's weights are (out, in)."""
    ours = Sequential(Linear(30, 20, seed=0), ReLU(), Linear(20, 7, seed=1))
    theirs = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.ReLU(), torch.nn.Linear(20, 7))
    with torch.no_grad():
        for at in (0, 2):
            layer: Any = ours[at]
            theirs[at].weight.copy_(torch.tensor(layer.weight.data.T))
            theirs[at].bias.copy_(torch.tensor(layer.bias.data))
    return ours, theirs


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_the_same_weights_go_globally_and_by_layer(share: float) -> None:
    for scope in ("global", "layer"):
        ours, theirs = twins()
        weights = [(theirs[at], "weight") for at in (0, 2)]
        for together in [weights] if scope == "global" else [[one] for one in weights]:
            prune.global_unstructured(together, prune.L1Unstructured, amount=share)
        pruned: Any = magnitude_prune(ours, share, scope=scope)
        for at in (0, 2):
            np.testing.assert_array_equal(pruned[at].weight.data.T, theirs[at].weight.detach().numpy())


def test_a_masked_weight_trains_as_theirs() -> None:
    ours, theirs = twins()
    pruned: Any = magnitude_prune(ours, 0.5)
    prune.global_unstructured([(theirs[at], "weight") for at in (0, 2)], prune.L1Unstructured, amount=0.5)
    x = drawn(9, 30)
    (pruned(Tensor(x)) ** 2).sum().backward()
    (theirs(torch.tensor(x)) ** 2).sum().backward()
    for at in (0, 2):
        expected = theirs[at].weight_orig.grad.numpy().T
        np.testing.assert_allclose(pruned[at].weight.grad, expected, rtol=1e-4, atol=1e-5)


def test_the_same_neurons_and_channels_go() -> None:
    ours, theirs = twins()
    removed = units_to_remove(ours, 0.4)
    prune.ln_structured(theirs[0], "weight", amount=0.4, n=1, dim=0)
    zero = np.flatnonzero((theirs[0].weight == 0).all(dim=1).numpy())
    assert removed["0"] == zero.tolist()
    smaller: Any = remove_units(ours, removed)
    kept = np.setdiff1d(np.arange(20), zero)
    np.testing.assert_array_equal(smaller[0].weight.data.T, theirs[0].weight.detach().numpy()[kept])
    convolution = Conv2d(3, 10, 3, seed=0)
    chain = Sequential(convolution, ReLU(), Conv2d(10, 2, 3, seed=1))
    peer = torch.nn.Conv2d(3, 10, 3)
    with torch.no_grad():
        peer.weight.copy_(torch.tensor(convolution.weight.data))
    prune.ln_structured(peer, "weight", amount=0.5, n=1, dim=0)
    gone = np.flatnonzero((peer.weight == 0).all(dim=3).all(dim=2).all(dim=1).numpy())
    assert units_to_remove(chain, 0.5)["0"] == gone.tolist()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_sparse_products_and_bytes_are_theirs() -> None:
    layer: Any = magnitude_prune(Linear(50, 40, bias=False, seed=0), 0.8)
    sparse, x = SparseLinear(layer), drawn(70, 50)
    theirs = torch.tensor(np.ascontiguousarray(layer.weight.data.T)).to_sparse_csr()
    np.testing.assert_array_equal(sparse.values.data, theirs.values().numpy())
    np.testing.assert_array_equal(sparse.indices.data, theirs.col_indices().numpy())
    np.testing.assert_array_equal(sparse.starts.data, theirs.crow_indices().numpy())
    expected = (theirs @ torch.tensor(x.T.copy())).numpy().T
    np.testing.assert_allclose(sparse(Tensor(x)).data, expected, rtol=1e-4, atol=1e-5)


def test_the_nearest_of_a_rank_is_theirs() -> None:
    matrix = drawn(20, 12)
    u, s, v = low_rank_approximate(matrix, 0.5)
    left, values, right = torch.linalg.svd(torch.tensor(matrix), full_matrices=False)
    expected = (left[:, :6] * values[:6]) @ right[:6]
    np.testing.assert_allclose(u * s @ v, expected.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("temperature", "alpha"), [(1.0, 1.0), (4.0, 0.7), (2.0, 0.0)])
def test_the_distillation_loss_and_its_gradient_are_theirs(temperature: float, alpha: float) -> None:
    teacher, labels = drawn(8, 5, seed=1) * 3, np.arange(8) % 5
    distillation = KnowledgeDistillation(Linear(1, 1), Linear(1, 1), temperature, alpha)
    functional = torch.nn.functional

    def theirs(student: torch.Tensor) -> torch.Tensor:
        soft = functional.kl_div(
            functional.log_softmax(student / temperature, dim=1),
            functional.softmax(torch.tensor(teacher) / temperature, dim=1),
            reduction="batchmean",
        )
        return alpha * temperature**2 * soft + (1 - alpha) * functional.cross_entropy(student, torch.tensor(labels))

    compare(lambda student: distillation.distillation_loss(student, teacher, labels), theirs, drawn(8, 5))

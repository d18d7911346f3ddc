"""Attention layer, transformer block and GPT: composition, causality, size, and refusals."""

from typing import Any

import numpy as np
import pytest
import scipy.special

from tests.core.cases import normal
from tests.core.gradients import gradient_of
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT


def _affine(layer: Any, x: Array) -> Array:
    return x @ layer.weight.data.astype(float) + layer.bias.data


def _normalized(layer: Any, x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, keepdims=True) + layer.eps) * layer.weight.data + layer.bias.data


def _attended(layer: Any, x: Array, shown: Array | float = 1.0) -> Array:
    """Multi-head attention written out with loops over images and heads; ``shown`` is 0 where nothing is seen."""
    packed = _affine(layer.qkv, x)
    length, width, depth = x.shape[1], layer.embed_dim, layer.embed_dim // layer.num_heads
    shown = np.broadcast_to(shown, (len(x), layer.num_heads, length, length))
    joined = np.zeros(x.shape)
    for image, head in np.ndindex(len(x), layer.num_heads):
        own = slice(head * depth, (head + 1) * depth)
        q, k, v = (packed[image, :, part * width : (part + 1) * width][:, own] for part in range(3))
        seen = (shown[image, head] != 0) & (np.tri(length, dtype=bool) | (not layer.causal))
        scores = np.where(seen, q @ k.T / np.sqrt(depth), -np.inf)
        joined[image][:, own] = scipy.special.softmax(scores, axis=1) @ v
    return _affine(layer.projection, joined)


def _gelu(x: Array) -> Array:
    return x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def _block(block: Any, x: Array) -> Array:
    x = x + _attended(block.attention, _normalized(block.norm1, x))
    inner = _gelu(_affine(block.mlp.expand, _normalized(block.norm2, x)))
    return x + _affine(block.mlp.contract, inner)


def test_gpt_is_its_equations() -> None:
    model = GPT(13, 12, 2, 3, 8, seed=0)
    tokens = np.random.default_rng(0).integers(0, 13, (2, 6))
    x = (model.token_embedding.weight.data[tokens] + model.position_embedding.weight.data[:6]).astype(float)
    for block in model.blocks:
        x = _block(block, x)
    expected = _normalized(model.norm, x) @ model.token_embedding.weight.data.T
    for given in (tokens, Tensor(tokens), tokens.tolist()):
        made = model(given)
        assert made.shape == (2, 6, 13)
        assert made.dtype == np.float32
        np.testing.assert_allclose(made.data, expected, atol=2e-6)


def test_tied_embedding_gets_the_gradient_of_both_its_uses() -> None:
    model = GPT(7, 4, 1, 1, 3, seed=0)
    model(np.array([[1, 1]])).backward(normal(1, 2, 7))
    table = gradient_of(model.token_embedding.weight)
    # Rows of tokens that do not appear in the input get a gradient through the logits.
    assert (np.abs(table).max(axis=1) > 0).all()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_gpt_starts_as_gpt2_does() -> None:
    model = GPT(200, 48, 8, 4, 32, seed=0)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            np.testing.assert_array_equal(parameter.data, 1.0 if name.endswith("weight") else 0.0)
        elif name.endswith("bias"):
            np.testing.assert_array_equal(parameter.data, 0)
        else:
            written = "projection" in name or "contract" in name
            std = 0.02 / np.sqrt(2 * 8) if written else 0.02
            # Six standard errors of the standard deviation of that many normal numbers.
            assert abs(parameter.data.std() / std - 1) < 6 / np.sqrt(2 * parameter.size), name


MASKS: dict[str, Any] = {
    "none": np.ones((3, 3)),
    "square": np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]]),
    "of each sequence": np.array([[[1, 0, 0]] * 3, [[1, 1, 0]] * 3], bool),
    "of each head": np.random.default_rng(0).integers(0, 2, (2, 2, 3, 3)) | np.eye(3, dtype=int),
    "of a Tensor": Tensor(np.tril(np.ones((3, 3), np.float32))),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS.values(), ids=[*MASKS])
def test_attention_looks_where_the_mask_says(mask: Any, causal: bool) -> None:
    layer = MultiHeadAttention(8, 2, causal=causal, seed=0)
    x = Tensor(normal(2, 3, 8), requires_grad=True)
    shown = np.asarray(mask)
    shown = shown[:, None] if shown.ndim == 3 else shown
    if not (shown * np.tri(3) if causal else shown).any(-1).all():
        with pytest.raises(ValueError, match="mask"):
            layer(x, mask)
        return
    output = layer(x, mask)
    np.testing.assert_allclose(output.data, _attended(layer, x.data, shown), rtol=1e-6, atol=1e-7)
    output.sum().backward()
    assert np.isfinite(gradient_of(x)).all()


@pytest.mark.parametrize("mask", [np.ones((2, 3)), np.full((3, 3), -np.inf), np.ones((3, 3, 3)), np.zeros((3, 3))])
def test_attention_refuses_other_masks(mask: Any) -> None:
    with pytest.raises(ValueError, match="mask"):
        MultiHeadAttention(8, 2)(Tensor(np.zeros((2, 3, 8), np.float32)), mask)

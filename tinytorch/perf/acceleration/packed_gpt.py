"""The op of a small frozen GPT: one primitive from tokens to logits, as calls would cost more than arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Op, Saved, Work
from tinytorch.perf.ops.fused import Layout, activation_operations, no_backward, padded_columns, unpacked


class Sizes(NamedTuple):
    """What decides the places of a GPT's weights and its arithmetic."""

    vocabulary: int
    positions: int
    width: int
    hidden: int
    layers: int
    heads: int


class Affine(NamedTuple):
    """The parts of a layer: a weight of ``shape`` in panels, or a vector if it is None; where it and its bias begin."""

    shape: tuple[int, int] | None
    weight: int
    bias: int


class Places(NamedTuple):
    """Where each part begins in the one flat array of all weights; every part begins at a whole vector.

    ``blocks`` holds for each block norm1, qkv, projection, norm2, expand and contract. ``logits`` has no bias. The
    tables of tokens and positions lie row after row.
    """

    blocks: tuple[tuple[Affine, ...], ...]
    norm: Affine
    logits: Affine
    tokens: int
    positions: int
    end: int


@lru_cache(maxsize=64)
def places(sizes: Sizes, layout: Layout) -> Places:
    """Return where each part of the weights begins."""
    end = 0

    def part(inner: int, columns: int) -> int:
        nonlocal end
        start = end
        end += padded_columns(inner * padded_columns(columns, layout), layout)
        return start

    def affine(inner: int, columns: int) -> Affine:
        return Affine((inner, columns), part(inner, columns), part(1, columns))

    def norm() -> Affine:
        return Affine(None, part(1, width), part(1, width))

    width, hidden = sizes.width, sizes.hidden
    blocks = tuple(
        (
            norm(),
            affine(width, 3 * width),
            affine(width, width),
            norm(),
            affine(width, hidden),
            affine(hidden, width),
        )
        for _ in range(sizes.layers)
    )
    last, logits = norm(), Affine((width, sizes.vocabulary), part(width, sizes.vocabulary), -1)
    tokens, positions = part(1, sizes.vocabulary * width), part(1, sizes.positions * width)
    return Places(blocks, last, logits, tokens, positions, end)


def checked_tokens(tokens: Array, weights: Array, sizes: Sizes, layout: Layout) -> None:
    """Raise ValueError unless ``tokens`` are (B, T) with 1 <= T <= positions and the weights are as many as there are.

    Raises:
        TypeError: if the tokens are not integers.
    """
    if tokens.dtype.kind not in "iu":
        raise TypeError(f"tokens must be integers, not {tokens.dtype}: pass dtype=np.int64")
    if tokens.ndim != 2 or not 0 < tokens.shape[1] <= sizes.positions:
        raise ValueError(f"tokens must have shape (B, 1 to {sizes.positions}), not {tokens.shape}")
    if weights.shape != (places(sizes, layout).end,):
        raise ValueError(f"weights must be the {places(sizes, layout).end} floats of {sizes}, not {weights.shape}")


def check_range(tokens: Array, vocabulary: int) -> None:
    """Raise IndexError unless every token is in the vocabulary."""
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < vocabulary:
        raise IndexError(f"tokens must lie in 0..{vocabulary - 1}, but run from {tokens.min()} to {tokens.max()}")


def _forward(
    keep: bool,
    tokens: Array,
    weights: Array,
    *,
    sizes: tuple[int, ...],
    layout: Layout,
    epsilons: Sequence[float],
    last: bool,
) -> tuple[Array, Saved]:
    """Tokens (B, T) to logits (B, T, vocabulary), or those of the last position (B, 1, vocabulary), op by op.

    ``sizes`` are those of `Sizes`, in their order.
    """
    del keep  # nothing is kept for the backward that there is none of
    return _forward_of(tokens, weights, Sizes(*sizes), layout, epsilons, last), ()


def _forward_of(
    tokens: Array, weights: Array, sizes: Sizes, layout: Layout, epsilons: Sequence[float], last: bool
) -> Array:
    checked_tokens(tokens, weights, sizes, layout)
    check_range(tokens, sizes.vocabulary)
    found = places(sizes, layout)
    width, of_norms = sizes.width, iter(epsilons)
    table = weights[found.tokens :][: sizes.vocabulary * width].reshape(-1, width)
    x = table[tokens] + weights[found.positions :][: tokens.shape[1] * width].reshape(-1, width)
    for block in found.blocks:
        norm1, qkv, projection, norm2, expand, contract = (_operands(part, weights, sizes, layout) for part in block)
        packed = _run(ops.linear, _run(ops.layer_norm, x, *norm1, epsilon=next(of_norms)), *qkv)
        attended = _run(ops.self_attention, packed, heads=sizes.heads, causal=True)
        x = x + _run(ops.linear, attended, *projection)
        normal = _run(ops.layer_norm, x, *norm2, epsilon=next(of_norms))
        x = x + _run(ops.linear, _run(ops.gelu, _run(ops.linear, normal, *expand)), *contract)
    x = x[:, -1:] if last else x
    normal = _run(ops.layer_norm, x, *_operands(found.norm, weights, sizes, layout), epsilon=next(of_norms))
    return _run(ops.linear, normal, *_operands(found.logits, weights, sizes, layout))


def _operands(part: Affine, weights: Array, sizes: Sizes, layout: Layout) -> Iterator[Array]:
    """Yield the weight of a part as a matrix or a vector, and its bias if it has one."""
    if part.shape is None:
        yield weights[part.weight :][: sizes.width]
        yield weights[part.bias :][: sizes.width]
        return
    inner, columns = part.shape
    yield unpacked(weights[part.weight :][: inner * padded_columns(columns, layout)], part.shape, layout)
    if part.bias >= 0:
        yield weights[part.bias :][:columns]


def _run(op: Op, *arrays: Array, **params: Any) -> Array:
    return op.reference.forward(False, *arrays, **params)[0]


def _work(call: Call) -> Work:
    """What the ops that it is made of count together; with ``last`` the final norm and product see one position."""
    sizes = Sizes(*call.params["sizes"])
    batch, length = call.inputs[0].shape
    rows, ends = batch * length, batch if call.params["last"] else batch * length
    width, hidden = sizes.width, sizes.hidden
    scores = batch * sizes.heads * length * length
    macs = rows * (4 * width * width + 2 * width * hidden) + 2 * scores * (width // sizes.heads)
    # Norms 7 an element, biases, scores 5, weighted sums 2, residual sums.
    others = rows * (2 * 7 * width + 3 * width + width + hidden + width + 2 * width + 2 * width) + 5 * scores
    others += rows * hidden * activation_operations("gelu")
    return Work(
        sizes.layers * macs + ends * width * sizes.vocabulary, sizes.layers * others + (rows + 7 * ends) * width
    )


#: ``(tokens, weights; sizes, layout, epsilons, last)``: a `GPT` for inference; see `_forward`.
packed_gpt = Op("packed_gpt", _forward, no_backward, _work)

"""Low-rank layers: a weight as the product of two thin ones, where that is smaller."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter, check_module
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.tensor import Tensor
from tinytorch.perf.quantization.convert import replaced


@whole_numbers
def break_even_rank(in_features: int, out_features: int) -> int:
    """Return the largest rank whose two factors have fewer elements than the weight: r (in + out) < in out.

    Return 0 if there is no such rank.

    Examples:
        >>> from tinytorch.perf.compression import break_even_rank
        >>> break_even_rank(64, 64)  # 31 * (64 + 64) is below 64 * 64
        31
    """
    return (in_features * out_features - 1) // (in_features + out_features)


@whole_numbers
def low_rank_approximate(weight: Tensor | Array, rank_ratio: float = 0.5) -> tuple[Array, Array, Array]:
    """Return (U, S, V) of the nearest matrix of rank ``max(1, int(rank_ratio * full rank))``: U diag(S) V.

    Nearest in the sum of squared differences, which is then that of the singular values left out (C. Eckart and
    G. Young, Psychometrika 1 (1936) 211-218). U is (rows, rank), S (rank,), V (rank, columns), float32.

    Raises:
        ValueError: if ``weight`` is not a finite matrix, or ``rank_ratio`` not above 0 and at most 1.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.compression import low_rank_approximate
        >>> weight = np.outer([1, 2, 3], [1, 1]).astype(np.float32)  # its rank is 1
        >>> u, s, v = low_rank_approximate(weight, rank_ratio=0.5)
        >>> u.shape, s.shape, v.shape
        ((3, 1), (1,), (1, 2))
        >>> np.allclose(u @ np.diag(s) @ v, weight)
        True
    """
    matrix = np.asarray(weight.data if isinstance(weight, Tensor) else weight)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise ValueError(f"weight must be a matrix of finite numbers, not of shape {matrix.shape}")
    return _truncated(matrix, rank_of(matrix.shape[0], matrix.shape[1], rank_ratio))


@whole_numbers
def rank_of(in_features: int, out_features: int, rank_ratio: float) -> int:
    """Return the rank that is ``rank_ratio`` of the full one, at least 1.

    Raises:
        ValueError: if ``rank_ratio`` is not above 0 and at most 1.
    """
    if isinstance(rank_ratio, bool) or not isinstance(rank_ratio, (int, float, np.number)) or not 0 < rank_ratio <= 1:
        raise ValueError(f"rank_ratio must be above 0 and at most 1, not {rank_ratio!r}")
    return max(1, int(rank_ratio * min(in_features, out_features)))


def _truncated(matrix: Array, rank: int) -> tuple[Array, Array, Array]:
    u, s, v = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
    return tuple(part.astype(np.float32) for part in (u[:, :rank], s[:rank], v[:rank]))  # type: ignore[return-value]


@whole_numbers
class LowRankLinear(Module):
    """x L R + b: a linear layer whose weight is the nearest of rank ``rank`` to that of ``linear``.

    ``left`` is (in_features, rank), ``right`` (rank, out_features); each has the square root of the singular values, so
    that they train alike. ``bias`` is a copy of the layer's.

    Raises:
        ValueError: if ``rank`` is below 1, or so large that nothing is saved, which names the largest that saves.

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.compression import LowRankLinear
        >>> layer = LowRankLinear(Linear(64, 64), rank=8)
        >>> layer.left.shape, layer.right.shape
        ((64, 8), (8, 64))
    """

    def __init__(self, linear: Linear, rank: int) -> None:
        self.in_features, self.out_features, self.rank = linear.in_features, linear.out_features, int(rank)
        checked_rank(linear, rank)
        u, s, v = _truncated(linear.weight.data, self.rank)
        root = np.sqrt(s)
        self.left, self.right = (Parameter(part, linear.weight.requires_grad) for part in (u * root, root[:, None] * v))
        self.bias = None if linear.bias is None else Parameter(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., out_features) of (..., in_features), by two products."""
        inner = apply(ops.linear, x, self.left)
        return apply(ops.linear, inner, self.right, *(() if self.bias is None else (self.bias,)))

    def cut(self, rank: int) -> LowRankLinear:
        """Return the layer of a smaller ``rank``, without taking the weight apart once more: its first parts.

        Before any training that is what ``LowRankLinear(linear, rank)`` returns. It shares no memory with this one.

        Raises:
            ValueError: if ``rank`` is not 1 to this layer's own.
        """
        if not 1 <= rank <= self.rank:
            raise ValueError(f"rank must be 1 to {self.rank}, this layer's own, not {rank}")
        made = copy.deepcopy(self)
        made.rank = rank
        made.left = Parameter(self.left.data[:, :rank], self.left.requires_grad)
        made.right = Parameter(self.right.data[:rank], self.right.requires_grad)
        return made

    def _described(self) -> str:
        return f"{self.in_features}, {self.out_features}, rank={self.rank}"


@whole_numbers
def checked_rank(linear: Linear, rank: int) -> None:
    """Raise ValueError unless ``rank`` is a whole number above 0 that makes the layer smaller."""
    most = break_even_rank(linear.in_features, linear.out_features)
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 0 < rank <= most:
        shape = f"({linear.in_features}, {linear.out_features})"
        save = f"ranks of 1 to {most} save" if most else "no rank saves"
        raise ValueError(f"rank must make a weight of shape {shape} smaller, and {save}, but it is {rank!r}")


def low_rank_model(model: Module, ranks: float | Mapping[str, int] = 0.5, keep: Sequence[str] = ()) -> Module:
    """Return a copy of ``model`` in which linear layers are replaced by `LowRankLinear`.

    Layers that share a weight also share the new weight.

    Args:
        model: any module tree.
        ranks: the ratio to each layer's full rank, the smaller of its two sizes, for all linear layers, or ranks by
            layer's name for those named alone.
        keep: names of layers that stay, where ``ranks`` is a ratio.

    Raises:
        ValueError: if nothing is left to replace, a name is unknown, or a rank would not save, which names the largest
            rank that does.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import low_rank_model
        >>> model = low_rank_model(Sequential(Linear(64, 64), Linear(64, 10)), {"0": 8})
        >>> [type(layer).__name__ for _, layer in model.named_children()]
        ['LowRankLinear', 'Linear']
    """
    check_module(model)
    layers = {name: each for name, each in model.named_modules() if type(each) is Linear}
    unknown = sorted({*keep, *(ranks if isinstance(ranks, Mapping) else ())} - layers.keys())
    if unknown:
        raise ValueError(f"ranks and keep must name linear layers, but {unknown} are not in {[*layers]}")
    if isinstance(ranks, Mapping):
        chosen = dict(ranks)
    else:
        left = {name: layer for name, layer in layers.items() if name not in keep}
        chosen = {name: rank_of(layer.in_features, layer.out_features, ranks) for name, layer in left.items()}
    if not chosen:
        raise ValueError("model must hold a Linear layer to replace that keep does not name, but holds none")
    for name, rank in chosen.items():
        try:
            checked_rank(layers[name], rank)
        except ValueError as error:
            raise ValueError(f"layer {name!r}: {error}") from None
    made: dict[int, Module] = {}
    shared: dict[tuple[int, int], LowRankLinear] = {}
    for name, rank in chosen.items():
        twin = LowRankLinear(layers[name], rank)
        first = shared.setdefault((id(layers[name].weight), rank), twin)
        twin.left, twin.right, twin.training = first.left, first.right, layers[name].training
        made[id(layers[name])] = twin
    return replaced(model, made)

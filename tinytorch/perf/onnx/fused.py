"""ONNX operators that join several: attention, and those that ONNX Runtime writes into a file that it optimized."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Embedding, LayerNorm
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx import elementwise, layers
from tinytorch.perf.onnx.elementwise import tensor_of, without_gradient
from tinytorch.perf.onnx.node import Node, Operand, Runner, Translation, Untranslatable
from tinytorch.perf.onnx.shapes import reshaped
from tinytorch.perf.ops import gather_pad, pointwise

#: From scores what is added to them or left of them, before they become weights.
Masking = Callable[[Tensor], Tensor]


def _split(x: Any, heads: int) -> Tensor:
    """Return (B, heads, T, width) of (B, T, heads * width); what has four axes as it is."""
    if x.ndim == 4:
        return tensor_of(x)
    parts = reshaped(x, (*x.shape[:2], heads, x.shape[2] // heads))
    return apply(ops.transpose, parts, axes=(0, 2, 1, 3))


def _joined(x: Tensor) -> Tensor:
    """Undo `_split`."""
    count, heads, length, width = x.shape
    return reshaped(apply(ops.transpose, x, axes=(0, 2, 1, 3)), (count, length, heads * width))


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Return keys or values for ``heads`` queries, each for several of them that follow each other."""
    count, own, length, width = x.shape
    if own == heads:
        return x
    each = reshaped(x, (count, own, 1, length, width))
    wide = apply(gather_pad.broadcast, each, shape=(count, own, heads // own, length, width))
    return reshaped(wide, (count, heads, length, width))


def _attended(q: Tensor, k: Tensor, v: Tensor, scale: float | None, masked: Masking) -> Tensor:
    """Return softmax(masked(q kᵀ scale)) v of (B, heads, T, width)."""
    factor = scale if scale else 1 / math.sqrt(q.shape[-1])
    turned = apply(ops.transpose, _repeated(k, q.shape[1]), axes=(0, 1, 3, 2))
    scores = apply(ops.matmul, apply(ops.multiply, q, q.dtype.type(factor)), turned)
    return apply(ops.matmul, _weights(masked(scores)), _repeated(v, q.shape[1]))


def _weights(scores: Tensor) -> Tensor:
    """Return the softmax along the last axis, 0 for a query to which every key is hidden."""
    blind = np.isneginf(scores.data.max(axis=-1, keepdims=True))
    if not blind.any():
        return apply(ops.softmax, scores, axis=-1)
    shown = apply(ops.where, blind, scores.dtype.type(0), scores)
    return apply(ops.where, blind, scores.dtype.type(0), apply(ops.softmax, shown, axis=-1))


def _hidden(scores: Tensor, shown: Any) -> Tensor:
    return apply(ops.where, without_gradient(shown), scores, scores.dtype.type(-math.inf))


def _causal(scores: Tensor, past: int) -> Tensor:
    """Hide from each query the keys behind it; ``past`` keys lie before the first query."""
    queries, keys = scores.shape[-2:]
    return _hidden(scores, np.tri(queries, keys, past, dtype=bool))


def _attention(node: Node) -> Runner:
    """Attention of the standard, from version 23."""
    scale, causal, cap = node.get("scale", None), bool(node.get("is_causal", 0)), node.get("softcap", 0.0)
    heads = node.get("q_num_heads", 0), node.get("kv_num_heads", 0)
    if node.has(6):
        raise Untranslatable("lengths of keys")
    if cap and (node.has(3) or causal):
        raise Untranslatable("softcap and a mask")

    def run(q: Any, k: Any, v: Any, mask: Operand = None, *past: Operand) -> tuple[Tensor, ...]:
        queries, keys, values = _split(q, heads[0]), _split(k, heads[1]), _split(v, heads[1])
        before = 0
        if past and past[0] is not None:
            before = past[0].shape[2]
            keys, values = (
                apply(ops.concatenate, old, new, axis=2) for old, new in zip(past, (keys, values), strict=True)
            )

        def masked(scores: Tensor) -> Tensor:
            if cap:
                scores = apply(ops.multiply, apply(ops.tanh, apply(ops.divide, scores, cap)), cap)
            if causal:
                scores = _causal(scores, before)
            if mask is None:
                return scores
            given = tensor_of(mask)
            missing = scores.shape[-1] - given.shape[-1]
            if missing and given.shape[-1] > 1:
                given = apply(
                    gather_pad.pad,
                    given,
                    widths=(*[(0, 0)] * (given.ndim - 1), (0, missing)),
                    mode="constant",
                    value=False if given.dtype == bool else -math.inf,
                )
            return _hidden(scores, given) if given.dtype == bool else apply(ops.add, scores, given)

        made = _attended(queries, keys, values, scale, masked)
        return (made if q.ndim == 4 else _joined(made)), keys, values

    return run


class FusedAttention(Module):
    """Attention of ONNX Runtime with its joint projection of queries, keys and values."""

    def __init__(self, packed: Module, heads: int, widths: tuple[int, ...], how: dict[str, Any]) -> None:
        self.packed, self.heads, self.widths, self.how = packed, heads, widths, how

    def forward(self, x: Any, mask: Operand = None, bias: Operand = None) -> Tensor:
        """Return (B, T, width) of (B, T, features)."""
        made, first = self.packed(x), 0
        parts = []
        for width in self.widths:
            index = (slice(None), slice(None), slice(first, first + width))
            parts.append(_split(apply(ops.getitem, made, index=index), self.heads))
            first += width
        q, k, v = parts
        return _joined(_attended(q, k, v, self.how["scale"], _runtime_mask(mask, bias, **self.how)))


def _runtime_mask(mask: Operand, bias: Operand, scale: float | None, causal: bool, filled: float) -> Masking:
    """Return what ONNX Runtime does to scores: a mask of whole numbers, 1 for what is seen, and a bias."""
    del scale

    def masked(scores: Tensor) -> Tensor:
        if bias is not None:
            scores = apply(ops.add, scores, bias)
        if causal:
            scores = _causal(scores, 0)
        if mask is None:
            return scores
        numbers = tensor_of(mask).data
        if numbers.ndim == 1:
            numbers = _shown(numbers, scores.shape[0], scores.shape[-1])
        axes = {2: (slice(None), None, None), 3: (slice(None), None)}.get(numbers.ndim, ())
        hides = (1 - (numbers[axes] != 0)) * scores.dtype.type(filled)
        return apply(ops.add, scores, hides.astype(scores.dtype))

    return masked


def _shown(ends: Array, count: int, keys: int) -> Array:
    """Return (count, keys), whether each text shows a key; ``ends`` has where texts end, and then where they begin."""
    if ends.size not in (count, 2 * count):
        raise ValueError(
            f"a mask of one axis must hold {count} ends, or {count} ends and {count} starts, not {ends.size} values"
        )
    places = np.arange(keys)
    shown = places < ends[:count, None]
    return shown & (places >= ends[count:, None]) if ends.size > count else shown


def _how(node: Node) -> dict[str, Any]:
    causal, filled = bool(node.get("unidirectional", 0)), node.get("mask_filter_value", -10000.0)
    return {"scale": node.get("scale", None), "causal": causal, "filled": filled}


def _packed_attention(node: Node) -> Runner:
    weight = node.weights(1)
    if node.has(4) or node.has(6):
        raise Untranslatable("a past")
    widths = tuple(node.get("qkv_hidden_sizes", ())) or (weight.shape[1] // 3,) * 3
    packed = layers.linear_of(node.parameter(1), node.parameter(2) if node.has(2) else None)
    return FusedAttention(packed, node.get("num_heads", 1), widths, _how(node))


def _heads_attention(node: Node) -> Runner:
    """MultiHeadAttention of ONNX Runtime: queries, keys and values apart."""
    heads, how = node.get("num_heads", 1), _how(node)
    if not node.has(1) or not node.has(2):
        raise Untranslatable("packed operands")
    if any(node.has(index) for index in range(6, 10)):
        raise Untranslatable("a past")

    def run(q: Any, k: Any, v: Any, bias: Operand = None, mask: Operand = None, added: Operand = None) -> Tensor:
        if k.ndim == 5:
            raise ValueError(f"keys of {node.name} must have 3 or 4 axes, not shape {k.shape}")
        given, first = [], 0
        for x in (q, k, v):
            if bias is not None:
                width = x.shape[-1] * (x.shape[1] if x.ndim == 4 else 1)
                part = apply(ops.getitem, bias, index=slice(first, first + width))
                first += width
                x = apply(ops.add, x, part if x.ndim == 3 else reshaped(part, (1, heads, 1, x.shape[-1])))
            given.append(_split(x, heads))
        queries, keys, values = given
        return _joined(_attended(queries, keys, values, how["scale"], _runtime_mask(mask, added, **how)))

    return run


def _turned(x: Tensor, cosines: Any, sines: Any, interleaved: bool) -> Tensor:
    """Return x (B, heads, T, width) with pairs of its first elements turned by angles (B, T, pairs).

    A pair lies side by side if ``interleaved``, else one in each half. Source: J. Su et al., arXiv:2104.09864.
    """
    pairs, width = cosines.shape[-1], x.shape[-1]
    cosines, sines = (reshaped(each, (each.shape[0], 1, *each.shape[1:])) for each in (cosines, sines))

    def part(first: int, last: int, step: int = 1) -> Tensor:
        return apply(ops.getitem, x, index=(..., slice(first, last, step)))

    if interleaved:
        left, right = part(0, 2 * pairs, 2), part(1, 2 * pairs, 2)
    else:
        left, right = part(0, pairs), part(pairs, 2 * pairs)
    made = [
        apply(ops.subtract, apply(ops.multiply, left, cosines), apply(ops.multiply, right, sines)),
        apply(ops.add, apply(ops.multiply, right, cosines), apply(ops.multiply, left, sines)),
    ]
    if interleaved:
        beside = (reshaped(each, (*each.shape, 1)) for each in made)
        made = [reshaped(apply(ops.concatenate, *beside, axis=-1), (*x.shape[:-1], 2 * pairs))]
    if width > 2 * pairs:
        made.append(part(2 * pairs, width))
    return apply(ops.concatenate, *made, axis=-1) if len(made) > 1 else made[0]


def _rows(table: Any, places: Any) -> Tensor:
    """Return (B, T, pairs) of a table (places, pairs)."""
    return apply(gather_pad.gather, table, places, axis=0)


def _rotary(node: Node) -> Runner:
    """RotaryEmbedding: of the standard, from version 23, or with the places before the tables of ONNX Runtime."""
    heads, interleaved = node.get("num_heads", 0), bool(node.get("interleaved", 0))
    wanted, of_runtime = node.get("rotary_embedding_dim", 0), "." in node.kind
    if of_runtime:
        node.only("is_packed_batching", 0)
        node.only("scale", 1.0)

    def run(x: Any, *operands: Any) -> Tensor:
        cosines, sines, places = (*operands[1:], operands[0]) if of_runtime else (*operands, None)[:3]
        length = x.shape[-2]
        if places is not None:
            places = np.asarray(tensor_of(places).data)
            places = places + np.arange(length)[None] if places.ndim == 1 else places
            cosines, sines = _rows(cosines, places), _rows(sines, places)
        split = _split(x, heads or x.shape[-1] // (wanted or 2 * cosines.shape[-1]))
        made = _turned(split, cosines, sines, interleaved)
        return made if x.ndim == 4 else _joined(made)

    return run


def _grouped(node: Node) -> Runner:
    """GroupQueryAttention of ONNX Runtime: fewer keys than queries, with the keys of before."""
    heads, of_keys = node.get("num_heads", 1), node.get("kv_num_heads", 1)
    scale, cap, window = node.get("scale", None), node.get("softcap", 0.0), node.get("local_window_size", -1)
    turns, interleaved = bool(node.get("do_rotary", 0)), bool(node.get("rotary_interleaved", 0))
    causal = bool(node.get("causal", 1))
    if any(node.has(index) for index in range(11, 16)):
        raise Untranslatable("sinks, codes or norms of keys")
    if bool(node.has(3)) != bool(node.has(4)):
        raise Untranslatable("a past of keys or values alone")

    def run(q: Any, k: Any, v: Any, *rest: Operand) -> tuple[Tensor, ...]:
        old_keys, old_values, lengths, total, cosines, sines, places, bias = (*rest, *[None] * 8)[:8]
        if k is None:
            width = q.shape[-1] // (heads + 2 * of_keys)
            ends = (0, heads * width, (heads + of_keys) * width, q.shape[-1])
            q, k, v = (apply(ops.getitem, q, index=(..., slice(*pair))) for pair in pairwise(ends))
        queries, keys, values = _split(q, heads), _split(k, of_keys), _split(v, of_keys)
        steps = np.arange(queries.shape[2])
        ends_at = _numbers(lengths).reshape(-1, 1) + 1
        most = int(_numbers(total).item())
        first = most == len(steps)
        before = ends_at * 0 if first else ends_at - len(steps)
        if turns:
            at = before + steps
            if places is not None:
                given = _numbers(places)
                at = given[:, :1] + steps if first else given
            angles = _rows(cosines, at), _rows(sines, at)
            queries, keys = (_turned(each, *angles, interleaved) for each in (queries, keys))
        if old_keys is not None and old_values is not None:
            keys, values = (_behind(old, new, before, most) for old, new in ((old_keys, keys), (old_values, values)))
        seen = np.arange(keys.shape[2])
        asks = (before + steps)[:, :, None]
        shown = seen < ends_at[:, :, None]
        shown = shown & (seen <= asks) if causal else shown
        if window > 0:
            shown = shown & (seen > asks - window)

        def masked(scores: Tensor) -> Tensor:
            if cap:
                scores = apply(ops.multiply, apply(ops.tanh, apply(ops.divide, scores, cap)), cap)
            if bias is not None:
                scores = apply(ops.add, scores, bias)
            return _hidden(scores, np.broadcast_to(shown[:, None], scores.shape))

        return _joined(_attended(queries, keys, values, scale, masked)), keys, values

    return run


def _numbers(x: Any) -> Any:
    """Return the array of an operand."""
    return np.asarray(tensor_of(x).data)


def _behind(old: Any, new: Tensor, before: Any, most: int) -> Tensor:
    """Return keys or values (B, heads, T, width) with the first ``before`` old ones of each sequence in front."""
    both, room = apply(ops.concatenate, old, new, axis=2), old.shape[2]
    if (before == room).all():
        return both
    at = np.arange(max(room, most))
    # Behind its end a sequence keeps what the old ones hold there.
    places = np.where((at >= before) & (at < before + new.shape[2]), room + at - before, np.minimum(at, room - 1))
    whole = (both.shape[0], both.shape[1], len(at), both.shape[3])
    return apply(gather_pad.gather_along, both, np.broadcast_to(places[:, None, :, None], whole), axis=2)


class Activated(Module):
    """A layer, what is added to its output, and a function of both."""

    def __init__(self, layer: Any, function: Runner) -> None:
        self.layer, self.function = layer, function

    def forward(self, x: Any, added: Operand = None) -> Tensor:
        """Return the function of the layer's output."""
        made = self.layer(x)
        return self.function(made if added is None else apply(ops.add, made, added))


_ARGUMENTS = {"LeakyRelu": ("alpha",), "Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta"), "Elu": ("alpha",)}


def _activation(node: Node) -> Runner:
    """Return the function that a fused operator names, with its numbers."""
    kind = node.get("activation", "")
    if not kind:
        return lambda x: x
    names, given = _ARGUMENTS.get(kind, ()), tuple(node.get("activation_params", ()))
    numbers = {name: node.get(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")}
    said = dict(zip(names, given, strict=False)) or {
        name: value for name, value in numbers.items() if value is not None
    }
    translation = elementwise.TRANSLATIONS.get(kind)
    if translation is None:
        raise Untranslatable(f"activation={kind!r}")
    return translation.make(replace(node, kind=kind, inputs=("",), attributes=said, version=11))


def _fused_convolution(node: Node) -> Runner:
    layer, function = layers.TRANSLATIONS["Conv"].make(node), _activation(node)
    if not isinstance(layer, Module):
        raise Untranslatable("weights that are no constant")
    return Activated(layer, function)


def _fused_general_product(node: Node) -> Runner:
    product, function = layers.TRANSLATIONS["Gemm"].make(node), _activation(node)
    return Activated(product, function) if isinstance(product, Module) else lambda *given: function(product(*given))


def _fused_product(node: Node) -> Runner:
    alpha, turns = node.get("alpha", 1.0), (node.get("transA", 0), node.get("transB", 0))
    node.only("transBatchA", 0)
    node.only("transBatchB", 0)

    def run(*operands: Any) -> Tensor:
        a, b = (
            apply(ops.transpose, x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)) if turn and x.ndim > 1 else x
            for x, turn in zip(operands, turns, strict=True)
        )
        made = apply(ops.matmul, a, b)
        return made if alpha == 1 else apply(ops.multiply, made, alpha)

    return run


def _biased(function: Callable[[Any], Tensor]) -> Callable[[Node], Runner]:
    return lambda node: lambda x, bias=None: function(x if bias is None else apply(ops.add, x, bias))


def _exact_gelu(x: Any) -> Tensor:
    wide = apply(pointwise.erf, apply(ops.multiply, x, math.sqrt(0.5)))
    return apply(ops.multiply, apply(ops.multiply, x, 0.5), apply(ops.add, wide, 1.0))


def _fast_gelu(x: Any) -> Tensor:
    return apply(ops.gelu, x)


def _quick_gelu(node: Node) -> Runner:
    alpha = node.get("alpha", 1.702)
    return lambda x: apply(ops.multiply, x, apply(ops.sigmoid, apply(ops.multiply, x, alpha)))


class SkipNorm(Module):
    """Layer normalization of a sum, with the sum as its fourth output."""

    def __init__(self, layer: LayerNorm) -> None:
        self.layer = layer

    def forward(self, x: Any, skip: Any, bias: Operand = None) -> tuple[Tensor | None, ...]:
        """Return the normalized sum, twice nothing, and the sum."""
        total = apply(ops.add, x, skip)
        total = total if bias is None else apply(ops.add, total, bias)
        return self.layer(total), None, None, total


def _norm_of(node: Node, weight: int, bias: int) -> LayerNorm:
    scale = node.weights(weight)
    layer = LayerNorm(len(scale), eps=node.get("epsilon", 1e-12))
    layer.weight = node.parameter(weight)
    if node.has(bias):
        layer.bias = node.parameter(bias)
    return layer


def _skip_norm(node: Node) -> Runner:
    if any(node.outputs[1:3]):
        raise Untranslatable("mean and deviation as outputs")
    return SkipNorm(_norm_of(node, 2, 3))


def _skip_root_norm(node: Node) -> Runner:
    if any(node.outputs[1:3]):
        raise Untranslatable("mean and deviation as outputs")
    normalized: Any = layers.root_mean_square_norm(node)

    def run(x: Any, skip: Any, weight: Any, bias: Operand = None) -> tuple[Any, ...]:
        total = apply(ops.add, x, skip)
        total = total if bias is None else apply(ops.add, total, bias)
        return normalized(total, weight), None, None, total

    return run


class EmbeddedNorm(Module):
    """Sum of the embeddings of tokens, places and kinds, normalized."""

    def __init__(self, tables: list[Embedding | None], layer: LayerNorm) -> None:
        self.tokens, self.places, self.kinds = tables
        self.layer = layer

    def forward(self, tokens: Any, kinds: Operand = None, mask: Operand = None, places: Operand = None) -> Any:
        """Return (B, T, width), how many tokens the mask shows of each row, and what was normalized."""
        assert self.tokens is not None
        assert self.places is not None
        at = np.arange(tokens.shape[1])[None] if places is None else places
        total = apply(ops.add, self.tokens(tokens), self.places(at))
        if self.kinds is not None and kinds is not None:
            total = apply(ops.add, total, self.kinds(kinds))
        shown = (
            np.zeros(tokens.shape[0], np.int32) if mask is None else tensor_of(mask).data.sum(axis=1, dtype=np.int32)
        )
        return self.layer(total), shown, total


def _embedded_norm(node: Node) -> Runner:
    node.only("mask_index_type", 0, 1)
    tables: list[Embedding | None] = []
    for index in (2, 3, 4):
        table = Embedding(1, 1) if node.has(index) else None
        if table is not None:
            table.num_embeddings, table.embedding_dim = node.weights(index).shape
            table.weight = node.parameter(index)
        tables.append(table)
    return EmbeddedNorm(tables, _norm_of(node, 5, 6))


TRANSLATIONS: dict[str, Translation] = {
    "Attention": Translation(
        _attention, ignores=("qk_matmul_output_mode", "softmax_precision"), outputs=3, for_floats=True
    ),
    "RotaryEmbedding": Translation(_rotary),
    "SimplifiedLayerNormalization": Translation(layers.root_mean_square_norm, ignores=("stash_type",)),
    **{
        f"com.microsoft.{kind}": translation
        for kind, translation in {
            "Attention": Translation(_packed_attention, reads=(0, 3, 5)),
            "BiasGelu": Translation(_biased(_exact_gelu)),
            "EmbedLayerNormalization": Translation(_embedded_norm, reads=(0, 1, 7, 8), outputs=3),
            "FastGelu": Translation(_biased(_fast_gelu)),
            "FusedConv": Translation(_fused_convolution, reads=(0, 3), ignores=("kernel_shape",)),
            "FusedGemm": Translation(_fused_general_product),
            "FusedMatMul": Translation(_fused_product),
            "GroupQueryAttention": Translation(_grouped, outputs=3),
            "Gelu": Translation(_biased(_exact_gelu)),
            "MultiHeadAttention": Translation(_heads_attention),
            "QuickGelu": Translation(_quick_gelu),
            "RotaryEmbedding": Translation(_rotary),
            "SkipLayerNormalization": Translation(_skip_norm, reads=(0, 1, 4), outputs=4),
            "SkipSimplifiedLayerNormalization": Translation(_skip_root_norm, outputs=4),
        }.items()
    },
}

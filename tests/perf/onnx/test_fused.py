"""Operators that join several answer as the formulas of what they join, in NumPy and float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

from tests.perf.onnx.graphs import Case, Made, answers, normal
from tests.perf.onnx.test_standard import NAMES
from tinytorch.core.op import Array
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.onnx.fused import TRANSLATIONS

X = normal(2, 5, 8)
MAPS = normal(2, 3, 6, 6)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


def _norm(x: Array, weight: Array, bias: Array | float, epsilon: float = 1e-12) -> Array:
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * weight + bias


def _root_norm(x: Array, weight: Array, epsilon: float = 1e-3) -> Array:
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def _heads(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3).astype(np.float64)


def _attended(q: Array, k: Array, v: Array, added: Any = 0.0) -> Array:
    """Return softmax(q kᵀ / √d + added) v, heads joined again."""
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    made = weights / weights.sum(-1, keepdims=True) @ v
    return made.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def _packed(added: Any) -> Callable[..., Array]:
    def expected(x: Array, weight: Array, bias: Array, *rest: Any) -> Array:
        q, k, v = (_heads(part, 2) for part in np.split(x @ weight + bias, 3, axis=-1))
        return _attended(q, k, v, added)

    return expected


def _apart(x: Array, k: Array, v: Array, bias: Array, mask: Array) -> Array:
    parts = (x + bias[:8], k + bias[8:16], v + bias[16:])
    q, k, v = (_heads(each, 2) for each in parts)
    return _attended(q, k, v, np.where(mask[:, None, None] == 1, 0, -1e4))


def _grouped(x: Array, k: Array, v: Array, *mask: Any) -> Array:
    q, k, v = _heads(x, 4), _heads(k, 2).repeat(2, axis=1), _heads(v, 2).repeat(2, axis=1)
    return _attended(q, k, v, np.where(np.tri(5, dtype=bool), 0, -np.inf))


def _convolved(low: float, high: float) -> Callable[..., Array]:
    def expected(x: Array, weight: Array, bias: Array, added: Any = 0.0) -> Array:
        return np.clip(np.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0]) + bias[:, None, None] + added, low, high)

    return expected


def _angles(places: int, pairs: int) -> tuple[Array, Array]:
    at = np.arange(places)[:, None] * 0.3 ** np.arange(pairs)
    return np.cos(at).astype(np.float32), np.sin(at).astype(np.float32)


def _spun(x: Array, cosines: Array, sines: Array, interleaved: int = 0) -> Array:
    """Return (..., T, width) with its pairs as complex numbers times exp(i angle)."""
    pairs, made = cosines.shape[-1], x.astype(np.float64)
    left, right = (
        (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if interleaved else (slice(pairs), slice(pairs, 2 * pairs))
    )
    spun = (x[..., left] + 1j * x[..., right]) * (cosines + 1j * sines)
    made[..., left], made[..., right] = spun.real, spun.imag
    return made


def _rotated(interleaved: int) -> Callable[..., Array]:
    def expected(x: Array, places: Array, cosines: Array, sines: Array) -> Array:
        at = places + np.arange(x.shape[-2]) if places.ndim == 1 else places[:, None]
        split = x if x.ndim == 4 else _heads(x, 4)
        made = _spun(split, cosines[at], sines[at], interleaved)
        return made if x.ndim == 4 else made.transpose(0, 2, 1, 3).reshape(x.shape)

    return expected


def _of_groups(count: int, window: int, cap: float) -> Callable[..., Array]:
    """Return attention of 4 heads over 2 of keys, each sequence and query by itself."""

    def expected(
        x: Array, k: Any, v: Any, old_k: Array, old_v: Array, ends: Array, most: Array, cosines: Any, sines: Any
    ) -> Array:
        q, k, v = np.split(x, [64, 96], axis=-1) if k is None else (x, k, v)
        q, k, v = _heads(q, 4), _heads(k, 2), _heads(v, 2)
        made = np.zeros((2, count, 4, 16))
        for row, end in enumerate(ends + 1):
            before = 0 if most == count else end - count
            at = slice(before, before + count)
            turned = [each[row] if cosines is None else _spun(each[row], cosines[at], sines[at]) for each in (q, k)]
            keys, values = (
                np.concatenate([old[row, :, :before], new], 1)[:, :end]
                for old, new in ((old_k, turned[1]), (old_v, v[row]))
            )
            scores = np.einsum("hqd,hkd->hqk", turned[0], keys.repeat(2, 0)) / 4
            scores = np.tanh(scores / cap) * cap if cap else scores
            away = before + np.arange(count)[:, None] - np.arange(end)
            weights = np.exp(scores) * (away >= 0) * (away < (window if window > 0 else 99))
            mixed = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30) @ values.repeat(2, 0)
            made[row] = mixed.transpose(1, 0, 2)
        return made.reshape(2, count, 64)

    return expected


ANGLES, HALVED, WIDE = _angles(9, 4), _angles(9, 2), _angles(9, 8)
PLACES = np.array([[0, 1, 2], [5, 6, 8]])
WEIGHT, ROW = normal(8, 24), normal(24)
KINDS = np.array([[0, 1, 1], [0, 0, 0]], np.int32)
#: Where each text ends, and then where it begins: padded on the left.
ENDS = np.array([4, 5, 1, 2], np.int32)
SHOWN = (np.arange(5) >= ENDS[2:, None, None, None]) & (np.arange(5) < ENDS[:2, None, None, None])
CAUSAL = np.where(np.tri(5, dtype=bool), 0, -np.inf)


def fused(kind: str, data: Any, *operands: Any, **how: Any) -> Case:
    return Case(kind, data, *operands, domain="com.microsoft", **how)


def _fast_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _leaky(x: Array, weight: Array, bias: Array) -> Array:
    made = x @ weight.T + bias
    return np.where(made > 0, made, 0.1 * made)


MIX, SKIP = (normal(4, 3, 1, 1), normal(4)), normal(2, 5, 8, seed=1)
CASES = [
    fused("Gelu", X, expected=_gelu),
    fused("BiasGelu", X, normal(8), expected=lambda x, b: _gelu(x + b)),
    fused("FastGelu", X, normal(8), expected=lambda x, b: _fast_gelu(x + b)),
    fused("QuickGelu", X, expected=lambda x: x / (1 + np.exp(-1.702 * x))),
    fused("FusedMatMul", X, normal(4, 8), transB=1, alpha=0.5, expected=lambda x, w: 0.5 * x @ w.T),
    fused(
        "FusedGemm", normal(3, 8), normal(4, 8), normal(4), transB=1, activation="LeakyRelu", activation_alpha=0.1,
        expected=_leaky,
    ),
    fused("FusedConv", MAPS, *MIX, activation="Relu", expected=_convolved(0, np.inf)),
    fused("FusedConv", MAPS, *MIX, normal(2, 4, 6, 6), activation="Relu", expected=_convolved(0, np.inf)),
    fused(
        "FusedConv", MAPS, *MIX, activation="Clip", activation_params=[-0.5, 0.5], expected=_convolved(-0.5, 0.5)
    ),
    fused(
        "SkipLayerNormalization", X, SKIP, normal(8), normal(8, seed=2), normal(8, seed=3),
        expected=lambda x, skip, w, b, more: _norm(x + skip + more, w, b),
    ),
    fused(
        "SkipSimplifiedLayerNormalization", X, SKIP, normal(8), epsilon=1e-3,
        expected=lambda x, skip, w: _root_norm(x + skip, w),
    ),
    Case("SimplifiedLayerNormalization", X, normal(8), epsilon=1e-3, expected=_root_norm),
    fused(
        "EmbedLayerNormalization", np.array([[1, 0, 2], [3, 3, 1]], np.int32), KINDS, normal(4, 8), normal(3, 8),
        normal(2, 8), normal(8), normal(8, seed=1), made=2,
        expected=lambda x, kinds, words, places, sides, w, b: _norm(words[x] + places[:3] + sides[kinds], w, b),
    ),
    fused("Attention", X, WEIGHT, ROW, num_heads=2, expected=_packed(0.0)),
    fused("Attention", X, WEIGHT, ROW, num_heads=2, unidirectional=1, expected=_packed(CAUSAL)),
    fused("Attention", X, WEIGHT, ROW, MASK, num_heads=2, expected=_packed((MASK[:, None, None] - 1) * 1e4)),
    fused("Attention", X, WEIGHT, ROW, ENDS, num_heads=2, expected=_packed(np.where(SHOWN, 0, -1e4))),
    fused(
        "Attention", X, WEIGHT, ROW, MASK[:, ::-1].copy(), num_heads=2, unidirectional=1,
        mask_filter_value=-100.0, expected=_packed(CAUSAL + (MASK[:, None, None, ::-1] - 1) * 100),
    ),
    fused("MultiHeadAttention", X, SKIP, normal(2, 5, 6), normal(22), MASK, num_heads=2, expected=_apart),
    Case(
        "Attention", normal(2, 5, 16), SKIP, normal(2, 5, 6), is_causal=1, q_num_heads=4, kv_num_heads=2, opset=23,
        expected=_grouped,
    ),
    *(
        fused("RotaryEmbedding", x, PLACES, *tables, **how, interleaved=pairs, expected=_rotated(pairs))
        for pairs in (0, 1)
        for x, tables, how in (
            (normal(2, 3, 32), ANGLES, {}),
            (normal(2, 4, 3, 8), ANGLES, {}),
            (normal(2, 3, 32), HALVED, {"num_heads": 4, "rotary_embedding_dim": 4}),
        )
    ),
    fused("RotaryEmbedding", normal(2, 3, 32), np.array([2]), *ANGLES, expected=_rotated(0)),
    *(
        fused(
            "GroupQueryAttention", normal(2, count, 128 if packed else 64), k, v, *past, np.array(ends, np.int32),
            np.array(most, np.int32), *(WIDE if turns else (None, None)), num_heads=4, kv_num_heads=2,
            do_rotary=turns, local_window_size=window, softcap=cap, made=3, expected=_of_groups(count, window, cap),
        )
        for count, packed, room, ends, most, turns, window, cap in (
            (5, False, 0, (4, 4), 5, 0, -1, 0.0),
            (5, False, 0, (4, 2), 5, 1, -1, 0.0),
            (5, False, 0, (4, 4), 5, 1, 2, 2.0),
            (5, True, 0, (4, 4), 5, 1, -1, 0.0),
            (1, False, 5, (5, 5), 6, 1, -1, 0.0),
            (1, False, 16, (5, 3), 6, 1, 3, 0.0),
        )
        for k, v in [(None, None) if packed else (normal(2, count, 32, seed=1), normal(2, count, 32, seed=2))]
        for past in [tuple(normal(2, 2, room, 16, seed=seed) for seed in (3, 4))]
    ),
]  # fmt: skip


@pytest.mark.parametrize("one", CASES, ids=str)
def test_answers_are_those_of_the_formulas(one: Case, tmp_path: Path) -> None:
    made = answers(from_onnx(one.made().file(tmp_path)), one.data)[0]
    expected = one.expected(one.data, *one.operands)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=2e-5)


def test_every_fused_operator_has_a_case() -> None:
    assert {f"{one.domain}.{one.kind}".lstrip(".") for one in CASES} | set(NAMES) >= set(TRANSLATIONS)


def test_attention_is_counted_as_its_two_products(tmp_path: Path) -> None:
    (one,) = (each for each in CASES if each.kind == "Attention" and not each.domain)
    counted = FLOPCounter().count_model_forward(from_onnx(one.made().file(tmp_path)), one.data.shape)
    assert counted == 2 * 2 * 4 * 5 * 5 * (4 + 3)


def test_a_query_to_which_all_is_hidden_gets_nothing(tmp_path: Path) -> None:
    graph = Made(23)
    shown = np.ones((5, 5), bool)
    shown[2] = False
    operands = [graph.input("x", X.shape), *(graph.constant(X) for _ in range(2)), graph.constant(shown)]
    graph.output(graph.node("Attention", *operands, q_num_heads=2, kv_num_heads=2))
    (made,) = answers(from_onnx(graph.file(tmp_path)), X)
    np.testing.assert_array_equal(made[:, 2], 0)
    assert np.isfinite(made).all()

"""Operators that join several answer as the formulas of what they join, in NumPy and float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

from tests.perf.onnx.graphs import Made, answers, normal
from tinytorch.core.op import Array
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.onnx.fused import TRANSLATIONS

RUNTIME = "com.microsoft"
X = normal(2, 5, 8)
MAPS = normal(2, 3, 6, 6)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


@dataclass(frozen=True)
class Fused:
    """A node of ONNX Runtime: its first operand is the input, None is left out; and what it is to answer."""

    kind: str
    data: Any
    operands: tuple[Any, ...]
    expected: Callable[..., Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = RUNTIME

    def made(self) -> Made:
        """Return its graph."""
        graph = Made(23 if self.kind == "Attention" and not self.domain else 18)
        x = graph.input("x", self.data.shape, self.data.dtype)
        names = ["" if value is None else graph.constant(value) for value in self.operands]
        attributes = {**self.attributes, "domain": self.domain}
        graph.output(graph.node(self.kind, x, *names, count=self.outputs, **attributes))
        return graph


def _norm(x: Array, weight: Array, bias: Array | float, epsilon: float = 1e-12) -> Array:
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * weight + bias


def _root_norm(x: Array, weight: Array, epsilon: float) -> Array:
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


def _convolved(x: Array, weight: Array, bias: Array, added: Any = 0.0) -> Array:
    made = np.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0]) + bias[:, None, None]
    return np.maximum(made + (0.0 if added is None else added), 0)


WEIGHT, ROW, KEYS = normal(8, 24), normal(24), normal(2, 5, 8, seed=1)
KINDS = np.array([[0, 1, 1], [0, 0, 0]], np.int32)
CAUSAL = np.where(np.tri(5, dtype=bool), 0, -np.inf)
CASES = [
    Fused("Gelu", X, (), _gelu),
    Fused("BiasGelu", X, (normal(8),), lambda x, b: _gelu(x + b)),
    Fused(
        "FastGelu",
        X,
        (normal(8),),
        lambda x, b: 0.5 * (x + b) * (1 + np.tanh(np.sqrt(2 / np.pi) * ((x + b) + 0.044715 * (x + b) ** 3))),
    ),
    Fused("QuickGelu", X, (), lambda x: x / (1 + np.exp(-1.702 * x))),
    Fused("FusedMatMul", X, (normal(4, 8),), lambda x, w: 0.5 * x @ w.T, {"transB": 1, "alpha": 0.5}),
    Fused(
        "FusedGemm",
        normal(3, 8),
        (normal(4, 8), normal(4)),
        lambda x, w, b: np.where(x @ w.T + b > 0, x @ w.T + b, 0.1 * (x @ w.T + b)),
        {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.1},
    ),
    Fused("FusedConv", MAPS, (normal(4, 3, 1, 1), normal(4)), _convolved, {"activation": "Relu"}),
    Fused(
        "FusedConv", MAPS, (normal(4, 3, 1, 1), normal(4), normal(2, 4, 6, 6)), _convolved, {"activation": "Relu"}
    ),
    Fused(
        "FusedConv",
        MAPS,
        (normal(4, 3, 1, 1), normal(4)),
        lambda x, w, b: np.clip(np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + b[:, None, None], -0.5, 0.5),
        {"activation": "Clip", "activation_params": [-0.5, 0.5]},
    ),
    Fused(
        "SkipLayerNormalization",
        X,
        (normal(2, 5, 8, seed=1), normal(8), normal(8, seed=2), normal(8, seed=3)),
        lambda x, skip, w, b, more: _norm(x + skip + more, w, b),
        outputs=1,
    ),
    Fused(
        "SkipSimplifiedLayerNormalization",
        X,
        (normal(2, 5, 8, seed=1), normal(8)),
        lambda x, skip, w: _root_norm(x + skip, w, 1e-3),
        {"epsilon": 1e-3},
    ),
    Fused(
        "SimplifiedLayerNormalization", X, (normal(8),), lambda x, w: _root_norm(x, w, 1e-3), {"epsilon": 1e-3}, 1, ""
    ),
    Fused(
        "EmbedLayerNormalization",
        np.array([[1, 0, 2], [3, 3, 1]], np.int32),
        (KINDS, normal(4, 8), normal(3, 8), normal(2, 8), normal(8), normal(8, seed=1)),
        lambda x, kinds, words, places, sides, w, b: _norm(words[x] + places[:3] + sides[kinds], w, b),
        outputs=2,
    ),
    Fused("Attention", X, (WEIGHT, ROW), _packed(0.0), {"num_heads": 2}),
    Fused("Attention", X, (WEIGHT, ROW), _packed(CAUSAL), {"num_heads": 2, "unidirectional": 1}),
    Fused("Attention", X, (WEIGHT, ROW, MASK), _packed(np.where(MASK[:, None, None] == 1, 0, -1e4)), {"num_heads": 2}),
    Fused("MultiHeadAttention", X, (KEYS, normal(2, 5, 6), normal(22), MASK), _apart, {"num_heads": 2}),
    Fused(
        "Attention",
        normal(2, 5, 16),
        (normal(2, 5, 8, seed=1), normal(2, 5, 6)),
        _grouped,
        {"is_causal": 1, "q_num_heads": 4, "kv_num_heads": 2},
        1,
        "",
    ),
]  # fmt: skip


@pytest.mark.parametrize("one", CASES, ids=lambda one: "-".join([one.kind, *map(str, one.attributes.values())]))
def test_answers_are_those_of_the_formulas(one: Fused, tmp_path: Path) -> None:
    made = answers(from_onnx(one.made().file(tmp_path)), one.data)[0]
    expected = one.expected(one.data, *one.operands)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=2e-5)


def test_every_fused_operator_has_a_case() -> None:
    assert {f"{one.domain}.{one.kind}".lstrip(".") for one in CASES} == set(TRANSLATIONS)


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

"""Loops and scans, whose bodies the onnx package's reference runs, answer as the same loops in NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.perf.onnx.graphs import Made, answers, normal
from tinytorch.core.op import Array
from tinytorch.perf.onnx import from_onnx

X = normal(3, 4, 2)
TURNS = np.array(3)


@dataclass(frozen=True)
class Case:
    """A node with a body: operands of which the first is the input ``x``, and what it answers."""

    called: str
    kind: str
    operands: tuple[Any, ...]
    body: Any
    expected: Sequence[Array]
    attributes: dict[str, Any] = field(default_factory=dict)
    data: ClassVar[Array] = X
    opset: ClassVar[int] = 17

    def made(self) -> Made:
        graph = Made(self.opset)
        x = graph.input("x", X.shape)
        names = ["" if each is None else x if each is X else graph.constant(each) for each in self.operands]
        first = graph.node(self.kind, *names, count=len(self.expected), body=self.body, **self.attributes)
        for index in range(len(self.expected)):
            graph.output(first if index == 0 else f"{first}_{index}")
        return graph


def _body(nodes: Sequence[tuple[str, str, str]], inputs: Sequence[Any], outputs: Sequence[tuple[str, Any]]) -> Any:
    """Return a graph; nodes are operator, operands apart by spaces, and output."""
    types = {"turn": TensorProto.INT64, "goes": TensorProto.BOOL, "on": TensorProto.BOOL}
    made = [helper.make_node(kind, operands.split(), [output]) for kind, operands, output in nodes]
    ends = [
        [helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape) for name, shape in side]
        for side in (inputs, outputs)
    ]
    return helper.make_graph(made, "body", *ends)


SUMS = _body(
    [("Add", "state part", "next"), ("Mul", "next x", "made")],
    [("state", [4, 2]), ("part", [4, 2])],
    [("next", [4, 2]), ("made", [3, 4, 2])],
)


def _sums(parts: Array, state: Array) -> list[Array]:
    """Return the last sum and the sums after each part."""
    made = [state := state + part for part in parts]
    return [state, np.stack(made)]


ZERO = np.zeros((4, 2), np.float32)
CASES = [
    Case(
        "outer names",
        "Loop",
        (TURNS, np.array(True), normal(4, 2)),
        _body(
            [("Identity", "goes", "on"), ("Add", "state state", "twice"), ("Mul", "twice x", "next")],
            [("turn", []), ("goes", []), ("state", [3, 4, 2])],
            [("on", []), ("next", [3, 4, 2])],
        ),
        [8 * normal(4, 2) * X**3],
    ),
    Case(
        "forwards",
        "Scan",
        (ZERO, X),
        SUMS,
        [X.sum(0), np.stack([each * X for each in _sums(X, ZERO)[1]])],
        {"num_scan_inputs": 1},
    ),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one.kind} {one.called}")
def test_bodies_answer_as_loops_of_numpy(one: Case, tmp_path: Path) -> None:
    made = answers(from_onnx(one.made().file(tmp_path)), X)
    for ours, expected in zip(made, one.expected, strict=True):
        assert (ours.shape, ours.dtype) == (expected.shape, np.dtype(np.float32))
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)

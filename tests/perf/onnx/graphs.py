"""ONNX graphs made node by node, and what the onnx package's reference answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array

Shape = Sequence[int | str | None]


class Made:
    """A graph that grows by its nodes."""

    def __init__(self, opset: int = 18) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.weights: dict[str, Any] = {}

    def input(self, name: str, shape: Shape, dtype: Any = np.float32) -> str:
        """Declare an input."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, values: Any, name: str = "") -> str:
        """Add an initializer."""
        name = name or f"constant_{len(self.weights)}"
        self.weights[name] = numpy_helper.from_array(np.asarray(values), name)
        return name

    def node(self, kind: str, *inputs: str, name: str = "", domain: str = "", count: int = 1, **attributes: Any) -> str:
        """Add a node; return the name of its (first) output."""
        outputs = [f"{kind}_{len(self.nodes)}" + ("" if index == 0 else f"_{index}") for index in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def output(self, name: str) -> None:
        """Declare an output, of the type that its node gives it."""
        self.outputs.append(onnx.ValueInfoProto(name=name))

    def model(self) -> Any:
        """Return the whole."""
        graph = helper.make_graph(self.nodes, "made", self.inputs, self.outputs, list(self.weights.values()))
        domains = {node.domain for node in self.nodes} - {""}
        opsets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def file(self, folder: Path, name: str = "made.onnx") -> Path:
        """Write it; return the path."""
        path = folder / name
        onnx.save(self.model(), str(path))
        return path


class Case:
    """One node: ``data`` is its operand ``at`` that place, all others are constants, and None is left out.

    Args:
        expected: what it answers, or the formula of that, of the data and the operands.
        outputs: of the graph.
        made: outputs of the node, if these are more.
    """

    def __init__(
        self, kind: str, data: Any, *operands: Any, expected: Any = None, opset: int = 18, outputs: int = 1,
        made: int = 0, at: int | None = 0, domain: str = "", **attributes: Any,
    ) -> None:  # fmt: skip
        self.kind, self.data, self.operands, self.expected = kind, np.asarray(data), operands, expected
        self.opset, self.outputs, self.at, self.domain, self.attributes = opset, outputs, at, domain, attributes
        self._count = max(made, outputs)

    def made(self) -> Made:
        """Return its graph."""
        graph = Made(self.opset)
        x = graph.input("x", self.data.shape, self.data.dtype)
        names = ["" if value is None else graph.constant(np.asarray(value)) for value in self.operands]
        if self.at is not None:
            names.insert(self.at, x)
        first = graph.node(self.kind, *names, count=self._count, domain=self.domain, **self.attributes)
        for index in range(self.outputs):
            graph.output(first if index == 0 else f"{first}_{index}")
        return graph

    def __str__(self) -> str:
        attributes = [f"{name}={value}" for name, value in self.attributes.items() if name != "body"]
        return "-".join([self.kind, str(self.opset), str(self.data.dtype), *attributes])


def normal(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of a normal distribution."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def reference(model: Any, inputs: dict[str, Array]) -> list[Array]:
    """Return what the onnx package's own evaluator, written in NumPy by others, answers."""
    return [np.asarray(answer) for answer in ReferenceEvaluator(model).run(None, inputs)]


def answers(model: Module, *inputs: Any) -> list[Array]:
    """Return the arrays that the model answers without gradients."""
    with no_grad():
        made = model(*inputs)
    return [each.data for each in (made if isinstance(made, tuple) else (made,))]


def assert_same(ours: Sequence[Array], theirs: Sequence[Array], tolerance: float = 1e-5) -> None:
    """Assert the same shapes, dtypes and, to ``tolerance`` of the largest, the same numbers."""
    assert len(ours) == len(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        assert mine.shape == expected.shape
        assert mine.dtype == expected.dtype
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(mine, expected)
            continue
        scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-3))
        np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance * scale)

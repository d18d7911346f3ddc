"""What is known before data comes: constants, and what nodes make of constants and shapes alone.

The onnx package's own reference works it out, so that such nodes need no translation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor

#: Operators whose result is not the same each time.
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


class Evaluated:
    """A node that the reference runs on known numbers."""

    def __init__(self, node: Any, opsets: Mapping[str, int]) -> None:
        self._node, self._opsets = node, dict(opsets)
        self._evaluator: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Evaluated:
        """Return itself: nothing of it changes, and the reference cannot be copied."""
        del memo
        return self

    def __call__(self, *operands: Any) -> Any:
        """Return the outputs, as a tuple if there are several."""
        if self._evaluator is None:
            # The reference asks for no dtypes of what comes and goes; float stands for any.
            anything = helper.make_tensor_type_proto(1, None)
            reads, writes = (
                [helper.make_value_info(name, anything) for name in dict.fromkeys(names) if name]
                for names in (self._node.input, self._node.output)
            )
            graph = helper.make_graph([self._node], "node", reads, writes)
            self._evaluator = ReferenceEvaluator(graph, opsets=self._opsets)
        given = {
            name: operand.data if isinstance(operand, Tensor) else operand
            for name, operand in zip(self._node.input, operands, strict=True)
            if name
        }
        made = dict(zip((name for name in self._node.output if name), self._evaluator.run(None, given), strict=True))
        outputs = tuple(np.asarray(made[name]) if name else None for name in self._node.output)
        return outputs if len(outputs) > 1 else outputs[0]


def is_pure(node: Any) -> bool:
    """Return whether a node of the standard operators makes the same of the same, and holds no graph of its own."""
    standard = node.domain in ("", "ai.onnx")
    return standard and node.op_type not in _RANDOM and not any(each.g.node or each.graphs for each in node.attribute)


def constant_of(node: Any) -> Array | None:
    """Return the value of a Constant node; None for text and sparse tensors."""
    (attribute,) = node.attribute
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return array_of(value)
    if attribute.name in ("value_float", "value_floats"):
        return np.asarray(value, np.float32)
    return np.asarray(value, np.int64) if attribute.name in ("value_int", "value_ints") else None


def array_of(tensor: Any) -> Array:
    """Return an array of the file's tensor."""
    return np.asarray(numpy_helper.to_array(tensor))


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of a node by name, tensors as arrays."""
    made: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        made[attribute.name] = tuple(value) if isinstance(value, Sequence) and not isinstance(value, bytes) else value
    return made

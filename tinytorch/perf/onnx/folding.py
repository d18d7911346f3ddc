"""What is known before data comes: constants, and what nodes make of constants and shapes alone.

The onnx package's own reference works it out, so that such nodes need no translation; where it fails, ours does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import defs, helper, numpy_helper

from tinytorch.core.op import Array
from tinytorch.perf.onnx.node import Node

#: Operators whose result is not the same each time.
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


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


def is_default(node: Node, attribute: str) -> bool:
    """Return whether an attribute says what its operator does without it, or tells where results may be written."""
    if attribute == "consumed_inputs":
        return True
    domain, _, kind = node.kind.rpartition(".")
    try:
        usual = defs.get_schema(kind, node.version, domain).attributes[attribute].default_value
    except (defs.SchemaError, KeyError):
        return False
    value = node.attributes[attribute]
    plain = list(value) if isinstance(value, tuple) else value
    return bool(usual.type) and bool(helper.get_attribute_value(usual) == plain)

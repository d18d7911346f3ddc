"""One node of an ONNX graph as a translation sees it, and the error that names what has no translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor

#: What a node's operand is when it runs: data, numbers that are known from the file and the shapes, or left out.
Operand = Tensor | Array | None
#: What runs a node: called with its operands it returns its outputs, as a tuple if there are several. A Module stands
#: for a layer, which holds its own weights and is called with what it does not hold.
Runner = Callable[..., Any] | Module


class UntranslatedError(ValueError):
    """A model holds nodes that have no translation; the message names all of them.

    ``missing`` has the number of nodes that each of them is, by what it is.

    Examples:
        >>> from tinytorch.perf.onnx import UntranslatedError
        >>> str(UntranslatedError("2 nodes of Sinkhorn have no translation", {"Sinkhorn": 2}))
        '2 nodes of Sinkhorn have no translation'
    """

    def __init__(self, message: str, missing: Mapping[str, int]) -> None:
        super().__init__(message)
        self.missing = dict(missing)


class Untranslatable(Exception):  # noqa: N818 - caught by the reader of the graph, which makes one error of all
    """Raised by a translation for a node that it does not cover; the message says which case that is."""


@dataclass(frozen=True)
class Node:
    """A node: its operator with the version of the operator set, attributes, and the constants among its operands.

    ``coding`` is what `quantized` knows of it.
    """

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    version: int
    constants: Mapping[str, Array]
    #: Of the file: what was made of a constant, by its name and form, for all nodes that read it.
    parameters: dict[tuple[str, str], Parameter] = field(default_factory=dict)
    #: Names of matrices that some nodes read as they are and others transposed, by the names of both forms.
    tied: Mapping[str, str] = field(default_factory=dict)
    #: Names of the attributes that the translation looked at.
    looked_at: set[str] = field(default_factory=set)
    coding: Any = None

    def constant(self, index: int) -> Array | None:
        """Return an operand if it is a constant of the file."""
        return self.constants.get(self.inputs[index]) if self.has(index) else None

    def has(self, index: int) -> bool:
        """Return whether an operand was given."""
        return len(self.inputs) > index and bool(self.inputs[index])

    def get(self, attribute: str, default: Any) -> Any:
        """Return an attribute, text as str."""
        self.looked_at.add(attribute)
        value = self.attributes.get(attribute, default)
        return value.decode() if isinstance(value, bytes) else value

    def only(self, attribute: str, *allowed: Any) -> Any:
        """Return an attribute, the first of ``allowed`` by default; Untranslatable if it is none of them."""
        value = self.get(attribute, allowed[0])
        if value not in allowed:
            raise Untranslatable(f"{attribute}={value!r}")
        return value

    def weights(self, index: int) -> Array:
        """Return an operand that a layer holds; Untranslatable if it is no constant."""
        found = self.constant(index)
        if found is None:
            raise Untranslatable(f"operand {index} that is no constant")
        return found

    def parameter(self, index: int, form: str = "", array: Array | None = None) -> Parameter:
        """Return the parameter of a constant operand, one for all nodes that read it in this form.

        Args:
            index: position of the operand.
            form: what ``array`` is of the constant, such as its transpose.
            array: in that form; the constant itself by default.
        """
        key = (self.inputs[index], form)
        if key not in self.parameters:
            self.parameters[key] = Parameter(self.weights(index) if array is None else array)
        return self.parameters[key]


@dataclass(frozen=True)
class Translation:
    """How an operator becomes what runs it.

    ``known`` are the positions of operands that are numbers and no data, such as a shape or axes; ``reads`` are those
    that a layer is called with. ``ignores`` are attributes that change nothing of the first ``outputs`` outputs. What
    holds ``for_floats`` alone leaves other numbers, and what holds none, to the reference.
    """

    make: Callable[[Node], Runner]
    known: tuple[int, ...] = ()
    reads: tuple[int, ...] = (0,)
    ignores: tuple[str, ...] = ()
    outputs: int | None = 1
    for_floats: bool = False


def whole(values: Any) -> tuple[int, ...]:
    """Return known numbers as whole ones of Python."""
    return tuple(int(value) for value in np.atleast_1d(values))


def truth(condition: Any) -> bool:
    """Return what a condition says, of data or of known numbers."""
    return bool(condition.data if isinstance(condition, Tensor) else condition)

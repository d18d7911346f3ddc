"""The onnx package's own reference as what runs a node: on known numbers, and at the seam where we have no code for it.

It is written for clearness, often as loops of Python: such an op answers right and says nothing of what the operator
could take.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops._op_list import load_op

from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx import counting
from tinytorch.perf.onnx.node import Node, Runner, Untranslatable

_RECURRENT = ("GRU", "LSTM", "RNN")
#: Attributes that the reference does not look at, or refuses; in recurrent layers also the lengths of sequences.
_OVERLOOKED = {
    **dict.fromkeys(_RECURRENT, ("activation_alpha", "activation_beta", "activations", "clip", "input_forget")),
    "BatchNormalization": ("spatial",),
    "Scan": ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"),
}
#: Operators of floats alone that sum along an axis.
_SUMS = ("CumSum", "LpNormalization", "LpPool", "MeanVarianceNormalization")
#: Modes of GridSample until version 19 by the names from 20 on, which alone the reference knows.
_MODES = {b"bilinear": b"linear", b"bicubic": b"cubic"}
#: Numbers and text, which a formula of work may use.
_PLAIN = (int, float, str, tuple)


class Evaluated:
    """A node that the reference runs."""

    def __init__(self, node: Any, opsets: Mapping[str, int], reads: Sequence[str] = ()) -> None:
        """``reads`` are the names that it is called with: its operands, and what the graphs in it read of the outer."""
        self._node, self._opsets = _in_newer_words(node), dict(opsets)
        self._reads = tuple(reads or node.input)
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
                for names in (self._reads, self._node.output)
            )
            graph = helper.make_graph([self._node], "node", reads, writes)
            self._evaluator = ReferenceEvaluator(graph, opsets=self._opsets)
        given = {name: _plain(operand) for name, operand in zip(self._reads, operands, strict=True) if name}
        if self._node.op_type == "OneHot":  # the reference takes no depth of shape (1,)
            given[self._node.input[1]] = np.reshape(given[self._node.input[1]], ())
        halves = self._node.op_type in _SUMS and any(np.asarray(each).dtype == np.float16 for each in given.values())
        if halves:  # whose sums have no room in 16 bits
            given = {
                name: each.astype(np.float32) if each.dtype == np.float16 else each for name, each in given.items()
            }
        with np.errstate(all="ignore"):  # a file may take the logarithm of 0
            results = self._evaluator.run(None, given)
        if halves:
            results = [each.astype(np.float16) for each in results]
        made = dict(zip((name for name in self._node.output if name), results, strict=True))
        outputs = tuple(_as_value(made[name]) if name else None for name in self._node.output)
        return outputs if len(outputs) > 1 else outputs[0]


def _in_newer_words(proto: Any) -> Any:
    """Return a node, a copy with new names of its modes if the reference knows these alone."""
    if proto.op_type != "GridSample":
        return proto
    made = type(proto)()
    made.CopyFrom(proto)
    for each in made.attribute:
        each.s = _MODES.get(each.s, each.s)
    return made


def _plain(operand: Any) -> Any:
    """Return an operand as the reference takes it: the array of a Tensor, also in a sequence."""
    if isinstance(operand, list):
        return [_plain(each) for each in operand]
    return operand.data if isinstance(operand, Tensor) else operand


def _as_value(made: Any) -> Any:
    return made if made is None or isinstance(made, list) else np.asarray(made)


def referred(proto: Any, node: Node, opsets: Mapping[str, int], reads: Sequence[str]) -> Runner:
    """Return what runs a node by the reference, as one op at the seam.

    Raises:
        Untranslatable: if the reference does not know it, or one of its attributes.
    """
    overlooks = any(name in node.attributes for name in _OVERLOOKED.get(node.kind, ()))
    if node.kind == "Scan" and node.version < 9:
        raise Untranslatable(f"version {node.version}")
    if node.kind == "Loop" and (not node.has(1) or len(node.outputs) > len(node.inputs) - 2):
        raise Untranslatable("outputs of each turn, or no condition")  # where the reference's answers are others
    if overlooks or (node.kind in _RECURRENT and node.has(4)) or "." in node.kind or not _is_known(proto, node):
        raise Untranslatable("")
    evaluated, op = Evaluated(proto, opsets, reads), _op(node.kind, counting.is_counted(node.kind))
    said = {name: node.get(name, None) for name in node.attributes}
    said = {name: value for name, value in said.items() if isinstance(value, _PLAIN)}
    at = next(index for index, name in enumerate(node.outputs) if name)
    makes_lists = node.kind.startswith(("Sequence", "Optional", "SplitToSequence"))

    def run(*operands: Any) -> Any:
        if makes_lists or any(isinstance(each, list) for each in operands):
            return evaluated(*operands)  # sequences are no tensors, and no op has them
        rest: list[Any] = []
        first = apply(op, *operands, evaluated=evaluated, at=at, rest=rest, **said)
        if not rest:
            return first
        made = [Tensor(each) if isinstance(each, np.ndarray) else each for each in rest]
        return (*made[:at], first, *made[at:])

    return run


def _is_known(proto: Any, node: Node) -> bool:
    try:
        made = load_op("", node.kind, node.version, node=proto, input_types=[], evaluator_cls=ReferenceEvaluator)
    except Exception:  # of the reference, which raises what it likes
        return False
    if not inspect.isclass(made):
        return True  # the schema tells how to write it with other operators
    run: Any = getattr(made, "_run")  # noqa: B009 - of a class that mypy does not know
    takes = inspect.signature(run).parameters
    anything = any(each.kind == each.VAR_KEYWORD for each in takes.values())
    return anything or all(name in takes or name in run.__code__.co_names for name in node.attributes)


@cache
def _op(kind: str, is_counted: bool) -> Op:
    """Return the op that stands for an operator."""
    return Op(kind, _forward, _backward, _work if is_counted else None)


def _forward(
    keep: bool, *operands: Any, evaluated: Evaluated, at: int, rest: list[Any], **said: Any
) -> tuple[Array, Saved]:
    """Return the output in place ``at``; the others go to ``rest``, because an op has one."""
    made = evaluated(*operands)
    outputs = list(made) if isinstance(made, tuple) else [made]
    first = outputs.pop(at)
    rest.extend(outputs)
    return first, ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    raise TypeError("an operator that onnx.reference runs has no gradient: train what comes behind it")


def _work(call: Call) -> Work:
    """Contractions by their formulas; of all else that computes, an operation for each element of the largest."""
    shapes = [each.shape if each.dtype is not None else None for each in call.inputs]
    macs = counting.macs(call.op.name, call.params, shapes, call.output.shape)
    if macs is not None:
        return Work(macs=macs)
    largest = max(each.size for each in (*call.inputs, call.output))
    return Work(elementwise=0 if call.op.name in counting.MOVING else largest)

"""Recurrent layers of ONNX: one product for the inputs of all times, then one for the state at each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array, Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.node import Node, Operand, Runner, Untranslatable


class Direction(Module):
    """The weights of one direction."""

    def __init__(self, of_input: Linear, of_state: Linear, backwards: bool) -> None:
        self.of_input, self.of_state, self.backwards = of_input, of_state, backwards


#: From what the input gives at a time, the weights, and the states: the states after it, the output first.
Cell = Callable[[Tensor, Direction, tuple[Any, ...]], tuple[Tensor, ...]]


class Recurrent(Module):
    """A layer that goes along a sequence (T, B, features) in each direction.

    It returns the outputs of all times and the last states, as ONNX lays them out.
    """

    def __init__(self, cell: Cell, directions: list[Direction], hidden: int, states: int) -> None:
        self.cell, self.directions, self.hidden, self.states = cell, directions, hidden, states

    def forward(self, x: Any, *first: Operand) -> tuple[Tensor, ...]:
        """Return outputs (T, directions, B, hidden), and each state (directions, B, hidden) after the last time.

        ``first`` are the states to begin with, and behind them the length of each sequence: what lies behind its end
        leaves a state as it is and has an output of 0.
        """
        lengths = first[self.states] if len(first) > self.states else None
        outputs, lasts = [], list[tuple[Tensor, ...]]()
        for number, direction in enumerate(self.directions):
            start = tuple(self._start(x, number, given) for given in (*first, None, None)[: self.states])
            made, last = self._along(x, direction, start, lengths)
            outputs.append(made)
            lasts.append(last)
        joined = _stacked(outputs, 1)
        states = tuple(_stacked([last[index] for last in lasts], 0) for index in range(self.states))
        return joined, *states

    def _start(self, x: Any, number: int, given: Operand) -> Any:
        if given is None:
            return np.zeros((x.shape[1], self.hidden), x.dtype)
        return apply(ops.getitem, given, index=number)

    def _along(
        self, x: Any, direction: Direction, state: tuple[Any, ...], lengths: Operand
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        inputs = direction.of_input(x)
        length = x.shape[0]
        order = range(length - 1, -1, -1) if direction.backwards else range(length)
        made: dict[int, Tensor] = {}
        for time in order:
            after = self.cell(apply(ops.getitem, inputs, index=time), direction, state)
            if lengths is None:
                state, made[time] = after, after[0]
                continue
            runs = np.asarray(lengths.data if isinstance(lengths, Tensor) else lengths)[:, None] > time
            state = tuple(apply(ops.where, runs, new, old) for new, old in zip(after, state, strict=True))
            made[time] = apply(ops.where, runs, after[0], np.zeros((), after[0].dtype))
        return _stacked([made[time] for time in range(length)], 0), state

    def _described(self) -> str:
        return f"hidden={self.hidden}, directions={len(self.directions)}"


def _stacked(parts: list[Tensor], axis: int) -> Tensor:
    """Return the parts along a new axis."""
    shape = list(parts[0].shape)
    shape.insert(axis, 1)
    wide = [apply(ops.reshape, part, shape=tuple(shape)) for part in parts]
    return wide[0] if len(wide) == 1 else apply(ops.concatenate, *wide, axis=axis)


def _part(x: Tensor, index: int, hidden: int) -> Tensor:
    return apply(ops.getitem, x, index=(slice(None), slice(index * hidden, (index + 1) * hidden)))


def _long_short_cell(given: Tensor, way: Direction, state: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Source: S. Hochreiter and J. Schmidhuber, 1997, with forget gates; ONNX orders input, output, forget, cell."""
    output, memory = state
    gates, hidden = apply(ops.add, given, way.of_state(output)), output.shape[1]
    taken, shown, left = (apply(ops.sigmoid, _part(gates, index, hidden)) for index in range(3))
    new = apply(ops.tanh, _part(gates, 3, hidden))
    memory = apply(ops.add, apply(ops.multiply, left, memory), apply(ops.multiply, taken, new))
    return apply(ops.multiply, shown, apply(ops.tanh, memory)), memory


def _gated_cell(given: Tensor, way: Direction, state: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Source: K. Cho et al., arXiv:1406.1078, reset behind the product; ONNX orders update, reset, new."""
    (output,) = state
    product, hidden = way.of_state(output), output.shape[1]
    update, reset = (
        apply(ops.sigmoid, apply(ops.add, _part(given, index, hidden), _part(product, index, hidden)))
        for index in range(2)
    )
    kept = apply(ops.multiply, reset, _part(product, 2, hidden))
    new = apply(ops.tanh, apply(ops.add, _part(given, 2, hidden), kept))
    # (1 - z) n + z h = n + z (h - n)
    return (apply(ops.add, new, apply(ops.multiply, update, apply(ops.subtract, output, new))),)


def _reset_first_cell(given: Tensor, way: Direction, state: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The same as the paper has it: the reset goes into the product of the new state."""
    (output,) = state
    hidden = output.shape[1]
    gates = apply(ops.add, _part(given, 0, 2 * hidden), _linear_part(output, way.of_state, 0, 2 * hidden))
    update, reset = (apply(ops.sigmoid, _part(gates, index, hidden)) for index in range(2))
    kept = _linear_part(apply(ops.multiply, reset, output), way.of_state, 2 * hidden, 3 * hidden)
    new = apply(ops.tanh, apply(ops.add, _part(given, 2, hidden), kept))
    return (apply(ops.add, new, apply(ops.multiply, update, apply(ops.subtract, output, new))),)


def _linear_part(x: Tensor, layer: Linear, first: int, last: int) -> Tensor:
    """Return some of the columns that a layer makes."""
    assert layer.bias is not None
    columns = (slice(None), slice(first, last))
    weight, bias = apply(ops.getitem, layer.weight, index=columns), apply(ops.getitem, layer.bias, index=columns[1])
    return apply(ops.linear, x, weight, bias)


def _plain_cell(activation: Op) -> Cell:
    return lambda given, way, state: (apply(activation, apply(ops.add, given, way.of_state(state[0]))),)


def _layer(node: Node, cell: Cell, gates: int, states: int) -> Runner:
    """Return the layer; its weights (directions, gates * hidden, ...) and biases lie as ONNX has them."""
    direction = node.only("direction", "forward", "reverse", "bidirectional")
    if node.has(7):
        raise Untranslatable("peepholes")
    weights, recurrent = node.weights(1), node.weights(2)
    hidden = recurrent.shape[2]
    biases = node.weights(3) if node.has(3) else np.zeros((len(weights), 2 * gates * hidden), weights.dtype)
    made = []
    for number, (weight, state, bias) in enumerate(zip(weights, recurrent, biases, strict=True)):
        of_input, of_state = (
            _linear(node, index, number, matrix, row)
            for index, matrix, row in ((1, weight, bias[: gates * hidden]), (2, state, bias[gates * hidden :]))
        )
        made.append(Direction(of_input, of_state, direction == "reverse" or number == 1))
    return Recurrent(cell, made, hidden, states)


def _linear(node: Node, index: int, number: int, weight: Array, bias: Array) -> Linear:
    layer = Linear(1, 1)
    layer.out_features, layer.in_features = weight.shape
    layer.weight = node.parameter(index, f"direction {number}", weight.T)
    layer.bias = node.parameter(3, f"direction {number} of {index}", bias) if node.has(3) else Parameter(bias)
    return layer


def _activations(node: Node, *usual: str) -> list[str]:
    """Return the names of the activations, of which each direction has the same."""
    given = [name.decode() if isinstance(name, bytes) else name for name in node.get("activations", ())] or [*usual]
    each = given[: len(usual)]
    if given != each * (len(given) // len(usual)):
        raise Untranslatable(f"activations={given}")
    return each


def long_short_term(node: Node) -> Runner:
    """LSTM."""
    if _activations(node, "Sigmoid", "Tanh", "Tanh") != ["Sigmoid", "Tanh", "Tanh"]:
        raise Untranslatable(f"activations={node.get('activations', ())}")
    node.only("input_forget", 0)
    return _layer(node, _long_short_cell, 4, 2)


def gated(node: Node) -> Runner:
    """GRU."""
    if _activations(node, "Sigmoid", "Tanh") != ["Sigmoid", "Tanh"]:
        raise Untranslatable(f"activations={node.get('activations', ())}")
    return _layer(node, _gated_cell if node.get("linear_before_reset", 0) else _reset_first_cell, 3, 1)


def plain_recurrent(node: Node) -> Runner:
    """RNN with tanh or ReLU."""
    (activation,) = _activations(node, "Tanh")
    if activation not in ("Tanh", "Relu"):
        raise Untranslatable(f"activations={activation}")
    return _layer(node, _plain_cell(ops.tanh if activation == "Tanh" else ops.relu), 1, 1)

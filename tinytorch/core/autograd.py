"""Reverse-mode differentiation: walk the recorded ops backwards and add up gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import dispatch
from tinytorch.core.op import Array
from tinytorch.core.tensor import Node, Tensor


class _Pending:
    """A gradient that is being summed; ``owned`` says that nothing else looks at its buffer."""

    __slots__ = ("array", "owned")

    def __init__(self, array: Array, owned: bool) -> None:
        self.array = array
        self.owned = owned

    def add(self, other: Array, other_owned: bool) -> None:
        """Add ``other``, in place where a buffer may be reused."""
        if self.owned:
            self.array += other
        elif other_owned:
            other += self.array
            self.array, self.owned = other, True
        else:
            self.array, self.owned = self.array + other, True


def backward(root: Tensor, gradient: Any = None, retain_graph: bool = False) -> None:
    """Run backward from ``root``; see `Tensor.backward`."""
    if not root.requires_grad:
        raise RuntimeError(
            "backward needs a tensor that requires a gradient; none of its inputs did, or no_grad was on"
        )
    seed = _checked_seed(root, gradient)
    if root._node is None:
        _accumulate(root, seed, owned=True)
        return
    pending: dict[int, _Pending] = {id(root): _Pending(seed, True)}
    for tensor in _outputs_before_inputs(root):
        node = tensor._node
        assert node is not None
        arrived = pending.pop(id(tensor))
        gradients = dispatch.apply_backward(node, arrived.array, arrived.owned)
        if not retain_graph:
            node.saved = _USED
        _hand_on(node, gradients, arrived, pending)


#: Stands where ``saved`` was, once backward has used it.
_USED: tuple[Any, ...] = ("used",)


def _checked_seed(root: Tensor, gradient: Any) -> Array:
    if gradient is None:
        if root.size != 1:
            raise ValueError(
                f"gradient must be given for a tensor of shape {root.shape}; it may be left out only for one element"
            )
        return np.ones(root.shape, root.dtype)
    array = np.array(gradient.data if isinstance(gradient, Tensor) else gradient, dtype=root.dtype)
    if array.shape != root.shape:
        raise ValueError(f"gradient must have the tensor's shape {root.shape}, not {array.shape}")
    return array


def _outputs_before_inputs(root: Tensor) -> list[Tensor]:
    """Return the recorded tensors that lead to ``root``, each before those that it was made of.

    Raises:
        RuntimeError: if a backward used one of them up.
    """
    order: list[Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(root, False)]
    while stack:
        tensor, expanded = stack.pop()
        if expanded:
            order.append(tensor)
            continue
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        stack.append((tensor, True))
        node = tensor._node
        assert node is not None
        if node.saved is _USED:
            raise RuntimeError(
                "backward ran already and freed what the forward saved: pass retain_graph=True to the first"
            )
        for value, needed in zip(node.inputs, node.needs, strict=True):
            if needed and value._node is not None and id(value) not in seen:
                stack.append((value, False))
    order.reverse()
    return order


def _hand_on(node: Node, gradients: tuple[Array | None, ...], arrived: _Pending, pending: dict[int, _Pending]) -> None:
    """Give each input its gradient: leaves keep it, the others wait for all of theirs."""
    buffer = _buffer(arrived.array)
    shared = sum(
        g is not None and needed and _buffer(g) is buffer for g, needed in zip(gradients, node.needs, strict=True)
    )
    for value, needed, gradient in zip(node.inputs, node.needs, gradients, strict=True):
        if not needed:
            continue
        assert gradient is not None
        if gradient.__class__ is not np.ndarray:  # NumPy turns results without axes into scalars
            gradient = np.asarray(gradient)
        if gradient.dtype != value.data.dtype:  # the other operand was wider
            gradient = gradient.astype(value.data.dtype)
        # A backward's result is its own unless it is (a view of) the gradient that came in, or read-only.
        owned = gradient.flags.writeable and (_buffer(gradient) is not buffer or (arrived.owned and shared == 1))
        if value._node is None:
            _accumulate(value, gradient, owned)
        elif id(value) in pending:
            pending[id(value)].add(gradient, owned)
        else:
            pending[id(value)] = _Pending(gradient, owned)


def _accumulate(leaf: Tensor, gradient: Array, owned: bool) -> None:
    """Add ``gradient`` to a leaf's ``grad``, which never shares memory with anything else."""
    if leaf.grad is None:
        whole = owned and gradient.base is None
        leaf.grad = gradient if whole else np.array(gradient, copy=True)
    else:
        leaf.grad += gradient


def _buffer(array: Array) -> Array:
    """Return the array that owns the memory that ``array`` looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array

"""Reverse-mode differentiation: walk the recorded ops backwards and add up gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any

import numpy as np

from tinytorch.core import dispatch
from tinytorch.core.contexts import contextmanager
from tinytorch.core.op import Array, arrays_in, owner_of
from tinytorch.core.tensor import USED, Node, Tensor, changes_after, forget_lent


def no_grad() -> AbstractContextManager[None]:
    """Return the context in whose body nothing is recorded for a backward pass. It also works as a decorator.

    It holds for the thread or task that enters it.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.core.autograd import no_grad
        >>> with no_grad():
        ...     y = Linear(3, 2)(Tensor([[1, 2, 3]]))
        >>> y.requires_grad
        False
    """
    return dispatch.no_grad()


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
            "backward needs a tensor that requires a gradient: this one was made in no_grad(), or from none that does"
        )
    seed = _checked_seed(root, gradient)
    if root._node is None:
        _accumulate(root, seed, owned=True)
        if heard := _listeners.get():
            heard[-1](root)
        return
    with dispatch.region("backward"):
        _walk(root._node, seed, retain_graph)


def _walk(root: Node, seed: Array, retain_graph: bool) -> None:
    """Run the recorded ops backwards from ``root``: what they do not take of the time is bookkeeping of gradients."""
    pending: dict[int, _Pending] = {id(root): _Pending(seed, True)}
    order = _outputs_before_inputs(root)
    changes = changes_after(order[-1].number)
    if changes:
        _check_unchanged(order, changes)
    heard = _listeners.get()
    arrivals = _Arrivals(order, heard[-1]) if heard else None
    for node in order:
        arrived = pending.pop(id(node))
        gradients = dispatch.apply_backward(node, arrived.array, arrived.owned)
        _hand_on(node, gradients, arrived, pending)
        if arrivals is not None:
            arrivals.came_from(node)
        if not retain_graph:
            node.use_up()
    forget_lent()


#: Ops whose gradient of one of the first two operands needs the other one alone.
_BILINEAR = ("linear", "matmul", "conv2d", "multiply")


def _check_unchanged(order: list[Node], changes: list[tuple[Array, int]]) -> None:
    """Raise RuntimeError if elements that the backward of one of the ops needs were changed since its forward."""
    by_buffer: dict[int, list[tuple[Array, int]]] = {}
    for array, when in changes:
        by_buffer.setdefault(id(owner_of(array)), []).append((array, when))
    for node in order:
        unneeded = [
            leaf._data
            for index, leaf in enumerate(node.sources[:2] if node.op.name in _BILINEAR else ())
            if isinstance(leaf, Tensor) and not node.needs[1 - index]
        ]
        for saved in arrays_in(node.saved):
            for array, when in by_buffer.get(id(owner_of(saved)), ()):
                if when < node.number or not np.may_share_memory(saved, array):
                    continue
                if not any(np.may_share_memory(saved, each) for each in unneeded):
                    raise RuntimeError(
                        f"backward needs an array of shape {saved.shape} as it was in the forward pass of "
                        f"{node.op.name!r}, but an optimizer's step or an assignment changed it in place: run the "
                        "forward pass again"
                    )


#: Those of the running thread or task.
_listeners: ContextVar[tuple[Callable[[Tensor], None], ...]] = ContextVar("listeners", default=())


@contextmanager
def when_ready(listener: Callable[[Tensor], None]) -> Iterator[None]:
    """Call ``listener`` with each leaf as soon as a backward in the body has added the last part of its gradient.

    The backward goes on when it returns. An inner ``when_ready`` listens instead of an outer one.
    """
    before = _listeners.get()
    _listeners.set((*before, listener))
    try:
        yield
    finally:
        _listeners.set(before)


class _Arrivals:
    """Counts the parts of each leaf's gradient that are still to come in one backward."""

    def __init__(self, order: list[Node], listener: Callable[[Tensor], None]) -> None:
        self._listener = listener
        self._missing = Counter(id(leaf) for node in order for leaf in node.sources if isinstance(leaf, Tensor))

    def came_from(self, node: Node) -> None:
        """Count off what ``node`` handed to leaves."""
        for leaf in node.sources:
            if isinstance(leaf, Tensor):
                self._missing[id(leaf)] -= 1
                if not self._missing[id(leaf)]:
                    self._listener(leaf)


#: Ops are numbered as they are recorded, so each has a higher number than those that made its inputs.
_number = attrgetter("number")


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


def _outputs_before_inputs(root: Node) -> list[Node]:
    """Return the recorded ops that lead to ``root``, each before those that made its inputs.

    Raises:
        RuntimeError: if a backward used one of them up.
    """
    order, seen = [root], {id(root)}
    for node in order:  # which grows meanwhile
        if node.saved is USED:
            raise RuntimeError(
                "backward has already run and freed the saved values: pass retain_graph=True to the first call"
            )
        for source in node.sources:
            if source.__class__ is Node and id(source) not in seen:
                seen.add(id(source))
                order.append(source)
    order.sort(key=_number, reverse=True)
    return order


def _hand_on(node: Node, gradients: tuple[Array | None, ...], arrived: _Pending, pending: dict[int, _Pending]) -> None:
    """Give each input its gradient: leaves keep it, the others wait for all of theirs."""
    buffer: Array | None = None
    shared = 0
    for source, operand, gradient in zip(node.sources, node.operands, gradients):  # noqa: B905 - costs time in every op
        if source is None:
            continue
        assert gradient is not None
        assert operand is not None
        if gradient.__class__ is not np.ndarray:  # NumPy turns results without axes into scalars
            gradient = np.asarray(gradient)
        if gradient.dtype != operand[1]:  # the other operand was wider
            gradient = gradient.astype(operand[1])
        # A backward's result is its own unless it is (a view of) the gradient that came in, or read-only.
        if gradient.base is None and gradient is not arrived.array:
            owned = gradient.flags.writeable
        else:
            if buffer is None:
                buffer = owner_of(arrived.array)
                shared = _count_on(buffer, node, gradients)
            owned = gradient.flags.writeable and (owner_of(gradient) is not buffer or (arrived.owned and shared == 1))
        if isinstance(source, Tensor):
            _accumulate(source, gradient, owned)
        elif id(source) in pending:
            pending[id(source)].add(gradient, owned)
        else:
            pending[id(source)] = _Pending(gradient, owned)


def _count_on(buffer: Array, node: Node, gradients: tuple[Array | None, ...]) -> int:
    """Return how many of the gradients that are handed on look at ``buffer``."""
    pairs = zip(node.sources, gradients, strict=True)
    return sum(source is not None and g is not None and owner_of(g) is buffer for source, g in pairs)


def _accumulate(leaf: Tensor, gradient: Array, owned: bool) -> None:
    """Add ``gradient`` to a leaf's ``grad``, which never shares memory with anything else."""
    if leaf.grad is None:
        whole = owned and gradient.base is None
        leaf.grad = gradient if whole else np.array(gradient, copy=True)
    else:
        leaf.grad += gradient

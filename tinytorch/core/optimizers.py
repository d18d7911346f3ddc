"""Optimizers: each changes parameters in place, block by block, so that a block stays in cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core.dispatch import region
from tinytorch.core.module import Parameter
from tinytorch.core.op import Array
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.core.tensor import Tensor, mark_changed

#: Name of the region in which an optimizer changes parameters.
STEP = "optimizer step"


class Optimizer:
    """Base of optimizers: holds parameters, each once however often it is given, and their state.

    Raises:
        TypeError: if ``parameters`` are something else, such as one Parameter, pairs with names, or results of ops.
        ValueError: if there are no parameters, or a number is out of its range.
    """

    def __init__(self, parameters: Iterable[Parameter], lr: float, weight_decay: float = 0.0) -> None:
        if isinstance(parameters, Tensor) or not isinstance(parameters, Iterable):
            raise TypeError(
                f"parameters must be a list of Parameters, such as model.parameters(), not a "
                f"{type(parameters).__name__}"
            )
        self.parameters = list({id(each): each for each in parameters}.values())
        if not self.parameters:
            raise ValueError("parameters must hold at least one Parameter: pass model.parameters()")
        for each in self.parameters:
            if not isinstance(each, Parameter) and not (isinstance(each, Tensor) and each.requires_grad):
                raise TypeError(
                    f"parameters must hold only Parameters, as model.parameters() does, but one entry is a "
                    f"{type(each).__name__}"
                )
            if each._node is not None:
                raise TypeError(
                    "parameters must hold Parameters, but one is the result of an op, which an optimizer cannot change"
                )
        self.lr, self.weight_decay = _checked_size("lr", lr), _checked_size("weight_decay", weight_decay)
        #: Steps that each parameter has made: those in which it had a gradient.
        self.steps = [0] * len(self.parameters)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        with region("zero_grad"):
            for parameter in self.parameters:
                parameter.grad = None

    def step(self) -> None:
        """Change every parameter that has a gradient."""
        raise TypeError(f"{type(self).__name__} must define step")

    def state_arrays(self) -> Iterator[Array]:
        """Yield the arrays of the optimizer's state, one kind after the other; their bytes are its memory."""
        yield from ()

    def parts(self, indices: Iterable[int]) -> Iterator[tuple[Array, ...]]:
        """Yield values, gradient and state of the parameters at ``indices``, which have a gradient."""
        count, state = len(self.parameters), list(self.state_arrays())
        for index in indices:
            gradient = self.parameters[index].grad
            assert gradient is not None
            yield self.parameters[index]._data, gradient, *state[index::count]

    def _begin_step(self) -> list[int]:
        """Count a step for each parameter that has a gradient; return their indices."""
        moved = [index for index, parameter in enumerate(self.parameters) if parameter.grad is not None]
        for index in moved:
            self.steps[index] += 1
        mark_changed([self.parameters[index]._data for index in moved])
        return moved

    def state_nbytes(self) -> int:
        """Return the bytes of the optimizer's state."""
        return sum(array.nbytes for array in self.state_arrays())


def _blocks(gradient: Array, *changed: Array) -> Iterator[tuple[Array, ...]]:
    """Yield matching flat blocks of arrays of one shape; those of ``changed`` are views, so that writing counts.

    Raises:
        ValueError: if one of ``changed`` is not in C order, so that only a copy of it is flat.
    """
    flat = [gradient.reshape(-1)]
    for array in changed:
        if not array.flags.c_contiguous:
            raise ValueError(
                f"a parameter's data must be contiguous, but that of shape {array.shape} is not: "
                "assign np.ascontiguousarray(...) of it"
            )
        flat.append(array.reshape(-1))
    if flat[0].size <= BLOCK:
        yield tuple(flat)
        return
    for start in range(0, flat[0].size, BLOCK):
        yield tuple(array[start : start + BLOCK] for array in flat)


def _checked_size(name: str, value: float) -> float:
    """Return ``value`` as a Python float, which leaves float32 what it is; raise unless finite and not negative."""
    if not isinstance(value, (int, float, np.number)) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number that is not negative, not {value!r}")
    return float(value)


def _checked_rate(name: str, value: float) -> float:
    if not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, not {value!r}")
    return float(value)


class SGDSettings(NamedTuple):
    """Numbers of one step of SGD."""

    rate: float
    momentum: float
    weight_decay: float


class AdamSettings(NamedTuple):
    """Numbers of one step of Adam; ``rate`` and ``epsilon`` carry the bias corrections, as in section 2 of the paper.

    The values are first multiplied by ``shrink``, and ``weight_decay`` times the values is added to the gradient.
    """

    betas: tuple[float, float]
    rate: float
    epsilon: float
    shrink: float
    weight_decay: float


class StepRules(NamedTuple):
    """Rules that change the parameters of an optimizer at some indices, all of which have a gradient, and their state.

    One call for many of them, because most parameters of small models are tiny.
    """

    sgd: Callable[[Optimizer, SGDSettings, Sequence[int]], None]
    adam: Callable[[Optimizer, AdamSettings, Sequence[int]], None]


def _zeros_of_state(parameter: Tensor) -> Array:
    """Return zeros of a parameter's shape: of its dtype, or float32 for halves.

    A half holds neither the square of 300 nor that of 0.0001.
    """
    return np.zeros_like(parameter._data, np.promote_types(parameter.dtype, np.float32))


def numpy_sgd(settings: SGDSettings, values: Array, gradient: Array, *velocity: Array) -> None:
    """Change one parameter's values, and its velocity if there is one."""
    wide = np.promote_types(values.dtype, np.float32)
    scratch = np.empty(min(BLOCK, values.size), wide)
    for slope, part, *speeds in _blocks(gradient, values, *velocity):
        slope = slope.astype(wide, copy=False)
        if settings.weight_decay:
            slope = slope + settings.weight_decay * part
        for speed in speeds:
            speed *= settings.momentum
            speed += slope
            slope = speed
        part -= np.multiply(slope, settings.rate, out=scratch[: part.size])


def numpy_adam(settings: AdamSettings, values: Array, gradient: Array, first: Array, second: Array) -> None:
    """Change one parameter's values and both of its moments."""
    beta, beta_square = settings.betas
    whole = np.empty(min(BLOCK, values.size), first.dtype)
    for slope, part, mean, square in _blocks(gradient, values, first, second):
        scratch = whole[: part.size]
        slope = slope.astype(first.dtype, copy=False)
        if settings.weight_decay:
            slope = slope + settings.weight_decay * part
        if settings.shrink != 1:
            part *= settings.shrink
        mean *= beta
        np.multiply(slope, 1 - beta, out=scratch)
        mean += scratch
        square *= beta_square
        np.multiply(slope, slope, out=scratch)
        scratch *= 1 - beta_square
        square += scratch
        np.sqrt(square, out=scratch)
        scratch += settings.epsilon
        np.divide(mean, scratch, out=scratch)
        scratch *= settings.rate
        part -= scratch


def _all_by(change: Callable[..., None]) -> Callable[[Optimizer, Any, Sequence[int]], None]:
    """Return the rule that changes one parameter after the other."""

    def rule(optimizer: Optimizer, settings: Any, indices: Sequence[int]) -> None:
        for part in optimizer.parts(indices):
            change(settings, *part)

    return rule


#: The rules in NumPy.
REFERENCE_RULES = StepRules(_all_by(numpy_sgd), _all_by(numpy_adam))
_selected: ContextVar[tuple[StepRules, ...]] = ContextVar("step_rules", default=(REFERENCE_RULES,))


class step_rules:  # noqa: N801 - called as the function that it is to a reader
    """Have the optimizers' steps in the body run ``chosen``, as `dispatch.implementations` does for ops.

    It is entered around every planned step, and is no generator for that.
    """

    def __init__(self, chosen: StepRules) -> None:
        self._mine = StepRules(chosen.sgd, chosen.adam)  # an object of its own, so that bodies may end in any order

    def __enter__(self) -> None:
        _selected.set((*_selected.get(), self._mine))

    def __exit__(self, *raised: object) -> None:
        _selected.set(tuple([rules for rules in _selected.get() if rules is not self._mine]))


class SGD(Optimizer):
    """Stochastic gradient descent: v <- momentum v + g, p <- p - lr v, where g includes weight_decay p.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.core.optimizers import SGD
        >>> layer = Linear(1, 1, bias=False, seed=0)
        >>> optimizer = SGD(layer.parameters(), lr=0.5)
        >>> before = layer.weight.item()
        >>> layer(Tensor([[1.0]])).backward()  # the gradient is 1
        >>> optimizer.step()
        >>> layer.weight.item() == before - 0.5
        True
    """

    def __init__(
        self, parameters: Iterable[Parameter], lr: float = 0.01, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        self.momentum = _checked_rate("momentum", momentum)
        self.velocity = [_zeros_of_state(p) if self.momentum else None for p in self.parameters]

    def step(self) -> None:
        """Change every parameter that has a gradient."""
        settings = SGDSettings(float(self.lr), self.momentum, self.weight_decay)
        with region(STEP):
            _selected.get()[-1].sgd(self, settings, self._begin_step())

    def state_arrays(self) -> Iterator[Array]:
        """Yield the velocities."""
        yield from (velocity for velocity in self.velocity if velocity is not None)


class Adam(Optimizer):
    """Adam with bias correction (D. Kingma and J. Ba, arXiv:1412.6980); weight_decay is added to the gradient.

    The bias corrections count the steps of each parameter for itself, those in which it had a gradient.

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.core.optimizers import Adam
        >>> layer = Linear(4, 4)
        >>> optimizer = Adam(layer.parameters(), lr=1e-3)
        >>> optimizer.state_nbytes() == 2 * sum(p.nbytes for p in layer.parameters())
        True
    """

    #: Whether weight decay acts on the parameters themselves and not through the gradient.
    decoupled = False

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        if not isinstance(betas, Sequence) or len(betas) != 2:
            raise ValueError(f"betas must be two numbers, not {betas!r}")
        self.betas = _checked_rate("betas[0]", betas[0]), _checked_rate("betas[1]", betas[1])
        self.eps = _checked_size("eps", eps)
        self.first = [_zeros_of_state(p) for p in self.parameters]
        self.second = [_zeros_of_state(p) for p in self.parameters]

    def step(self) -> None:
        """Change every parameter that has a gradient."""
        with region(STEP):
            moved = self._begin_step()
            for steps in sorted({self.steps[index] for index in moved}):
                alike = [index for index in moved if self.steps[index] == steps]
                _selected.get()[-1].adam(self, self._settings(steps), alike)

    def _settings(self, steps: int) -> AdamSettings:
        """Return the numbers of a step that is its parameters' ``steps``-th."""
        root = math.sqrt(1 - self.betas[1] ** steps)
        lr = float(self.lr)
        rate = lr / (1 - self.betas[0] ** steps) * root
        decay = self.weight_decay
        shrink, added = (1 - lr * decay, 0.0) if self.decoupled else (1.0, decay)
        return AdamSettings(self.betas, rate, self.eps * root, shrink, added)

    def state_arrays(self) -> Iterator[Array]:
        """Yield the two moments of every parameter."""
        yield from self.first
        yield from self.second


class AdamW(Adam):
    """Adam with decoupled weight decay (I. Loshchilov and F. Hutter, arXiv:1711.05101).

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.core.optimizers import AdamW
        >>> optimizer = AdamW(Linear(4, 4).parameters(), lr=1e-3, weight_decay=0.01)
        >>> optimizer.lr
        0.001
    """

    decoupled = True

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)

"""Activations as modules."""

from __future__ import annotations

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.module import Module
from tinytorch.core.op import Op
from tinytorch.core.tensor import Tensor


class Activation(Module):
    """A module that runs one elementwise op, ``op`` of the class."""

    op: Op

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element."""
        return apply(self.op, x)


class ReLU(Activation):
    """max(x, 0).

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.activations import ReLU
        >>> ReLU()(Tensor([-1, 0, 2])).numpy()
        array([0., 0., 2.], dtype=float32)
    """

    op = ops.relu


class GELU(Activation):
    """Gaussian error linear unit, in the tanh form that GPT-2 uses.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.activations import GELU
        >>> GELU()(Tensor([-1, 0, 1])).numpy().round(3)
        array([-0.159,  0.   ,  0.841], dtype=float32)
    """

    op = ops.gelu


class SiLU(Activation):
    """x times its sigmoid, also called swish."""

    op = ops.silu


class Sigmoid(Activation):
    """1 / (1 + exp(-x)).

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.activations import Sigmoid
        >>> Sigmoid()(Tensor([0])).numpy()
        array([0.5], dtype=float32)
    """

    op = ops.sigmoid


class Tanh(Activation):
    """Hyperbolic tangent.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.activations import Tanh
        >>> Tanh()(Tensor([0, 1])).numpy().round(3)
        array([0.   , 0.762], dtype=float32)
    """

    op = ops.tanh


class LeakyReLU(Module):
    """x above 0, ``negative_slope`` times x below."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = float(negative_slope)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element."""
        return apply(ops.leaky_relu, x, slope=self.negative_slope)


class Softmax(Module):
    """exp(x) over its sum along ``dim``.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.activations import Softmax
        >>> Softmax()(Tensor([[0, 0, 0, 0]])).numpy()
        array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Return weights that sum to 1 along ``dim``."""
        return apply(ops.softmax, x, axis=self.dim)

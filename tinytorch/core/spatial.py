"""Layers of images (N, C, H, W): convolution, pooling, batch normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import checked_positive
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.random import Seed, generator_from, uniform
from tinytorch.core.tensor import Tensor, mark_changed

Size = int | tuple[int, int]


def pair(value: Size, name: str, least: int = 1) -> tuple[int, int]:
    """Return ``value`` as (rows, columns).

    Raises:
        ValueError: if it is not one or two integers of at least ``least``.
    """
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or any(not isinstance(length, (int, np.integer)) or length < least for length in both):
        raise ValueError(f"{name} must be a whole number of at least {least}, or two of them, not {value!r}")
    return int(both[0]), int(both[1])


def _one_of(batch: Tensor) -> Tensor:
    return batch.reshape(*batch.shape[1:])


@whole_numbers
class Conv2d(Module):
    """Cross-correlation with ``weight`` (out_channels, in_channels / groups, kh, kw), zero padded.

    Parameters start uniform in +-1/sqrt(in_channels / groups * kh * kw), as in PyTorch.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.spatial import Conv2d
        >>> layer = Conv2d(3, 16, kernel_size=3, stride=2, padding=1)
        >>> layer(Tensor(np.zeros((1, 3, 32, 32), np.float32))).shape
        (1, 16, 16, 16)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        seed: Seed = None,
    ) -> None:
        checked_positive(in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups must divide in_channels {in_channels} and out_channels {out_channels}, but is {groups}"
            )
        self.kernel_size, self.stride = pair(kernel_size, "kernel_size"), pair(stride, "stride")
        self.padding, self.dilation = pair(padding, "padding", 0), pair(dilation, "dilation")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        generator = generator_from(seed)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.weight = Parameter(uniform(generator, bound, shape))
        self.bias = Parameter(uniform(generator, bound, (out_channels,))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, out_channels, oh, ow) of (N, in_channels, H, W), and of one image without N alike."""
        if x.ndim == 3:
            return _one_of(self.forward(x.reshape(1, *x.shape)))
        inputs = (x, self.weight) if self.bias is None else (x, self.weight, self.bias)
        return apply(
            ops.conv2d, *inputs, stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups
        )

    def _described(self) -> str:
        channels = f"{self.in_channels}, {self.out_channels}"
        return f"{channels}, kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@whole_numbers
class _Pool(Module):
    """Base of the windowed pools: kernel, stride (the kernel's by default) and padding.

    ``stride`` stays as it was given, one number or two, and may be changed; ``strides`` are always two.
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        self.kernel_size = pair(kernel_size, "kernel_size")
        self.stride = kernel_size if stride is None else stride
        pair(self.stride, "stride")
        self.padding = pair(padding, "padding", 0)
        if any(2 * pad > kernel for pad, kernel in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(f"padding must be at most half of kernel_size {self.kernel_size}, not {self.padding}")

    @property
    def strides(self) -> tuple[int, int]:
        """Stride along rows and columns."""
        return pair(self.stride, "stride")

    def _described(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.strides}, padding={self.padding}"


class MaxPool2d(_Pool):
    """Maximum of each window; the gradient goes to the first maximum.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.spatial import MaxPool2d
        >>> x = Tensor(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
        >>> MaxPool2d(2)(x).numpy()[0, 0]
        array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, C, oh, ow) of (N, C, H, W), and of one image without N alike."""
        if x.ndim == 3:
            return _one_of(self.forward(x.reshape(1, *x.shape)))
        return apply(ops.max_pool2d, x, kernel=self.kernel_size, stride=self.strides, padding=self.padding)


class AvgPool2d(_Pool):
    """Mean of each window, padded zeros included.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.spatial import AvgPool2d
        >>> AvgPool2d(2)(Tensor(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))).numpy()[0, 0]
        array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, C, oh, ow) of (N, C, H, W), and of one image without N alike."""
        if x.ndim == 3:
            return _one_of(self.forward(x.reshape(1, *x.shape)))
        return apply(ops.avg_pool2d, x, kernel=self.kernel_size, stride=self.strides, padding=self.padding)


@whole_numbers
class AdaptiveAvgPool2d(Module):
    """Mean over as many cells as ``output_size`` says, whatever the input's size."""

    def __init__(self, output_size: Size) -> None:
        self.output_size = pair(output_size, "output_size")

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, C, *output_size) of (N, C, H, W), and of one image without N alike."""
        if x.ndim == 3:
            return _one_of(self.forward(x.reshape(1, *x.shape)))
        return apply(ops.adaptive_avg_pool2d, x, size=self.output_size)


@whole_numbers
class BatchNorm2d(Module):
    """Normalize each channel over batch and positions; in eval mode by the running mean and variance.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.spatial import BatchNorm2d
        >>> layer = BatchNorm2d(3).eval()
        >>> layer(Tensor(np.zeros((2, 3, 4, 4), np.float32))).shape
        (2, 3, 4, 4)
        >>> [name for name, _ in layer.named_parameters()]
        ['weight', 'bias']
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        checked_positive(num_features=num_features)
        self.eps, self.momentum = eps, momentum
        self.weight = Parameter(np.ones(num_features, np.float32))
        self.bias = Parameter(np.zeros(num_features, np.float32))
        self.running_mean = Tensor(np.zeros(num_features, np.float32))
        self.running_var = Tensor(np.ones(num_features, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized input, of the same shape."""
        if not self.training:
            mean, variance = self.running_mean._data, self.running_var._data
            return apply(ops.batch_norm, x, self.weight, self.bias, mean, variance, epsilon=self.eps)
        statistics: list[Array] = []
        output = apply(ops.batch_norm, x, self.weight, self.bias, epsilon=self.eps, statistics=statistics)
        self.follow(statistics)
        return output

    def follow(self, statistics: Sequence[Array]) -> None:
        """Move the running mean and variance towards those of a batch, by ``momentum``."""
        for running, batch in zip((self.running_mean, self.running_var), statistics, strict=True):
            values = running._data
            values *= 1 - self.momentum
            values += self.momentum * batch
            mark_changed((values,))

    def _described(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}, momentum={self.momentum}"

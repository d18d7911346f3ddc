"""Training that knows of quantization: weights and activations are rounded in the forward, gradients pass through."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Embedding, Linear, as_indices
from tinytorch.core.module import Module, check_module
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops import codes
from tinytorch.perf.ops.affine import Scheme, extremes, floats, quantize, range_parameters, spread
from tinytorch.perf.ops.quantized import activation_parameters, convolution_weight
from tinytorch.perf.quantization.convert import chosen_plans, quantizable, replaced
from tinytorch.perf.quantization.layers import Plan, QuantizedProduct, quantized_layer
from tinytorch.perf.quantization.observers import MinMaxObserver

#: Share of a new batch in the moving range of a static activation, as in PyTorch's moving average.
_RATE = np.float32(0.01)


def fake_quantize(x: Tensor, scale: Any, zero_point: Any, scheme: Scheme) -> Tensor:
    """Return scale · (code − zero point) of each number of x: still floating, with the error of its code.

    Args:
        x: floating Tensor.
        scale: positive numbers that broadcast with x.
        zero_point: codes that broadcast with x.
        scheme: its smallest and largest code bound the codes. The gradient passes to x where it is inside of them, and
            is 0 where it was clipped.

    Raises:
        ValueError: if x is not floating or empty, or a scale is not above 0 and finite.
    """
    floats(x)
    scales = np.asarray(scale)
    if not ((scales > 0) & np.isfinite(scales)).all():
        raise ValueError(f"scale must be above 0 and finite, not {scale}")
    return apply(codes.fake_quantize, x, scales, np.asarray(zero_point), low=scheme.low, high=scheme.high)


class FakeQuantized(Module):
    """A float layer that computes what its quantized twin will: it trains the weights that survive rounding.

    The weight's scales follow the weight at every step. The input is rounded as the plan's mode says: not at all, by
    the range of each call, or (static) by a moving average of the ranges of training batches, which is its buffer
    ``activation_range``; eval mode uses that and leaves it alone.
    """

    def __init__(self, layer: Linear | Conv2d | Embedding, plan: Plan) -> None:
        self.layer, self.plan = layer, plan
        if plan.mode == "static" and not isinstance(layer, Embedding):
            self.activation_range = Tensor(np.full(2, np.nan, np.float32))

    @property
    def weight(self) -> Tensor:
        """The float weight as the quantized layer will hold it; its gradient passes to the layer's weight."""
        weight, wanted = self.layer.weight, self.plan.weights
        if isinstance(self.layer, Embedding):
            wanted = replace(wanted, axis=0)
        matrix = weight._data
        if isinstance(self.layer, Conv2d):
            matrix = matrix.transpose(2, 3, 1, 0).reshape(-1, matrix.shape[0])
        made = quantize(matrix, wanted, self.plan.ranges)
        scale, zero_point = spread(made.scale, made.zero_point, matrix.shape, wanted)
        if isinstance(self.layer, Conv2d):
            kernel = self.layer.kernel_size
            scale, zero_point = (
                convolution_weight(np.broadcast_to(values, matrix.shape), kernel) for values in (scale, zero_point)
            )
        return fake_quantize(weight, scale, zero_point, wanted)

    def forward(self, x: Any) -> Tensor:
        """Return what the layer makes of x with rounded weights and, as the plan says, rounded x."""
        layer = self.layer
        if isinstance(layer, Embedding):
            return apply(ops.embedding, as_indices(x), self.weight)
        inputs = [self._rounded(x), self.weight, *([] if layer.bias is None else [layer.bias])]
        if isinstance(layer, Linear):
            return apply(ops.linear, *inputs)
        geometry = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
        return apply(ops.conv2d, *inputs, **geometry, groups=layer.groups)

    def project(self, x: Tensor) -> Tensor:
        """Return x times the rounded table of an embedding, transposed, as `Embedding.project` does."""
        return apply(ops.linear, x, self.weight.T)

    def _rounded(self, x: Tensor) -> Tensor:
        if self.plan.mode == "weight-only":
            return x
        scheme = self.plan.activation_scheme
        if self.plan.mode == "static":
            low, high = self._range(x._data, scheme)
            return fake_quantize(x, *range_parameters(low, high, scheme), scheme)
        rows = x._data.reshape(x.shape[0], -1) if x.ndim == 4 else x._data.reshape(-1, x.shape[-1])
        parameters = activation_parameters(rows, self.plan.activations, self.plan.symmetric, None, None)
        shape = (-1, 1, 1, 1) if x.ndim == 4 else (*x.shape[:-1], 1)
        if self.plan.activations == "tensor":
            shape = (1,) * x.ndim
        scale, zero_point = (values.reshape(shape) for values in parameters)
        return fake_quantize(x, scale, zero_point, scheme)

    def _range(self, x: Array, scheme: Scheme) -> tuple[Any, Any]:
        """Return the moving range of the input, which follows each batch in train mode.

        Raises:
            ValueError: in eval mode before any batch.
        """
        known = self.activation_range.data
        if self.training:
            batch = np.stack(extremes(x, scheme)).astype(np.float32)
            known[...] = batch if np.isnan(known).any() else known + _RATE * (batch - known)
        if np.isnan(known).any():
            raise ValueError("a static layer must train on a batch before it can run in eval mode")
        return known[0], known[1]

    def _described(self) -> str:
        return f"{self.plan.weights.bits} bits per {self.plan.weights.per}, {self.plan.mode}"


def prepare_training(
    model: Module, plan: Plan | None = None, keep: Sequence[str] = (), plans: Mapping[str, Plan] | None = None
) -> Module:
    """Return a copy of ``model`` that trains with the rounding of ``plan`` in each layer.

    Arguments are those of `quantize_model`. Train the result like any model, then `finish_training`.

    Raises:
        ValueError: if there is nothing to quantize or a name is unknown.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.quantization import prepare_training
        >>> model = prepare_training(Sequential(Linear(8, 4)))
        >>> len(model.parameters())  # which train as before
        2
    """
    layers = quantizable(model)
    chosen = chosen_plans(layers, plan or Plan(), keep, plans or {})
    made: dict[int, Module] = {}
    memo: dict[int, Any] = {}  # so that what layers share stays one
    for name, layer_plan in chosen.items():
        wrapped = FakeQuantized(copy.deepcopy(layers[name], memo), layer_plan)  # type: ignore[arg-type]
        wrapped.training = layers[name].training
        made[id(layers[name])] = wrapped
    return replaced(model, {**memo, **made})


def finish_training(model: Module) -> Module:
    """Return a quantized copy of a trained model from `prepare_training`, with codes instead of rounded floats.

    Raises:
        TypeError: if ``model`` is not a Module.
        ValueError: if it holds no such layer, or a static one never trained.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.quantization import finish_training, prepare_training
        >>> model = finish_training(prepare_training(Sequential(Linear(8, 4))))
        >>> [type(layer).__name__ for _, layer in model.named_children()]
        ['QuantizedLinear']
    """
    check_module(model)
    made: dict[int, Module] = {}
    for name, module in model.named_modules():
        if not isinstance(module, FakeQuantized):
            continue
        twin = quantized_layer(module.layer, module.plan)
        if module.plan.mode == "static" and isinstance(twin, QuantizedProduct):
            if np.isnan(module.activation_range.data).any():
                raise ValueError(f"model must have trained before it is finished, but layer {name!r} saw no batch")
            observer = MinMaxObserver(module.plan.activation_scheme)
            observer.observe(module.activation_range)
            twin.set_range(observer)
        twin.training = module.training
        made[id(module)] = twin
    if not made:
        raise ValueError("model must be made by prepare_training, but holds no layer that it makes")
    return replaced(model, made)

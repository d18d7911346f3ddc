"""Layers whose weights are codes: linear, convolution and embedding; attention's projections are linear layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dataloader import input_batches
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Embedding, Linear, as_indices
from tinytorch.core.module import Parameter
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops.affine import Quantized, Ranges, Scheme, quantize
from tinytorch.perf.ops.packed_codes import TILE, PanelLayout, TileLayout, in_rows, in_tiles
from tinytorch.perf.ops.quantized import Activations, convolution_weight, quantized_conv2d, quantized_linear
from tinytorch.perf.ops.weight_only import quantized_embedding, weight_only_linear, weight_only_projection
from tinytorch.perf.quantization.observers import MinMaxObserver, RangeObserver
from tinytorch.perf.quantization.storage import Arranged, Codes, QuantizedModule

Mode = Literal["weight-only", "dynamic", "static"]


@dataclass(frozen=True)
class Plan:
    """Plan for the quantization of a layer.

    Attributes:
        mode: ``weight-only`` keeps activations float32; ``dynamic`` quantizes them by the range of each call's
            numbers; ``static`` by a range that calibration found, one for all calls.
        weights: scheme of the weights. ``axis`` must stay -1: a channel is an output (of an embedding, a row).
        activations: what shares an activation's scale in dynamic mode: a ``row`` (a position; an image of a
            convolution) or the whole ``tensor`` of the call. Static has one scale for all.
        symmetric: whether codes of activations are symmetric, -127 to 127, or affine, -128 to 127.
        ranges: of the weights; see `quantize`.

    Raises:
        ValueError: if one of them is none of these.

    Examples:
        >>> from tinytorch.perf.quantization import Plan, Scheme
        >>> Plan(mode="weight-only", weights=Scheme(bits=4, per="group")).weights.bits
        4
        >>> Plan(mode="int8")
        Traceback (most recent call last):
        ValueError: mode must be 'weight-only', 'dynamic' or 'static', not 'int8'
    """

    mode: Mode = "dynamic"
    weights: Scheme = field(default_factory=lambda: Scheme(per="channel"))
    activations: Activations = "row"
    symmetric: bool = True
    ranges: Ranges = "min-max"

    def __post_init__(self) -> None:
        if self.mode not in ("weight-only", "dynamic", "static"):
            raise ValueError(f"mode must be 'weight-only', 'dynamic' or 'static', not {self.mode!r}")
        if self.activations not in ("row", "tensor"):
            raise ValueError(f"activations must be 'row' or 'tensor', not {self.activations!r}")
        if self.ranges not in ("min-max", "mse"):
            raise ValueError(f"ranges must be 'min-max' or 'mse', not {self.ranges!r}")
        if self.weights.axis != -1:
            raise ValueError(f"weights must have axis -1, the outputs, not {self.weights.axis}")

    @property
    def activation_scheme(self) -> Scheme:
        """The scheme of an activation in static mode."""
        return Scheme(symmetric=self.symmetric)


class QuantizedProduct(QuantizedModule):
    """Base of quantized linear layers and convolutions: a plan, a bias, and the input's fixed range in static mode."""

    plan: Plan
    activation_scale: Tensor | None
    activation_zero_point: Tensor | None

    def _begin(self, matrix: Array, layer: Linear | Conv2d, plan: Plan | None, made: Quantized | None) -> None:
        self.plan = plan or Plan()
        parameters = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
        made = made or quantize(matrix, self.plan.weights, self.plan.ranges)
        self._store(made, sum(each.nbytes for each in parameters))
        self.columns = matrix.shape[1]
        if self.plan.mode != "weight-only":
            self._arrange()
        self.bias = None if layer.bias is None else Parameter(layer.bias)
        self.activation_scale = self.activation_zero_point = None
        if self.plan.mode == "static":
            self.activation_scale = Tensor(np.zeros((), np.float32))
            self.activation_zero_point = Tensor(np.zeros((), np.int32))

    def _arrange(self) -> None:
        """Hold the codes as an integer product reads them."""
        self.codes = Codes(in_rows(self.codes.array), PanelLayout(columns=self.columns, **self._weight_params()))
        self.scale = Tensor(self.scale.data)
        self.zero_point = None if self.zero_point is None else Tensor(self.zero_point.data)
        self._weight_operands()

    def set_range(self, observer: RangeObserver) -> None:
        """Take the input's range from an observer of `Plan.activation_scheme`: the layer's mode is static from now on.

        Raises:
            ValueError: if the observer saw nothing, or its scheme is another.
        """
        if observer.scheme != self.plan.activation_scheme:
            raise ValueError(f"observer must have the scheme {self.plan.activation_scheme}, not {observer.scheme}")
        self.set_parameters(*observer.parameters())

    def set_parameters(self, scale: Array, zero_point: Array) -> None:
        """Take scale and zero point of int8 codes of the input, of shape (): the layer is static from now on."""
        self.activation_scale, self.activation_zero_point = Tensor(scale), Tensor(zero_point)
        self.plan = replace(self.plan, mode="static")
        self._arrange()

    def calibrate(self, inputs: Any, observer: RangeObserver | None = None) -> Self:
        """Set the range of the input from batches of it (Tensors or arrays); return self, in static mode.

        Args:
            inputs: inputs of this layer, in any form that `quantize_model` takes its calibration data.
            observer: how; a fresh `MinMaxObserver` by default.

        Raises:
            ValueError: if there is no batch, or one is empty, not floating or not finite; nothing is changed then.
        """
        observer = observer or MinMaxObserver(self.plan.activation_scheme)
        for batch in input_batches(inputs, "inputs"):
            observer.observe(batch)
        self.set_range(observer)
        return self

    def _operands(self) -> tuple[Any, ...]:
        """Return the operands of a quantized product after x.

        Raises:
            ValueError: if the layer is static and knows no range yet.
        """
        scale, zero_point = self.activation_scale, self.activation_zero_point
        if scale is None or zero_point is None:
            return *self._weight_operands(), self.bias, None, None
        if not scale.data > 0:
            raise ValueError("calibrate must run before forward of a static layer, or its state be loaded")
        return *self._weight_operands(), self.bias, scale.data, zero_point.data

    def _params(self) -> dict[str, Any]:
        return {
            "activations": self.plan.activations,
            "symmetric": self.plan.symmetric,
            "packed": self.codes.packed,
            "columns": self.columns,
            **self._weight_params(),
        }

    def _described_plan(self) -> str:
        return f"{self.scheme.bits} bits per {self.scheme.per}, {self.plan.mode}"


class QuantizedLinear(QuantizedProduct):
    """Linear layer x W + b whose W is stored as codes; in dynamic and static mode, the product uses integers.

    ``codes`` is int8 (in_features, out_features), or packed along the inputs, held as the product reads it; in
    weight-only mode with whole tiles of outputs it is stored tile by tile. The bias stays a float32 Parameter. The
    weight does not train; gradients pass to the input, straight through its rounding, and to the bias.

    Args:
        linear: the layer to quantize; it is copied from, not changed.
        plan: how; by default 8 bits per output, dynamic.
        made: codes of the weight matrix, where they are known; else the plan's scheme makes them.

    Raises:
        ValueError: if a weight is NaN or infinite.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.quantization import QuantizedLinear
        >>> linear, x = Linear(64, 64, seed=0), Tensor(np.ones((2, 64), np.float32))
        >>> layer = QuantizedLinear(linear)
        >>> bool(np.abs(layer(x).numpy() - linear(x).numpy()).max() < 0.02)
        True
        >>> sizes = layer.memory_usage()
        >>> sizes["original_bytes"], sizes["quantized_bytes"] < sizes["original_bytes"] / 3
        (16640, True)
    """

    def __init__(self, linear: Linear, plan: Plan | None = None, made: Quantized | None = None) -> None:
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._begin(linear.weight.data, linear, plan, made)
        if self.plan.mode == "weight-only":
            self._tile()

    def _tile(self) -> None:
        """Hold codes, and scales of groups, tile by tile, as a decoder's product reads them."""
        self.codes = Codes(in_tiles(self.codes.array))
        if len(self.scale.data) > 1 and self.columns % TILE == 0:
            layout = TileLayout(*self.scale.shape)
            self.scale = Arranged(self.scale.data, layout)
            self.zero_point = None if self.zero_point is None else Arranged(self.zero_point.data, layout)
        self._weight_operands()

    def forward(self, x: Tensor) -> Tensor:
        """Return float32 (..., out_features) of (..., in_features).

        Raises:
            ValueError: if x is NaN or infinite somewhere and is to be quantized, or no range is set in static mode.
        """
        if self.plan.mode == "weight-only":
            weight = (*self._weight_operands(), self.bias)
            return apply(weight_only_linear, x, *weight, **self._weight_params(), packed=self.codes.packed)
        return apply(quantized_linear, x, *self._operands(), **self._params())

    def _described(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self._described_plan()}"


class QuantizedConv2d(QuantizedProduct):
    """Convolution with weights stored as codes, (kh * kw * in_channels / groups, out_channels).

    What holds for `QuantizedLinear` holds here, with images for rows. In weight-only mode the weight is dequantized for
    each call, and the convolution is the float one.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.spatial import Conv2d
        >>> from tinytorch.perf.quantization import QuantizedConv2d
        >>> layer = QuantizedConv2d(Conv2d(3, 8, kernel_size=3, seed=0))
        >>> layer(Tensor(np.ones((1, 3, 8, 8), np.float32))).shape
        (1, 8, 6, 6)
    """

    def __init__(self, convolution: Conv2d, plan: Plan | None = None, made: Quantized | None = None) -> None:
        self.in_channels, self.out_channels = convolution.in_channels, convolution.out_channels
        self.kernel_size, self.groups = convolution.kernel_size, convolution.groups
        self.stride, self.padding, self.dilation = convolution.stride, convolution.padding, convolution.dilation
        matrix = convolution.weight.data.transpose(2, 3, 1, 0).reshape(-1, self.out_channels)
        self._begin(matrix, convolution, plan, made)

    def forward(self, x: Tensor) -> Tensor:
        """Return float32 (N, out_channels, oh, ow) of (N, in_channels, H, W)."""
        geometry = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        if self.plan.mode == "weight-only":
            weight = Tensor(convolution_weight(self.dequantized().data, self.kernel_size))
            inputs = (x, weight) if self.bias is None else (x, weight, self.bias)
            return apply(ops.conv2d, *inputs, **geometry)
        return apply(quantized_conv2d, x, *self._operands(), **self._params(), kernel=self.kernel_size, **geometry)

    def _described(self) -> str:
        channels = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        return f"{channels}, {self._described_plan()}"


class QuantizedEmbedding(QuantizedModule, Embedding):
    """Embedding table whose rows are stored as codes, each row a channel; only the rows that are used become float32.

    ``weight`` is the whole table dequantized anew; ``project``, as `GPT` makes its logits, does without it.

    Args:
        embedding: the layer to quantize; it is copied from, not changed.
        plan: only ``weights`` and ``ranges`` matter: an embedding has no float input.
        made: codes of the table, where they are known.

    Examples:
        >>> from tinytorch.core.layers import Embedding
        >>> from tinytorch.perf.quantization import QuantizedEmbedding
        >>> QuantizedEmbedding(Embedding(50, 8, seed=0))([[3, 1]]).shape
        (1, 2, 8)
    """

    def __init__(self, embedding: Embedding, plan: Plan | None = None, made: Quantized | None = None) -> None:
        plan = plan or Plan()
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        made = made or quantize(embedding.weight, replace(plan.weights, axis=0), plan.ranges)
        self._store(made, embedding.weight.nbytes)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The float32 table (num_embeddings, embedding_dim) that the codes stand for."""
        return self.dequantized()

    def forward(self, indices: Any) -> Tensor:
        """Return float32 (..., embedding_dim) of whole numbers (...), each in 0..num_embeddings - 1."""
        return apply(quantized_embedding, as_indices(indices), *self._weight_operands(), **self._weight_params())

    def project(self, x: Tensor) -> Tensor:
        """Return x times the table, transposed: (..., num_embeddings); the table is never float32 as a whole."""
        return apply(weight_only_projection, x, *self._weight_operands(), **self._weight_params())

    def _described(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self.scheme.bits} bits per {self.scheme.per}"


#: Layers that can be quantized, and what they become.
QUANTIZED: dict[type[Any], type[QuantizedModule]] = {
    Linear: QuantizedLinear,
    Conv2d: QuantizedConv2d,
    Embedding: QuantizedEmbedding,
}


def quantized_layer(layer: Linear | Conv2d | Embedding, plan: Plan) -> QuantizedModule:
    """Return the quantized twin of a layer.

    Raises:
        ValueError: if there is none for its class.
    """
    for kind, twin in QUANTIZED.items():
        if type(layer) is kind:
            return twin(layer, plan)  # type: ignore[call-arg]
    raise ValueError(
        f"layer must be one of {', '.join(kind.__name__ for kind in QUANTIZED)}, not {type(layer).__name__}"
    )


def is_quantizable(module: object) -> bool:
    """Return whether `quantized_layer` has a twin for this module's class; subclasses may compute something else."""
    return type(module) in QUANTIZED

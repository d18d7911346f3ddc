"""Quantization that is real: small integers in memory, exact int32 sums, and what it costs in accuracy."""

from tinytorch.perf.kernels.registry import run_by_kernel
from tinytorch.perf.ops.affine import (
    Quantized,
    Scheme,
    decode,
    dequantize_int8,
    encode,
    quantize,
    quantize_int8,
    range_parameters,
)
from tinytorch.perf.ops.packed_codes import pack
from tinytorch.perf.ops.quantized import integer_product, quantized_conv2d, quantized_linear
from tinytorch.perf.ops.weight_only import weight_only_linear, weight_only_projection
from tinytorch.perf.quantization.convert import (
    analyze_model_sizes,
    layers_to_keep,
    load_quantized,
    quantize_model,
    save_quantized,
    sensitivity_scan,
    stored_bytes,
)
from tinytorch.perf.quantization.layers import Plan, QuantizedConv2d, QuantizedEmbedding, QuantizedLinear
from tinytorch.perf.quantization.observers import (
    HistogramObserver,
    MeanSquaredErrorObserver,
    MinMaxObserver,
    PercentileObserver,
)
from tinytorch.perf.quantization.tradeoff import accuracy_change, paired_accuracy, tradeoffs
from tinytorch.perf.quantization.training import finish_training, prepare_training

__all__ = [
    "HistogramObserver",
    "MeanSquaredErrorObserver",
    "MinMaxObserver",
    "PercentileObserver",
    "Plan",
    "Quantized",
    "QuantizedConv2d",
    "QuantizedEmbedding",
    "QuantizedLinear",
    "Scheme",
    "accuracy_change",
    "analyze_model_sizes",
    "decode",
    "dequantize_int8",
    "encode",
    "finish_training",
    "integer_product",
    "layers_to_keep",
    "load_quantized",
    "pack",
    "paired_accuracy",
    "prepare_training",
    "quantize",
    "quantize_int8",
    "quantize_model",
    "range_parameters",
    "save_quantized",
    "sensitivity_scan",
    "stored_bytes",
    "tradeoffs",
]

run_by_kernel(quantized_linear, quantized_conv2d, weight_only_linear, weight_only_projection)

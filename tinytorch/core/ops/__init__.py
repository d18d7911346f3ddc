"""The primitive ops, each with its forward, its backward and its cost in one place."""

from tinytorch.core.ops.attention import attention, self_attention
from tinytorch.core.ops.contraction import linear, matmul
from tinytorch.core.ops.elementwise import (
    absolute,
    add,
    cast,
    divide,
    dropout,
    exp,
    gelu,
    leaky_relu,
    log,
    maximum,
    multiply,
    negative,
    power,
    relu,
    sigmoid,
    silu,
    sqrt,
    subtract,
    tanh,
    where,
)
from tinytorch.core.ops.lookup import embedding
from tinytorch.core.ops.loss import cross_entropy, mean_squared_error
from tinytorch.core.ops.normalization import batch_norm, layer_norm
from tinytorch.core.ops.reduction import log_softmax, max_, mean, softmax, sum_
from tinytorch.core.ops.shape import concatenate, getitem, reshape, transpose
from tinytorch.core.ops.spatial import adaptive_avg_pool2d, avg_pool2d, conv2d, max_pool2d

__all__ = [
    "absolute",
    "adaptive_avg_pool2d",
    "add",
    "attention",
    "avg_pool2d",
    "batch_norm",
    "cast",
    "concatenate",
    "conv2d",
    "cross_entropy",
    "divide",
    "dropout",
    "embedding",
    "exp",
    "gelu",
    "getitem",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log",
    "log_softmax",
    "matmul",
    "max_",
    "max_pool2d",
    "maximum",
    "mean",
    "mean_squared_error",
    "multiply",
    "negative",
    "power",
    "relu",
    "reshape",
    "self_attention",
    "sigmoid",
    "silu",
    "softmax",
    "sqrt",
    "subtract",
    "sum_",
    "tanh",
    "transpose",
    "where",
]

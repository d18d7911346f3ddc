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
    powers,
    relu,
    sigmoid,
    silu,
    sqrt,
    subtract,
    tanh,
    where,
)
from tinytorch.core.ops.loss import cross_entropy, mean_squared_error
from tinytorch.core.ops.normalization import batch_norm, layer_norm
from tinytorch.core.ops.reduction import log_softmax, max_, mean, softmax, sum_
from tinytorch.core.ops.shape import concatenate, embedding, getitem, reshape, transpose
from tinytorch.core.ops.spatial import adaptive_avg_pool2d, avg_pool2d, conv2d, max_pool2d

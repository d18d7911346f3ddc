"""JAX as an engine: our module tree traced into one function that XLA compiles, parameters as its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Embedding, Flatten, LayerNorm, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.transformers import GPT, FeedForward, TransformerBlock
from tinytorch.perf.engines.protocol import AdamWSettings, Training
from tinytorch.perf.engines.workloads import Loss

State = dict[str, Any]


class _Trace:
    """One pass over the module tree while JAX traces: what the state is, and what training changes in buffers."""

    def __init__(self, state: State, training: bool) -> None:
        self.state, self.training = state, training
        self.buffers: State = {}

    def run(self, module: Module, name: str, x: Any) -> Any:
        """Return the output of the module at ``name``."""
        dot = f"{name}." if name else ""
        match module:
            case Sequential():
                for index, layer in enumerate(module):
                    x = self.run(layer, f"{dot}{index}", x)
                return x
            case Linear():
                return self._linear(dot, x)
            case LayerNorm():
                return self._layer_norm(dot, x, module.eps)
            case Conv2d():
                return self._convolution(dot, x, module)
            case BatchNorm2d():
                return self._batch_norm(dot, x, module)
            case MaxPool2d():
                return _max_pool(x, module)
            case ReLU():
                return jnp.maximum(x, 0)
            case GELU():
                return jax.nn.gelu(x, approximate=True)
            case Flatten():
                return x.reshape(x.shape[0], -1)
            case Embedding():
                return self.state[f"{dot}weight"][x]
            case FeedForward():
                hidden = jax.nn.gelu(self._linear(f"{dot}expand.", x), approximate=True)
                return self._linear(f"{dot}contract.", hidden)
            case MultiHeadAttention():
                return self._attention(dot, x, module)
            case TransformerBlock():
                x = x + self.run(module.attention, f"{dot}attention", self.run(module.norm1, f"{dot}norm1", x))
                return x + self.run(module.mlp, f"{dot}mlp", self.run(module.norm2, f"{dot}norm2", x))
            case GPT():
                return self._gpt(dot, x, module)
        raise TypeError(f"model must be made of layers that JAX's translation knows, not {type(module).__name__}")

    def _linear(self, dot: str, x: Any) -> Any:
        output = x @ self.state[f"{dot}weight"]
        bias = self.state.get(f"{dot}bias")
        return output if bias is None else output + bias

    def _layer_norm(self, dot: str, x: Any, eps: float) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + eps) * self.state[f"{dot}weight"] + self.state[f"{dot}bias"]

    def _attention(self, dot: str, x: Any, module: MultiHeadAttention) -> Any:
        batch, length, width = x.shape
        packed = self._linear(f"{dot}qkv.", x).reshape(batch, length, 3, module.num_heads, -1)
        q, k, v = (packed[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
        scores = (q @ k.swapaxes(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
        if module.causal:
            scores = jnp.where(jnp.tri(length, dtype=bool), scores, -jnp.inf)
        mixed = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        return self._linear(f"{dot}projection.", mixed)

    def _convolution(self, dot: str, x: Any, module: Conv2d) -> Any:
        output = lax.conv_general_dilated(
            x,
            self.state[f"{dot}weight"],
            module.stride,
            [(pad, pad) for pad in module.padding],
            rhs_dilation=module.dilation,
            feature_group_count=module.groups,
        )
        bias = self.state.get(f"{dot}bias")
        return output if bias is None else output + bias[:, None, None]

    def _batch_norm(self, dot: str, x: Any, module: BatchNorm2d) -> Any:
        mean, variance = self.state[f"{dot}running_mean"], self.state[f"{dot}running_var"]
        if self.training:
            count = x.size // x.shape[1]
            own_mean = x.mean((0, 2, 3))
            own = jnp.square(x - own_mean[:, None, None]).mean((0, 2, 3))
            kept = 1 - module.momentum
            self.buffers[f"{dot}running_mean"] = kept * mean + module.momentum * own_mean
            unbiased = own * (count / max(count - 1, 1))
            self.buffers[f"{dot}running_var"] = kept * variance + module.momentum * unbiased
            mean, variance = own_mean, own
        factor = self.state[f"{dot}weight"] * lax.rsqrt(variance + module.eps)
        shift = self.state[f"{dot}bias"] - mean * factor
        return x * factor[:, None, None] + shift[:, None, None]

    def _gpt(self, dot: str, tokens: Any, module: GPT) -> Any:
        table = self.state[f"{dot}token_embedding.weight"]
        x = table[tokens] + self.state[f"{dot}position_embedding.weight"][: tokens.shape[1]]
        for index, block in enumerate(module.blocks):
            x = self.run(block, f"{dot}blocks.{index}", x)
        return self._layer_norm(f"{dot}norm.", x, module.norm.eps) @ table.T


def _max_pool(x: Any, module: MaxPool2d) -> Any:
    if module.kernel_size == module.strides and module.padding == (0, 0):
        rows, columns = module.kernel_size
        cut = x[:, :, : x.shape[2] // rows * rows, : x.shape[3] // columns * columns]
        windows = cut.reshape(*x.shape[:2], cut.shape[2] // rows, rows, cut.shape[3] // columns, columns)
        return windows.max((3, 5))
    pads = [(0, 0), (0, 0), *((pad, pad) for pad in module.padding)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *module.kernel_size), (1, 1, *module.strides), pads)


def scope(setting: str) -> AbstractContextManager[None]:
    """Return a context without effect: XLA makes a thread for each core of the process when it starts."""
    del setting
    return nullcontext()


def forward(setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
    """Return a call of the compiled forward; its weights are constants, which XLA may fold, as nothing trains them."""
    del setting
    state = {name: jnp.asarray(values) for name, values in model.state_dict().items()}
    x = jnp.asarray(inputs)

    def run(x: Any) -> Any:
        return _Trace(state, training=False).run(model, "", x)

    compiled = jax.jit(run)
    return lambda: np.asarray(compiled(x))


def _loss(kind: Loss, output: Any, targets: Any) -> Any:
    if kind == "squared error":
        return jnp.square(output - targets).mean()
    logs = jax.nn.log_softmax(output.reshape(-1, output.shape[-1]))
    return -jnp.take_along_axis(logs, targets.reshape(-1, 1), axis=1).mean()


def training(setting: str, model: Module, batch: tuple[Array, Array], loss: Loss, optimizer: AdamWSettings) -> Training:
    """Return ``model`` in training: one compiled function whose parameters and moments are donated buffers."""
    del setting
    start = {name: jnp.array(values) for name, values in model.state_dict().items()}
    trained = [name for name, _ in model.named_parameters()]
    x, y = (jnp.asarray(part) for part in batch)
    moments = [{name: jnp.zeros_like(start[name]) for name in trained} for _ in range(2)]
    kept: list[Any] = [start, *moments, jnp.zeros((), jnp.float32)]

    def compute(parameters: State, buffers: State, x: Any, y: Any) -> Any:
        trace = _Trace({**buffers, **parameters}, training=True)
        value = _loss(loss, trace.run(model, "", x), y)
        return value, trace.buffers

    def step(state: State, first: State, second: State, count: Any, x: Any, y: Any) -> Any:
        parameters = {name: state[name] for name in trained}
        buffers = {name: values for name, values in state.items() if name not in parameters}
        (value, changed), gradients = jax.value_and_grad(compute, has_aux=True)(parameters, buffers, x, y)
        count = count + 1
        beta1, beta2 = optimizer.betas
        first = {name: beta1 * first[name] + (1 - beta1) * gradients[name] for name in trained}
        second = {name: beta2 * second[name] + (1 - beta2) * jnp.square(gradients[name]) for name in trained}
        rate, root = optimizer.lr / (1 - beta1**count), jnp.sqrt(1 - beta2**count)
        for name in trained:
            moved = rate * first[name] / (jnp.sqrt(second[name]) / root + optimizer.eps)
            parameters[name] = parameters[name] * (1 - optimizer.lr * optimizer.weight_decay) - moved
        return value, {**buffers, **changed, **parameters}, first, second, count

    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))

    def run() -> float:
        value, *kept[:] = compiled(*kept, x, y)
        jax.block_until_ready(kept)
        return float(value)

    return Training(run, lambda: {name: np.array(values) for name, values in kept[0].items()})

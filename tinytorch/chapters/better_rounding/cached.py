"""Keys and values of attention in few bits: what the granularity of scales does to the outputs of a trained GPT."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Counted
from tinytorch.perf.quantization.convert import relative_error

Rounding = Callable[[Array], Array]


def on_grid(values: Array, bits: int, axis: int) -> Array:
    """Return the values after rounding to affine levels of so many bits, with a scale for all along ``axis``."""
    low, high = values.min(axis=axis, keepdims=True), values.max(axis=axis, keepdims=True)
    step = np.maximum((high - low) / (2**bits - 1), np.finfo(np.float32).tiny)
    return np.asarray(np.round((values - low) / step) * step + low, np.float32)


def for_each_token(bits: int, heads: int) -> Rounding:
    """Return a rounding of keys or values (batch, tokens, width) with a scale for each token and head."""

    def rounded(numbers: Array) -> Array:
        return on_grid(numbers.reshape(*numbers.shape[:2], heads, -1), bits, 3).reshape(numbers.shape)

    return rounded


def for_each_channel(bits: int) -> Rounding:
    """Return a rounding of the same with a scale for each channel, which the tokens of a sequence share."""
    return lambda numbers: on_grid(numbers, bits, 1)


def _as_they_are(numbers: Array) -> Array:
    return numbers


class _FromCodes:
    """Attends, instead of a layer, to keys and values that have been rounded.

    One channel of the keys is ``outlier`` times as large, and that of the queries as much smaller: the product stays.
    """

    def __init__(self, heads: int, keys: Rounding, values: Rounding, outlier: float = 1.0) -> None:
        self._heads, self._keys, self._values, self._outlier = heads, keys, values, outlier

    def attend(self, packed: Tensor) -> Tensor:
        """Return the heads' outputs side by side."""
        queries, keys, values = np.split(packed.data.copy(), 3, axis=-1)
        queries[..., 0] /= self._outlier
        keys[..., 0] *= self._outlier
        rounded = Tensor(np.concatenate([queries, self._keys(keys), self._values(values)], axis=-1))
        found: Tensor = apply(ops.self_attention, rounded, heads=self._heads, causal=True)
        return found


def keys_and_values(
    gpt: Any, cases: Sequence[tuple[str, int]], outlier: float, examples: int = 128
) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the errors of the outputs of the zoo's GPT with its keys or its values in few bits, by the case.

    A case is "keys", "keys, an outlier planted" or "values", and the bits. Planted keys have a channel that is
    ``outlier`` times as large, which changes no output. Errors are those with a scale for each ``token`` and for each
    ``channel``, of so many test ``examples``.
    """
    tokens = models.entry("gpt").data().test_inputs[:examples]
    heads = gpt.blocks[0].attention.num_heads

    def outputs(of_keys: Rounding = _as_they_are, of_values: Rounding = _as_they_are, times: float = 1.0) -> Array:
        version: Any = deepcopy(gpt)
        for block in version.blocks:
            block.attention.memory = _FromCodes(heads, of_keys, of_values, times)
        with no_grad():
            found: Array = version(tokens).data
        return found

    truth = outputs()
    ways: dict[str, Callable[[Rounding], Array]] = {
        "keys": lambda rounding: outputs(rounding),
        "keys, an outlier planted": lambda rounding: outputs(rounding, times=outlier),
        "values": lambda rounding: outputs(of_values=rounding),
    }

    def error(what: str, rounding: Rounding, name: str) -> Counted:
        return Counted(relative_error(truth, ways[what](rounding)), "%", f"error of the outputs, {what}, {name}")

    return {
        (what, bits): {
            "what": what,
            "bits": bits,
            "token": error(what, for_each_token(bits, heads), f"{bits} bits, a scale for each token"),
            "channel": error(what, for_each_channel(bits), f"{bits} bits, a scale for each channel"),
        }
        for what, bits in cases
    }

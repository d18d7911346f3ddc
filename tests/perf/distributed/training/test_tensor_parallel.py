"""Layers that are cut over ranks against the whole layers: outputs and gradients."""

import numpy as np

from tests.perf.distributed.training.model_programs import (
    SHAPE,
    both_ways,
    draw,
    tensor_parallel_parts,
    two_layers,
    whole_gpt,
)
from tinytorch.core.module import Sequential
from tinytorch.core.op import Array
from tinytorch.perf.distributed.ranks.launch import launch


def by_heads(parts: list[Array]) -> Array:
    """Join parts of queries, keys and values that lie side by side."""
    thirds = [np.split(part, 3, axis=-1) for part in parts]
    return np.concatenate([np.concatenate([part[i] for part in thirds], axis=-1) for i in range(3)], axis=-1)


def joined(name: str, parts: list[Array]) -> Array:
    """Return the whole parameter's gradient of the ranks' gradients."""
    if "qkv" in name:
        return by_heads(parts)
    if "expand" in name or name.startswith("pair/0."):
        return np.concatenate(parts, axis=-1)
    if name.endswith(("projection.weight", "contract.weight")) or name == "pair/1.weight":
        return np.concatenate(parts, axis=0)
    for part in parts:
        np.testing.assert_array_equal(part, parts[0], err_msg=name)
    return parts[0]


def test_cut_layers_give_what_whole_ones_give() -> None:
    found = launch(tensor_parallel_parts, 2, threads=1)
    pair = both_ways(Sequential(*two_layers()), draw(*SHAPE), draw(3, 5, 6))
    whole = {f"pair/{name}": array for name, array in pair.items()}
    whole |= {f"gpt/{name}": array for name, array in whole_gpt().items()}
    for key, array in whole.items():
        parts = [np.asarray(one[key]) for one in found]
        together = parts[0] if key.endswith(("output", "input", "loss")) else joined(key, parts)
        np.testing.assert_allclose(together, array, rtol=1e-9, atol=1e-12, err_msg=key)
    assert whole.keys() | {"gpt/untouched"} == found[0].keys()
    assert all(one["gpt/untouched"] for one in found)

"""Checks for the exercises on memoization: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.chapters.checking import exercise_check
from tinytorch.chapters.memoization.counts import step_flops
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.memoization.cache import KVCache


@exercise_check
def check_cache_bytes(function: Callable[[int, int, int, int, int, int], float]) -> None:
    """Return "... passed" if ``function(batch, positions, layers, heads, head_dim, itemsize)`` is a cache's bytes."""
    draw = np.random.default_rng(0)
    for dtype in (np.float16, np.float32, np.float64) * 4:
        batch, positions, layers, heads, depth = (int(size) for size in draw.integers(1, 9, 5))
        cache, itemsize = KVCache(batch, positions, layers, heads, depth, dtype), np.dtype(dtype).itemsize
        answer = function(batch, positions, layers, heads, depth, itemsize)
        assert answer == cache.nbytes, f"{cache} of {itemsize} bytes each holds {cache.nbytes} bytes, not {answer}"


@exercise_check
def check_saved_flops(function: Callable[[int, int, int, int], float]) -> None:
    """Return "... passed" if ``function(width, layers, vocabulary, position)`` is what a cache saves in one step.

    The step reads the token at ``position`` (0 is the first) of a `GPT` and makes one row of logits; without a cache
    all tokens up to it are read.
    """
    for width, layers, vocabulary, position in ((8, 1, 5, 0), (8, 2, 11, 1), (24, 3, 7, 9), (16, 2, 30, 17)):
        model = GPT(vocabulary, width, layers, 2, 20, seed=0).eval()
        truth = step_flops(model, position, cached=False) - step_flops(model, position, cached=True)
        answer = function(width, layers, vocabulary, position)
        shown = f"{width} wide, {layers} layers, {vocabulary} tokens, position {position}"
        assert answer == truth, f"{shown}: a cache saves {truth} FLOPs, not {answer}"


@exercise_check
def check_append(function: Callable[[Array, int, Array], Any]) -> None:
    """Return "... passed" if ``function(memory, position, new)`` appends without making the memory anew.

    It writes ``new`` (H, T, D) into ``memory`` (H, S, D) from ``position`` on, and returns what is remembered then,
    (H, position + T, D), as a view; if it does not fit it raises ValueError and writes nothing.
    """
    draw = np.random.default_rng(0)
    memory = np.zeros((2, 6, 3), np.float32)
    new = draw.standard_normal((2, 7, 3), dtype=np.float32)
    for start, stop in ((0, 3), (3, 4), (4, 7), (4, 6), (6, 7)):
        if stop > 6:
            _check_refused(function, memory, start, new[:, start:stop])
            continue
        seen = function(memory, start, new[:, start:stop])
        assert isinstance(seen, np.ndarray), f"it must return an array, not {type(seen).__name__}"
        assert seen.shape == (2, stop, 3), f"after {stop} positions the shape must be (2, {stop}, 3), not {seen.shape}"
        assert (seen == new[:, :stop]).all(), (
            f"after {stop} positions, some positions do not have the values that were written"
        )
        assert np.shares_memory(seen, memory), "it must return a view: a copy takes time for all earlier positions"


def _check_refused(function: Callable[[Array, int, Array], Any], memory: Array, position: int, new: Array) -> None:
    """Raise AssertionError unless it raises ValueError and writes nothing."""
    before = memory.copy()
    try:
        function(memory, position, new)
    except ValueError:
        assert (memory == before).all(), "it wrote to the memory before it raised the error"
        return
    raise AssertionError(
        f"{new.shape[1]} more behind {position} of {memory.shape[1]} positions do not fit, but nothing was raised"
    )

"""A small GPT as one op: results, work and range of the original, for any batch and length, and its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinytorch.core.dispatch import no_grad
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration.frozen_gpt import FrozenGPT, is_small_gpt
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.acceleration.packed_gpt import packed_gpt
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.memoization import enable_kv_cache


def settled(vocabulary: int, width: int, layers: int, heads: int, positions: int) -> GPT:
    """A GPT whose biases and norms are not those it starts with."""
    model = GPT(vocabulary, width, layers, heads, positions, seed=0)
    draw = np.random.default_rng(1)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data[...] = draw.uniform(-1, 1, parameter.shape)
    return model


def tokens(batch: int, length: int, vocabulary: int) -> Array:
    return np.random.default_rng(batch + length).integers(0, vocabulary, (batch, length))


def in_float64(model: GPT, x: Array, last: bool) -> Array:
    wide = GPT(model.vocab_size, model.embed_dim, len(model.blocks), model.blocks[0].attention.num_heads, 40)
    for parameter, original in zip(wide.parameters(), model.parameters(), strict=True):
        parameter.data = original.data.astype(np.float64)
    with no_grad():
        result: Array = wide(x, last).data
    return result


#: Vocabulary, width, layers, heads, positions: the zoo's, widths that fill no vector, a head of one column.
SIZES = [(11, 96, 2, 4, 40), (5, 10, 1, 2, 40), (50, 34, 3, 34, 40)]


@pytest.mark.parametrize("sizes", SIZES)
def test_results_are_those_of_float64(sizes: tuple[int, int, int, int, int]) -> None:
    model = settled(*sizes)
    frozen = fuse(model, frozen=True)
    assert isinstance(frozen, FrozenGPT)
    for batch, length in ((1, 1), (1, 40), (3, 7), (9, 20), (2, 33)):
        x = tokens(batch, length, sizes[0])
        for last in (False, True):
            expected = in_float64(model, x, last)
            found = frozen(x, last).data
            assert found.shape == expected.shape
            assert np.max(np.abs(found - expected)) <= 3e-6 * np.max(np.abs(expected))
            reference, _ = packed_gpt.reference.forward(False, x, frozen.weights.data, **params(frozen, last))
            np.testing.assert_allclose(reference, found, rtol=2e-5, atol=1e-5)


def params(frozen: FrozenGPT, last: bool) -> dict[str, Any]:
    return {"sizes": tuple(frozen.sizes), "layout": frozen.layout, "epsilons": frozen.epsilons, "last": last}


@pytest.mark.parametrize("last", [False, True])
def test_it_counts_the_arithmetic_of_the_original(last: bool) -> None:
    model = settled(11, 24, 2, 3, 40)
    counted = []
    for each in (model, fuse(model, frozen=True)):
        with no_grad(), recording() as recorded:
            each(tokens(3, 9, 11), last)
        works = [event.work for event in recorded.profile.events if event.work is not None]
        assert len(works) == len(recorded.profile.events)
        counted.append((sum(work.macs for work in works), sum(work.elementwise for work in works)))
    assert counted[0] == counted[1]


def test_results_do_not_depend_on_threads_or_on_the_other_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = fuse(settled(11, 96, 2, 4, 40), frozen=True)
    x = tokens(70, 20, 11)
    monkeypatch.setattr(threads, "limit", lambda: 1)
    one = frozen(x).data
    monkeypatch.setattr(threads, "limit", lambda: 2)
    np.testing.assert_array_equal(frozen(x).data, one)
    np.testing.assert_array_equal(frozen(x[5:6]).data, one[5:6])


def test_a_position_does_not_see_later_tokens_and_nan_stays_where_it_is_seen() -> None:
    model = settled(11, 24, 2, 3, 40)
    model.position_embedding.weight.data[6] = np.nan
    logits = fuse(model, frozen=True)(tokens(2, 9, 11)).data
    assert np.isnan(logits[:, 6:]).all()
    model.position_embedding.weight.data[6] = 0
    frozen, x = fuse(model, frozen=True), tokens(2, 9, 11)
    changed = x.copy()
    changed[:, 5:] = 10 - changed[:, 5:]
    np.testing.assert_array_equal(frozen(x).data[:, :5], frozen(changed).data[:, :5])


def test_no_sequence_gives_no_logits_and_odd_tokens_are_read() -> None:
    frozen = fuse(settled(11, 24, 2, 3, 40), frozen=True)
    assert frozen(np.empty((0, 4), np.int64)).shape == (0, 4, 11)
    x = tokens(6, 8, 11)
    spread = np.repeat(x, 2, axis=1)[:, ::2].astype(np.uint8)
    spread.flags.writeable = False
    np.testing.assert_array_equal(frozen(spread).data, frozen(x).data)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (np.full((2, 3), 11), IndexError, r"tokens must lie in 0..10, but run from 11 to 11"),
        (np.full((40, 20), -1), IndexError, "run from -1 to -1"),
        (np.zeros((2, 41), int), ValueError, r"tokens must have shape \(B, 1 to 40\), not \(2, 41\)"),
        (np.zeros(3, int), ValueError, r"not \(3,\)"),
        (np.zeros((2, 3)), TypeError, "tokens must be integers, not float64"),
    ],
)
def test_bad_tokens_are_refused(given: Array, error: type[Exception], text: str) -> None:
    frozen = fuse(settled(11, 24, 2, 3, 40), frozen=True)
    with pytest.raises(error, match=text):
        frozen(given)


def test_only_what_the_op_computes_becomes_the_op() -> None:
    model = GPT(11, 24, 2, 3, 40, seed=0)
    assert is_small_gpt(model)
    assert not is_small_gpt(GPT(11, 128, 1, 4, 40, seed=0))
    model.blocks[1].attention.causal = False
    assert not is_small_gpt(model)
    remembering = GPT(11, 24, 2, 3, 40, seed=0)
    enable_kv_cache(remembering)
    assert not is_small_gpt(remembering)
    with pytest.raises(TypeError, match=r"model must be a GPT from .*, not FrozenGPT"):
        enable_kv_cache(fuse(GPT(11, 24, 2, 3, 40, seed=0), frozen=True))

"""The chapter's studies count and time what they say, and its exercises fail wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.memoization import KVCache, cache_of, enable_kv_cache, exercises, studies
from tinytorch.perf.memoization.decoding_study import decoding_variants


def test_step_flops_are_the_closed_form() -> None:
    model = small_gpt()
    for position in (0, 1, 11):
        length = position + 1
        products, head = 2 * 2 * 12 * 20 * 20, 2 * 20 * 13
        assert studies.step_flops(model, position, cached=True) == products + 2 * 4 * 20 * length + head
        again = products * length + 2 * 4 * 20 * length**2 + head
        assert studies.step_flops(model, position, cached=False) == again
    assert cache_of(model) is None


def test_generation_times_pair_both_ways() -> None:
    model = small_gpt()
    made = studies.generation_times(model, tokens_of(2, 3), [1, 4], repeats=2)
    assert list(made) == [1, 4]
    for uncached, cached in made.values():
        assert uncached.n == cached.n == 2
        assert cached.name in uncached.how["interleaved_with"]
    assert cache_of(model) is None


def test_step_time_needs_the_models_own_cache() -> None:
    model = small_gpt()
    cache = enable_kv_cache(model)
    assert studies.step_time(model, cache, 11, repeats=2).median > 0
    with pytest.raises(ValueError, match="cache must serve the model"):
        studies.step_time(model, KVCache(1, 12, 2, 2, 10), 3)
    with pytest.raises(ValueError, match=r"position must lie in 0\.\.12"):
        cache.stand_at(13)


def test_peaks_hold_the_scores_when_a_backward_will_follow() -> None:
    small, large = studies.attention_peaks([64, 256], 2, 8, training=True)
    assert large >= 2 * 256 * 256 * 4
    assert small >= 2 * 64 * 64 * 4
    assert large < 2 * 256 * 256 * 4 + 20 * 256 * 16 * 4


def test_attention_times_and_recomputed_name_what_they_ran() -> None:
    assert [each.name for each in studies.attention_times([2, 4], 1, 4, repeats=2)] == ["2 keys", "4 keys"]
    mask, rows, head, packed, floats = (each.nbytes for each in studies.recomputed(small_gpt(), 8, repeats=2))
    assert (mask, rows, head) == (8 * 8 * 4, 8 * 20 * 4, 13 * 20 * 4)
    assert floats == 2 * 12 * 20 * 20 * 4
    assert packed >= floats  # the last vector of a row is filled up


def test_masks_of_one_length_are_found_and_of_growing_ones_are_not() -> None:
    model = small_gpt()
    with no_grad():
        assert studies.mask_hits(lambda: [model(tokens_of(1, 7)) for _ in range(5)]) == 0.9
        assert studies.mask_hits(lambda: [model(tokens_of(1, n)) for n in range(2, 8)]) == 0.5
    with pytest.raises(ValueError, match="asked for none"):
        studies.mask_hits(lambda: None)


def test_decoding_variants_hold_fewer_bytes_and_make_larger_errors() -> None:
    model = GPT(13, 96, 1, 4, 6, seed=0).eval()
    made = {each.name: each for each in decoding_variants(model, 3, repeats=6)}
    plain, eight, both, four = made.values()
    assert plain.error < 1e-5 < eight.error < four.error < 0.5
    assert plain.weight_bytes == 4 * sum(parameter.size for parameter in model.parameters())
    assert four.weight_bytes < eight.weight_bytes < plain.weight_bytes / 3
    assert both.cache_bytes < eight.cache_bytes == plain.cache_bytes == 2 * 6 * 96 * 4
    assert all(each.name in eight.step.how["interleaved_with"] for each in (plain, both, four))
    with pytest.raises(ValueError, match=r"position must lie in 1\.\.5"):
        decoding_variants(model, 6)


def _bytes(batch: int, positions: int, layers: int, heads: int, depth: int, itemsize: int) -> int:
    return 2 * batch * positions * layers * heads * depth * itemsize


def _saved(width: int, layers: int, vocabulary: int, position: int) -> int:
    del vocabulary
    return layers * (24 * width**2 * position + 4 * width * position * (position + 1))


def _append(memory: Any, position: int, new: Any) -> Any:
    end = position + new.shape[1]
    if end > memory.shape[1]:
        raise ValueError("full")
    memory[:, position:end] = new
    return memory[:, :end]


def _append_without_limit(memory: Any, position: int, new: Any) -> Any:
    new = new[:, : memory.shape[1] - position]
    memory[:, position : position + new.shape[1]] = new
    return memory[:, : position + new.shape[1]]


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (exercises.check_cache_bytes, _bytes, lambda *sizes: _bytes(*sizes) // 2),
        (exercises.check_saved_flops, _saved, lambda w, n, v, p: _saved(w, n, v, p) + 2 * w * v * p),
        (exercises.check_append, _append, lambda *each: _append(*each).copy()),
        (exercises.check_append, _append, _append_without_limit),
        (exercises.check_append, _append, lambda m, p, new: np.concatenate([m[:, :p], new], axis=1)),
    ],
)
def test_exercises_pass_right_answers_and_fail_wrong_ones(
    check: Callable[[Any], str], right: Callable[..., Any], wrong: Callable[..., Any]
) -> None:
    assert check(right).endswith("passed")
    with pytest.raises(AssertionError):
        check(wrong)

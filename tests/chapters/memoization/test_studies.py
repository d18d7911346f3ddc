"""The studies of the page on memoization count and time what they say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.chapters.memoization import studies
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines import NotMeasured, Raced
from tinytorch.perf.memoization import KVCache, cache_of, enable_kv_cache, fuse_decoding


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


def test_caches_take_turns_with_one_model() -> None:
    model = small_gpt()
    caches = {"one": KVCache(1, 12, 2, 2, 10), "three": KVCache(3, 12, 2, 2, 10)}
    times = studies.step_times(model, caches, 11, repeats=2)
    assert times["three"].name in times["one"].how["interleaved_with"]
    assert cache_of(model) is None
    with pytest.raises(ValueError, match="position"):
        studies.step_times(model, {"one": caches["one"]}, 12, repeats=2)
    assert cache_of(model) is None, "after an error too"


def test_batches_take_turns() -> None:
    one, two = studies.batch_times(small_gpt(), [1, 2], 5)
    assert (one.name, two.name) == ("batch 1", "batch 2")
    assert one.name in two.how["interleaved_with"]


def test_peaks_hold_the_scores_when_a_backward_will_follow() -> None:
    small, large = studies.attention_peaks([64, 256], 2, 8, training=True)
    assert large >= 2 * 256 * 256 * 4
    assert small >= 2 * 64 * 64 * 4
    assert large < 2 * 256 * 256 * 4 + 20 * 256 * 16 * 4


def test_attention_times_and_recomputed_name_what_they_ran() -> None:
    two, four = studies.attention_times([2, 4], 1, 4, repeats=2)
    assert (two.name, four.how["interleaved_with"]) == ("2 keys", ["2 keys"])
    made = studies.recomputed(small_gpt(), 8, repeats=3)
    mask, rows, head, packed, floats = (each.nbytes for each in made)
    assert (mask, rows, head) == (8 * 8 * 4, 8 * 20 * 4, 13 * 20 * 4)
    assert floats == 2 * 12 * 20 * 20 * 4
    assert packed >= floats  # the last vector of a row is filled up
    assert all(each.share.n == 3 and -1 < each.share.median < 1 for each in made)
    assert all(each.share.unit == "%" for each in made)


def test_masks_of_one_length_are_found_and_of_growing_ones_are_not() -> None:
    model = small_gpt()
    with no_grad():
        assert studies.mask_hits(lambda: [model(tokens_of(1, 7)) for _ in range(5)]) == 0.9
        assert studies.mask_hits(lambda: [model(tokens_of(1, n)) for n in range(2, 8)]) == 0.5
    with pytest.raises(ValueError, match="asked for none"):
        studies.mask_hits(lambda: None)


def test_decoding_variants_hold_fewer_bytes_and_make_larger_errors() -> None:
    model = GPT(13, 96, 1, 4, 6, seed=0).eval()
    made = {each.name: each for each in studies.decoding_variants(model, 3, repeats=6)}
    plain, eight, both, four = made.values()
    assert plain.error < 1e-5 < eight.error < four.error < 0.5
    assert plain.weight_bytes == 4 * sum(parameter.size for parameter in model.parameters())
    assert four.weight_bytes < eight.weight_bytes < plain.weight_bytes / 3
    assert both.cache_bytes < eight.cache_bytes == plain.cache_bytes == 2 * 6 * 96 * 4
    assert all(each.name in eight.step.how["interleaved_with"] for each in (plain, both, four))
    with pytest.raises(ValueError, match=r"position must lie in 1\.\.5"):
        studies.decoding_variants(model, 6)


@pytest.mark.parametrize("cached", [False, True])
def test_the_arithmetic_of_a_text_is_that_of_its_steps(cached: bool) -> None:
    model = GPT(11, 96, 2, 4, 512, seed=0).eval()
    for position in (0, 5, 63):
        step = studies.step_flops(model, position, cached)
        assert studies.text_flops(model, position + 1, cached) - studies.text_flops(model, position, cached) == step


def test_cached_steps_are_of_caches_of_one_sequence() -> None:
    model = small_gpt()
    found = studies.cached_steps(model, 7)
    assert found["float32"].nbytes == KVCache(1, 12, 2, 2, 10).nbytes
    assert found["int8"].nbytes < found["float32"].nbytes / 2
    assert all(each.step.median > 0 for each in found.values())
    assert cache_of(model) is None


def test_codes_are_scored_on_answers_and_on_logits() -> None:
    model = small_gpt()
    questions = tokens_of(6, 9)
    right = np.sort(questions[:, :6], axis=1)

    def answers(cache: KVCache) -> npt.NDArray[np.int64]:
        assert cache.batch_size == 6
        return right if type(cache) is KVCache else np.concatenate([right[:3], right[3:] + 1])

    with no_grad():
        tokens = tokens_of(3, 8)
        whole = model(tokens).data
    scores, error = studies.scored_codes(answers, questions, model, tokens, whole)
    assert scores == {"float32": 1.0, "int8": 0.5}
    assert 1e-6 < error < 0.1
    assert cache_of(model) is None


def test_a_step_in_one_op_is_timed_in_turns_with_the_step_op_by_op() -> None:
    model = small_gpt()
    fused = fuse_decoding(model)
    plain_cache, fused_cache = enable_kv_cache(model), enable_kv_cache(fused)

    def stepping(model: GPT, cache: KVCache) -> None:
        cache.stand_at(4)
        model(np.array([[3]]), last=True)

    between, step = studies.one_op_a_token(stepping, (model, plain_cache), (fused, fused_cache))
    assert 0 < between.median < 1
    assert "one op a token" in step["op by op"].how["interleaved_with"]
    assert cache_of(model) is cache_of(fused) is None


def test_the_race_is_run_or_says_why_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    why, raced = NotMeasured("it is not here"), Raced("gpt-1", "decode", 1, {}, {})
    monkeypatch.setattr(studies, "study", lambda *_, **__: why)
    assert studies.race_with_pytorch() is why
    monkeypatch.setattr(studies, "study", lambda *_, **__: [raced])
    assert studies.race_with_pytorch() is raced


def test_masks_are_kept_for_one_length_and_not_for_a_growing_text() -> None:
    found = studies.hits_of_growth(GPT(13, 8, 2, 2, 80, seed=0).eval(), np.array([[3]]))
    assert found["same"] == 15 / 16
    assert found["growing"] == 0.5

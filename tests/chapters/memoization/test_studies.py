"""The studies of the page on memoization count and time what they say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.perf.made_ceilings import made_ceilings, spread
from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.chapters.memoization import studies
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines import Raced
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, cache_of


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
        assert cached.name in uncached.conditions.interleaved_with
    assert cache_of(model) is None


def test_caches_take_turns_with_one_model() -> None:
    model = small_gpt()
    caches = {"one": KVCache(1, 12, 2, 2, 10), "three": KVCache(3, 12, 2, 2, 10)}
    times = studies.step_times(model, caches, 11)
    assert times["three"].name in times["one"].conditions.interleaved_with
    assert cache_of(model) is None
    with pytest.raises(ValueError, match="position"):
        studies.step_times(model, {"one": caches["one"]}, 12)
    assert cache_of(model) is None, "after an error too"


def test_batches_take_turns() -> None:
    one, two = studies.batch_times(small_gpt(), [1, 2], 5)
    assert (one.name, two.name) == ("batch 1", "batch 2")
    assert one.name in two.conditions.interleaved_with


def test_peaks_hold_the_scores_when_a_backward_will_follow() -> None:
    small, large = studies.attention_peaks([64, 256], 2, 8, training=True)
    assert large >= 2 * 256 * 256 * 4
    assert small >= 2 * 64 * 64 * 4
    assert large < 2 * 256 * 256 * 4 + 20 * 256 * 16 * 4


def test_masks_of_one_length_are_found_and_of_growing_ones_are_not() -> None:
    model = small_gpt()
    with no_grad():
        assert studies.mask_hits(lambda: [model(tokens_of(1, 7)) for _ in range(5)]) == 0.9
        assert studies.mask_hits(lambda: [model(tokens_of(1, n)) for n in range(2, 8)]) == 0.5
    with pytest.raises(ValueError, match="asked for none"):
        studies.mask_hits(lambda: None)


def test_decoding_variants_read_fewer_bytes_and_make_larger_errors() -> None:
    model = GPT(13, 96, 1, 4, 6, seed=0).eval()
    made = studies.decoding_variants(model, 3, repeats=6)
    assert [each.name for each in made] == ["float32", "8-bit weights", "8-bit weights and cache"]
    plain, eight, both = made
    assert plain.error < 1e-5 < eight.error < 0.5
    # All parameters but five of the six rows of positions, and three positions of keys and values.
    assert plain.nbytes == 4 * (sum(parameter.size for parameter in model.parameters()) - 5 * 96) + 3 * 2 * 96 * 4
    assert both.nbytes < eight.nbytes < plain.nbytes / 3
    assert all(each.name in eight.step.conditions.interleaved_with for each in (plain, both))
    with pytest.raises(ValueError, match=r"position must lie in 1\.\.5"):
        studies.decoding_variants(model, 6)


@pytest.mark.parametrize("kind", [KVCache, QuantizedKVCache])
def test_a_step_reads_all_weights_and_the_positions_before_it(kind: type[KVCache]) -> None:
    model = small_gpt()
    weights, cached = studies.step_bytes(model, kind(3, 12, 2, 2, 10), 5)
    assert weights == 4 * (sum(parameter.size for parameter in model.parameters()) - 11 * 20)
    assert cached == 5 * 2 * 2 * 2 * (10 * 4 if kind is KVCache else 10 + 4)


def test_calls_are_those_of_a_model_with_fewer_numbers() -> None:
    model = small_gpt()
    found = studies.cost_of_calls(model, 4, repeats=6)
    others = found.step.conditions.interleaved_with
    assert {found.calls.name, found.fused.name, found.one_call.name} == set(others)
    assert found.flops == studies.step_flops(model, 4, cached=True)
    assert found.nbytes == sum(studies.step_bytes(model, KVCache(1, 12, 2, 2, 10), 4))
    assert cache_of(model) is None


def test_steps_stand_beside_what_their_bytes_predict() -> None:
    machine: Ceilings = made_ceilings()  # whose L1 of 32 KiB delivers 400 GB/s, and its L2 100 GB/s
    call = spread(1e-5, "s")
    small = GPT(13, 8, 1, 2, 8, seed=0).eval()
    found = studies.read_steps({"small": small, "wider": small_gpt()}, call, machine, repeats=6)
    assert [(each.model, each.position) for each in found] == [
        *(("small", position) for position in (0, 4, 7)),
        *(("wider", position) for position in (0, 6, 11)),
    ]
    for each in found:
        total = each.weights + each.cache
        assert each.level == ("L1" if total <= 32 * 1024 else "L2")
        rate = 400e9 if each.level == "L1" else 100e9
        assert each.predicted.median == pytest.approx(1e-5 + total / rate)
    assert {each.level for each in found} == {"L1", "L2"}
    assert [each.alone is not None for each in found] == 2 * [False, False, True]
    last = found[-1]
    assert last.alone is not None
    assert last.alone.name in last.step.conditions.interleaved_with
    assert found[1].step.name in found[2].step.conditions.interleaved_with


def test_a_kept_prompt_reads_the_new_tokens_alone() -> None:
    model = small_gpt()
    found = studies.reused_prompt(model, kept=8, new=3)
    assert (found.kept, found.new) == (8, 3)
    assert {found.rest.name, found.step.name} == set(found.whole.conditions.interleaved_with)
    assert cache_of(model) is None


def test_products_of_a_few_rows_are_taken_in_turns_with_those_of_one() -> None:
    found = studies.few_rows(small_gpt(), rows=3, repeats=6)
    assert found.rows == 3
    names = {one.name for one in (*found.library, *found.packed)}
    assert len(names) == 4
    assert {found.library[0].name, *found.library[0].conditions.interleaved_with} == names


@pytest.mark.parametrize("cached", [False, True])
def test_the_counter_finds_the_arithmetic_of_a_text_that_the_formula_gives(cached: bool) -> None:
    model = small_gpt()
    assert studies.counted_text(model, tokens_of(1, 1), 9, cached) == studies.text_flops(model, 9, cached)
    assert cache_of(model) is None


@pytest.mark.parametrize("cached", [False, True])
def test_the_arithmetic_of_a_text_is_that_of_its_steps(cached: bool) -> None:
    model = GPT(11, 96, 2, 4, 512, seed=0).eval()
    for position in (0, 5, 63):
        step = studies.step_flops(model, position, cached)
        longer, shorter = (sum(studies.text_flops(model, n, cached).values()) for n in (position + 1, position))
        assert longer - shorter == step


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


def test_the_race_is_run_or_says_why_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    why, raced = Unmeasured("it is not here"), Raced("gpt-1", "decode", 1, {}, {})
    monkeypatch.setattr(studies, "study", lambda *_, **__: why)
    assert studies.race_with_pytorch() is why
    monkeypatch.setattr(studies, "study", lambda *_, **__: [raced])
    assert studies.race_with_pytorch() is raced


def test_masks_are_kept_for_one_length_and_not_for_a_growing_text() -> None:
    found = studies.hits_of_growth(GPT(13, 8, 2, 2, 80, seed=0).eval(), np.array([[3]]))
    assert found["same"] == 15 / 16
    assert found["growing"] == 0.5

"""The studies of the page on memoization time what they say, and make of it what follows by hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.chapters.made_turns import in_turns, made
from tests.perf.made_ceilings import made_ceilings, spread
from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.chapters.memoization import studies
from tinytorch.chapters.memoization.counts import step_flops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.turns import Raced
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, cache_of

#: Its L1 of 32 KiB delivers 400 GB/s, its L2 100 GB/s, and its memory 10 GB/s.
MACHINE = made_ceilings()


def in_turns_with(one: Measurement) -> set[str]:
    return {one.name, *one.conditions.interleaved_with}


def test_texts_are_written_both_ways_in_turns() -> None:
    model = small_gpt()
    found = studies.speedups(model, tokens_of(2, 3), [1, 4], repeats=2)
    assert {count: (each.n, each.unit) for count, each in found.items()} == {1: (2, ""), 4: (2, "")}
    assert found[4].name == "speedup at 4 tokens, 2 layers of 20"
    assert cache_of(model) is None


@pytest.mark.parametrize(("at_hundred", "verdict"), [(18.0, "supported"), (10.0, "refuted"), (16.7, "open")])
def test_a_table_holds_if_each_row_does_at_its_length(at_hundred: float, verdict: str) -> None:
    found = {10: made(8.0, noise=0.01), 100: made(at_hundred, noise=0.01)}
    assert studies.all_reach(found, {10: 7.5, 100: 16.7}).verdict == verdict


def test_caches_take_turns_with_one_model() -> None:
    model = small_gpt()
    caches = {"one": KVCache(1, 12, 2, 2, 10), "three": KVCache(3, 12, 2, 2, 10)}
    times = studies.step_times(model, caches, 11)
    assert in_turns_with(times["one"]) == {"one", "three"}
    assert cache_of(model) is None
    with pytest.raises(ValueError, match="position"):
        studies.step_times(model, {"one": caches["one"]}, 12)
    assert cache_of(model) is None, "after an error too"


def test_batches_stand_beside_what_the_bytes_of_their_caches_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = in_turns({"batch 1": 1 / 100, "batch 64": 64 / 300}, noise={"batch 1": 0.01, "batch 64": 0.01})
    monkeypatch.setattr(studies, "step_times", lambda *_: steps)
    found = studies.batches(GPT(11, 96, 2, 4, 512, seed=0).eval(), [1, 64], 255, MACHINE)
    assert {size: rate.median for size, rate in found.rates.items()} == pytest.approx({1: 100, 64: 300})
    assert found.waits == {1: steps["batch 1"], 64: steps["batch 64"]}
    # 63 further caches of 255 positions, from memory.
    wait = 0.01 + 63 * 255 * 2 * 2 * 96 * 4 / 10e9
    assert {size: rate.value for size, rate in found.allowed_rates.items()} == pytest.approx({1: 100, 64: 64 / wait})
    assert found.allowed_waits[64].value == pytest.approx(wait)


def test_codes_are_scored_on_answers_and_timed_beside_floats() -> None:
    model = small_gpt()
    questions = tokens_of(6, 9)
    right = np.sort(questions[:, :6], axis=1)

    def answers(cache: KVCache) -> npt.NDArray[np.int64]:
        assert cache.batch_size == 6
        return right if type(cache) is KVCache else np.concatenate([right[:3], right[3:] + 1])

    floats, codes = studies.cached_codes(answers, questions, model, model, 7).values()
    assert (floats.score.value, codes.score.value) == (1.0, 0.5)
    assert floats.nbytes.value == KVCache(1, 12, 2, 2, 10).nbytes > 2 * codes.nbytes.value
    assert in_turns_with(floats.step) == {"float32", "int8 codes"}
    with no_grad():
        tokens = tokens_of(3, 8)
        assert 1e-6 < studies.code_error(model, tokens, model(tokens).data).value < 0.1
    assert cache_of(model) is None


@pytest.mark.parametrize("kind", [KVCache, QuantizedKVCache])
def test_a_step_reads_all_weights_and_the_positions_before_it(kind: type[KVCache]) -> None:
    model = small_gpt()
    weights, cached = studies.step_bytes(model, kind(3, 12, 2, 2, 10), 5)
    assert weights == 4 * (sum(parameter.size for parameter in model.parameters()) - 11 * 20)
    assert cached == 5 * 2 * 2 * 2 * (10 * 4 if kind is KVCache else 10 + 4)


def test_calls_are_those_of_a_model_with_fewer_numbers() -> None:
    model = small_gpt()
    found = studies.cost_of_calls(model, 4, MACHINE, repeats=6)
    assert {found.fused.name, found.one_call.name} < in_turns_with(found.step)
    assert found.share.unit == "%"
    assert found.arithmetic.median == pytest.approx(step_flops(model, 4, cached=True) / 100e9)
    nbytes = sum(studies.step_bytes(model, KVCache(1, 12, 2, 2, 10), 4))
    assert found.reading.median == pytest.approx(nbytes / (400e9 if nbytes <= 32 * 1024 else 100e9))
    assert cache_of(model) is None


def test_steps_stand_beside_what_their_bytes_predict() -> None:
    models = {"small": GPT(13, 8, 1, 2, 8, seed=0).eval(), "wider": small_gpt()}
    found = studies.read_steps(models, spread(1e-5, "s"), MACHINE, repeats=6)
    kept = {"small": (0, 4, 7), "wider": (0, 6, 11)}
    assert list(found) == [f"{name}, {position} kept" for name, positions in kept.items() for position in positions]
    for each in found.values():
        rate = 400e9 if each.nbytes.value <= 32 * 1024 else 100e9
        assert (each.slope.of, each.slope.bandwidth.median) == ("L1" if rate == 400e9 else "L2", rate)
        assert each.reading.value == pytest.approx(each.nbytes.value / rate)
        assert each.predicted.value == pytest.approx(1e-5 + each.reading.value)
        assert each.over.median == pytest.approx(each.step.median / each.predicted.value)
        assert each.product.name in in_turns_with(each.step)
    first, last = found["small, 0 kept"], found["wider, 11 kept"]
    assert (first.slope.of, last.slope.of) == ("L1", "L2")
    as_long = studies.times_as_long(last.predicted, first.predicted, "both")
    assert as_long.value == pytest.approx(last.predicted.value / first.predicted.value)
    assert isinstance(as_long, Modelled)


def test_a_kept_prompt_reads_the_new_tokens_alone() -> None:
    model = small_gpt()
    found = studies.reused_prompt(model, kept=8, new=3)
    assert in_turns_with(found["whole"]) == {"whole", "rest", "step"}
    assert found["token"].median == pytest.approx(found["whole"].median / 11)
    assert cache_of(model) is None


def test_products_of_a_few_rows_are_taken_in_turns_with_those_of_one() -> None:
    found = studies.few_rows(small_gpt(), rows=3, repeats=6)
    assert {each.name for way in found.values() for each in way.values()} == in_turns_with(found["packed"][3])


def test_guesses_gain_what_they_write_for_each_step_that_they_take() -> None:
    one, few = in_turns({"one": 0.05, "few": 0.06}, noise={"one": 0.01, "few": 0.01}).values()
    assert studies.guess_gain({1: one, 3: few}, right=0.5).value == pytest.approx((1 + 0.5 + 0.25) / 1.2, rel=0.05)


def test_decoding_variants_read_fewer_bytes_and_make_larger_errors() -> None:
    model = GPT(13, 96, 1, 4, 6, seed=0).eval()
    call = spread(1e-5, "s")
    ways, beside = studies.decoding_variants({"one": model}, 3, call, MACHINE, matters=0.05, repeats=6)
    assert list(ways) == [f"one, {kept}" for kept in ("float32", "8-bit weights", "8-bit weights and cache")]
    plain, eight, both = ways.values()
    assert plain.error.value < 1e-5 < eight.error.value < 0.5
    # All parameters but five of the six rows of positions, and three positions of keys and values.
    numbers = sum(parameter.size for parameter in model.parameters()) - 5 * 96
    assert plain.nbytes.value == 4 * numbers + 3 * 2 * 96 * 4
    assert both.nbytes.value < eight.nbytes.value < plain.nbytes.value / 3
    assert (plain.predicted, plain.gain) == (None, None)
    assert eight.gain is beside["one, 8-bit weights"].estimate
    assert eight.predicted is not None
    before, after = (1e-5 + each.nbytes.value / 100e9 for each in (plain, eight))  # both from L2
    assert eight.predicted.value == pytest.approx(before / after)


@pytest.mark.parametrize(("eager", "concatenated", "cache"), [(4.0, 3.0, "grown"), (1.5, 3.0, "whole")])
def test_pytorch_is_represented_by_its_faster_cache(
    monkeypatch: pytest.MonkeyPatch, eager: float, concatenated: float, cache: str
) -> None:
    times = in_turns({"tinytorch": 2.0, "tinytorch accelerated": 1.0, "eager": eager, "concatenated": concatenated})
    monkeypatch.setattr(studies, "study", lambda *_, **__: [Raced("gpt-1", "decode", 1, times, {})])
    found = studies.race_with_pytorch({"eager": "whole", "concatenated": "grown"})
    assert found.cache == cache
    assert found.over_ours.median == min(eager, concatenated)
    assert found.over_numpy.median == min(eager, concatenated) / 2


def test_without_pytorch_there_is_no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    why = Unmeasured("it is not here")
    monkeypatch.setattr(studies, "study", lambda *_, **__: why)
    assert studies.race_with_pytorch({"eager": "whole"}) is why

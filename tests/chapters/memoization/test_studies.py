"""The studies of the page on memoization time what they say, and make of it what follows by hand."""

import pytest

from tests.chapters.made_turns import in_turns, made
from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.chapters.memoization import studies
from tinytorch.chapters.memoization.counts import step_flops
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.turns import Raced
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, cache_of


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


@pytest.mark.parametrize("kind", [KVCache, QuantizedKVCache])
def test_a_step_reads_all_weights_and_the_positions_before_it(kind: type[KVCache]) -> None:
    model = small_gpt()
    weights, cached = studies.step_bytes(model, kind(3, 12, 2, 2, 10), 5)
    assert weights == 4 * (sum(parameter.size for parameter in model.parameters()) - 11 * 20)
    assert cached == 5 * 2 * 2 * 2 * (10 * 4 if kind is KVCache else 10 + 4)


def test_bounds_are_those_of_the_shape_at_the_rates_beside() -> None:
    model = small_gpt()
    found = studies.two_workloads({"small": model}, rows=8, at_most_seconds=1.0)
    prefill, step = found["small, prefill"], found["small, step"]
    assert step.flops.value == step_flops(model, 8, cached=True)
    assert prefill.flops.value == step_flops(model, 7, cached=False)
    assert step.nbytes.value == sum(studies.step_bytes(model, KVCache(1, 12, 2, 2, 10), 8))
    assert in_turns_with(step.measured) == {"prefill", "step", "many rows", "one row"}
    assert step.by_bytes == prefill.by_bytes
    assert prefill.by_flops.value == pytest.approx(step.by_flops.value * prefill.flops.value / step.flops.value)
    predicted, gain = studies.rows_saved(found, "small")
    assert predicted.value == pytest.approx(prefill.balance.median)
    assert gain.estimate.n == step.measured.n
    assert cache_of(model) is None


def test_codes_take_fewer_bytes_and_a_small_error() -> None:
    model = GPT(13, 96, 1, 4, 6, seed=0).eval()
    kinds, compared, predicted = studies.coded_caches(model, 2 * [studies.logit_errors(model, rows=6)], texts=2)
    floats, codes = kinds.values()
    assert floats.nbytes.value == KVCache(2, 6, 1, 4, 24).nbytes
    assert codes.nbytes.value == QuantizedKVCache(2, 6, 1, 4, 24).nbytes
    assert floats.read.value - codes.read.value == 5 / 6 * (floats.nbytes.value - codes.nbytes.value)
    assert predicted.value == floats.read.value / codes.read.value
    assert floats.one.value < 1e-5 < codes.one.value == codes.deep.value < 0.1
    assert set(compared) == {"NumPy", "one op"}
    assert cache_of(model) is None


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


def test_a_whole_text_gains_the_mean_of_its_tokens() -> None:
    last = Modelled(16.0, "", "gain of the token behind 128 rows", "the two bounds")
    # The ridge has eight rows: eight tokens gain nothing, the ninth 9 / 8, the tenth 10 / 8.
    assert studies.text_gain(last, 8, rows=128).value == 1
    assert studies.text_gain(last, 10, rows=128).value == pytest.approx((8 + 9 / 8 + 10 / 8) / 10)


def test_a_gain_is_held_against_its_prediction() -> None:
    gain, carried = made(6.0), made(3.0)
    assert studies.over_predicted(gain, Modelled.by("bounds", carried)).median == pytest.approx(2)
    assert studies.over_predicted(gain, Modelled(3.0, "", "gain", "bounds")).median == pytest.approx(2)

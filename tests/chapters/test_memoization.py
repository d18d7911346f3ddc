"""What the page on memoization counts and works out, against closed forms and what was published."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import made
from tests.perf.made_ceilings import made_ceilings
from tests.perf.small_models import small_gpt, tokens_of
from tinytorch.chapters.memoization import counts, studies
from tinytorch.perf.measuring.values import as_measurement
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, cache_of

GPT2 = KVCache(1, 1024, 12, 12, 64)


def test_step_flops_are_the_closed_form() -> None:
    model = small_gpt()
    for position in (0, 1, 11):
        length = position + 1
        products, head = 2 * 2 * 12 * 20 * 20, 2 * 20 * 13
        assert counts.step_flops(model, position, cached=True) == products + 2 * 4 * 20 * length + head
        again = products * length + 2 * 4 * 20 * length**2 + head
        assert counts.step_flops(model, position, cached=False) == again
    assert cache_of(model) is None


@pytest.mark.parametrize("cached", [False, True])
def test_a_text_does_the_arithmetic_of_its_steps_part_by_part(cached: bool) -> None:
    n = 9
    found = {part: one.value for part, one in counts.counted_text(small_gpt(), tokens_of(1, 1), n, cached).items()}
    rows, pairs = (n, n * (n + 1) // 2) if cached else (n * (n + 1) // 2, sum(k * k for k in range(1, n + 1)))
    products, attention, logits = 24 * 20**2 * 2 * rows, 4 * 20 * 2 * pairs, 2 * 20 * 13 * n
    assert [*found.values()] == [products, attention, products + attention + logits]


def test_keys_are_the_sums_of_the_text() -> None:
    found = counts.keys_of(100)
    assert [found[name].value for name in ("computed", "keys", "pairs")] == [5050, 50.5, 67]


def test_answers_follow_from_shapes() -> None:
    """Memory of made ceilings delivers 10 GB/s."""
    answers = counts.answers(GPT2, made_ceilings(), made(0.01, "s"))
    found = {name: as_measurement(answer).median for name, answer in answers.items()}
    read = 4 * (124_439_808 - 1023 * 768)
    assert found["outweigh floats"] * GPT2.nbytes > read > (found["outweigh floats"] - 1) * GPT2.nbytes
    assert found["outweigh codes"] == 2, "139 MB of codes, two caches of 75 MB"
    assert found["full step"] == pytest.approx((read + GPT2.nbytes) / 10e9)
    assert found["seven billion"] == pytest.approx(1.2)


def test_a_step_reads_two_numbers_for_each_layer_head_and_place_in_it() -> None:
    llama = counts.Published(8e9, layers=32, kv_heads=8)
    # Grattafiori et al. 2024, table 3: 2 · 32 · 8 · 128 numbers of two bytes are 128 KiB a position.
    assert (llama.weights, llama.position) == (16e9, 128 * 1024)
    alone, many, unshared = llama.step(131_072), llama.step(131_072, 3), replace(llama, kv_heads=32).step(131_072)
    assert alone["caches"].value == pytest.approx(2**34 / 1e9)
    assert many["caches"].value == pytest.approx(3 * 2**34 / 1e9)
    assert unshared["caches"].value == 4 * alone["caches"].value
    # 3.35 TB/s: Austin et al. 2025.
    assert many["time"].value == pytest.approx((16e9 + 3 * 2**34) / 3.35e12)
    assert many["rate"].value == pytest.approx(3 / many["time"].value)
    # Our cache in its formula: GPT-2 small has twelve heads of 64 that share nothing, in float32.
    assert counts.Published(124e6, 12, 12, 64, 4, 4).position * 1024 == GPT2.nbytes


@pytest.mark.parametrize("kind", [KVCache, QuantizedKVCache])
def test_a_step_reads_all_weights_and_the_positions_before_it(kind: type[KVCache]) -> None:
    model = small_gpt()
    weights = 4 * (sum(parameter.size for parameter in model.parameters()) - 11 * 20)
    kept = 3 * 5 * 2 * 2 * 2 * (10 * 4 if kind is KVCache else 10 + 4)
    assert studies.step_bytes(model, kind(3, 12, 2, 2, 10), 5).value == weights + kept


def test_published_rates_are_compared_with_the_bandwidth() -> None:
    found = counts.compared_with_bound({"16 bits": (100.0, 1300e9)}, 1625e9, "somebody")["16 bits"]
    assert [found[name].value for name in ("read", "bound", "found", "share")] == pytest.approx([13, 125, 100, 0.8])


def test_step_gains_less_than_its_cache_by_amdahls_law() -> None:
    assert studies.gain_if_rest_stays(made(0.25), 4).value == pytest.approx(1 / (0.25 + 0.75 / 4))
    assert studies.gain_if_rest_stays(made(1.0), 4).value == 1


def test_bounds_of_a_call_bend_at_the_ridge() -> None:
    calls = studies.time_calls(small_gpt(), [2, 4])
    ridge = calls.ridge.value
    assert [row["tokens"] for row in calls.curve] == [2, 4]
    assert [row["bounds"].value for row in calls.curve] == pytest.approx([max(n / ridge, 1) for n in (2, 4)])


def test_studies_give_the_model_back_without_a_cache() -> None:
    model = small_gpt()
    studies.speedups(model, tokens_of(2, 3), [4], repeats=1)
    studies.time_calls(model, [2, 8])
    studies.coded_steps(model, {"8 bits": QuantizedKVCache.of(model, 2)})
    assert cache_of(model) is None
    assert np.isfinite(model(tokens_of(1, 3)).data).all()

"""What the page on memoization counts and works out, against closed forms and what was published."""

from dataclasses import replace

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.chapters.memoization import counts
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.measuring import Counted
from tinytorch.perf.measuring.values import as_measurement
from tinytorch.perf.memoization import KVCache, cache_of

MODEL = GPT(11, 96, 2, 4, 512, seed=0).eval()
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
    model, n = small_gpt(), 9
    found = counts.counted_text(model, tokens_of(1, 1), n, cached)
    assert sum(found.values()) == sum(counts.step_flops(model, position, cached) for position in range(n))
    rows, pairs = (n, n * (n + 1) // 2) if cached else (n * (n + 1) // 2, sum(k * k for k in range(1, n + 1)))
    assert found == {"products": 24 * 20**2 * 2 * rows, "attention": 4 * 20 * 2 * pairs, "logits": 2 * 20 * 13 * n}
    assert cache_of(model) is None


def test_what_a_cache_saves_by_formula_is_what_is_counted() -> None:
    model = small_gpt()
    again, once = (counts.counted_text(model, tokens_of(1, 1), 9, cached) for cached in (False, True))
    found = counts.arithmetic(again, once, 9)
    assert found["products with weights"].ratio.value == 5
    assert found["attention"].ratio.value == pytest.approx(19 / 3)
    together = found["with the logits, together"]
    assert (together.again.value, together.once.value) == (sum(again.values()), sum(once.values()))
    repeated = counts.answers(GPT2, model, 9, made_ceilings())["repetition"]
    assert 1 - 1 / together.ratio.value == pytest.approx(as_measurement(repeated).median)
    share = as_measurement(counts.answers(GPT2, MODEL, 200, made_ceilings())["repetition"]).median
    assert 100 < 1 / (1 - share) < 134, "from (N + 1) / 2 to (2 N + 1) / 3"


def test_keys_are_the_sums_of_the_text() -> None:
    found = counts.keys_of(100)
    assert [found[name].value for name in ("repeated", "keys", "pairs")] == [4950, 50.5, 67]


def test_peaks_hold_the_scores_when_a_backward_will_follow() -> None:
    found = counts.attention_peaks([64, 256], 2, 8, training=True)
    assert found[64].value >= 2 * 64 * 64 * 4
    assert 2 * 256 * 256 * 4 <= found[256].value < 2 * 256 * 256 * 4 + 20 * 256 * 16 * 4
    assert counts.squares(found, 2)[256].value == found[256].value / (2 * 256 * 256 * 4)
    assert counts.by_length({"one": found, "other": found})[64] == {"one": found[64], "other": found[64]}


def test_masks_of_one_length_are_found_and_of_growing_ones_are_not() -> None:
    model = small_gpt()
    with no_grad():
        assert counts.mask_hits(lambda: [model(tokens_of(1, 7)) for _ in range(5)]) == 0.9
        assert counts.mask_hits(lambda: [model(tokens_of(1, n)) for n in range(2, 8)]) == 0.5
    found = counts.hits_of_growth(GPT(13, 8, 2, 2, 80, seed=0).eval(), np.array([[3]]))
    assert (found["same"].value, found["growing"].value) == (15 / 16, 0.5)


def test_answers_follow_from_shapes() -> None:
    machine = made_ceilings()  # whose memory delivers 10 GB/s to 100 GFLOP/s
    answers = counts.answers(GPT2, MODEL, 200, machine)
    found = {name: as_measurement(answer).median for name, answer in answers.items()}
    assert found["with queries"] == 1.5 * GPT2.nbytes
    assert found["positions of equal work"] == 6 * 96
    assert found["the course's cache"] == 8 * 2 * GPT2.nbytes, "eight sequences of twice the length"
    # 4 · 124,439,808 bytes of weights leave 502 MB, and a full cache has 75.5 MB.
    assert found["in a gigabyte"] == 6
    assert found["a tenth of a second"] == pytest.approx(10 * (4 * 124_439_808 + GPT2.nbytes))
    read = 4 * (124_439_808 - 1023 * 768)
    assert found["outweigh floats"] * GPT2.nbytes > read > (found["outweigh floats"] - 1) * GPT2.nbytes
    assert found["outweigh codes"] == 2, "139 MB of codes, two caches of 75 MB"
    assert found["full step"] == pytest.approx((read + GPT2.nbytes) / 10e9)
    assert found["seven billion bytes"] == pytest.approx(10 / 7)
    assert counts.over(Counted(6, "B", "one"), Counted(4, "B", "other"), "both").value == 1.5


def test_a_step_reads_the_weights_and_two_numbers_for_each_layer_head_and_place_in_it() -> None:
    llama = counts.Published(8e9, layers=32, kv_heads=8)
    # Grattafiori et al. 2024, table 3: 2 · 32 · 8 · 128 numbers of two bytes are 128 KiB a position.
    assert (llama.weights, llama.position) == (16e9, 128 * 1024)
    found = counts.steps_of({"shared": (llama, 131_072), "not": (replace(llama, kv_heads=32), 131_072)})
    assert found["shared"]["cache"].value == pytest.approx(2**34 / 1e9)
    assert found["not"]["cache"].value == 4 * found["shared"]["cache"].value
    assert found["shared"]["share"].value == pytest.approx(2**34 / (2**34 + 16e9))
    # Our cache in its formula: GPT-2 small has twelve heads of 64 that share nothing, in float32.
    assert counts.Published(124e6, 12, 12, 64, 4, 4).position * 1024 == GPT2.nbytes

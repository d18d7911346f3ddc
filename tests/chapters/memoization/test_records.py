"""What the page on memoization would say of results that were made up: each word and verdict, on all of its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.memoization import records as chapter
from tinytorch.chapters.memoization.studies import CachedStep, Decoding, Recomputed
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines import NotMeasured, Raced
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.memoization import KVCache
from tinytorch.report import Page
from tinytorch.report.records import Json

MODEL = GPT(11, 96, 2, 4, 512, seed=0)
GPT2 = KVCache(1, 1024, 12, 12, 64)


def made(record: Callable[[Page], None]) -> dict[str, Json]:
    """Return by key what ``record`` adds to a page."""
    page = Page("memoization")
    before = len(page.records)
    record(page)
    return {one.key: one.to_json() for one in page.records[before:]}


def together(seconds: Mapping[str, float]) -> dict[str, Measurement]:
    """Return times around these, taken in turns, with intervals of about a hundredth."""
    draw = np.random.default_rng(0)
    how = {"interleaved_with": list(seconds)}
    return {
        name: Measurement(name, tuple((value * np.exp(0.01 * draw.standard_normal(40))).tolist()), "s", how)
        for name, value in seconds.items()
    }


def pair(uncached: float, cached: float) -> tuple[Measurement, Measurement]:
    """Return the times of a text without and with a cache."""
    both = together({"uncached": uncached, "cached": cached})
    return both["uncached"], both["cached"]


def test_the_arithmetic_of_a_token_is_set_beside_that_of_reading_all_again() -> None:
    found = made(lambda page: chapter.record_step_flops(page, [0, 3], [100, 400], [100, 125]))
    assert (found["last-ratio"]["value"], found["once-growth"]["value"]) == (3.2, 1.25)
    assert [row["position"]["value"] for row in found["step-flops"]["rows"]] == [1, 4]
    assert [row["ratio"]["value"] for row in found["step-flops"]["rows"]] == [1.0, 3.2]


@pytest.mark.parametrize(("error", "word"), [(1e-5, "equal to rounding"), (1e-3, "different")])
def test_logits_are_the_same_if_they_differ_by_rounding(error: float, word: str) -> None:
    found = made(lambda page: chapter.record_logits(page, error, np.array([1.0, -4.0])))
    assert found["same-logits"]["word"] == word
    assert found["largest-logit"]["value"] == 4.0


@pytest.mark.parametrize(
    ("speedup", "verdict"), [(12.0, "supported"), (3.0, "refuted"), (20.0, "refuted"), (10.0, "cannot tell here")]
)
def test_a_cache_is_as_fast_as_claimed_only_if_it_is_at_every_length(speedup: float, verdict: str) -> None:
    lengths = (8, 64, 128, 256)
    times = {n: pair(n * (speedup if n == 64 else 12.0), n) for n in lengths}
    found = made(lambda page: chapter.record_speedups(page, times, {n: pair(30.0, 1.0) for n in (8, 64)}))
    assert found["kv-cache-speedup"]["verdict"] == verdict
    assert found["speedup-64"]["value"] == pytest.approx(speedup, rel=0.05)
    assert found["larger-speedup-64"]["value"] == pytest.approx(30, rel=0.05)
    assert found["growth-once"]["value"] == pytest.approx(2, rel=0.05)
    assert found["growth-again"]["value"] == pytest.approx(2, rel=0.05)
    assert found["rate-again-8"]["value"] == pytest.approx(1 / 12, rel=0.05)
    assert found["rate-once-256"]["value"] == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    ("held", "verdict"), [(6400, "supported"), (6720, "supported"), (6800, "refuted"), (51200, "refuted")]
)
def test_the_courses_bytes_are_held_against_those_of_a_cache(held: int, verdict: str) -> None:
    found = made(lambda page: chapter.record_cache_bytes(page, held, GPT2, MODEL))
    assert found["course-cache-bytes"]["verdict"] == verdict
    a_position = 2 * 2 * 96 * 4
    weights = 4 * sum(parameter.size for parameter in MODEL.parameters())
    assert found["position-bytes"]["value"] == a_position
    assert found["positions-of-weights"]["value"] == pytest.approx(weights / a_position)
    assert found["gpt2-bytes"]["value"] == 2 * 12 * 768 * 1024 * 4
    # Kwon et al. 2023, section 3: 800 KB for a token of OPT-13B.
    assert found["opt-bytes"]["value"] == 800 * 1024


@pytest.mark.parametrize(("last", "word"), [(5e9, "faster"), (30e9, "slower"), (20.2e9, "cannot tell here")])
def test_the_smaller_cache_is_compared_byte_for_byte(last: float, word: str) -> None:
    held = [2**15, 2**20, 2**25]
    seconds = together({str(size): size / rate for size, rate in zip(held, (15e9, 20e9, last), strict=True)})
    levels = made_ceilings().levels
    found = made(lambda page: chapter.record_fitting(page, held, [*seconds.values()], levels, GPT2))
    assert found["rate-drop-verdict"]["word"] == word
    assert found["rate-drop"]["value"] == pytest.approx(20e9 / last, rel=0.05)
    assert found["rate-near"]["value"] == pytest.approx(20e9, rel=0.05)
    assert found["rate-largest"]["value"] == pytest.approx(last, rel=0.05)
    assert found["fits-l3"]["value"] == 2**20 // (2 * 12 * 768 * 4)
    assert found["fits-l3"]["kind"] == "derived"
    assert found["fitting"]["series"][0]["x"] == [1 / 32, 1, 32]  # MiB


@pytest.mark.parametrize(("coded", "word"), [(2e-3, "slower"), (0.5e-3, "faster"), (1.01e-3, "cannot tell here")])
def test_a_step_with_codes_is_as_fast_as_its_comparison_says(coded: float, word: str) -> None:
    times = together({"float32": 1e-3, "int8": coded})
    steps = {"float32": CachedStep(400, times["float32"]), "int8": CachedStep(125, times["int8"])}
    found = made(lambda page: chapter.record_codes(page, {"float32": 0.9, "int8": 0.8}, 0.01, steps))
    assert found["code-speed-verdict"]["word"] == word
    assert found["code-speed"]["value"] == pytest.approx(1e-3 / coded, rel=0.05)
    assert found["code-bytes-ratio"]["value"] == 3.2
    assert (found["float-score"]["value"], found["code-score"]["value"]) == (0.9, 0.8)
    assert [row["score"]["value"] for row in found["codes"]["rows"]] == [0.9, 0.8]


def test_batches_gain_what_the_last_has_over_the_first() -> None:
    steps = [*together({"batch 1": 1 / 100, "batch 64": 64 / 300}).values()]
    found = made(lambda page: chapter.record_batches(page, [1, 64], steps, MODEL))
    assert found["batch-one"]["value"] == pytest.approx(100, rel=0.05)
    assert found["batch-most"]["value"] == pytest.approx(300, rel=0.05)
    assert found["batch-gain"]["value"] == pytest.approx(3, rel=0.05)
    assert found["batch-bytes"]["value"] == KVCache(64, 512, 2, 4, 24).nbytes


def test_a_step_in_one_op_is_compared_with_one_op_by_op() -> None:
    step = together({"op by op": 9e-3, "one op a token": 1e-3})
    found = made(lambda page: chapter.record_fused(page, spread(0.4, "%"), step))
    assert found["fused"]["value"] == pytest.approx(9, rel=0.05)
    assert found["fused-verdict"]["word"] == "faster"
    assert found["step-fused"]["value"] == pytest.approx(1e-3, rel=0.05)


def decodings(gain: float) -> list[Decoding]:
    """Return a step in float32 and one with 8-bit weights, ``gain`` times as fast."""
    step = together({"float32": 1e-3 * gain, "8-bit weights": 1e-3})
    return [
        Decoding("float32", step["float32"], 400, 50, 1e-7),
        Decoding("8-bit weights", step["8-bit weights"], 100, 50, 0.02),
    ]


@pytest.mark.parametrize(("gain", "word"), [(2.0, "faster"), (0.5, "slower"), (1.01, "cannot tell here")])
def test_weights_of_codes_are_as_fast_as_their_comparison_says(gain: float, word: str) -> None:
    found = made(lambda page: chapter.record_weights(page, decodings(3.0), decodings(gain)))
    assert (found["narrow-gain-verdict"]["word"], found["wide-gain-verdict"]["word"]) == ("faster", word)
    assert found["wide-gain"]["value"] == pytest.approx(gain, rel=0.05)
    assert (found["wide-error"]["value"], found["wide-bytes"]["value"], found["narrow-bytes"]["value"]) == (
        0.02,
        400,
        400,
    )
    rows = found["weights"]["rows"]
    assert [row["gain"] is None for row in rows] == [True, False, True, False]
    assert rows[3]["gain"]["interval"] == found["wide-gain"]["interval"]
    assert [row["model"] for row in rows] == 2 * ["2 layers of 96"] + 2 * ["4 layers of 256"]


def raced(eager: float, concatenated: float) -> Raced:
    """Return times of a text: 2 s on NumPy, 1 s in one op a token, and these of PyTorch's two caches."""
    names = ("tinytorch", "tinytorch accelerated", "PyTorch eager", "PyTorch eager, cache concatenated")
    return Raced("gpt-1", "decode", 1, together(dict(zip(names, (2.0, 1.0, eager, concatenated), strict=True))), {})


@pytest.mark.parametrize(
    ("eager", "concatenated", "cache", "twice"),
    [
        (4.0, 3.0, "concatenation", "yes"),
        (1.5, 3.0, "buffers taken at the start", "no"),
        (2.0, 9.0, "buffers taken at the start", "cannot tell here"),
    ],
)
def test_pytorch_is_represented_by_its_faster_cache(eager: float, concatenated: float, cache: str, twice: str) -> None:
    found = made(lambda page: chapter.record_pytorch(page, raced(eager, concatenated)))
    assert (found["pytorch-cache"]["word"], found["pytorch-twice"]["word"]) == (cache, twice)
    assert found["pytorch-over-ours"]["value"] == pytest.approx(min(eager, concatenated), rel=0.05)
    assert found["pytorch-over-numpy"]["value"] == pytest.approx(min(eager, concatenated) / 2, rel=0.05)


def test_without_pytorch_all_that_the_text_names_is_absent() -> None:
    there = made(lambda page: chapter.record_pytorch(page, raced(4.0, 3.0)))
    absent = made(lambda page: chapter.record_pytorch(page, NotMeasured("PyTorch is not installed")))
    assert set(absent) == set(there)
    assert {record["kind"] for record in absent.values()} == {"absent"}
    assert absent["pytorch-twice"]["reason"] == "PyTorch is not installed"


@pytest.mark.parametrize(("forward", "verdict"), [(380, "supported"), (200, "refuted")])
def test_memory_is_quadratic_only_if_every_way_of_attention_is(forward: int, verdict: str) -> None:
    found = made(
        lambda page: chapter.record_peaks(page, [1024, 2048], [100, 400], [100, forward], [100, 360]),
    )
    assert found["attention-square-memory"]["verdict"] == verdict
    growth = [found[f"peak-growth-{way}"]["value"] for way in ("training", "forward", "compiled")]
    assert growth == [4.0, forward / 100, 3.6]


def test_what_is_made_anew_is_told_with_its_share_of_the_pass() -> None:
    names = ("causal mask", "position embeddings", "packed weights", "8-bit weights as floats")
    found = [
        Recomputed(name, spread(n * 1e-3, "s"), spread(0.5e-3, "s"), spread(n / 20, "%"), n * 100)
        for n, name in enumerate(names, start=1)
    ]
    record = made(lambda page: chapter.record_recomputed(page, found, {"same": 0.9, "growing": 0.5}))
    shares = [record[f"memo-{name}"]["value"] for name in ("mask", "packed", "floats")]
    assert shares == pytest.approx([0.05, 0.15, 0.2])
    assert (record["packed-bytes"]["value"], record["floats-bytes"]["value"]) == (300, 400)
    assert (record["hits-same"]["value"], record["hits-growing"]["value"]) == (0.9, 0.5)
    assert [row["what"] for row in record["recomputed"]["rows"]] == list(names)


def test_answers_follow_from_shapes() -> None:
    found = made(lambda page: chapter.record_answers(page, GPT2, MODEL))
    assert found["q-with-queries"]["value"] == 1.5 * GPT2.nbytes
    assert found["q-users"]["value"] == 16 * 2 * 12 * 768 * 1024 * 4
    # A head of 64 numbers of four bytes becomes 64 codes and a scale of four bytes.
    assert found["q-users-codes"]["value"] == 16 * 2 * 12 * 12 * 1024 * 68
    assert found["q-equal"]["value"] == 6 * 96
    assert found["q-repeated"]["value"] == pytest.approx(1 - 1 / found["q-flop-ratio"]["value"])
    assert 100 < found["q-flop-ratio"]["value"] < 256

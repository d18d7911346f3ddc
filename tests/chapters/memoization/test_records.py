"""What the page on memoization would say of results that were made up: each word and verdict, on all of its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.chapters.made_turns import said_in
from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.memoization import records as chapter
from tinytorch.chapters.memoization.studies import PYTORCH, CachedStep, Calls, Decoding, FewRows, Prompt, ReadStep
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines import Raced
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions
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
    conditions = Conditions(interleaved_with=tuple(seconds))
    return {
        name: Measurement(name, tuple((value * np.exp(0.01 * draw.standard_normal(40))).tolist()), "s", conditions)
        for name, value in seconds.items()
    }


def pair(uncached: float, cached: float) -> tuple[Measurement, Measurement]:
    """Return the times of a text without and with a cache."""
    both = together({"uncached": uncached, "cached": cached})
    return both["uncached"], both["cached"]


def test_the_arithmetic_of_a_text_is_told_by_part() -> None:
    again = {"products": 1005, "attention": 802, "logits": 10}
    found = made(lambda page: chapter.record_arithmetic(page, again, {"products": 10, "attention": 6, "logits": 10}))
    ratios = [row["ratio"]["value"] for row in found["arithmetic"]["rows"]]
    assert ratios == pytest.approx([100.5, 802 / 6, 1817 / 26])
    assert (found["saved-products"]["value"], found["saved"]["value"]) == (100.5, 1817 / 26)
    assert found["saved-attention"]["value"] == 802 / 6


@pytest.mark.parametrize(("error", "word"), [(1e-5, "equal to rounding"), (1e-3, "different")])
def test_logits_are_the_same_if_they_differ_by_rounding(error: float, word: str) -> None:
    found = made(lambda page: chapter.record_logits(page, error, np.array([1.0, -4.0])))
    assert said_in(found["same-logits"]) == word
    assert found["largest-logit"]["value"] == 4.0


LENGTHS = (10, 25, 50, 100, 200)


def course(small: Mapping[int, float], larger: Mapping[int, float]) -> dict[str, Json]:
    """Return what the page says of the course where the two models have these speedups by length of text."""
    times, some = ({n: pair(speedup, 1.0) for n, speedup in each.items()} for each in (small, larger))

    def record(page: Page) -> None:
        chapter.record_speedups(page, times, some, MODEL)
        chapter.record_memory(page, GPT2)
        chapter.record_course(page, times, some)

    return made(record)


@pytest.mark.parametrize(("at_hundred", "verdict"), [(18.0, "supported"), (10.0, "refuted"), (16.7, "open")])
def test_the_courses_table_holds_if_each_row_does_at_its_length(at_hundred: float, verdict: str) -> None:
    found = course(dict.fromkeys(LENGTHS, 2.0), {10: 8.0, 25: 13.5, 50: 17.5, 100: at_hundred})
    assert found["kv-cache-speedup"]["verdict"] == verdict
    assert found["larger-speedup-100"]["value"] == pytest.approx(at_hundred, rel=0.05)
    assert found["speedup-200"]["value"] == pytest.approx(2, rel=0.05)
    assert "16.7x" in found["kv-cache-speedup"]["quote"]
    assert not found["kv-cache-speedup"]["counted"]


@pytest.mark.parametrize(
    ("fifty", "longest", "verdict"),
    [(12.0, 14.0, "supported"), (5.0, 14.0, "refuted"), (12.0, 5.0, "refuted"), (10.0, 14.0, "open")],
)
def test_typical_texts_gain_tenfold_only_if_each_does(fifty: float, longest: float, verdict: str) -> None:
    small = dict.fromkeys(LENGTHS, 2.0) | {200: longest}
    found = course(small, {10: 1.0, 25: 1.0, 50: fifty, 100: 13.0})
    assert found["kv-cache-typical"]["verdict"] == verdict


def test_what_shapes_decide_is_counted_and_judged_by_the_courses_own_words() -> None:
    found = course(dict.fromkeys(LENGTHS, 2.0), dict.fromkeys(LENGTHS[:-1], 2.0))
    counted = {key: record["verdict"] for key, record in found.items() if record.get("counted")}
    assert counted == {
        "course-fifty": "supported",
        "course-redundant": "refuted",
        "course-operations": "refuted",
        "course-cache-bytes": "refuted",
        "course-gpt2-bytes": "refuted",
    }
    assert (found["course-repeated"]["value"], found["course-products"]["value"]) == (4950, 50.5)
    assert found["course-pairs"]["value"] == 67  # (2 · 100 + 1) / 3
    assert found["hundred-bytes"]["value"] == 2 * 100 * 64 * 4


def test_the_figure_sets_time_beside_the_arithmetic_of_the_same_text() -> None:
    times = {n: pair(3.0, 1.0) for n in LENGTHS}
    found = made(lambda page: chapter.record_speedups(page, times, {10: pair(4.0, 1.0)}, MODEL))
    small, larger, arithmetic = found["speedup"]["series"]
    assert (small["x"], larger["x"], arithmetic["x"]) == (list(LENGTHS), [10], list(LENGTHS))
    assert {number["kind"] for number in arithmetic["numbers"]} == {"modelled"}
    # Between (N + 1) / 2 and (2 N + 1) / 3, but for the logits.
    assert 100 < arithmetic["numbers"][-1]["value"] < 134


def test_memory_follows_the_formula() -> None:
    found = made(lambda page: chapter.record_memory(page, GPT2))
    assert found["gpt2-bytes"]["value"] == 2 * 12 * 768 * 1024 * 4
    one, eight, most, shared = found["opt"]["rows"]
    # Kwon et al. 2023, section 3: 800 KB for a token of OPT-13B, of 2,048 in the longest request.
    assert one["long"]["value"] == pytest.approx(2048 * 800 * 1024 / 1e9)
    assert eight["all"]["value"] < 40 < most["all"]["value"]
    assert shared["long"]["value"] == pytest.approx(most["long"]["value"] / 5)
    assert shared["rate"]["value"] > found["opt-limit"]["value"] > most["rate"]["value"]


def calls_of(step: float, calls: float) -> Calls:
    """Return a step of 1 MB and 100 MFLOP op by op, and in one op a ninth of it."""
    times = together({"step": step, "calls": calls, "fused": step / 9, "one call": step / 10})
    return Calls(times["step"], times["calls"], times["fused"], times["one call"], 10**8, 10**6)


def read_step(model: str, position: int, predicted: float, step: Measurement, alone: Measurement | None) -> ReadStep:
    """Return a step of 1 MB of weights and 1 kB a position."""
    return ReadStep(model, position, 10**6, 1000 * position, "L2", spread(predicted, "s"), step, alone)


def test_a_step_is_told_with_its_calls_and_with_what_its_bytes_predict() -> None:
    steps = []
    for model, over in (("narrow", 3.0), ("wide", 2.0), ("largest", 1.5)):
        none, whole, alone = together({"none": 1e-3, "all": over * 1e-3, "alone": 1.2e-3}).values()
        steps += [read_step(model, 0, 1e-3, none, None), read_step(model, 500, 1.2e-3, whole, alone)]
    found = made(lambda page: chapter.record_steps(page, calls_of(9e-3, 6e-3), steps, made_ceilings()))
    assert found["middle-over"]["value"] == pytest.approx(2 / 1.2, rel=0.05)
    assert found["largest-over"]["value"] == pytest.approx(1.5 / 1.2, rel=0.05)
    assert found["largest-grown"]["value"] == pytest.approx(1.5, rel=0.05)
    assert found["largest-grown-predicted"]["value"] == 1.5
    assert found["smallest-grown"]["value"] == pytest.approx(3, rel=0.05)
    assert found["smallest-grown-predicted"]["value"] == pytest.approx(1.2)
    assert found["smallest-grown-predicted"]["kind"] == "modelled"
    assert found["calls-share"]["value"] == pytest.approx(6 / 9, rel=0.05)
    assert found["arithmetic-alone"]["value"] == pytest.approx(1e8 / 100e9)
    assert found["bytes-alone"]["value"] == pytest.approx(1e6 / 100e9)  # L2 of the made machine
    assert found["ridge-rows"]["value"] == pytest.approx(2 * 100e9 / 10e9)
    assert found["fused"]["value"] == pytest.approx(9, rel=0.05)
    assert found["fused-verdict"]["word"] == "faster"
    rows = found["steps"]["rows"]
    assert [row["bytes"]["value"] for row in rows][:2] == [10**6, 15 * 10**5]
    assert rows[3]["model"] == "wide, 500 kept"
    assert rows[3]["over"]["value"] == pytest.approx(2 / 1.2, rel=0.05)


def test_the_step_that_is_calculated_by_hand_is_the_middle_models_last() -> None:
    steps = []
    for model, over in (("narrow", 1.0), ("wide", 2.0), ("largest", 3.0)):
        none, whole, alone = together({"none": 1e-3, "all": over * 1e-3, "alone": 1e-3}).values()
        steps += [read_step(model, 0, 1e-3, none, None), read_step(model, 500, over * 1e-4, whole, alone)]
    found = made(lambda page: chapter.record_steps(page, calls_of(9e-3, 6e-3), steps, made_ceilings()))
    assert found["worked-bytes"]["value"] == 15 * 10**5
    assert found["worked-bandwidth"]["value"] == pytest.approx(10e9)  # memory of the made machine: its L2 is smaller
    assert found["worked-reading"]["value"] == pytest.approx(1.5e6 / 10e9)
    assert found["worked-predicted"]["value"] == pytest.approx(2e-4)
    assert {found[f"worked-{key}"]["kind"] for key in ("reading", "predicted")} == {"modelled"}
    assert found["worked-measured"]["value"] == pytest.approx(2e-3, rel=0.05)
    assert found["worked-level"]["word"] == "L2"


@pytest.mark.parametrize(("rest", "word"), [(0.1, "faster"), (2.0, "slower"), (1.001, "no difference")])
def test_a_kept_prefix_is_compared_with_the_whole_prompt(rest: float, word: str) -> None:
    times = together({"whole": 1.0, "rest": rest, "step": 0.05})
    found = made(lambda page: chapter.record_prompt(page, Prompt(400, 20, *times.values())))
    assert said_in(found["prefix-verdict"]) == word
    assert found["prompt-token"]["value"] == pytest.approx(1 / 420, rel=0.05)
    assert found["prompt-step"]["value"] == pytest.approx(0.05, rel=0.05)
    assert found["prompt-steps"]["value"] == pytest.approx(20, rel=0.05)


def test_guesses_gain_what_they_write_for_each_step_that_they_take() -> None:
    one, few, packed_one, packed_few = together(
        {"one": 0.05, "few": 0.2, "packed one": 0.05, "packed few": 0.06}
    ).values()
    found = FewRows(3, (one, few), (packed_one, packed_few))
    said = made(lambda page: chapter.record_guesses(page, found, right=0.5))
    assert said["library-rows"]["value"] == pytest.approx(4, rel=0.05)
    assert said["packed-rows"]["value"] == pytest.approx(1.2, rel=0.05)
    assert said["guess-gain"]["value"] == pytest.approx((1 + 0.5 + 0.25) / 1.2, rel=0.05)


@pytest.mark.parametrize(("coded", "word"), [(2e-3, "slower"), (0.5e-3, "faster"), (1.01e-3, "no difference")])
def test_a_step_with_codes_is_as_fast_as_its_comparison_says(coded: float, word: str) -> None:
    times = together({"float32": 1e-3, "int8": coded})
    steps = {"float32": CachedStep(400, times["float32"]), "int8": CachedStep(125, times["int8"])}
    found = made(lambda page: chapter.record_codes(page, {"float32": 0.9, "int8": 0.8}, 0.01, steps))
    assert said_in(found["code-speed-verdict"]) == word
    assert found["code-speed"]["value"] == pytest.approx(1e-3 / coded, rel=0.05)
    assert found["code-bytes-ratio"]["value"] == 3.2
    assert [row["score"]["value"] for row in found["codes"]["rows"]] == [0.9, 0.8]


def test_batches_gain_what_the_last_has_over_the_first() -> None:
    steps = [*together({"batch 1": 1 / 100, "batch 64": 64 / 300}).values()]
    found = made(lambda page: chapter.record_batches(page, [1, 64], steps, MODEL, made_ceilings()))
    rates = [number["value"] for number in found["batches"]["series"][0]["numbers"]]
    assert rates == pytest.approx([100, 300], rel=0.05)
    assert found["batch-gain"]["value"] == pytest.approx(3, rel=0.05)
    assert found["batch-wait"]["value"] == pytest.approx(64 / 3, rel=0.05)
    waits = [number["value"] for number in found["batches"]["series"][1]["numbers"]]
    assert waits == pytest.approx([1 / 100, 64 / 300], rel=0.05)
    bound = found["batches"]["series"][2]
    # 63 further caches of 255 positions, from the memory of the made machine.
    caches = 63 * 255 * 2 * 2 * 96 * 4
    assert {number["kind"] for number in bound["numbers"]} == {"modelled"}
    assert [number["value"] for number in bound["numbers"]] == pytest.approx(
        [100, 64 / (0.01 + caches / 10e9)], rel=0.05
    )


def decodings(gain: float) -> list[Decoding]:
    """Return a step in float32 and one with 8-bit weights, ``gain`` times as fast."""
    step = together({"float32": 1e-3 * gain, "8-bit weights": 1e-3})
    return [
        Decoding("float32", step["float32"], 4 * 10**6, 1e-7),
        Decoding("8-bit weights", step["8-bit weights"], 10**6, 0.02),
    ]


@pytest.mark.parametrize(("gain", "word"), [(2.0, "faster"), (0.5, "slower"), (1.01, "no difference")])
def test_weights_of_codes_are_as_fast_as_their_comparison_says(gain: float, word: str) -> None:
    call = spread(1e-4, "s")
    found = made(lambda page: chapter.record_weights(page, decodings(3.0), decodings(gain), call, made_ceilings()))
    assert said_in(found["wide-gain-verdict"]) == word
    assert found["wide-gain"]["value"] == pytest.approx(gain, rel=0.05)
    assert found["wide-error"]["value"] == 0.02
    rows = found["weights"]["rows"]
    assert [row["gain"] is None for row in rows] == [True, False, True, False]
    assert rows[3]["gain"]["interval"] == found["wide-gain"]["interval"]
    # 4 MB come from memory at 10 GB/s, 1 MB from L2 at 100 GB/s, each after a call.
    assert rows[1]["predicted"]["value"] == pytest.approx((1e-4 + 4e-4) / (1e-4 + 1e-5))
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
        (2.0, 9.0, "buffers taken at the start", "open"),
    ],
)
def test_pytorch_is_represented_by_its_faster_cache(eager: float, concatenated: float, cache: str, twice: str) -> None:
    found = made(lambda page: chapter.record_pytorch(page, raced(eager, concatenated)))
    assert (found["pytorch-cache"]["word"], said_in(found["pytorch-twice"])) == (cache, twice)
    assert found["pytorch-over-ours"]["value"] == pytest.approx(min(eager, concatenated), rel=0.05)
    assert found["pytorch-over-numpy"]["value"] == pytest.approx(min(eager, concatenated) / 2, rel=0.05)


def test_a_ratio_far_from_two_that_gets_no_verdict_says_what_keeps_it_open() -> None:
    """A reader who sees 4.0× and no verdict has to learn what more than the shown interval it rests on."""
    names = ("tinytorch", "tinytorch accelerated", *PYTORCH)
    seconds = {name: [1.0] * 15 for name in names} | {
        name: (4 * np.exp(np.linspace(-0.4, 0.4, 15))).tolist() for name in PYTORCH
    }
    conditions = Conditions(interleaved_with=tuple(names))
    times = {name: Measurement(name, tuple(values), "s", conditions) for name, values in seconds.items()}
    open_one = made(lambda page: chapter.record_pytorch(page, Raced("gpt-1", "decode", 1, times, {})))["pytorch-twice"]
    assert said_in(open_one) == "open"
    assert open_one["because"] == (
        "the time of PyTorch over ours is {pytorch-over-ours}, but 15 samples like these do not rule out noise that "
        "wanders as far as 2"
    )
    decided = made(lambda page: chapter.record_pytorch(page, raced(4.0, 3.0)))["pytorch-twice"]
    assert decided["because"] == "the time of PyTorch over ours is {pytorch-over-ours}, where 2 would be enough"


def test_without_pytorch_all_that_the_text_names_is_absent() -> None:
    there = made(lambda page: chapter.record_pytorch(page, raced(4.0, 3.0)))
    absent = made(lambda page: chapter.record_pytorch(page, Unmeasured("PyTorch is not installed")))
    assert set(absent) == set(there)
    assert {record["kind"] for record in absent.values()} == {"absent"}
    assert absent["pytorch-twice"]["reason"] == "PyTorch is not installed"


@pytest.mark.parametrize(("share", "verdict"), [(1.1, "supported"), (0.9, "refuted")])
def test_stored_scores_are_a_square_for_each_head(share: float, verdict: str) -> None:
    sizes = [1024, 2048]
    stored = [round(share * 12 * n * n * 4) for n in sizes]
    found = made(lambda page: chapter.record_peaks(page, sizes, stored, [100, 380], [100, 200], heads=12))
    claim = found["attention-square-memory"]
    assert (claim["verdict"], claim["counted"]) == (verdict, True)
    growth = [found[f"peak-growth-{way}"]["value"] for way in ("training", "forward", "compiled")]
    assert growth == pytest.approx([4.0, 3.8, 2.0])
    assert found["peak-squares"]["value"] == pytest.approx(share)


def test_answers_follow_from_shapes() -> None:
    found = made(lambda page: chapter.record_answers(page, GPT2, MODEL, made_ceilings(), {"same": 0.9, "growing": 0.5}))
    assert found["q-with-queries"]["value"] == 1.5 * GPT2.nbytes
    assert found["q-equal"]["value"] == 6 * 96
    assert 1 - 1 / 100 < found["q-repeated"]["value"] < 1 - 1 / 134
    assert found["q-course"]["value"] == 8 * 2 * GPT2.nbytes, "eight sequences of twice the length"
    # 4 · 124,439,808 bytes of weights leave 502 MB, and a full cache has 75.5 MB.
    assert found["q-phone"]["value"] == 6
    assert found["q-phone-rate"]["value"] == pytest.approx(10 * (4 * 124_439_808 + GPT2.nbytes))
    read = 4 * (124_439_808 - 1023 * 768)
    assert found["gpt2-full-step"]["value"] == pytest.approx((read + GPT2.nbytes) / 10e9)
    assert found["gpt2-caches"]["value"] * GPT2.nbytes > read > (found["gpt2-caches"]["value"] - 1) * GPT2.nbytes
    assert found["gpt2-caches-coded"]["value"] == 2, "139 MB of codes, two caches of 75 MB"
    assert found["q-seven"]["value"] == pytest.approx(10 / 7)  # the made machine's memory delivers 10 GB/s
    assert (found["hits-same"]["value"], found["hits-growing"]["value"]) == (0.9, 0.5)

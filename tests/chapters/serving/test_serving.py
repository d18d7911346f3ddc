"""What the page on serving times, counts and simulates, against closed forms and small servers worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.answers import Answer, judged_answers
from tests.perf.made_ceilings import made_ceilings
from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.chapters.memoization.counts import Published
from tinytorch.chapters.serving import counts, exercises, studies
from tinytorch.chapters.serving.server import Request, Server, at_random, even_answers
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.memoization import cache_of


def in_turns_with(one: Measurement) -> set[str]:
    return {one.name, *one.conditions.interleaved_with}


def test_a_static_server_waits_for_its_longest_text_and_another_does_not() -> None:
    """Two rows, steps of a second: answers of four and one, then of two and one; a prefill gives the first token."""
    done = {}
    for static in (True, False):
        texts = [Request(0.0, 1, answer) for answer in (4, 1, 2, 1)]
        done[static] = Server(lambda _: 1.0, lambda _: 0.0, 2, static).serve(texts)
    assert done == {True: 4.0, False: 3.0}


def test_an_empty_server_waits_for_the_next_request() -> None:
    one, other = Request(1.0, 5, 2), Request(10.0, 5, 1)
    assert Server(lambda count: count, lambda tokens: tokens / 10, 4).serve([one, other]) == 10.5
    assert (one.moments, other.moments) == ([1.5, 2.5], [10.5])
    assert (one.first, one.token, one.took) == (0.5, 1.0, 1.5)


def test_pieces_let_steps_pass() -> None:
    gaps, ends = {}, {}
    for chunk in (None, 2):
        writing, comes = Request(0.0, 1, 9), Request(0.5, 6, 1)
        Server(lambda _: 1.0, lambda tokens: tokens, 2, chunk=chunk).serve([writing, comes])
        gaps[chunk], ends[chunk] = writing.gap, comes.moments[-1]
    assert gaps == {None: 7.0, 2: 3.0}
    assert ends == {None: 8.0, 2: 10.0}


def test_requests_are_drawn_once_and_for_all() -> None:
    lengths = [one.answer for one in even_answers(4000, 64, 1)]
    assert (min(lengths), max(lengths)) == (1, 64)
    assert np.mean(lengths) == pytest.approx(32.5, rel=0.05)
    arrivals = [one.arrives for one in at_random(4000, 2.0, 1, 1)]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] == pytest.approx(8000, rel=0.1)


def made_times() -> studies.Times:
    times = object.__new__(studies.Times)
    found = in_turns({"1": 1.0, "16": 2.0, "32": 1.0, "256": 6.0, "whole": 9.0})
    times.steps, times.prefills = {1: found["1"], 16: found["16"]}, {32: found["32"], 256: found["256"]}
    times.whole = found["whole"]
    return times


def test_servers_follow_the_times_of_each_round() -> None:
    times = made_times()
    # 32 / 17 with a step that does not depend on who writes.
    assert studies.continuous_gain(times, rows=16).value == pytest.approx(32 / 17, rel=0.1)
    pieces = studies.longest_gaps(times, rows=16, chunk=32)
    assert 2 < pieces["gap"].value < 4, "a step of two seconds, and then six or one"
    # A step and six seconds, or eight steps with a piece behind each; both after the rest of a step.
    assert (24 + 2) / (8 + 2) < pieces["price"].value < 24 / 8
    assert times.gain.median == pytest.approx(8)


LIMITS = studies.Limits(first=4, token=0.75)


def test_waits_follow_littles_law_with_the_prompts_in_the_round() -> None:
    """Steps take 1 + (b - 1) / 15 and a prompt of 32 one second, so that a round takes 14/15 + b (1/15 + 1/31)."""
    waits = studies.waits_by_load(made_times(), 16, (0.4, 0.6, 1.2), LIMITS)
    each = 1 / 15 + 1 / 31
    full, alone = 14 / 15 + 16 * each, 14 / 15 + each
    rate = 0.6 * 16 / full
    assert waits[0.6].told.value == pytest.approx(14 / 15 / (1 - rate * each) / alone, rel=0.02), "t0 / (1 - s)"
    assert waits[1.2].told.value == pytest.approx(full / alone, rel=0.02), "all rows are full"
    assert waits[0.6].told.value < waits[0.6].took.value < full / alone < waits[1.2].took.value
    assert waits[0.4].token.value < waits[0.6].token.value < waits[1.2].token.value <= 1 + 1e-9
    assert waits[1.2].first.value > 20, "a queue"
    assert waits[0.4].kept.value > 0.95 > 0.3 > waits[1.2].kept.value
    for load, wait in waits.items():
        assert wait.good.value == pytest.approx(load * wait.kept.value)


def test_limits_that_nobody_can_miss_are_kept_by_all_and_those_of_no_time_by_none() -> None:
    for first, token, kept in ((1e9, 1e9, 1.0), (1e9, 0.0, 0.0), (0.0, 1e9, 0.0)):
        limits = studies.Limits(first, token)
        wait = studies.waits_by_load(made_times(), 16, (0.8,), limits, count=20)[0.8]
        assert (wait.kept.value, wait.good.value) == (kept, 0.8 * kept)


def test_all_calls_and_a_whole_batch_take_turns() -> None:
    model = small_gpt()
    times = studies.Times(model, rows=(1, 2), prompts=(2, 4), kept=4, answer=3)
    assert in_turns_with(times.whole) >= {"1 texts", "2 texts", "2 tokens", "4 tokens", "whole"}
    assert times.told.n == times.whole.n
    assert 1 < times.by_bytes.value < 2
    assert times.check.unit == ""
    assert cache_of(model) is None


def test_a_kept_prompt_reads_the_new_tokens_alone() -> None:
    model = small_gpt()
    found = studies.reused_prompt(model, kept=8, new=3)
    assert in_turns_with(found["whole"]) == {"whole", "rest"}
    assert cache_of(model) is None


def test_products_of_a_few_rows_are_taken_in_turns_with_those_of_one() -> None:
    found = studies.products_of(small_gpt(), rows=(1, 3), repeats=6)
    assert {way.name for each in found.values() for way in (each.numpy, each.panels)} == in_turns_with(found[3].panels)


def test_guesses_gain_what_they_write_for_each_step_that_they_take() -> None:
    one, few = in_turns({"one": 0.05, "few": 0.06}, noise={"one": 0.01, "few": 0.01}).values()
    products = {1: studies.Products(1, one, few), 3: studies.Products(3, one, few)}
    assert studies.guess_gain(products, guesses=2, right=0.5).value == pytest.approx((1 + 0.5 + 0.25) / 1.2, rel=0.05)


def test_texts_fit_that_the_formula_leaves_room_for() -> None:
    small, large = Published(8e9, 32, 8), Published(70e9, 80, 8)
    coded = replace(large, weight=1, kept=1)
    found = counts.served({"small": small, "large": large, "coded": coded}, short=8192, long=131072)
    # Grattafiori et al. 2024, table 3: 2 · 32 · 8 · 128 and 2 · 80 · 8 · 128 numbers a position. Memory: 0.92 · 192 GB.
    assert [each.position.value for each in found.values()] == [128 * 1024, 320 * 1024, 160 * 1024]
    assert [each.short.value for each in found.values()] == [149, 13, 79]
    assert [each.long.value for each in found.values()] == [9, 0, 4]
    # 140 GB and thirteen caches of 2.684 GB at 8 TB/s.
    assert found["large"].rate.value == pytest.approx(13 / ((140e9 + 13 * 8192 * 327680) / 8e12))


def test_ridges_are_peak_over_bandwidth() -> None:
    assert counts.ridge_rows(made_ceilings()).median == pytest.approx(20)
    assert counts.quoted_ridge().value == pytest.approx(2250 / 8)


def test_pages_hold_about_twice_as_many_texts_as_slabs() -> None:
    assert counts.texts_that_fit(longest=1024, positions=16, count=2000).value == pytest.approx(2 * 200, rel=0.1)


def test_guesses_leave_the_text_as_it_is() -> None:
    model = small_gpt()
    found = counts.guess_repeats(model, tokens_of(4, 3), 8, guesses=2)
    assert found.same
    assert 1 <= found.tokens.value <= 3
    # Of two guesses a call writes its own token, the first if it is right, and the second behind a right first.
    assert found.tokens.value == pytest.approx(1 + found.right.value * (1 + found.second.value))
    assert found.predicted.value == pytest.approx(1 + found.right.value + found.right.value**2)
    assert cache_of(model) is None


def per_second(weights: float, cache: float, batch: int, bandwidth: float, calls: float) -> float:
    return batch / (calls + (weights + batch * cache) / bandwidth)


RIGHT: list[Answer] = [
    (exercises.check_tokens_per_second, per_second),
    (exercises.check_tokens_of_a_call, lambda right, guesses: sum(right**k for k in range(guesses + 1))),
    (exercises.check_pages, lambda lengths, page: sum(-(-length // page) for length in lengths)),
]
WRONG: list[Answer] = [
    (exercises.check_tokens_per_second, lambda *given: per_second(*given) / 2),
    (exercises.check_tokens_of_a_call, lambda right, guesses: 1 + right * guesses),
    (exercises.check_pages, lambda lengths, page: -(-sum(lengths) // page)),
]

test_a_right_answer_passes, test_a_wrong_answer_fails_and_says_what_would_be_right = judged_answers(RIGHT, WRONG)

"""Tests of the experiments on serving against closed forms and small servers that are worked by hand."""

from dataclasses import replace

import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import made_ceilings
from tests.perf.small_models import small_gpt, tokens_of
from tinytorch.chapters.memoization.counts import Published
from tinytorch.chapters.serving import studies
from tinytorch.chapters.serving.server import Request, Server
from tinytorch.perf.measuring import Counted
from tinytorch.perf.memoization import cache_of


def test_static_server_waits_for_the_longest_answer_and_continuous_does_not() -> None:
    """Two slots, steps of a second: answers of four and one, then of two and one; a prefill gives the first token."""
    done = {}
    for static in (True, False):
        requests = [Request(0.0, 1, answer) for answer in (4, 1, 2, 1)]
        done[static] = Server(lambda _: 1.0, lambda _: 0.0, 2, static).serve(requests)
    assert done == {True: 4.0, False: 3.0}


def test_empty_server_waits_for_the_next_request() -> None:
    one, other = Request(1.0, 5, 2), Request(10.0, 5, 1)
    assert Server(lambda count: count, lambda tokens: tokens / 10, 4).serve([one, other]) == 10.5
    assert (one.moments, other.moments) == ([1.5, 2.5], [10.5])
    assert (one.ttft, one.tpot, one.latency) == (0.5, 1.0, 1.5)


def test_chunks_let_steps_run_in_between() -> None:
    gaps, ends = {}, {}
    for chunk in (None, 2):
        writing, comes = Request(0.0, 1, 9), Request(0.5, 6, 1)
        Server(lambda _: 1.0, lambda tokens: tokens, 2, chunk=chunk).serve([writing, comes])
        gaps[chunk], ends[chunk] = writing.gap, comes.moments[-1]
    assert gaps == {None: 7.0, 2: 3.0}
    assert ends == {None: 8.0, 2: 10.0}


def made_times() -> studies.Times:
    found = in_turns({"1": 1.0, "16": 2.0, "32": 1.0, "256": 6.0, "whole": 9.0})
    steps, prefills = {1: found["1"], 16: found["16"]}, {32: found["32"], 256: found["256"]}
    return studies.Times(steps, prefills, found["whole"], found["whole"], Counted(8, "", "by bytes"))


def test_simulations_use_the_times_of_each_round() -> None:
    times = made_times()
    # 32 / 17 with a step that does not depend on who writes.
    assert studies.continuous_gain(times, slots=16).value == pytest.approx(32 / 17, rel=0.1)
    pieces = studies.longest_gaps(times, slots=16, chunk=32)
    assert 2 < pieces["gap"].value < 4, "a step of two seconds, and then six or one"
    assert pieces["told"].value == pytest.approx((2 + 8) / (2 + 1)), "eight chunks of a second, or one"
    # A step and six seconds, or eight steps with a chunk after each; both after the rest of a step.
    assert (24 + 2) / (8 + 2) < pieces["price"].value < 24 / 8
    assert times.gain.median == pytest.approx(8)


def test_waits_follow_the_formula_of_processor_sharing_with_the_prompts_in_the_step() -> None:
    """Steps take 1 + (b - 1) / 15 and a prompt of 32 one second, so that a token takes 14/15 + b (1/15 + 1/31)."""
    waits = studies.waits_by_load(made_times(), 16, (0.4, 0.6, 1.2), ttft=4, tpot=0.75, count=300)
    each = 1 / 15 + 1 / 31
    full, alone = 14 / 15 + 16 * each, 14 / 15 + each
    found = {load: {name: each.value for name, each in wait.items()} for load, wait in waits.items()}
    low, middle, beyond = found.values()
    for load, wait in ((0.4, low), (0.6, middle)):
        assert wait["told"] == pytest.approx(1 / (1 - load * 16 / full * each), rel=1e-6), "1 / (1 - s)"
        assert wait["told"] == pytest.approx(wait["took"], rel=0.1)
    # 300 requests arrive in 5/6 of the time that the server needs for them, so the last waits 1/6 of that time.
    assert beyond["told"] == pytest.approx((full + 300 / 16 * full / 12) / alone)
    assert beyond["told"] == pytest.approx(beyond["took"], rel=0.25)
    assert low["tpot"] < middle["tpot"] < beyond["tpot"] <= 1 + 1e-9
    assert beyond["ttft"] > 20, "a queue"
    assert low["good"] > 0.4 * 0.95
    assert beyond["good"] < 1.2 * 0.3


def test_batch_shares_the_weights_and_call_times_restore_the_model() -> None:
    model = small_gpt()
    times = studies.call_times(model, batches=(1, 2), prompts=(2, 4), kept=4, answer=3)
    assert 1 < times.by_bytes.value < 2
    assert cache_of(model) is None


def test_as_many_requests_fit_as_the_formula_says() -> None:
    small, large = Published(8e9, 32, 8), Published(70e9, 80, 8)
    coded = replace(large, weight=1, kept=1)
    found = studies.served({"small": small, "large": large, "coded": coded}, positions=8192)
    # Grattafiori et al. 2024, table 3: 2 · 32 · 8 · 128 and 2 · 80 · 8 · 128 numbers a position. Memory: 0.92 · 192 GB.
    assert [each["position"].value for each in found.values()] == [128 * 1024, 320 * 1024, 160 * 1024]
    assert [each["slots"].value for each in found.values()] == [149, 13, 79]
    # 140 GB and thirteen caches of 2.684 GB at 8 TB/s.
    assert found["large"]["rate"].value == pytest.approx(13 / ((140e9 + 13 * 8192 * 327680) / 8e12))


def test_ridge_is_peak_over_bandwidth() -> None:
    assert studies.ridge_rows(made_ceilings()).median == pytest.approx(20)


def test_guesses_do_not_change_the_text() -> None:
    model = small_gpt()
    found = studies.guess_repeats(model, tokens_of(4, 3), 8, guesses=2)
    tokens, right, second, predicted = (found[name].value for name in ("tokens", "right", "second", "predicted"))
    assert found["same"]
    # Of two guesses a call writes its own token, the first if it is right, and the second behind a right first.
    assert tokens == pytest.approx(1 + right * (1 + second))
    assert predicted == pytest.approx(1 + right + right**2)
    assert cache_of(model) is None

"""Counts, laws and sampled programs, against what can be worked out by hand."""

import time

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made
from tinytorch import models
from tinytorch.chapters.profiling import sampling, studies
from tinytorch.perf.measuring import Modelled, Unmeasured
from tinytorch.perf.profiling.program import why_unreadable


def test_shares_from_outside_are_those_of_the_programs_clocks() -> None:
    found = sampling.in_turns(rounds=1)
    if isinstance(found, Unmeasured):
        assert found.reason == why_unreadable()
        return
    shares = {name: row["share"].median for name, row in found.items()}
    assert shares["clocks"] > 0.5, "nearly all, as far as other programs leave it"
    assert shares["outside"] > 0.5
    assert 0 <= shares["inside"] <= 1


def test_a_thread_sees_the_function_that_runs() -> None:
    def busy() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass

    assert sampling.sampled(busy)["busy"] > 0


def test_model_is_counted_layer_by_layer() -> None:
    found = studies.studied({"mlp": models.mlp()})["mlp"]
    layers = ((64, 256), (256, 128), (128, 10))
    assert found["parameters"].value == sum(m * n + n for m, n in layers)
    assert found["flops"].value == sum(2 * m * n for m, n in layers)


def test_attentions_share_of_a_block_is_that_of_its_layers() -> None:
    projections, core, mlp = 2 * 512 * 4 * 768**2, 4 * 512**2 * 768, 2 * 512 * 8 * 768**2
    share = (projections + core) / (projections + core + mlp)
    assert studies.attention_share(512, 768).value == pytest.approx(share)


def test_medians_of_normal_samples_scatter_more_than_means_by_what_the_formula_says() -> None:
    normal = studies.spread_of_means_over_medians(list(np.random.default_rng(0).normal(10, 1, 12_000)))
    assert normal.median == pytest.approx(studies.NORMAL_SPREAD.value, rel=0.1)


def test_tracing_costs_a_second_program_what_each_operation_cost_the_first() -> None:
    """Six operations of 1 µs each become 4 µs each; the second program has twelve and takes 24 µs alone."""
    each = studies.recording_cost(in_turns({"alone": 6e-6, "traced": 24e-6}), 6)
    assert each.median == pytest.approx(3e-6)
    assert studies.slowed_by_tracing(made(24e-6, "s"), each, 12).value == pytest.approx(2.5)


def test_busiest_fifth_is_the_largest_of_five_calls() -> None:
    """An MLP makes six calls, two of which are the fifth rounded up: more than a third and less than all."""
    found = studies.busiest_fifth({"mlp": models.mlp().eval()}, {"mlp": models.example("mlp", batch=64)}, repeats=3)
    assert all(2 / 6 <= share < 1 for share in found["mlp"].samples)


def test_gains_of_batches_follow_a_law_of_two_parts_from_two_batches() -> None:
    """A call of 1 ms, 0.5 ms for each example: half of the limit comes at two. The largest batch is slower."""
    found = studies.throughput("GPT", in_turns({"1": 1.5e-3, "3": 2.5e-3, "5": 7e-3}))
    assert [row["gain"].median for row in found["gains"]] == pytest.approx([3 * 1.5 / 2.5, 5 * 1.5 / 7])
    assert [row["law"].value for row in found["gains"]] == pytest.approx([3 * 1.5 / 2.5, 5 * 1.5 / 3.5])
    assert isinstance(found["half_batch"], Modelled)
    assert found["half_batch"].value == pytest.approx(2)
    assert found["over_law"].median == pytest.approx(3.5 / 7)


def test_law_of_batches_bears_samples_in_which_more_examples_took_less() -> None:
    found = studies.throughput("GPT", in_turns({"1": 1e-3, "3": 1.5e-3, "5": 2e-3}, noise={"3": 0.6}))
    assert found["gains"][-1]["gain"].median == pytest.approx(2.5)


@pytest.mark.parametrize("middle", [1.4e-3, 5e-3])
def test_there_is_no_law_if_an_example_or_a_call_takes_nothing(middle: float) -> None:
    found = studies.throughput("MLP", in_turns({"1": 1.5e-3, "3": middle, "5": 5e-3}))
    assert isinstance(found["half_batch"], Unmeasured)
    assert isinstance(found["gains"][0]["law"], Unmeasured)

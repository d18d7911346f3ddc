"""Counts, laws and sampled programs, against what can be worked out by hand."""

import time
from functools import partial

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made
from tinytorch import models
from tinytorch.chapters.profiling import gpu_trace, sampling, studies
from tinytorch.core.dispatch import no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.measuring import Modelled, Unmeasured
from tinytorch.perf.profiling.program import why_unreadable


def test_shares_from_outside_are_those_of_the_programs_clocks() -> None:
    found = sampling.in_turns(rounds=2)
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


def test_tracing_adds_as_much_to_a_run_that_takes_ten_times_as_long() -> None:
    assert studies.slowed_by_tracing(made(4, ""), made(10, "")).median == pytest.approx(1.3)


def test_amdahls_limit_of_a_quarter_outside_of_operations_is_four() -> None:
    found = studies.limit_without_operations(made(0.25, "%"))
    assert isinstance(found, Modelled)
    assert found.value == pytest.approx(4)
    assert isinstance(studies.limit_without_operations(made(0.001, "%")), Unmeasured)


def test_length_with_a_share_lies_on_the_line_between_two_lengths() -> None:
    found = studies.length_with_share({32: made(0.3, "%"), 64: made(0.5, "%"), 128: made(0.9, "%")}, 0.7)
    assert isinstance(found, Modelled)
    assert found.value == pytest.approx(96)


def test_there_is_no_length_with_a_share_that_no_length_reaches() -> None:
    assert isinstance(studies.length_with_share({32: made(0.3, "%"), 64: made(0.5, "%")}, 0.7), Unmeasured)


def test_boxes_are_predicted_at_the_rate_of_the_one_that_is_trusted() -> None:
    block, x = TransformerBlock(32, 4, seed=0).eval(), Tensor(np.ones((1, 16, 32), np.float32))
    with no_grad():
        found = studies.boxes(partial(block, x), yardstick="expand", repeats=3)
    assert found["expand"]["over"] is None
    assert found["contract"]["over"].n == 3
    assert found["expand"]["flops"].value == 2 * 16 * 32 * 128 + 16 * 128
    assert sum(row["share"].median for row in found.values()) > 0.8


def test_products_and_other_operations_are_timed_in_both_passes() -> None:
    found = studies.backward_parts("mlp", batch=4, repeats=3)
    assert all(over.n == 3 and over.median > 0 for over in found.values())


def test_flops_of_attention_grow_fourfold_and_those_of_a_block_by_the_formula() -> None:
    grown = studies.growth_of_flops(TransformerBlock(32, 4, seed=0).eval(), 32, 8)
    assert grown["attention"].value == 4
    assert grown["block"].value == pytest.approx(2 * (6 * 32 + 2 * 8) / (6 * 32 + 8))


def test_kernels_of_the_published_trace_are_compared_with_the_longer_of_two_bounds() -> None:
    rows = gpu_trace.rows(lambda flops, moved: max(flops / 1e12, moved / 1e12))
    relu, first = rows[2], rows[0]
    assert relu["least"].value == pytest.approx(2 * 4 * 32 * 64 * 112 * 112 / 1e12)
    assert first["least"].value == pytest.approx(2 * 32 * 64 * 112 * 112 * 3 * 49 / 1e12)
    assert first["over"].value == pytest.approx(585.4e-6 / first["least"].value)


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

"""The model of a cluster: costs counted message by message, a pipeline played out, and published formulas."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.cluster_model import collective_costs as costs
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink, given_link
from tinytorch.perf.distributed.cluster_model.prediction import (
    Group,
    Prediction,
    Split,
    best_splits,
    possible_splits,
    predict,
)
from tinytorch.perf.distributed.cluster_model.workload import Part, Workload, transformer_workload

LINE = GivenLink(3.0, 0.5)
RANKS = st.integers(1, 5000)
SIZES = st.floats(1, 1e9)
LINES = st.builds(GivenLink, st.floats(1e-9, 1e-3), st.floats(1e-12, 1e-6))


def counted(messages: list[float]) -> float:
    """Return the time of messages of so many bytes, one after another."""
    return sum(LINE.alpha_s + LINE.beta_s_per_byte * nbytes for nbytes in messages)


def test_a_ring_sends_a_part_to_the_next_rank_in_each_step() -> None:
    for ranks in (2, 3, 7):
        assert costs.ring_all_reduce(84, ranks, LINE) == pytest.approx(counted([84 / ranks] * (2 * (ranks - 1))))


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (8, 3), (1024, 10), (3, 3), (6, 4), (1000, 11)])
def test_doubling_sends_the_whole_array_in_each_round(ranks: int, rounds: int) -> None:
    assert costs.doubling_all_reduce(84, ranks, LINE) == pytest.approx(counted([84] * rounds))


def test_halving_sends_halves_of_halves_and_gathers_them_again() -> None:
    halves = [40.0, 20.0, 10.0]
    assert costs.halving_all_reduce(80, 8, LINE) == pytest.approx(counted([*halves, *reversed(halves)]))
    assert costs.halving_all_reduce(80, 9, LINE) == pytest.approx(counted([80, *halves, *reversed(halves), 80]))


def test_gathering_goes_round_a_ring_or_doubles_what_it_has() -> None:
    assert costs.all_gather(80, 8, LINE) == pytest.approx(counted([10, 20, 40]))
    assert costs.all_gather(60, 3, LINE) == pytest.approx(counted([20, 20]))


def test_small_arrays_are_doubled_and_large_ones_shared_out() -> None:
    link = given_link(10e-6, 1e9)
    assert costs.all_reduce(8, 64, link) == costs.doubling_all_reduce(8, 64, link)
    assert costs.all_reduce(1e8, 64, link) == costs.halving_all_reduce(1e8, 64, link)
    assert costs.all_reduce(1e8, 63, link) == costs.ring_all_reduce(1e8, 63, link)
    assert costs.all_reduce(1e8, 1, link) == costs.all_gather(1e8, 1, link) == 0


@given(SIZES, RANKS, LINES)
def test_nothing_beats_the_bounds_of_latency_and_bandwidth(nbytes: float, ranks: int, line: GivenLink) -> None:
    found = costs.all_reduce(nbytes, ranks, line)
    moved = (ranks - 1) / ranks * nbytes * line.beta_s_per_byte
    assert found >= math.ceil(math.log2(ranks)) * line.alpha_s * (1 - 1e-9)
    assert found >= moved * (1 - 1e-9)
    assert found <= costs.ring_all_reduce(nbytes, ranks, line)
    gathered = costs.all_gather(nbytes, ranks, line)
    assert gathered >= moved * (1 - 1e-9)
    assert found <= 2 * gathered * (1 + 1e-9), "a sum is a reduce-scatter and an all-gather at most"


def test_links_are_checked() -> None:
    with pytest.raises(ValueError, match="alpha_s"):
        GivenLink(-1, 0)
    with pytest.raises(ValueError, match="beta_s_per_byte"):
        GivenLink(0, math.inf)
    with pytest.raises(ValueError, match="bytes_per_second"):
        given_link(0, 0)
    with pytest.raises(ValueError, match="ranks_per_node"):
        Cluster(LINE, LINE, 0)
    assert given_link(0, 4e9).beta_s_per_byte == 0.25e-9


FREE = GivenLink(0.0, 0.0)
SHAPE: dict[str, Any] = {"layers": 4, "width": 64, "heads": 8, "positions": 16, "vocabulary": 100}


def workload(blocks: int, examples: int, block_s: float = 1.0, ends_s: float = 0.0, **changed: Any) -> Workload:
    """Return a made-up workload whose parts are round numbers."""
    block = Part(block_s, 1000, 0, 10.0, 0.0)
    ends = Part(ends_s, 0, 0, 0.0, 0.0)
    made = Workload("made up", blocks, 24, examples, block, ends, 2 / 3, 0.0, 1.0, 4, 0, 4, 4, 8)
    return replace(made, **changed)


def cluster(line: GivenLink = FREE, ranks_per_node: int = 1) -> Cluster:
    return Cluster(line, line, ranks_per_node)


def one_forward_one_backward(stage: int, stages: int, micro: int) -> list[tuple[str, int]]:
    """Return forwards until the first gradient can be back, then backward and forward in turns, each with its number.

    Source: D. Narayanan et al., 2021 (arXiv:2104.04473), section 2.2.1.
    """
    ahead = min(stages - stage - 1, micro)
    turns = [turn for m in range(micro - ahead) for turn in (("forward", ahead + m), ("backward", m))]
    return [("forward", m) for m in range(ahead)] + turns + [("backward", m) for m in range(micro - ahead, micro)]


def played_out(stages: int, micro: int, seconds: list[float], message: float) -> float:
    """Return when the last stage is done that works by the schedule above, a third of it forward.

    A message is on its way for ``message`` seconds, and keeps neither rank from working.
    """
    order = [one_forward_one_backward(stage, stages, micro) for stage in range(stages)]
    done: dict[tuple[str, int, int], float] = {}
    clocks, places = [0.0] * stages, [0] * stages
    while any(place < len(actions) for place, actions in zip(places, order, strict=True)):
        for stage in range(stages):
            while places[stage] < len(order[stage]):
                phase, number = order[stage][places[stage]]
                neighbour, share = (stage - 1, 1 / 3) if phase == "forward" else (stage + 1, 2 / 3)
                first = neighbour in (-1, stages)
                source = ("forward", stage, number) if neighbour == stages else (phase, neighbour, number)
                ready = 0.0 if neighbour < 0 else done.get(source, -1.0)
                if ready < 0:
                    break
                clocks[stage] = max(clocks[stage], ready + (0.0 if first else message)) + seconds[stage] * share
                done[phase, stage, number] = clocks[stage]
                places[stage] += 1
    return max(clocks)


@given(st.integers(2, 7), st.integers(1, 4), st.integers(1, 20), st.floats(0, 5), st.floats(0, 3), st.booleans())
def test_a_pipeline_takes_what_its_schedule_takes_when_it_is_played_out(
    stages: int, each: int, micro: int, ends_s: float, message: float, free: bool
) -> None:
    line = FREE if free else GivenLink(message, 0.0)
    asked = workload(stages * each, micro, 1.0, ends_s)
    found = predict(asked, cluster(line), Split(pipeline=stages, micro=micro))
    seconds = [*[float(each)] * (stages - 1), each + ends_s]
    own = found.seconds - line.alpha_s  # the sum of a tied parameter is no part of the schedule
    assert own == pytest.approx(played_out(stages, micro, seconds, line.alpha_s))


def test_the_bubble_is_the_published_share() -> None:
    for stages, micro in ((4, 8), (2, 1), (8, 64)):
        found = predict(workload(8, micro), cluster(), Split(pipeline=stages, micro=micro))
        assert found.bubble / found.seconds == pytest.approx((stages - 1) / (micro + stages - 1))
        assert found.bubble / found.computing == pytest.approx((stages - 1) / micro)


def test_sums_of_activations_are_four_for_each_block_and_divide_the_work() -> None:
    line = GivenLink(0.001, 0.0)
    found = predict(workload(3, 8), cluster(line), Split(tensor=4, micro=2))
    assert found.computing == pytest.approx(3 * 8 / 4)
    assert found.tensor == pytest.approx(2 * 3 * 4 * 2 * 0.001), "two micro-batches, three blocks, lg 4 steps"


def test_gradients_hide_behind_the_last_backward_only_as_far_as_it_is_long() -> None:
    line = GivenLink(0.0, 1e-3)
    whole = 4 * 3000 * 2 / 2 * 1e-3  # bytes of three blocks, around two ranks
    split = Split(data=2, bucket_bytes=1e9)
    bare = predict(workload(3, 4), cluster(line), split)
    assert bare.gradients == pytest.approx(whole)
    for micro in (1, 2):
        room = 2 / 3 * 3 * 4 / 2 / micro
        found = predict(workload(3, 4), cluster(line), replace(split, overlap=0.5, micro=micro))
        assert found.hidden == pytest.approx(0.5 * room)
        assert found.seconds + found.hidden == pytest.approx(bare.seconds)
    hidden = predict(workload(3, 4000), cluster(line), replace(split, overlap=1.0))
    assert hidden.gradients == 0.0
    assert hidden.hidden == pytest.approx(whole)


def test_more_buckets_cost_latency_alone() -> None:
    def gradients(bucket_bytes: float, line: GivenLink) -> float:
        return predict(workload(3, 4), cluster(line), Split(data=4, bucket_bytes=bucket_bytes)).gradients

    assert gradients(1000, GivenLink(0.0, 1e-3)) == pytest.approx(gradients(12000, GivenLink(0.0, 1e-3)))
    assert gradients(1000, GivenLink(1.0, 0.0)) == pytest.approx(12 * gradients(12000, GivenLink(1.0, 0.0)))


def test_shared_state_moves_as_much_as_a_sum_and_shared_parameters_half_as_much_again() -> None:
    # S. Rajbhandari et al., 2020, section 7: 2, 2 and 3 times the parameters.
    line, split = GivenLink(0.0, 1e-3), Split(data=8, bucket_bytes=1e9)
    moved = [predict(workload(3, 8), cluster(line), replace(split, sharding=stage)).gradients for stage in range(4)]
    assert moved[1] == pytest.approx(moved[0])
    assert moved[2] == pytest.approx(moved[0])
    assert moved[3] == pytest.approx(1.5 * moved[0])


def test_gradients_that_are_shared_out_are_summed_after_each_micro_batch() -> None:
    def gradients(sharding: int, micro: int) -> float:
        split = Split(data=8, micro=micro, sharding=sharding, bucket_bytes=1e9)
        return predict(workload(3, 32), cluster(GivenLink(0.0, 1e-3)), split).gradients

    part = gradients(1, 1) / 2  # of one reduce-scatter or all-gather
    assert [gradients(stage, 4) for stage in range(4)] == pytest.approx([2 * part, 2 * part, 5 * part, 12 * part])


def test_memory_of_shards_is_the_published_formula() -> None:
    # ... figure 1: 4 + 4 + 8 bytes here, of 3,000 parameters.
    found = [predict(workload(3, 8), cluster(), Split(data=8, sharding=stage)).memory for stage in range(4)]
    states = [one.total - one.activations for one in found]
    assert states == pytest.approx([3000 * (4 + 4 + 8), 3000 * (4 + 4 + 1), 3000 * (4 + 0.5 + 1), 3000 * 16 / 8])
    assert {one.activations for one in found} == {30.0}
    under_way = predict(workload(4, 8), cluster(), Split(pipeline=2, micro=8)).memory.activations
    assert under_way == 2 * 2 * 10, "two micro-batches of one example in two blocks"


def test_in_two_levels_a_node_adds_up_before_it_speaks() -> None:
    made = Cluster(GivenLink(0.0, 1.0), GivenLink(1.0, 100.0), 4)
    found = Group(8, 1).all_reduce(8.0, made)
    assert found == pytest.approx(2 * 3 / 4 * 8 + 1 + 100 * 2)
    assert Group(2, 4).line(made) is made.between
    assert Group(2, 2).line(made) is made.inside
    assert Group(3, 1).line(made) is made.between, "some three neighbours stand on two nodes"
    assert Group(2, 3).line(made) is made.between
    wide = predict(workload(3, 8), made, Split(data=2, tensor=4, bucket_bytes=1e9))
    assert wide.gradients == pytest.approx(1 + 100 * 3000), "neighbours of the data split are on two nodes"
    few = predict(workload(3, 6), made, Split(data=3))
    assert few.gradients == pytest.approx(2 * 2 / 3 * 12000), "three ranks are on one node"


POWERS = st.sampled_from([1, 2, 4])
SPLITS = st.builds(Split, POWERS, POWERS, st.sampled_from([1, 2, 3]), POWERS, st.integers(0, 3), st.floats(0, 1))


@given(SPLITS, st.floats(1, 10))
def test_a_slower_link_never_helps_and_the_work_never_gets_less(split: Split, slower: float) -> None:
    asked = transformer_workload(**SHAPE, examples=16, flops_per_second=1e9)

    def at(factor: float) -> Prediction:
        return predict(asked, Cluster(GivenLink(1e-6, 1e-9), GivenLink(factor * 1e-5, factor * 1e-8), 4), split)

    fast, slow = at(1.0), at(slower)
    assert slow.seconds >= fast.seconds * (1 - 1e-12)
    assert fast.computing * split.ranks >= predict(asked, cluster(), Split()).computing * (1 - 1e-12)
    assert 0 < fast.efficiency(predict(asked, cluster(), Split())) <= 1 + 1e-12


def test_parameters_are_those_of_a_gpt() -> None:
    gpt_2: dict[str, Any] = {"layers": 12, "width": 768, "heads": 12, "positions": 1024, "vocabulary": 50257}
    published, made = (transformer_workload(**shape, examples=1, flops_per_second=1.0) for shape in (gpt_2, SHAPE))
    assert published.parameters == 124_439_808
    small = GPT(100, 64, 4, 8, 16)
    assert made.parameters == sum(parameter.size for parameter in small.parameters())
    assert made.block.parameters(1) == sum(parameter.size for parameter in small.blocks[0].parameters())


def test_flops_and_kept_bytes_are_the_published_formulas() -> None:
    s, h, l, v, a = 2048, 4096, 36, 51200, 32  # noqa: E741 - the papers' letters
    sizes: dict[str, Any] = {"layers": l, "width": h, "positions": s, "vocabulary": v, "examples": 7}
    published = 96 * 7 * s * l * h**2 * (1 + s / (6 * h) + v / (16 * l * h))
    made = transformer_workload(**sizes, heads=a, flops_per_second=1e12)
    # V. Korthikanti et al., 2022: equation 1, equation 2 for t ranks, and 4 sbh (1 + v / (t h)) - 5 sbh / 2 of the ends
    assert made.block.kept_bytes(1) == pytest.approx(s * h * (34 + 5 * a * s / h))
    assert made.block.kept_bytes(8) == pytest.approx(s * h * (10 + 24 / 8 + 5 * a * s / (h * 8)))
    again = transformer_workload(**sizes, heads=a, flops_per_second=1e12, recompute=True)
    assert again.block.kept_bytes(8) == 2 * s * h
    one, twice = (predict(each, cluster(), Split()).seconds * 1e12 for each in (made, again))
    assert twice == pytest.approx(published)
    assert twice - one == pytest.approx(7 * l * (24 * s * h**2 + 4 * s**2 * h)), "the forward of each block again"
    assert (made.sums_per_block, again.sums_per_block) == (4, 6), "forward again needs its two sums again"


def test_splits_that_do_not_fit_are_refused() -> None:
    def refused(match: str, split: Split) -> None:
        with pytest.raises(ValueError, match=match):
            predict(workload(4, 12), cluster(), split)

    refused("data × micro must divide the batch of 12 examples, but they are 2 and 4", Split(data=2, micro=4))
    refused("tensor must divide the 24 heads, but is 5", Split(tensor=5))
    refused("pipeline must be at most the 4 blocks, not 5", Split(pipeline=5))
    wrong: dict[str, Any] = {"data": 0, "sharding": 4, "overlap": 1.5, "bucket_bytes": 0}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            Split(**{name: value})
    with pytest.raises(ValueError, match="backward_share"):
        workload(1, 1, backward_share=2)
    with pytest.raises(ValueError, match="width"):
        transformer_workload(**{**SHAPE, "width": 65}, examples=1, flops_per_second=1.0)
    assert str(Split(2, 3, 4, 5)) == "data 2 × tensor 3 × pipeline 4, 5 micro-batches"


SMALL_GPT = transformer_workload(
    layers=6, width=512, heads=8, positions=256, vocabulary=1000, examples=48, flops_per_second=1e12
)
NODES_OF_FOUR = Cluster(given_link(3e-6, 100e9), given_link(15e-6, 10e9), 4)


def by_hand(ranks: int) -> list[Split]:
    numbers = range(1, 49)
    return [
        Split(data, tensor, pipeline, micro)
        for data, tensor, pipeline in product(numbers, (1, 2, 4, 8), range(1, 7))
        if data * tensor * pipeline == ranks and 48 % data == 0
        for micro in numbers
        if 48 % (data * micro) == 0
    ]


@pytest.mark.parametrize("ranks", [1, 7, 12, 64])
def test_every_split_that_fits_is_tried_once(ranks: int) -> None:
    found = list(possible_splits(SMALL_GPT, ranks))
    assert len(set(found)) == len(found)
    assert set(found) == set(by_hand(ranks))


@pytest.mark.parametrize("memory", [None, 3.0e8])
def test_the_first_is_the_fastest_that_fits_into_the_memory(memory: float | None) -> None:
    every = [predict(SMALL_GPT, NODES_OF_FOUR, split) for split in by_hand(24)]
    fitting = [one for one in every if memory is None or one.memory.total <= memory]
    found = best_splits(SMALL_GPT, NODES_OF_FOUR, 24, memory_bytes=memory)
    assert found[0].seconds == min(one.seconds for one in fitting)
    kinds = {(one.split.data, one.split.tensor, one.split.pipeline) for one in fitting}
    assert len(found) == len(kinds) < len(fitting)
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    if memory is not None:
        assert len(fitting) < len(every), "else the test tests nothing"


def test_nothing_fits_where_nothing_can() -> None:
    assert best_splits(SMALL_GPT, NODES_OF_FOUR, 4, memory_bytes=1.0) == []
    assert best_splits(SMALL_GPT, NODES_OF_FOUR, 4097) == []
    with pytest.raises(ValueError, match="ranks"):
        best_splits(SMALL_GPT, NODES_OF_FOUR, 0)


def test_a_sharding_is_the_one_asked_for() -> None:
    assert {one.split.sharding for one in best_splits(SMALL_GPT, NODES_OF_FOUR, 16, sharding=1)} == {1}

"""The search for a split: complete, sorted, within the memory, and the same as trying all by hand."""

from itertools import product

import pytest

from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, given_link
from tinytorch.perf.distributed.cluster_model.gpt_workload import transformer_workload
from tinytorch.perf.distributed.cluster_model.prediction import Split, best_splits, possible_splits, predict

GPT = transformer_workload(
    layers=6, width=512, heads=8, positions=256, vocabulary=1000, examples=48, flops_per_second=1e12
)
CLUSTER = Cluster(given_link(3e-6, 100e9), given_link(15e-6, 10e9), 4)


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
    found = list(possible_splits(GPT, ranks))
    assert len(set(found)) == len(found)
    assert set(found) == set(by_hand(ranks))


@pytest.mark.parametrize("memory", [None, 3.0e8])
def test_the_first_is_the_fastest_that_fits_into_the_memory(memory: float | None) -> None:
    every = [predict(GPT, CLUSTER, split) for split in by_hand(24)]
    fitting = [one for one in every if memory is None or one.memory.total <= memory]
    found = best_splits(GPT, CLUSTER, 24, memory_bytes=memory)
    assert found[0].seconds == min(one.seconds for one in fitting)
    kinds = {(one.split.data, one.split.tensor, one.split.pipeline) for one in fitting}
    assert len(found) == len(kinds) < len(fitting)
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    if memory is not None:
        assert len(fitting) < len(every), "else the test tests nothing"


def test_nothing_fits_where_nothing_can() -> None:
    assert best_splits(GPT, CLUSTER, 4, memory_bytes=1.0) == []
    assert best_splits(GPT, CLUSTER, 4097) == []
    with pytest.raises(ValueError, match="ranks"):
        best_splits(GPT, CLUSTER, 0)


def test_a_sharding_is_the_one_asked_for() -> None:
    assert {one.split.sharding for one in best_splits(GPT, CLUSTER, 16, sharding=1)} == {1}

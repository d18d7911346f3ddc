"""The explorer's grid and curves against the search for splits that they are made of."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tinytorch.chapters.distributed import explorer
from tinytorch.chapters.distributed.explorer import CLUSTERS, EACH, MODELS, RANKS, ClusterPreset, efficiencies
from tinytorch.perf.distributed import Cluster, Split, best_splits, given_link, predict
from tinytorch.perf.distributed.cluster_model.workload import transformer_workload

GPT = transformer_workload(
    layers=6, width=512, heads=8, positions=256, vocabulary=1000, examples=48, flops_per_second=1e12
)
LINKS = Cluster(given_link(3e-6, 100e9), given_link(15e-6, 10e9), 4)
CLUSTER = ClusterPreset("made up", LINKS, 1e12, None, ())


def test_weak_scaling_keeps_the_work_of_a_rank_and_strong_scaling_that_of_all() -> None:
    one = predict(GPT, LINKS, Split())
    points = efficiencies(one, CLUSTER, {"stays": None, "grows": 48}, [1, 16, 4097])
    share = {(point["line"], point["at"]): point["value"].value for point in points}
    assert [*share] == [("stays", 1), ("stays", 16), ("grows", 1), ("grows", 16), ("grows", 4097)], "where a split fits"
    best = best_splits(GPT, LINKS, 16, sharding=1)[0]
    assert share["stays", 1] == pytest.approx(1)
    assert share["stays", 16] == pytest.approx(one.seconds / 16 / best.seconds)
    assert share["stays", 16] < share["grows", 16] < 1


@pytest.fixture(scope="module")
def made() -> Any:
    """Return the grid of few numbers of ranks, of the published clusters."""
    clusters = [replace(one, name="of few ranks") for one in CLUSTERS]  # others than those whose whole grid is kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "GRID_RANKS", (1, 64, RANKS, 4096))
        return json.loads(json.dumps(explorer.grid(clusters)))


def test_a_cell_holds_the_fastest_splits_of_its_cluster_model_batch_and_ranks(made: Any) -> None:
    assert made["clusters"][0]["between"] == [1.4e-5, 25e9]
    for cluster, model, batch, ranks in ((0, 0, 1, RANKS), (1, 1, 0, 64), (0, 3, 2, 4096)):
        given, asked = CLUSTERS[cluster], MODELS[model]
        examples = made["models"][model]["batches"][batch]
        work = asked.workload(given.flops_per_second).of_examples(examples)
        found = best_splits(work, given.links, ranks, memory_bytes=given.memory_bytes, sharding=1)
        count, *rows = made["cells"][cluster][model]["stays"][batch][made["ranks"].index(ranks)]
        assert count == len(found) > 3
        one = predict(work, given.links, Split())
        for row, best in zip(rows, found, strict=False):
            assert row[:4] == [best.split.data, best.split.tensor, best.split.pipeline, best.split.micro]
            messages = best.tensor + best.handing + best.gradients
            seconds, efficiency, nbytes, *parts = row[4:]
            assert [seconds, nbytes] == pytest.approx([best.seconds, best.memory.total], rel=5e-4)
            shares = [best.efficiency(one), best.bubble / best.seconds, messages / best.seconds]
            assert [efficiency, *parts] == pytest.approx(shares, rel=5e-3)
    grows = made["cells"][0][0]["grows"][made["ranks"].index(64)]
    assert len(grows) == 2, "how many fit, and the fastest"
    work = MODELS[0].workload(CLUSTERS[0].flops_per_second).of_examples(64 * EACH)
    best = best_splits(work, CLUSTERS[0].links, 64, memory_bytes=80e9, sharding=1)[0]
    assert grows[1][4] == pytest.approx(best.seconds, rel=1e-3)
